// One node or worker: its state, its work, and the verbs of an operator.
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { get, path, post } from '../api/client'
import { useCan } from '../api/me'
import { useNodes } from '../api/queries'
import type { LogLevel, Node } from '../api/types'
import { useQuestion } from '../app/ask'
import { toast } from '../kit/dialog'
import { bytes, count, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Command, Field, Span, State } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { Confirm, needs, useToastVerb } from '../kit/verbs'
import { rich, t } from '../text/t'
import { Head } from './head'
import { attachedTo, isWorker, otherVersions, rangesOf } from './nodedata'
import { LoadOf } from './nodeload'
import { drainOf, Left, NodeLink, NodeVerb, Refusal, Taken } from './nodeparts'

export function NodePage() {
  const { name } = useParams({ from: '/n/$name' })
  const nodes = useNodes()
  return (
    <Loaded query={nodes} rows={10}>
      {({ items }) => {
        const node = items.find((n) => n.name === name)
        return node ? <One n={node} all={items} /> : <Absent name={name} />
      }}
    </Loaded>
  )
}

/**
 * A worker that left is not a member any more. A node that does not exist, but was drained by name, has only
 * an order.
 */
function Absent({ name }: { name: string }) {
  return (
    <>
      <Head title={name} label={name} />
      <Panel>
        <div className="empty">
          <p>
            {rich(
              'No node or worker of the name {name} is there now. It may have ended. The {cluster} lists those that are there.',
              { name, cluster: <Link to="/cluster">{t('cluster')}</Link> },
            )}
          </p>
        </div>
      </Panel>
    </>
  )
}

