import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { get, path, send } from '../api/client'
import { useCan } from '../api/me'
import { useExplain, useNext, useNodes, useOpenAlerts, useQueues, useRuns, useStatus } from '../api/queries'
import type { Alert, Fire, Instant, ListFire, Queue, Run } from '../api/types'
import { runVerb } from '../api/verbs'
import { useNamespace, within } from '../app/namespace'
import { toast } from '../kit/dialog'
import { count, plural, timeOf } from '../kit/format'
import { Icon } from '../kit/icons'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Clock, Mark, RunLink, State, TriggerLink, useNow, WorkflowLink } from '../kit/parts'
import { labelIn } from '../kit/states'
import { useToastVerb, VerbButton } from '../kit/verbs'
import { liveKey, useLive, useWatch } from '../live/live'
import { rich, t } from '../text/t'
import { byWorkflow } from './alertdata'
import { AlertMark } from './alertparts'
import { Away, useAway } from './awaysources'
import { Head } from './head'
import { failing, hours, telling, type Waiting, waiting } from './homedata'
import { Past } from './homepast'
import { NodeLink } from './nodeparts'
import { crowded, waitersOf } from './queuedata'
import { FireWhy, Reasons } from './reasons'

const dayMs = 86_400_000
const shownMax = 8

/** Shows what is failing, late, stuck or waiting for a person, and offers the verb that helps. */
export function Home() {
  useWatch()
  const [ns] = useNamespace()
  const since = useSince()
  const ended = useRuns({ limit: 500, since })
  const failed = failing((ended.data?.items ?? []).filter((r) => within(ns, r.namespace)))
  const runs = useRuns({ state: 'waiting', limit: 50 })
  const stuck = (runs.data?.items ?? []).filter((r) => within(ns, r.namespace))
  const missed = useUnfired()
  const late = (missed.data?.items ?? []).filter((f) => within(ns, f.namespace))
  const queues = useQueues()
  // Tasks that wait for a queue belong to runs that are running. Queues belong to no namespace.
  const full = crowded(queues.data?.items ?? []).filter((q) => q.tasks.waiting > 0 || q.state !== 'active')
  const sources = useAway()
  const away = (sources.data ?? []).filter((s) => within(ns, s.namespace))
  const bad = late.length + stuck.length + full.length + away.length
  const open = (useOpenAlerts().data?.items ?? []).filter((a) => within(ns, a.namespace))
  const alerts = byWorkflow(open)
  return (
    <>
      <Head title={t('Now')} label={t('Home')}>
        <Tally failing={failed.length} late={late.length} waiting={stuck.length} alerts={open.length} />
      </Head>
      <Panel
        title={t('Failing now')}
        count={failed.length > 0 ? failed.length : undefined}
        actions={
          <Link to="/runs" search={{ state: 'failed' }}>
            {t('All failed runs')}
          </Link>
        }
      >
        <Loaded
          query={ended}
          rows={3}
          isEmpty={() => failed.length === 0}
          empty={<Fine text={t('The last run of every workflow of the past day ended well.')} />}
        >
          {() => (
            <ul className="alarms">
              {failed.slice(0, shownMax).map((f) => (
                <Failing key={f.run.id} run={f.run} times={f.times} alerts={alerts.get(f.run.workflow)} />
              ))}
            </ul>
          )}
        </Loaded>
      </Panel>
      <Panel
        title={t('Late, missed, waiting')}
        count={bad || undefined}
        actions={<Link to="/schedules/missed">{t('All missed and late fires')}</Link>}
      >
        <Loaded
          query={both(both(both(runs, missed), queues), sources)}
          rows={3}
          isEmpty={() => bad === 0}
          empty={
            <Fine
              text={t('Every schedule fired on time, every source is there, and nothing waits for a queue.')}
            />
          }
        >
          {() => (
            <ul className="alarms">
              {away.slice(0, shownMax).map((s) => (
                <Away key={`${s.workflow} ${s.name}`} s={s} />
              ))}
              {waiting(stuck)
                .slice(0, shownMax)
                .map((w) => (
                  <Stuck key={w.run.id} {...w} />
                ))}
              {full.slice(0, shownMax).map((q) => (
                <Full key={q.name} q={q} />
              ))}
              {late.slice(0, shownMax).map((fire) => (
                <Late key={`${fire.workflow} ${fire.trigger} ${fire.at}`} fire={fire} />
              ))}
            </ul>
          )}
        </Loaded>
      </Panel>
      <div className="columns">
        <Ahead ns={ns} />
        <div className="stack">
          <Past ns={ns} since={since} />
          <Nodes />
        </div>
      </div>
    </>
  )
}

