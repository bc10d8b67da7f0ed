// What a schedule would do with another rule, before anything is applied.
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { post } from '../api/client'
import type { Schedule, Simulation } from '../api/types'
import { plural } from '../kit/format'
import { Panel } from '../kit/panel'
import { Button, Clock } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { withRule } from '../text/rule'
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
      const t = trigger as Schedule
      const base = await readBase(t.namespace, t.workflow.split('/').pop() ?? '', signal)
      const text = withRule(base.source, t, rule as string)
      if (text === undefined)
        throw new Error(
          `The rule of ${t.name} is not one value in the file. Change it in the editor, which shows its effect, too.`,
        )
      return post<Simulation>('/schedules:simulate', {
        ...forecast(span, { workflow: t.workflow, ns: '' }),
        with: requestOf(base, text),
      })
    },
    enabled: trigger !== undefined && rule !== undefined && span.to.getTime() > Date.now(),
    retry: false,
  })
}

export function WhatIf({
  trigger: t,
  rule,
  tried,
  onTry,
}: {
  trigger: Schedule
  rule: string | undefined
  tried: ReturnType<typeof useTried>
  onTry: (rule: string | undefined) => void
}) {
  const [text, setText] = useState(rule ?? t.expression)
  useEffect(() => setText(rule ?? t.expression), [rule, t.expression])
  const change = tried.data?.changes?.find((c) => c.trigger === t.name && c.workflow === t.workflow)
  return (
    <Panel title={`What if ${t.name} had another rule`}>
      <form
        className="row pad"
        onSubmit={(e) => {
          e.preventDefault()
          const asked = text.trim()
          onTry(asked && asked !== t.expression ? asked : undefined)
        }}
      >
        <label className="field">
          <span>
            {t.kind} ({t.timezone})
          </span>
          <input className="input mono" value={text} onChange={(e) => setText(e.target.value)} />
        </label>
        <Button type="submit">Show in the calendar</Button>
        {rule ? (
          <Button kind="quiet" onPress={() => onTry(undefined)}>
            As it is
          </Button>
        ) : null}
      </form>
      {rule && tried.error ? <ProblemBox error={tried.error} /> : null}
      {rule && change ? (
        <div className="pad" role="status">
          <p>
            {change.before ?? 'none'} → <b>{change.after ?? 'none'}</b>
            {change.fires
              ? `: ${change.fires[0]} → ${plural(change.fires[1] ?? 0, 'fire')} in this span.`
              : '.'}{' '}
            Nothing is applied.
          </p>
          <Instants title="Would no longer fire" of={change.lost} />
          <Instants title="Would fire in addition" of={change.gained} />
          {(tried.data?.limits ?? []).slice(0, 3).map((l) => (
            <p key={l.what}>
              {l.what}: the limit of {l.limit} is reached {plural(l.hits, 'time')}.
            </p>
          ))}
        </div>
      ) : null}
      {rule && tried.data && !change ? (
        <p className="pad" role="status">
          The schedule would fire at the same instants.
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
      {of.length > 6 ? ' and more' : ''}
    </p>
  )
}
