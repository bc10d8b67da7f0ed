import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { path } from '../api/client'
import { useDrawing, useStates } from '../api/columns'
import { useExplain, useRun, useTasks } from '../api/queries'
import type { Run } from '../api/types'
import { useKeys } from '../app/keys'
import type { Drawing, States } from '../canvas/drawing'
import { shortID } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import {
  Ago,
  Clock,
  Command,
  Copy,
  exactly,
  Field,
  RunLink,
  Span,
  State,
  Tabs,
  WorkflowLink,
} from '../kit/parts'
import { isActive, labelIn, taskOrder } from '../kit/states'
import { useWatch } from '../live/live'
import { count, rich, t } from '../text/t'
import { term } from '../text/terms'
import { AlertsOf } from './alertparts'
import { DeadlinesOf, NextDeadline } from './deadlines'
import { FoldedGraph } from './foldedgraph'
import { Head } from './head'
import { NodeLink } from './nodeparts'
import { Reasons } from './reasons'
import { ReplayView } from './replay'
import { Events } from './runevents'
import { isLarge, TaskList } from './runtasks'
import { RunVerbs } from './runverbs'
import { Tags } from './tags'
import { TaskPane } from './taskpane'
import { TimelineView } from './timeline'

const views = [
  ['list', t('Tasks')],
  ['graph', t('Graph')],
  ['timeline', t('Timeline')],
  ['replay', t('Replay')],
  ['events', t('History')],
  ['about', t('About')],
] as const

/** The page of a run: what failed, why, and what to do now. */
export function RunPage() {
  const { id } = useParams({ from: '/r/$id' })
  const search = useSearch({ from: '/r/$id' })
  const navigate = useNavigate({ from: '/r/$id' })
  useWatch(`run:${id}`)
  const run = useRun(id)
  const view = search.view ?? 'list'
  useFirstFailure(id, view === 'timeline' || view === 'replay' ? undefined : run.data, search.task)
  useKeys({
    ...Object.fromEntries(
      views.map(([v], i) => [
        String(i + 1),
        () => void navigate({ search: (old) => ({ ...old, view: v === 'list' ? undefined : v }) }),
      ]),
    ),
    Escape: () => void navigate({ to: '/runs' }),
    ...(search.task
      ? { l: () => void navigate({ to: '/r/$id/log/$task', params: { id, task: search.task ?? '' } }) }
      : {}),
  })
  return (
    <Loaded query={run} rows={12}>
      {(r) => (
        <>
          <RunHead run={r} />
          <Strip run={r} />
          <Tabs label={t('Views of the run')}>
            {views.map(([v, label]) => (
              <Link
                key={v}
                to="/r/$id"
                params={{ id }}
                search={(old) => ({ ...old, view: v === 'list' ? undefined : v })}
                activeOptions={exactly}
                aria-current={v === view ? 'page' : undefined}
              >
                {label}
              </Link>
            ))}
          </Tabs>
          <div className="split" data-open={search.task && view !== 'about' ? '' : undefined}>
            <div className="grow">
              {view === 'list' ? <TaskList run={r} /> : null}
              {view === 'graph' ? <RunGraph run={r} /> : null}
              {view === 'timeline' ? <TimelineView run={r} task={search.task} /> : null}
              {view === 'replay' ? <ReplayView run={r} task={search.task} /> : null}
              {view === 'events' ? <Events id={id} task={search.task} /> : null}
              {view === 'about' ? <About run={r} /> : null}
            </div>
            {search.task && view !== 'about' ? <TaskPane run={r} task={search.task} /> : null}
          </div>
        </>
      )}
    </Loaded>
  )
}

function RunGraph({ run }: { run: Run }) {
  const { task, q = '', group, open, against } = useSearch({ from: '/r/$id' })
  const navigate = useNavigate({ from: '/r/$id' })
  const set = (change: object) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <FoldedGraph
      where={path('runs', run.id, 'layout')}
      query={{}}
      run={run.id}
      workflow={{ namespace: run.namespace, name: run.workflow.split('/').pop() ?? '' }}
      version={run.version}
      view={{ group, open, against }}
      onView={set}
      selected={task}
      onSelect={(name) => set({ task: name })}
      q={q}
      onFind={(text) => set({ q: text || undefined })}
      narrow={task !== undefined}
    />
  )
}

/** Opens the page of a failed run on the task that failed, unless the address names one. */
function useFirstFailure(id: string, run: Run | undefined, task: string | undefined) {
  const navigate = useNavigate({ from: '/r/$id' })
  const done = useRef('') // this is done once for each run, so that the pane can be closed
  if (task) done.current = id
  const wanted = run?.state === 'failed' && !task && done.current !== id
  const large = run !== undefined && isLarge(run)
  const drawing = useDrawing(path('runs', id, 'layout'), {}, wanted && large)
  const states = useStates(wanted && large ? id : undefined, drawing.data)
  const tasks = useTasks(id, wanted && (!large || Boolean(states.data?.instances.size)))
  const failed = wanted
    ? (tasks.data?.find((row) => row.state === 'failed')?.name ?? firstFailed(drawing.data, states.data))
    : undefined
  useEffect(() => {
    if (failed && window.innerWidth > 640)
      void navigate({ search: (old) => ({ ...old, task: failed }), replace: true })
  }, [failed, navigate])
}

const firstFailed = (d: Drawing | undefined, s: States | undefined) =>
  d?.names.find((_, task) => s?.names[s.of[task] ?? 0] === 'failed')