type Part<T> = Pick<UseQueryResult<T>, 'data' | 'error' | 'isPending' | 'refetch'>

/**
 * Joins two reads that one panel shows. If one of them is missing, the panel must not say that all is well.
 */
function both<A, B>(a: Part<A>, b: Part<B>): Part<A | B> {
  return a.data === undefined || a.error ? a : b
}

/** The start of the past day, to the minute, so that the query keeps its key for a while. */
function useSince(): string {
  const now = useNow()
  return new Date(Math.floor(now / 600_000) * 600_000 - dayMs).toISOString()
}

const useUnfired = () => {
  const since = useSince()
  return useQuery({
    queryKey: liveKey(['runs'], 'unfired', since),
    queryFn: async ({ signal }) => {
      const [missed, late] = await Promise.all([
        get<ListFire>('/fires', { outcome: 'missed', since, limit: 50 }, signal),
        get<ListFire>('/fires', { outcome: 'late', since, limit: 50 }, signal),
      ])
      return { items: [...missed.items, ...late.items].sort((a, b) => b.at.localeCompare(a.at)), next: null }
    },
  })
}

function Fine({ text }: { text: string }) {
  return (
    <p className="row fine">
      <Mark state="succeeded" /> {text}
    </p>
  )
}

function Tally({
  failing,
  late,
  waiting,
  alerts,
}: {
  failing: number
  late: number
  waiting: number
  alerts: number
}) {
  const { data } = useStatus()
  const { asOf } = useLive()
  const runs = data?.runs as Record<string, number> | undefined
  const number = (states: string[]) => states.reduce((sum, s) => sum + (runs?.[s] ?? 0), 0)
  const tiles = [
    { state: 'failed', n: failing, text: t('failing'), to: '/runs', search: { state: 'failed' } },
    { state: 'open', n: alerts, text: alerts === 1 ? t('alert') : t('alerts'), to: '/alerts', search: {} },
    { state: 'late', n: late, text: t('late or missed'), to: '/schedules/missed', search: {} },
    { state: 'waiting', n: waiting, text: t('waiting'), to: '/runs', search: { state: 'waiting' } },
    {
      state: 'suspended',
      n: number(['suspended']),
      text: t('suspended'),
      to: '/runs',
      search: { state: 'suspended' },
    },
    {
      state: 'running',
      n: number(['running', 'splitting', 'finalising']),
      text: t('running'),
      to: '/runs',
      search: { state: 'running' },
    },
    {
      state: 'ready',
      n: data?.ready_tasks ?? 0,
      text: t('tasks ready'),
      to: '/runs',
      search: { state: 'active' },
    },
  ]
  return (
    <div className="tally">
      {tiles.map((tile) => (
        <Link key={tile.text} to={tile.to} search={tile.search} data-none={tile.n === 0 || undefined}>
          <Mark state={tile.state} />
          <b>{count(tile.n)}</b> {tile.text}
        </Link>
      ))}
      <span className="sub">
        {rich('as of {time}', { time: <Clock time={new Date(asOf).toISOString()} /> })}
      </span>
    </div>
  )
}

