import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { address, get, path, post } from '../api/client'
import { useExplain } from '../api/queries'
import type { ListArtifact, Outside, Run, Task } from '../api/types'
import { taskVerb } from '../api/verbs'
import { useQuestion } from '../app/ask'
import { useKeys } from '../app/keys'
import { toast } from '../kit/dialog'
import { bytes } from '../kit/format'
import { Loaded } from '../kit/panel'
import { Button, Clock, Copy, exactly, Message, RunLink, Span, State, Tabs } from '../kit/parts'
import { Confirm, useToastVerb, VerbButton } from '../kit/verbs'
import { liveKey } from '../live/live'
import { rich, t } from '../text/t'
import { Approve } from './approve'
import { causeText } from './attemptdata'
import { Log } from './logview'
import { NodeLink } from './nodeparts'
import { Reasons } from './reasons'
import { isRecoverable } from './recoverplan'
import { Input } from './taskinput'

const tabs = [
  ['log', t('Log')],
  ['attempts', t('Attempts')],
  ['input', t('Input')],
  ['outputs', t('Outputs')],
  ['why', t('Why')],
] as const

export const useTask = (id: string, task: string) =>
  useQuery({
    queryKey: liveKey([`run ${id}`], 'task', task),
    queryFn: ({ signal }) => get<Task>(path('runs', id, 'tasks', task), {}, signal),
  })

/** Shows one task of a run: its log, its attempts, its outputs and the reasons for its state. */
export function TaskPane({ run, task }: { run: Run; task: string }) {
  const search = useSearch({ from: '/r/$id' })
  const navigate = useNavigate({ from: '/r/$id' })
  const query = useTask(run.id, task)
  const close = () =>
    void navigate({
      search: (old) => ({ ...old, task: undefined, tab: undefined, attempt: undefined }),
      replace: true,
    })
  const waits = query.data?.state === 'deferred'
  const tab = search.tab ?? (waits || query.data?.attempts?.length === 0 ? 'why' : 'log')
  useKeys({
    Escape: close,
    w: () => void navigate({ search: (old) => ({ ...old, tab: 'why' }), replace: true }),
  })
  return (
    <aside className="pane" aria-label={t('Task {task}', { task })}>
      <header className="pane-head">
        <h2 className="grow clip">{task}</h2>
        {query.data ? <State state={query.data.state} /> : null}
        <Button kind="quiet" icon="cross" aria-label={t('Close the task')} onPress={close} />
      </header>
      <Loaded query={query} rows={6}>
        {(row) => (
          <>
            <TaskVerbs run={run} task={row} />
            {waits ? <Approve run={run} task={row} /> : null}
            <Tabs label={t('About the task')}>
              {tabs.map(([id, label]) => (
                <Link
                  key={id}
                  to="/r/$id"
                  params={{ id: run.id }}
                  replace
                  search={(old) => ({ ...old, tab: id })}
                  activeOptions={exactly}
                  aria-current={id === tab ? 'page' : undefined}
                >
                  {label}
                </Link>
              ))}
            </Tabs>
            {tab === 'log' ? (
              <LogOf run={run} task={row} {...(search.attempt ? { attempt: search.attempt } : {})} />
            ) : null}
            {tab === 'attempts' ? <Attempts run={run} task={row} /> : null}
            {tab === 'input' ? <Input run={run} task={row} attempt={search.attempt} /> : null}
            {tab === 'outputs' ? <Outputs run={run} task={row} /> : null}
            {tab === 'why' ? <Why run={run} task={row.name} /> : null}
          </>
        )}
      </Loaded>
    </aside>
  )
}

function LogOf({ run, task, attempt }: { run: Run; task: Task; attempt?: string }) {
  const last = task.attempts?.at(-1)
  const child = last?.child
  if (child) {
    return (
      <p className="empty">
        <span>
          {rich('The task is a run of its own: {open}.', {
            open: <RunLink id={child}>{t('open it')}</RunLink>,
          })}
        </span>
      </p>
    )
  }
  if (!last) return <p className="empty">{t('The task has not been started, so it has no log.')}</p>
  const number = attempt ? Number(attempt) : last.number
  return (
    <Log
      run={run.id}
      task={task.name}
      attempt={number}
      ended={task.attempts?.find((a) => a.number === number)?.finished_at != null}
      attempts={task.attempts ?? []}
    />
  )
}

