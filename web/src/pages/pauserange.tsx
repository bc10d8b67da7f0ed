// Planned pauses of triggers: made from a range of the calendar, shown, and ended.
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { path, post } from '../api/client'
import type { PlannedPause, Schedule, Simulation } from '../api/types'
import { useQuestion } from '../app/ask'
import { toast } from '../kit/dialog'
import { plural } from '../kit/format'
import { Panel } from '../kit/panel'
import { Clock } from '../kit/parts'
import { Confirm, type Question, useToastVerb, VerbButton } from '../kit/verbs'
import { rich, t } from '../text/t'
import { forecast } from './calendardata'

/** A range pauses at most this number of triggers, so that one press does not change a whole system. */
const pausedMax = 20

const whereOf = (s: Pick<Schedule, 'namespace' | 'workflow' | 'name'>) =>
  path('schedules', s.namespace, s.workflow.split('/').pop() ?? '', s.name)

const endPause = (where: string, p: Pick<PlannedPause, 'from' | 'until'>) =>
  post(`${where}:resume`, { from: p.from, until: p.until })

type Target = { namespace: string; workflow: string; name: string; fires: number }

/**
 * Offers to pause the triggers that would fire in a coming range. The forecast counts the instants that are
 * skipped.
 */
export function PauseRange({
  start,
  end,
  filter,
  trigger,
}: {
  start: Date
  end: Date
  filter: { workflow?: string; ns: string }
  trigger: Schedule | undefined
}) {
  const { run: act } = useToastVerb()
  // The span ends just before the end of the range, because an instant at the end is not paused.
  const span = { from: start, to: new Date(end.getTime() - 1), days: [] }
  const ahead = useQuery({
    queryKey: ['pause', span.from.getTime(), span.to.getTime(), filter],
    queryFn: () => post<Simulation>('/schedules:simulate', forecast(span, filter)),
  })
  const targets: Target[] = (ahead.data?.triggers ?? [])
    .filter(
      (x) => x.fires > 0 && (!trigger || (x.workflow === trigger.workflow && x.trigger === trigger.name)),
    )
    .map((x) => ({ namespace: x.namespace, workflow: x.workflow, name: x.trigger, fires: x.fires }))
  const { question, asked } = useQuestion({
    'pause-range': () =>
      targets.length > 0 && targets.length <= pausedMax
        ? pauseOf(targets, start, end, (done) => act(() => Promise.all(done.map(([w, p]) => endPause(w, p)))))
        : undefined,
  })
  if (targets.length === 0) return null
  const one = targets.every((x) => x.namespace === targets[0]?.namespace)
  return (
    <>
      {targets.length > pausedMax ? (
        <p className="pad sub">{t('Choose a workflow to pause its triggers in this range.')}</p>
      ) : (
        <p className="pad">
          <VerbButton
            verb="schedule.operate"
            namespace={one ? (targets[0]?.namespace ?? '') : ''}
            icon="pause"
            onPress={() => asked.open('pause-range')}
          >
            {t('Pause in this range…')}
          </VerbButton>
        </p>
      )}
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

function pauseOf(
  targets: Target[],
  start: Date,
  end: Date,
  undo: (done: [where: string, p: { from: string; until: string }][]) => void,
): Question {
  const range = { from: start.toISOString(), until: end.toISOString() }
  const fires = targets.reduce((sum, x) => sum + x.fires, 0)
  const done: [string, typeof range][] = []
  return {
    title: t('Pause {triggers} in a range', { triggers: plural(targets.length, 'trigger') }),
    text: (
      <div className="stack">
        <p>
          {rich('From {from} until {until}. Then they fire again by themselves.', {
            from: <Clock time={range.from} />,
            until: <Clock time={range.until} />,
          })}
        </p>
        <p>
          {t('{instants} are skipped. They are not made up for.', { instants: plural(fires, 'instant') })}
        </p>
        <ul className="list" aria-label={t('What is paused')}>
          {targets.map((x) => (
            <li key={`${x.workflow} ${x.name}`} className="row spread">
              <span>
                {x.workflow} <span className="sub">{x.name}</span>
              </span>
              <span className="sub">{plural(x.fires, 'instant')}</span>
            </li>
          ))}
        </ul>
      </div>
    ),
    answer: t('Pause them'),
    reason: 'optional',
    act: async (reason, key) => {
      // If one of the pauses was not made, the same keys make it safe to send all of them again.
      for (const [i, x] of targets.entries()) {
        await post(`${whereOf(x)}:pause`, { ...range, ...(reason ? { reason } : {}) }, `${key}-${i}`)
        done.push([whereOf(x), range])
      }
    },
    done: t('{triggers} will be paused.', { triggers: plural(targets.length, 'trigger') }),
    undo: () => undo(done),
  }
}

/** The planned pauses of some triggers, each with the button that ends it. */
export function Pauses({ schedules, title }: { schedules: Schedule[]; title: string }) {
  const shown = schedules.flatMap((s) => (s.planned_pauses ?? []).map((p) => ({ s, p })))
  if (shown.length === 0) return null
  return (
    <Panel title={title} count={shown.length}>
      <ul className="calendar-fires" aria-label={title}>
        {shown.map(({ s, p }) => (
          <Pause key={`${s.workflow} ${s.name} ${p.from}`} s={s} p={p} named={schedules.length > 1} />
        ))}
      </ul>
    </Panel>
  )
}

function Pause({ s, p, named }: { s: Schedule; p: PlannedPause; named: boolean }) {
  const { run: act, isPending } = useToastVerb()
  const [again] = useState(() => ({ from: p.from, until: p.until, reason: p.reason ?? '' }))
  const name: ReactNode = named ? (
    <>
      {s.workflow} <span className="sub">{s.name}</span>
    </>
  ) : null
  return (
    <li>
      <p className="row spread">
        <span>
          {rich('{from} – {until}', { from: <Clock time={p.from} />, until: <Clock time={p.until} /> })}
        </span>
        <VerbButton
          verb="schedule.operate"
          namespace={s.namespace}
          kind="quiet"
          isDisabled={isPending}
          onPress={() =>
            act(
              () => endPause(whereOf(s), p),
              () =>
                toast(t('The planned pause of {name} is removed.', { name: s.name }), {
                  undo: () => act(() => post(`${whereOf(s)}:pause`, again)),
                }),
            )
          }
        >
          {t('Remove the pause')}
        </VerbButton>
      </p>
      {name ? <p>{name}</p> : null}
      {p.by || p.reason ? <p className="sub">{[p.by, p.reason].filter(Boolean).join(': ')}</p> : null}
    </li>
  )
}