function Failing({ run, times, alerts }: { run: Run; times: number; alerts: Alert[] | undefined }) {
  const { run: act } = useToastVerb()
  const explain = useExplain(run.id)
  return (
    <li>
      <Mark state="failed" />
      <div className="grow">
        <WorkflowLink name={run.workflow} />
        {times > 1 ? <span className="sub"> · {t('{times} in a row', { times })}</span> : null}{' '}
        <AlertMark alerts={alerts} />
        <Reasons reasons={explain.data?.reasons} fallback={run.message ?? ''} />
        <Printed run={run} />
      </div>
      <span className="sub nowrap">
        <Ago time={run.finished_at} />
      </span>
      <div className="row">
        <Link to="/r/$id" params={{ id: run.id }} className="button">
          {t('Open')}
        </Link>
        <VerbButton
          verb="run.redo"
          namespace={run.namespace}
          onPress={() =>
            act(
              () => runVerb(run.id, 'recover'),
              () => toast(t('Recovery of {workflow} was asked for.', { workflow: run.workflow })),
            )
          }
        >
          {t('Recover')}
        </VerbButton>
      </div>
    </li>
  )
}

const endBytes = 16 * 1024

/** The line of the failed task's log that looks most like an error, or the last line. */
function Printed({ run }: { run: Run }) {
  const task = run.failed_tasks[0]
  const can = useCan()('log.read', run.namespace)
  const { data } = useQuery({
    enabled: can && task !== undefined,
    queryKey: ['printed', run.id, run.generation, task],
    staleTime: Number.POSITIVE_INFINITY,
    // For a log that is gone, nothing is shown here. The page of the run shows the reason.
    retry: false,
    queryFn: async ({ signal }) => {
      const answer = await send(path('runs', run.id, 'tasks', task ?? '', 'logs'), {
        query: { offset: -endBytes },
        headers: { Accept: 'text/plain' },
        signal,
      })
      return telling(await answer.text())
    },
  })
  if (!data) return null
  return (
    <p className="printed" title={data}>
      {data}
    </p>
  )
}

function Stuck({ run, more }: Waiting) {
  const explain = useExplain(run.id)
  return (
    <li>
      <Mark state="waiting" />
      <div className="grow">
        <WorkflowLink name={run.workflow} /> <RunLink id={run.id} />
        {more > 0 ? (
          <span className="sub">
            {' · '}
            <Link to="/runs" search={{ state: 'waiting', workflow: run.workflow }}>
              {plural(more, 'more run', 'more runs')}
            </Link>
          </span>
        ) : null}
        <Reasons reasons={explain.data?.reasons} fallback="" />
      </div>
      <span className="sub nowrap">
        <Ago time={run.created_at} />
      </span>
      <Link to="/r/$id" params={{ id: run.id }} className="button">
        {t('Open')}
      </Link>
    </li>
  )
}

/** A queue for which tasks wait, with the holders of its places. */
function Full({ q }: { q: Queue }) {
  const now =
    q.state === 'active'
      ? q.limit === null
        ? t('{held} held', { held: count(q.tasks.held) })
        : t('{held} of {places} held', { held: count(q.tasks.held), places: plural(q.limit, 'place') })
      : t('it is {state}', { state: labelIn(q.state) })
  return (
    <li>
      <Mark state={q.state === 'active' ? 'waiting' : q.state} />
      <div className="grow">
        <Link to="/q/$name" params={{ name: q.name }}>
          {q.name}
        </Link>
        <p className="sub">
          {q.waiting + q.tasks.waiting === 1
            ? t('{what} waits for this queue: {now}', { what: waitersOf(q), now })
            : t('{what} wait for this queue: {now}', { what: waitersOf(q), now })}
          {q.reason ? `, ${q.reason}` : ''}
        </p>
      </div>
      <Link to="/q/$name" params={{ name: q.name }} className="button">
        {t('Who holds it')}
      </Link>
    </li>
  )
}