function TaskVerbs({ run, task }: { run: Run; task: Task }) {
  const { run: act } = useToastVerb()
  const active = ['assigned', 'running', 'deferred', 'retry_wait'].includes(task.state)
  const open = active || task.state === 'pending' || task.state === 'ready'
  const failed = ['failed', 'stopped', 'retry_wait'].includes(task.state)
  const on = (verb: string, body?: object, key?: string) => taskVerb(run.id, task.name, verb, body, key)
  const { question, asked } = useQuestion({
    'stop-task': () =>
      active
        ? {
            title: t('Stop {name}', { name: task.name }),
            text: t('The run goes on. Tasks that need this one cannot run.'),
            answer: t('Stop the task'),
            danger: true,
            reason: 'optional',
            act: (reason, key) => on('stop', { reason }, key),
            done: t('The stop was asked for.'),
          }
        : undefined,
    'skip-task': () =>
      open || failed
        ? {
            title: t('Skip {name}', { name: task.name }),
            text: t(
              'The task counts as skipped. What needs it goes on as after a condition that did not hold.',
            ),
            answer: t('Skip the task'),
            reason: 'optional',
            act: (reason, key) => on('skip', { reason }, key),
            done: t('{name} is skipped.', { name: task.name }),
          }
        : undefined,
    'mark-task': () =>
      open || failed
        ? {
            title: t('Mark {name} as succeeded', { name: task.name }),
            text: t('Nothing is run. Tasks that need it go on as if it had succeeded.'),
            answer: t('Mark as succeeded'),
            reason: 'required',
            act: (reason, key) => on('mark', { state: 'succeeded', reason }, key),
            done: t('{name} counts as succeeded.', { name: task.name }),
          }
        : undefined,
  })
  return (
    <div className="row pad">
      {failed ? (
        <VerbButton
          verb="run.redo"
          namespace={run.namespace}
          icon="retry"
          onPress={() =>
            act(
              () => on('retry'),
              () => toast(t('A retry of {name} was asked for.', { name: task.name })),
            )
          }
        >
          {t('Retry')}
        </VerbButton>
      ) : null}
      {isRecoverable(run) ? (
        <VerbButton
          verb="run.redo"
          namespace={run.namespace}
          onPress={() => asked.open('recover', task.name)}
        >
          {t('Recover from here…')}
        </VerbButton>
      ) : null}
      {active ? (
        <VerbButton
          verb="run.control"
          namespace={run.namespace}
          icon="stop"
          onPress={() => asked.open('stop-task')}
        >
          {t('Stop')}
        </VerbButton>
      ) : null}
      {open || failed ? (
        <VerbButton verb="run.mark" namespace={run.namespace} onPress={() => asked.open('skip-task')}>
          {t('Skip')}
        </VerbButton>
      ) : null}
      {open || failed ? (
        <VerbButton verb="run.mark" namespace={run.namespace} onPress={() => asked.open('mark-task')}>
          {t('Mark as succeeded')}
        </VerbButton>
      ) : null}
      <Confirm question={question} onClose={asked.close} />
    </div>
  )
}

function Attempts({ run, task }: { run: Run; task: Task }) {
  if (!task.attempts?.length) return <p className="empty">{t('The task has not been started.')}</p>
  return (
    <ol className="attempts">
      {[...task.attempts].reverse().map((a) => (
        <li key={a.token}>
          <div className="row spread">
            <span className="row">
              <b>{t('Attempt {number}', { number: a.number })}</b> <State state={a.state} />
            </span>
            <span className="row">
              {(['log', 'input'] as const).map((tab) => (
                <Link
                  key={tab}
                  to="/r/$id"
                  params={{ id: run.id }}
                  replace
                  search={(old) => ({ ...old, tab, attempt: String(a.number) })}
                >
                  {tab === 'log' ? t('Log') : t('Input')}
                </Link>
              ))}
            </span>
          </div>
          {a.message ? (
            <p>
              <Message of={a} />
            </p>
          ) : null}
          <p className="sub row">
            <span>
              {a.started_at ? (
                <Clock time={a.started_at} />
              ) : (
                rich('assigned {time}', { time: <Clock time={a.assigned_at} /> })
              )}
            </span>
            {a.started_at ? (
              <span>
                <Span from={a.started_at} to={a.finished_at} />
              </span>
            ) : null}
            {a.exit_code === null ? null : <span>{t('exit code {code}', { code: a.exit_code })}</span>}
            {causeText(a.cause) ? <span>{causeText(a.cause)}</span> : null}
            {a.signal ? <span>{t('signal {signal}', { signal: a.signal })}</span> : null}
            {a.node ? <NodeLink name={a.node} /> : null}
            {a.retry_at ? (
              <span>{rich('next try {time}', { time: <Clock time={a.retry_at} /> })}</span>
            ) : null}
            {a.child ? <RunLink id={a.child}>{t('its run')}</RunLink> : null}
          </p>
          {a.outside ? <Left of={a.outside} run={run} task={task} attempt={a.number} /> : null}
        </li>
      ))}
    </ol>
  )
}

