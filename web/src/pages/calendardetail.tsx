// The fires of the cells that are selected in the calendar, and the backfill of a range.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { get } from '../api/client'
import { hasSomewhere, useMe } from '../api/me'
import { slow, useNext } from '../api/queries'
import type { Fire, ListAlert, Schedule } from '../api/types'
import { dayOf, plural, timeOf } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Button, Clock, RunLink, State, WorkflowLink } from '../kit/parts'
import { rich, t } from '../text/t'
import { workflowOf } from './alertdata'
import { endOf, pausesIn, readKey, type View } from './calendardata'
import { PauseRange, Pauses } from './pauserange'
import { FireWhy } from './reasons'

const shownMax = 200

const two = (n: number) => String(n).padStart(2, '0')

/** An instant in the form of a field for a local date and time. */
export const localTime = (d: Date) =>
  `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`

export function CalendarDetail({
  view,
  from,
  to,
  fires,
  failed,
  filter,
  trigger,
  schedules,
  onClose,
}: {
  view: View
  from: string
  to: string
  fires: Fire[]
  failed: ReadonlySet<string>
  filter: { workflow?: string; ns: string }
  trigger: Schedule | undefined
  /** The triggers that the calendar shows. */
  schedules: Schedule[]
  onClose: () => void
}) {
  const [first, last] = from <= to ? [from, to] : [to, from]
  const start = readKey(first) ?? new Date(0)
  const end = endOf(view, last)
  const now = Date.now()
  const inside = fires.filter(
    (f) => Date.parse(f.last) >= start.getTime() && Date.parse(f.at) < end.getTime(),
  )
  const single = [...new Set(inside.map((f) => `${f.workflow} ${f.trigger}`))]
  const [workflow, name] = trigger
    ? [trigger.workflow, trigger.name]
    : single.length === 1
      ? (single[0] as string).split(' ')
      : [filter.workflow, undefined]
  const begun = Math.min(end.getTime(), now)
  // The time is rounded up to a minute, so that the question stays the same for a while. In the last minute of the
  // range nothing is left to pause.
  const pausable = Math.max(start.getTime(), Math.ceil(now / 60_000) * 60_000)
  return (
    <div className="calendar-detail">
      <Panel
        title={`${dayOf(start.getTime())} ${timeOf(start.getTime())} – ${dayOf(end.getTime())} ${timeOf(end.getTime())}`}
        actions={<Button kind="quiet" icon="cross" aria-label={t('Close the range')} onPress={onClose} />}
      >
        {start.getTime() < now && workflow ? (
          <p className="pad">
            <Link
              className="button"
              to="/backfills/new"
              search={{
                workflow,
                ...(name ? { trigger: name } : {}),
                from: localTime(start),
                // The range excludes its end, but the form includes it.
                to: localTime(new Date(begun - 60_000)),
                only: 'failed_or_missing',
              }}
            >
              {t('Backfill this range…')}
            </Link>
          </p>
        ) : null}
        {end.getTime() > pausable ? (
          <PauseRange start={new Date(pausable)} end={end} filter={filter} trigger={trigger} />
        ) : null}
        <Overdue start={start} end={end} filter={filter} />
        <Fires inside={inside} failed={failed} />
        {end.getTime() > now ? (
          <Ahead start={new Date(Math.max(start.getTime(), now))} end={end} filter={filter} />
        ) : null}
      </Panel>
      <Pauses
        title={t('Planned pauses in this range')}
        schedules={schedules.map((s) => ({ ...s, planned_pauses: pausesIn(s, start, end) }))}
      />
    </div>
  )
}