function Late({ fire }: { fire: Fire }) {
  return (
    <li>
      <Mark state={fire.outcome} />
      <div className="grow">
        <WorkflowLink name={fire.workflow} tab="triggers" />{' '}
        <TriggerLink workflow={fire.workflow} name={fire.trigger} />{' '}
        <span className="sub">
          {rich('for {time}', { time: <Clock time={fire.at} /> })}
          {fire.count > 1
            ? ` ${t('and {instants}', { instants: plural(fire.count - 1, 'more instant') })}`
            : ''}
        </span>
        <p className="sub">
          {fire.reason ? (
            <FireWhy f={fire} />
          ) : fire.outcome === 'late' ? (
            t('It fired late.')
          ) : (
            t('It did not fire.')
          )}
        </p>
      </div>
      <span className="sub nowrap">
        <Ago time={fire.at} />
      </span>
      {fire.run ? <RunLink id={fire.run}>{t('Open its run')}</RunLink> : null}
    </li>
  )
}

const ahead = 6

function Ahead({ ns }: { ns: string }) {
  const now = useNow()
  const next = useNext({ n: 1000 })
  return (
    <Panel
      title={t('Next {ahead} hours', { ahead })}
      actions={<Link to="/schedules/next">{t('All next fires')}</Link>}
    >
      <Loaded query={next} rows={3}>
        {({ items }) => <Hours items={items.filter((i) => within(ns, i.namespace))} now={now} />}
      </Loaded>
    </Panel>
  )
}

function Hours({ items, now }: { items: Instant[]; now: number }) {
  const bars = hours(items, now, ahead)
  const most = Math.max(1, ...bars.map((b) => b.n))
  const total = bars.reduce((sum, b) => sum + b.n, 0)
  if (total === 0)
    return <p className="empty">{t('No schedule fires in the next {ahead} hours.', { ahead })}</p>
  return (
    <div className="hours-in">
      <ol className="hours">
        {bars.map((b) => (
          <li
            key={b.at}
            title={t('{fires} from {time} on', { fires: plural(b.n, 'fire'), time: timeOf(b.at) })}
          >
            <i style={{ height: `${(100 * b.n) / most}%` }} />
            <b>{b.n || ''}</b>
            <span>{timeOf(b.at)}</span>
          </li>
        ))}
      </ol>
      <ul className="list">
        {items.slice(0, 5).map((i) => (
          <li key={`${i.workflow} ${i.trigger} ${i.time}`} className="row">
            <span className="num sub">
              <Clock time={i.time} />
            </span>
            <WorkflowLink name={i.workflow} />
            <span className="sub">{i.trigger}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}

function Nodes() {
  const nodes = useNodes()
  return (
    <Panel
      title={t('Nodes')}
      count={nodes.data?.items.length}
      actions={<Link to="/cluster">{t('Cluster')}</Link>}
    >
      <Loaded query={nodes} rows={2}>
        {({ items }) => (
          <ul className="list pad">
            {items.map((n) => (
              <li key={n.name} className="row spread">
                <span className="row">
                  <State state={n.stopped ? 'stopped' : n.state}>
                    <NodeLink name={n.name} />
                  </State>
                  {n.state === 'running' ? null : <span className="sub">{labelIn(n.state)}</span>}
                </span>
                <span className="row sub">
                  <span className="bar" data-tone="busy" aria-hidden="true">
                    <i style={{ width: `${(100 * n.slots.busy) / Math.max(1, n.slots.total)}%` }} />
                  </span>
                  {t('{busy} of {slots}', { busy: n.slots.busy, slots: plural(n.slots.total, 'slot') })}
                </span>
              </li>
            ))}
            {items.length === 0 ? (
              <li className="row">
                <Icon name="warn" /> {t('No node is there.')}
              </li>
            ) : null}
          </ul>
        )}
      </Loaded>
    </Panel>
  )
}
