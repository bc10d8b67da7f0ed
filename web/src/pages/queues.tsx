// Queues, one queue, and locks: the slots in use, the waiting runs, and the verbs that free slots.
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { get } from '../api/client'
import { useQueues, useRuns } from '../api/queries'
import type { ListLock, Queue, QueueTasksOf, Run } from '../api/types'
import { plainVerb } from '../api/verbs'
import { useQuestion } from '../app/ask'
import { count } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Clock, Field, RunLink, Span, State, Tabs, WorkflowLink } from '../kit/parts'
import { Confirm, type Question, Toggle, VerbButton } from '../kit/verbs'
import { useWatch } from '../live/live'
import { rich, t } from '../text/t'
import { Head } from './head'
import { lineOf, queuePath, shareOf, spaceOf, waitersOf } from './queuedata'
import { QueueForm } from './queueform'

const tabs = [
  ['/queues', t('Queues')],
  ['/locks', t('Locks')],
] as const

function QueueTop({ here }: { here: string }) {
  return (
    <>
      <Head title={t('Queues')} label={here === '/locks' ? t('Locks') : t('Queues')} />
      <Tabs label={t('Queues and locks')}>
        {tabs.map(([to, label]) => (
          <Link key={to} to={to} aria-current={to === here ? 'page' : undefined}>
            {label}
          </Link>
        ))}
      </Tabs>
    </>
  )
}

function QueueVerb({ name, state }: { name: string; state: string }) {
  const is = { where: queuePath(name), verb: 'queue.write' }
  return state === 'active' ? (
    <Toggle
      {...is}
      does="pause"
      undoes="resume"
      label={t('Pause')}
      done={t('{name} is paused: it grants no slot, and new runs wait.', { name })}
    />
  ) : (
    <Toggle
      {...is}
      does="resume"
      undoes="pause"
      label={t('Resume')}
      done={t('{name} is active again.', { name })}
    />
  )
}

/** The slots in use, as a bar against the limit. */
function Places({ held, limit, perKey }: { held: number; limit: number | null; perKey: boolean }) {
  const share = perKey ? undefined : shareOf(held, limit)
  return (
    <span className="row places">
      {share === undefined ? null : (
        <span className="bar" data-tone={share === 1 ? 'warn' : 'busy'} aria-hidden="true">
          <i style={{ width: `${100 * share}%` }} />
        </span>
      )}
      <span className="num">
        {limit === null || perKey
          ? count(held)
          : t('{busy} of {total}', { busy: count(held), total: count(limit) })}
      </span>
    </span>
  )
}

/** Shows who paused or drained a queue, why, and until when. */
function Why({ q }: { q: Queue }) {
  if (q.state === 'active') return null
  return (
    <>
      {q.user ? t('by {user}', { user: q.user }) : ''}
      {q.reason ? `: ${q.reason}` : ''}
      {q.until ? <> {rich('until {time}', { time: <Clock time={q.until} /> })}</> : null}
    </>
  )
}

