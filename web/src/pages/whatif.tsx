// The fires of a schedule with another rule, before anything is applied.
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { post } from '../api/client'
import type { Schedule, Simulation } from '../api/types'
import { plural } from '../kit/format'
import { Panel } from '../kit/panel'
import { Button, Clock } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { withRule } from '../text/rule'
import { t } from '../text/t'
import { forecast, type Span } from './calendardata'
import { readBase, requestOf } from './editordata'

/** Simulates a span with another rule of a trigger. */
export function useTried(trigger: Schedule | undefined, rule: string | undefined, span: Span) {
  return useQuery({
    queryKey: [
      'calendar',
      'tried',
      trigger?.workflow,
      trigger?.name,
      rule,
      span.from.getTime(),
      span.to.getTime(),
    ],
    queryFn: async ({ signal }) => {
      const own = trigger as Schedule
      const base = await readBase(own.namespace, own.workflow.split('/').pop() ?? '', signal)
      const text = withRule(base.source, own, rule as string)
      if (text === undefined)
        throw new Error(
          t(
            'The rule of {name} is not one value in the file. Change it in the editor, which shows its effect, too.',
            { name: own.name },
          ),
        )
      return post<Simulation>('/schedules:simulate', {
        ...forecast(span, { workflow: own.workflow, ns: '' }),
        with: requestOf(base, text),
      })
    },
    enabled: trigger !== undefined && rule !== undefined && span.to.getTime() > Date.now(),
    retry: false,
  })
}

export function WhatIf({
  trigger,
  rule,
  tried,
  onTry,
}: {
  trigger: Schedule
  rule: string | undefined
  tried: ReturnType<typeof useTried>
  onTry: (rule: string | undefined) => void
}) {
  const [text, setText] = useState(rule ?? trigger.expression)
  useEffect(() => setText(rule ?? trigger.expression), [rule, trigger.expression])
  const change = tried.data?.changes?.find(
    (c) => c.trigger === trigger.name && c.workflow === trigger.workflow,
  )
  return (
    <Panel title={t('What if {name} had another rule', { name: trigger.name })}>
      <form
        className="row pad"
        onSubmit={(e) => {
          e.preventDefault()
          const asked = text.trim()
          onTry(asked && asked !== trigger.expression ? asked : undefined)
        }}
      >
        <label className="field">
          <span>
            {trigger.kind} ({trigger.timezone})
          </span>
          <input className="input mono" value={text} onChange={(e) => setText(e.target.value)} />
        </label>
        <Button type="submit">{t('Show in the calendar')}</Button>
        {rule ? (
          <Button kind="quiet" onPress={() => onTry(undefined)}>
            {t('As it is')}
          </Button>
        ) : null}
      </form>
      {rule && tried.error ? <ProblemBox error={tried.error} /> : null}
      {rule && change ? (
        <div className="pad" role="status">
          <p>
            {change.before ?? t('none')} → <b>{change.after ?? t('none')}</b>
            {change.fires
              ? `: ${t('{before} → {after} in this span.', {
                  before: change.fires[0] ?? 0,
                  after: plural(change.fires[1] ?? 0, 'fire'),
                })}`
              : '.'}{' '}
            {t('Nothing is applied.')}
          </p>
          <Instants title={t('Would no longer fire')} of={change.lost} />
          <Instants title={t('Would fire in addition')} of={change.gained} />
          {(tried.data?.limits ?? []).slice(0, 3).map((l) => (
            <p key={l.what}>
              {t('{what}: the limit of {limit} is reached {times}.', {
                what: l.what,
                limit: l.limit,
                times: plural(l.hits, 'time'),
              })}
            </p>
          ))}
        </div>
      ) : null}
      {rule && tried.data && !change ? (
        <p className="pad" role="status">
          {t('The schedule would fire at the same instants.')}
        </p>
      ) : null}
    </Panel>
  )
}

function Instants({ title, of }: { title: string; of: string[] }) {
  if (of.length === 0) return null
  return (
    <p className="sub">
      {title}:{' '}
      {of.slice(0, 6).map((at, i) => (
        <span key={at}>
          {i > 0 ? ', ' : ''}
          <Clock time={at} />
        </span>
      ))}
      {of.length > 6 ? ` ${t('and more')}` : ''}
    </p>
  )
}