/** The late or slow runs of a range: the alerts of rules that watch the time of runs. */
function Overdue({
  start,
  end,
  filter,
}: {
  start: Date
  end: Date
  filter: { workflow?: string; ns: string }
}) {
  const me = useMe()
  const query = useQuery({
    queryKey: ['alerts in a range', filter],
    queryFn: ({ signal }) =>
      get<ListAlert>(
        '/alerts',
        { all: true, limit: 1000, workflow: filter.workflow, namespace: filter.ns || undefined },
        signal,
      ),
    enabled: me !== undefined && hasSomewhere(me, 'alert.read'),
    staleTime: slow,
  })
  const shown = (query.data?.items ?? []).filter((a) => {
    const at = Date.parse(a.due_at ?? '')
    return (a.event === 'late' || a.event === 'slow') && at >= start.getTime() && at < end.getTime()
  })
  if (shown.length === 0) return null
  return (
    <ul className="calendar-fires" aria-label={t('Late and slow')}>
      {shown.map((a) => (
        <li key={a.id}>
          <p className="row">
            <State state={a.event} />
            <Clock time={a.due_at} />
            <Link to="/alerts/$id" params={{ id: a.id }}>
              {t('alert of {workflow}', { workflow: workflowOf(a) })}
            </Link>
            <span className="sub">{a.rule}</span>
          </p>
        </li>
      ))}
    </ul>
  )
}

function Fires({ inside, failed }: { inside: Fire[]; failed: ReadonlySet<string> }) {
  if (inside.length === 0) return <p className="pad sub">{t('The ledger has no line in this range.')}</p>
  return (
    <ul className="calendar-fires" aria-label={t('Ledger')}>
      {inside.slice(0, shownMax).map((f) => (
        <li key={`${f.workflow} ${f.trigger} ${f.at} ${f.key ?? ''}`}>
          <p className="row">
            <State state={f.run && failed.has(f.run) ? 'failed' : f.outcome} />
            <Clock time={f.at} />
            {f.count > 1 ? <span className="sub">{plural(f.count, 'instant')}</span> : null}
            {f.run ? <RunLink id={f.run} /> : null}
          </p>
          <p>
            <WorkflowLink name={f.workflow} tab="triggers" /> <span className="sub">{f.trigger}</span>
          </p>
          {f.reason ? (
            <p className="sub">
              <FireWhy f={f} />
            </p>
          ) : null}
        </li>
      ))}
      {inside.length > shownMax ? (
        <li className="sub">
          {t('{lines}: choose a smaller range.', { lines: plural(inside.length - shownMax, 'more line') })}
        </li>
      ) : null}
    </ul>
  )
}

function Ahead({
  start,
  end,
  filter,
}: {
  start: Date
  end: Date
  filter: { workflow?: string; ns: string }
}) {
  const query = useNext({
    // The time is rounded to a minute, so that the query stays the same for a while.
    from: new Date(Math.floor(start.getTime() / 60_000) * 60_000 - 1).toISOString(),
    n: shownMax,
    workflow: filter.workflow,
    namespace: filter.workflow ? undefined : filter.ns,
    include: 'deadlines',
  })
  const shown = (query.data?.items ?? []).filter(
    (i) => Date.parse(i.time) < end.getTime() && Date.parse(i.time) >= start.getTime(),
  )
  return (
    <Loaded
      query={query}
      isEmpty={() => shown.length === 0}
      empty={t('No schedule will fire in this range.')}
    >
      {() => (
        <ul className="calendar-fires" aria-label={t('To come')}>
          {shown.map((i) => (
            <li key={`${i.workflow} ${i.trigger} ${i.time}`} className="row">
              <State state="planned">{t('To come')}</State>
              <Clock time={i.time} />
              <WorkflowLink name={i.workflow} tab="triggers" /> <span className="sub">{i.trigger}</span>
              {i.due_at ? (
                <span className="sub">{rich('due by {time}', { time: <Clock time={i.due_at} /> })}</span>
              ) : null}
            </li>
          ))}
          {shown.length === shownMax ? (
            <li className="sub">{t('There are more: choose a smaller range.')}</li>
          ) : null}
        </ul>
      )}
    </Loaded>
  )
}