function One({ n, all }: { n: Node; all: Node[] }) {
  const { question, asked } = useQuestion({ drain: () => drainOf(n) })
  const worker = isWorker(n)
  const workers = attachedTo(all, n.name)
  return (
    <>
      <Head
        title={n.name}
        label={`${worker ? t('Worker') : t('Node')} ${n.name}`}
        actions={<NodeVerb node={n} drain={() => asked.open('drain')} />}
      >
        <p className="row facts-line">
          <State state={n.state} /> <Left node={n} />
          <span className="sub">{worker ? t('worker') : n.roles?.join(', ')}</span>
          <span className="sub">{rich('up for {time}', { time: <Span from={n.started_at} /> })}</span>
        </p>
        <Refusal node={n} />
      </Head>
      <div className="columns">
        <Panel title={t('Load')}>
          <dl className="facts pad">
            <Field label={t('Slots')}>
              <Taken used={n.slots.busy} total={n.slots.total}>
                {t('{busy} of {total}', { busy: count(n.slots.busy), total: count(n.slots.total) })}
              </Taken>
            </Field>
            <Field label="CPU">
              <Taken used={n.resources.cpu.used} total={n.resources.cpu.total}>
                {t('{busy} of {slots}', {
                  busy: n.resources.cpu.used,
                  slots: plural(n.resources.cpu.total, 'core'),
                })}
              </Taken>
            </Field>
            <Field label={t('Memory')}>
              <Taken used={n.resources.memory.used} total={n.resources.memory.total}>
                {t('{busy} of {total}', {
                  busy: bytes(n.resources.memory.used),
                  total: bytes(n.resources.memory.total),
                })}
              </Taken>
            </Field>
          </dl>
          <p className="sub pad">
            {rich('CPU and memory are what tasks have reserved with {resources}.', {
              resources: <code>resources</code>,
            })}
          </p>
        </Panel>
        <About n={n} all={all} />
      </div>
      {worker ? null : <LoadOf node={n.name} />}
      {worker ? null : <Shards n={n} />}
      {worker ? null : (
        <Panel title={t('Workers')} count={workers.length}>
          {workers.length === 0 ? (
            <p className="empty">{t('No worker is attached to this node.')}</p>
          ) : (
            <Workers of={workers} />
          )}
        </Panel>
      )}
      <Log n={n} />
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

function About({ n, all }: { n: Node; all: Node[] }) {
  const others = otherVersions(all, n)
  const labels = Object.entries(n.labels)
  return (
    <Panel title={t('About')}>
      <dl className="facts pad">
        <Field label={t('Version')}>
          {n.version}
          {others.length > 0 ? (
            <span className="sub"> · {t('others run {versions}', { versions: others.join(', ') })}</span>
          ) : null}
        </Field>
        {n.address ? (
          <Field label={t('Address')}>
            <code>{n.address}</code>
          </Field>
        ) : null}
        {n.home ? (
          <Field label={t('Home node')}>
            <NodeLink name={n.home} />
          </Field>
        ) : null}
        {n.seen_at ? (
          <Field label={t('Last sign of life')}>
            <Ago time={n.seen_at} />
          </Field>
        ) : null}
        <Field label={t('Groups')}>
          {n.groups?.join(', ') || <span className="muted">{t('none')}</span>}
        </Field>
        <Field label={t('Labels')}>
          {labels.length > 0 ? (
            labels.map(([name, value]) => (
              <code key={name}>
                {name}={value}{' '}
              </code>
            ))
          ) : (
            <span className="muted">{t('none')}</span>
          )}
        </Field>
        <Field label={t('Life')}>
          <code title={t('Names this life of the process. It is new at every start.')}>{n.handler}</code>
        </Field>
      </dl>
    </Panel>
  )
}

function Shards({ n }: { n: Node }) {
  const { list, moved, owned } = n.shards
  return (
    <Panel
      title={t('Shards')}
      count={count(owned)}
      actions={
        <Link to="/runs" search={{ node: n.name }}>
          {t('Runs that it led')}
        </Link>
      }
    >
      <dl className="facts pad">
        <Field label={t('Owned')}>
          {list?.length ? (
            t('number {numbers}', { numbers: rangesOf(list) })
          ) : (
            <span className="muted">{t('none')}</span>
          )}
        </Field>
        {moved?.length ? <Field label={t('Moved to it by hand')}>{rangesOf(moved)}</Field> : null}
        {n.stopped ? (
          <Field label={t('Scheduler')}>{t('stopped: it owns no shard until it is started')}</Field>
        ) : null}
      </dl>
    </Panel>
  )
}

function Workers({ of }: { of: Node[] }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('State')}</th>
            <th>{t('Name')}</th>
            <th>{t('Slots')}</th>
            <th>{t('Groups')}</th>
            <th>{t('Up since')}</th>
            <th>{t('Version')}</th>
          </tr>
        </thead>
        <tbody>
          {of.map((w) => (
            <tr key={w.name}>
              <td>
                <State state={w.state} />
              </td>
              <td>
                <NodeLink name={w.name} />
              </td>
              <td>
                <Taken used={w.slots.busy} total={w.slots.total}>
                  {t('{busy} of {total}', { busy: count(w.slots.busy), total: count(w.slots.total) })}
                </Taken>
              </td>
              <td className="sub">{w.groups?.join(', ')}</td>
              <td className="nowrap">
                <Ago time={w.started_at} />
              </td>
              <td>{w.version}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const levels: LogLevel['level'][] = ['debug', 'info', 'warn', 'error']

/** The level of the log. A worker reads it from its settings only. */
function Log({ n }: { n: Node }) {
  const query = useQuery({
    queryKey: ['log-level', n.name, n.handler],
    queryFn: ({ signal }) => get<LogLevel>(path('nodes', n.name, 'log-level'), {}, signal),
    enabled: !isWorker(n),
  })
  return (
    <Panel title={t('Log')}>
      {isWorker(n) ? (
        <p className="empty">
          {t(
            'A worker reads the level of its log from its config file: change log_level there, and send it the signal HUP.',
          )}
        </p>
      ) : query.error && !query.data ? (
        <ProblemBox error={query.error} retry={() => void query.refetch()} />
      ) : (
        <div className="pad stack">
          <Level n={n} is={query.data?.level} />
          <Command text={`skein node log-level ${n.name} debug`} />
        </div>
      )}
    </Panel>
  )
}

function Level({ n, is }: { n: Node; is: LogLevel['level'] | undefined }) {
  const { run, isPending } = useToastVerb()
  const can = useCan()('node.control', '')
  const set = (level: string, old?: string) =>
    run(
      () => post(`${path('nodes', n.name)}:log-level`, { level }),
      () =>
        toast(
          t('{name} logs {level} until it ends or reads its settings again.', { name: n.name, level }),
          old ? { undo: () => set(old) } : {},
        ),
    )
  return (
    <div className="row">
      <label className="row">
        {t('Level')}
        <select
          className="select"
          value={is ?? ''}
          disabled={!can || is === undefined || isPending}
          onChange={(e) => set(e.target.value, is)}
        >
          {is === undefined ? <option value="">–</option> : null}
          {levels.map((l) => (
            <option key={l}>{l}</option>
          ))}
        </select>
      </label>
      <span className="sub">
        {can ? t('Until the node ends or reads its settings again.') : needs('node.control', '')}
      </span>
    </div>
  )
}