export function Queues() {
  const queues = useQueues()
  return (
    <>
      <QueueTop here="/queues" />
      <Panel title={t('Queues')} count={queues.data?.items.length}>
        <Loaded
          query={queues}
          isEmpty={(d) => d.items.length === 0}
          empty={t('No workflow uses a named queue.')}
        >
          {({ items }) => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>{t('State')}</th>
                    <th>{t('Queue')}</th>
                    <th>{t('Held by runs')}</th>
                    <th>{t('Held by tasks')}</th>
                    <th className="num">{t('Waiting')}</th>
                    <th>{t('Order')}</th>
                    <th>{t('Why')}</th>
                    <th>
                      <span className="hidden-text">{t('Verbs')}</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((q) => (
                    <tr key={q.name}>
                      <td>
                        <State state={q.state} />
                      </td>
                      <td className="nowrap">
                        <Link to="/q/$name" params={{ name: q.name }}>
                          {q.name}
                        </Link>
                      </td>
                      <td>
                        <Places held={q.held} limit={q.limit} perKey={q.per_key !== null} />
                      </td>
                      <td>
                        <Places held={q.tasks.held} limit={q.limit} perKey={q.per_key !== null} />
                      </td>
                      <td className="num nowrap">{waitersOf(q)}</td>
                      <td>{q.order}</td>
                      <td className="sub">
                        <Why q={q} />
                      </td>
                      <td className="num">
                        <QueueVerb name={q.name} state={q.state} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
    </>
  )
}

const drainOf = (name: string): Question => ({
  title: t('Drain {name}', { name }),
  text: t(
    'The runs that wait in {name} are still admitted. New runs are refused until you resume the queue.',
    { name },
  ),
  answer: t('Drain the queue'),
  danger: true,
  reason: 'optional',
  act: (reason) => plainVerb(`${queuePath(name)}:drain`, reason ? { reason } : {}, false),
  done: t('{name} is draining.', { name }),
})

const pauseOf = (name: string): Question => ({
  title: t('Pause {name}', { name }),
  text: t('The queue grants no slot until you resume it. New runs and tasks wait. What runs now goes on.'),
  answer: t('Pause the queue'),
  reason: 'optional',
  act: (reason) => plainVerb(`${queuePath(name)}:pause`, reason ? { reason } : {}, false),
  done: t('{name} is paused.', { name }),
  undo: () => void plainVerb(`${queuePath(name)}:resume`, undefined, false),
})

/** One queue: its limit, the holders of its slots, and the line. The address names the open dialog. */
export function QueuePage() {
  const { name } = useParams({ from: '/q/$name' })
  const { question, asked } = useQuestion({ drain: () => drainOf(name), pause: () => pauseOf(name) })
  useWatch()
  const query = useQuery({
    queryKey: ['queues', name],
    queryFn: ({ signal }) => get<Queue>(queuePath(name), {}, signal),
    refetchInterval: 2_000,
  })
  const waiting = useRuns({ state: 'waiting', limit: 1000 })
  const inLine = lineOf(waiting.data?.items ?? [], name)
  const q = query.data
  return (
    <>
      <Head
        title={name}
        label={t('Queue {name}', { name })}
        actions={
          q ? (
            <>
              <VerbButton verb="queue.write" namespace={spaceOf(name)} onPress={() => asked.open('set')}>
                {t('Change…')}
              </VerbButton>
              {q.state === 'active' ? (
                <VerbButton verb="queue.write" namespace={spaceOf(name)} onPress={() => asked.open('pause')}>
                  {t('Pause…')}
                </VerbButton>
              ) : (
                <QueueVerb name={name} state={q.state} />
              )}
              {q.state === 'draining' ? null : (
                <VerbButton verb="queue.write" namespace={spaceOf(name)} onPress={() => asked.open('drain')}>
                  {t('Drain…')}
                </VerbButton>
              )}
            </>
          ) : null
        }
      >
        {q ? (
          <p className="row facts-line">
            <State state={q.state} />
            <span className="sub">
              <Why q={q} />
            </span>
          </p>
        ) : null}
      </Head>
      <Loaded query={query} rows={6}>
        {(one) => (
          <>
            <Panel title={t('Places')}>
              <dl className="facts pad">
                <Field label={t('Limit')}>
                  {one.limit === null ? t('none') : count(one.limit)}
                  {one.per_key ? (
                    <> {rich('for each value of {key}', { key: <code>{one.per_key}</code> })}</>
                  ) : null}
                </Field>
                <Field label={t('Held by runs')}>
                  <Places held={one.held} limit={one.limit} perKey={one.per_key !== null} />
                </Field>
                <Field label={t('Held by tasks')}>
                  <Places held={one.tasks.held} limit={one.limit} perKey={one.per_key !== null} />
                </Field>
                <Field label={t('Waiting')}>{waitersOf(one)}</Field>
                <Field label={t('Order')}>{one.order}</Field>
                <Field label={t('Rate')}>{one.rate ?? t('none')}</Field>
                <Field label={t('If it is full')}>{overflow[one.overflow] ?? one.overflow}</Field>
                <Field label={t('Changed')}>
                  <Ago time={one.modified_at} />
                </Field>
              </dl>
            </Panel>
            <Panel title={t('Tasks by run')} count={one.tasks.runs?.length ?? 0}>
              {one.tasks.runs?.length ? (
                <Crews runs={one.tasks.runs} />
              ) : (
                <p className="empty">{t('No task holds a place of this queue or waits for one.')}</p>
              )}
            </Panel>
            <Panel title={t('Runs in line')} count={inLine.length}>
              {inLine.length > 0 ? (
                <InLine runs={inLine} />
              ) : (
                <p className="empty">{t('No run waits for a place of this queue.')}</p>
              )}
            </Panel>
            <QueueForm queue={one} isOpen={asked.name === 'set'} onClose={asked.close} />
          </>
        )}
      </Loaded>
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

const overflow: Record<string, string> = {
  wait: t('a new run waits'),
  skip: t('a new run is skipped'),
  fail: t('a new run fails'),
}

function Crews({ runs }: { runs: QueueTasksOf[] }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Run')}</th>
            <th>{t('Key')}</th>
            <th className="num">{t('Held')}</th>
            <th>{t('Running')}</th>
            <th className="num">{t('Waiting')}</th>
            <th>{t('Next to run')}</th>
            <th>{t('Waits since')}</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((r) => (
            <tr key={r.run}>
              <td>
                <RunLink id={r.run} />
              </td>
              <td>{r.key ?? <span className="muted">–</span>}</td>
              <td className="num">{count(r.held)}</td>
              <td>
                <Tasks run={r.run} names={r.running} of={r.held} />
              </td>
              <td className="num">{count(r.waiting)}</td>
              <td>
                <Tasks run={r.run} names={r.ready} of={r.waiting} />
              </td>
              <td className="nowrap">
                <Ago time={r.since} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Tasks({ run, names, of }: { run: string; names: string[] | null; of: number }) {
  const shown = names?.slice(0, 3) ?? []
  if (shown.length === 0) return <span className="muted">–</span>
  return (
    <span className="row">
      {shown.map((task) => (
        <RunLink key={task} id={run} task={task}>
          {task}
        </RunLink>
      ))}
      {of > shown.length ? <span className="sub">{t('and {n} more', { n: of - shown.length })}</span> : null}
    </span>
  )
}

function InLine({ runs }: { runs: Run[] }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th className="num">{t('Place##in a line')}</th>
            <th>{t('Workflow')}</th>
            <th>{t('Run')}</th>
            <th>{t('Priority')}</th>
            <th className="num">{t('Waits for')}</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((r) => (
            <tr key={r.id}>
              <td className="num">{r.position?.number ?? '–'}</td>
              <td>
                <WorkflowLink name={r.workflow} />
              </td>
              <td>
                <RunLink id={r.id} />
              </td>
              <td>{r.priority}</td>
              <td className="num">
                <Span from={r.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

export function Locks() {
  const locks = useQuery({
    queryKey: ['locks'],
    queryFn: ({ signal }) => get<ListLock>('/locks', {}, signal),
    refetchInterval: 5_000,
  })
  return (
    <>
      <QueueTop here="/locks" />
      <Panel title={t('Locks')} count={locks.data?.items.length}>
        <Loaded
          query={locks}
          isEmpty={(d) => d.items.length === 0}
          empty={t(
            'No run holds a lock. A workflow with the key locks takes them before its first task starts.',
          )}
        >
          {({ items }) => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>{t('Lock')}</th>
                    <th>{t('Held by run')}</th>
                    <th>{t('Since')}</th>
                    <th className="num">{t('Fencing token')}</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((l) => (
                    <tr key={`${l.namespace ?? ''} ${l.name} ${l.run}`}>
                      <td>{l.namespace ? `${l.namespace}/${l.name}` : l.name}</td>
                      <td>
                        <RunLink id={l.run} />
                      </td>
                      <td className="nowrap">
                        <Ago time={l.since} />
                      </td>
                      <td className="num">{l.token}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
    </>
  )
}