/** The work that an attempt has left outside of its process, and the verbs that end it. */
function Left({ of: o, run, task, attempt }: { of: Outside; run: Run; task: Task; attempt: number }) {
  const { run: act } = useToastVerb()
  const { question, asked } = useQuestion({
    'dismiss-orphan': (of) =>
      of === String(attempt) && o.state === 'orphan'
        ? {
            title: t('Dismiss {name}', { name: o.handle }),
            text: t('It leaves the list of orphans, and its release is stopped.'),
            answer: t('Dismiss##an orphan'),
            reason: 'optional',
            act: (reason) => post(`${path('runs', run.id, 'tasks', task.name)}:dismiss`, { attempt, reason }),
            done: t('{name} is dismissed.', { name: o.handle }),
          }
        : undefined,
  })
  const release = () =>
    act(
      () => post(`${path('runs', run.id, 'tasks', task.name)}:release`, { attempt }),
      () => toast(t('The release is tried again.')),
    )
  return (
    <div className="outside">
      <p className="row">
        <span>{t('Outside of its process:')}</span> <code className="cursor">{o.handle}</code>{' '}
        <Copy text={o.handle} />
      </p>
      <p className="sub row">
        <State state={o.state} />
        {o.since ? <span>{rich('since {time}', { time: <Clock time={o.since} /> })}</span> : null}
        {o.errand ? <RunLink id={o.errand}>{t('the run that ends it')}</RunLink> : null}
        {o.why ? <span>{o.why}</span> : null}
      </p>
      {o.state === 'orphan' ? (
        <>
          <p className="sub">
            {t('The run did not wait any longer. Look in the other system whether the work has ended.')}
          </p>
          <div className="row">
            <VerbButton verb="run.control" namespace={run.namespace} onPress={release}>
              {t('Try the release again')}
            </VerbButton>
            <VerbButton
              verb="run.mark"
              namespace={run.namespace}
              onPress={() => asked.open('dismiss-orphan', String(attempt))}
            >
              {t('Dismiss##an orphan')}
            </VerbButton>
          </div>
        </>
      ) : null}
      <Confirm question={question} onClose={asked.close} />
    </div>
  )
}

function Outputs({ run, task }: { run: Run; task: Task }) {
  const outputs = Object.entries((task.outputs ?? {}) as Record<string, unknown>)
  const artifacts = useQuery({
    queryKey: liveKey([`run ${run.id}`], 'artifacts', task.name),
    queryFn: ({ signal }) =>
      get<ListArtifact>(path('runs', run.id, 'tasks', task.name, 'artifacts'), {}, signal),
    enabled: (task.attempts?.length ?? 0) > 0,
    retry: false,
  })
  const files = artifacts.data?.items ?? []
  return (
    <div className="pad stack">
      {outputs.length === 0 && files.length === 0 ? (
        <p className="muted">{t('The task left no outputs and no artifacts.')}</p>
      ) : null}
      {outputs.map(([name, value]) => {
        const text = typeof value === 'string' ? value : JSON.stringify(value, null, 1)
        return (
          <div key={name}>
            <h3 className="row spread">
              {name} <Copy text={text} />
            </h3>
            <pre className="value">{text.length > 20_000 ? `${text.slice(0, 20_000)}…` : text}</pre>
          </div>
        )
      })}
      {files.length > 0 ? (
        <div>
          <h3>{t('Artifacts')}</h3>
          <ul className="list">
            {files.map((f) => (
              <li key={f.name} className="row spread">
                <a
                  href={address(path('runs', run.id, 'tasks', task.name, 'artifacts', f.name), {
                    attempt: f.attempt,
                  })}
                  download
                >
                  {f.name}
                </a>
                <span className="sub" title={`SHA-256 ${f.sha256}`}>
                  {bytes(f.size)}
                </span>
              </li>
            ))}
          </ul>
        </div>
      ) : null}
    </div>
  )
}

function Why({ run, task }: { run: Run; task: string }) {
  const explain = useExplain(run.id, task)
  return (
    <div className="pad">
      <Loaded
        query={explain}
        rows={3}
        isEmpty={(e) => !e.reasons?.length}
        empty={t('Nothing holds this task.')}
      >
        {(e) => <Reasons reasons={e.reasons ?? undefined} fallback="" full />}
      </Loaded>
    </div>
  )
}