function RunHead({ run }: { run: Run }) {
  const regular = run.origin === 'schedule' || run.origin === 'backfill'
  return (
    <Head
      label={`${run.workflow} ${shortID(run.id)}`}
      title={
        <>
          <WorkflowLink name={run.workflow} />
          <span className="mono sub" title={run.id}>
            {shortID(run.id)}
          </span>
          <Copy text={run.id} label={t('Copy the id of the run')} />
        </>
      }
      actions={<RunVerbs run={run} />}
    >
      <p className="row facts-line">
        <State state={run.state} />
        {run.state === 'succeeded' ? null : <AlertsOf workflow={run.workflow} />}
        {run.intent !== 'run' && isActive(run.state) ? (
          <span className="sub">{t('asked to {intent}', { intent: term(run.intent) })}</span>
        ) : null}
        {regular ? (
          <span className="sub">{rich('for {time}', { time: <Clock time={run.instant} /> })}</span>
        ) : null}
        <span className="sub">
          <Link
            to="/w/$ns/$name"
            params={{ ns: run.namespace, name: run.workflow.split('/').pop() ?? '' }}
            search={{ tab: 'versions' }}
          >
            v{run.version}
          </Link>
        </span>
        <NextDeadline run={run} />
        {run.generation > 1 ? (
          <span className="sub">{t('generation {generation}', { generation: run.generation })}</span>
        ) : null}
        <span className="sub">
          {run.finished_at
            ? rich('ended {time}', { time: <Ago time={run.finished_at} /> })
            : rich('created {time}', { time: <Ago time={run.created_at} /> })}
        </span>
        {run.started_at ? (
          <span className="sub">
            {rich(run.finished_at ? 'took {time}' : 'runs for {time}', {
              time: <Span from={run.started_at} to={run.finished_at} />,
            })}
          </span>
        ) : null}
        <span className="sub">
          {term(run.origin)}
          {run.trigger ? ` ${run.trigger}` : ''}
          {run.user ? ` ${t('by {user}', { user: run.user })}` : ''}
        </span>
      </p>
    </Head>
  )
}

/** The reasons for the state of the run, and the states of its tasks. */
function Strip({ run }: { run: Run }) {
  const explain = useExplain(run.id)
  const counts = run.counts as Record<string, number>
  const shown = taskOrder.filter((s) => (counts[s] ?? 0) > 0)
  const total = Object.values(counts).reduce((sum, n) => sum + n, 0)
  return (
    <Panel>
      <div className="strip">
        {run.state === 'succeeded' ? null : (
          <Reasons reasons={explain.data?.reasons} fallback={run.message ?? ''} full />
        )}
        {total > 0 ? (
          <div className="row">
            <div className="bar wide" aria-hidden="true">
              {shown.map((s) => (
                <i key={s} data-tone={toneOf(s)} style={{ width: `${(100 * (counts[s] ?? 0)) / total}%` }} />
              ))}
            </div>
            {shown.map((s) => (
              <Link
                key={s}
                to="/r/$id"
                params={{ id: run.id }}
                search={(old) => ({ ...old, view: undefined, state: s })}
              >
                <State state={s}>
                  {count(counts[s] ?? 0)} {labelIn(s)}
                </State>
              </Link>
            ))}
          </div>
        ) : (
          <p className="sub">{t('The run has not begun: no task is there yet.')}</p>
        )}
      </div>
    </Panel>
  )
}

const tones: Record<string, string> = {
  succeeded: 'good',
  failed: 'bad',
  upstream_failed: 'bad',
  running: 'busy',
  assigned: 'busy',
  retry_wait: 'warn',
  stopped: 'over',
  skipped: 'over',
}
const toneOf = (state: string) => tones[state] ?? 'calm'

function About({ run }: { run: Run }) {
  const params = Object.entries((run.params ?? {}) as Record<string, unknown>)
  return (
    <div className="stack">
      <DeadlinesOf run={run} />
      <div className="columns">
        <Panel title={t('Parameters')} count={params.length}>
          {params.length === 0 ? <p className="empty">{t('The run has no parameters.')}</p> : null}
          <dl className="facts pad">
            {params.map(([name, value]) => (
              <Field key={name} label={name}>
                <code>{typeof value === 'string' ? value : JSON.stringify(value)}</code>
              </Field>
            ))}
          </dl>
        </Panel>
        <Panel title={t('About')}>
          <dl className="facts pad">
            <Field label={t('Id')}>
              <span className="row">
                <code>{run.id}</code> <Copy text={run.id} />
              </span>
            </Field>
            <Field label={t('Created')}>
              <Clock time={run.created_at} />
            </Field>
            <Field label={t('Started')}>
              <Clock time={run.started_at} />
            </Field>
            <Field label={t('Ended')}>
              <Clock time={run.finished_at} />
            </Field>
            <Field label={t('Instant')}>
              <Clock time={run.instant} />
            </Field>
            <Field label={t('Priority')}>{term(run.priority)}</Field>
            <Field label={t('Leader')}>{run.leader.node ? <NodeLink name={run.leader.node} /> : '–'}</Field>
            {run.parent ? (
              <Field label={t('Parent')}>
                <RunLink id={run.parent} {...(run.parent_task ? { task: run.parent_task } : {})} />{' '}
                {run.parent_task}
              </Field>
            ) : null}
            {run.rerun_of ? (
              <Field label={t('Rerun of')}>
                <RunLink id={run.rerun_of} />
              </Field>
            ) : null}
            {run.tags ? (
              <Field label={t('Tags')}>
                <Tags of={run.tags} />
              </Field>
            ) : null}
            {run.backfill ? <Field label={t('Backfill')}>{run.backfill}</Field> : null}
            {run.idempotency_key ? <Field label={t('Idempotency key')}>{run.idempotency_key}</Field> : null}
          </dl>
          <div className="pad">
            <Command text={`skein run get ${run.id}`} />
          </div>
        </Panel>
      </div>
    </div>
  )
}
