// Backfills: runs for instants of the past, a bounded number at a time.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link, useParams, useSearch } from '@tanstack/react-router'
import { get, newKey, path, post } from '../api/client'
import { quick } from '../api/queries'
import type { Backfill, ListBackfill, ListBackfillRun } from '../api/types'
import { useQuestion } from '../app/ask'
import { useNamespace, within } from '../app/namespace'
import { toast } from '../kit/dialog'
import { clock, count, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Clock, RunLink, Span, State, TriggerLink, WorkflowLink } from '../kit/parts'
import { Confirm, type Question, useToastVerb, VerbButton } from '../kit/verbs'
import { liveKey, useWatch } from '../live/live'
import { Head } from './head'

export function Backfills() {
  const [ns] = useNamespace()
  const { state } = useSearch({ from: '/backfills' })
  const query = useQuery({
    queryKey: ['backfills', state ?? ''],
    queryFn: ({ signal }) => get<ListBackfill>('/backfills', { limit: 100, state }, signal),
    refetchInterval: quick,
    placeholderData: keepPreviousData,
  })
  const shown = (query.data?.items ?? []).filter((b) => within(ns, b.namespace))
  return (
    <>
      <Head
        title="Backfills"
        label="Backfills"
        actions={
          <Link className="button" data-kind="primary" to="/backfills/new">
            New backfill
          </Link>
        }
      />
      <div className="row">
        {[undefined, 'running', 'paused', 'done', 'cancelled'].map((s) => (
          <Link
            key={s ?? ''}
            className="chip"
            to="/backfills"
            search={{ state: s }}
            aria-current={s === state ? 'true' : undefined}
          >
            {s ? <State state={s} /> : 'All'}
          </Link>
        ))}
      </div>
      <Panel title="Backfills" count={query.data ? shown.length : undefined}>
        <Loaded
          query={query}
          isEmpty={() => shown.length === 0}
          empty={<p>No backfill is kept. One starts the runs of a schedule for instants of the past.</p>}
        >
          {() => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>State</th>
                    <th>Backfill</th>
                    <th>Workflow</th>
                    <th>Instants</th>
                    <th>Progress</th>
                    <th className="num">Failed</th>
                    <th>Created</th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map((b) => (
                    <tr key={b.id}>
                      <td>
                        <State state={b.state} />
                      </td>
                      <td>
                        <Link to="/backfills/$id" params={{ id: String(b.id) }}>
                          {b.id}
                        </Link>
                      </td>
                      <td>
                        <WorkflowLink name={b.workflow} />{' '}
                        {b.trigger ? <TriggerLink workflow={b.workflow} name={b.trigger} /> : null}
                      </td>
                      <td className="nowrap sub">
                        {clock(b.first)} to {clock(b.last)}
                      </td>
                      <td>
                        <Progress b={b} />
                      </td>
                      <td className="num">{b.failed > 0 ? count(b.failed) : '–'}</td>
                      <td className="nowrap sub">
                        <Ago time={b.created_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
      {query.data?.next ? <p className="sub">Only the newest 100 backfills are shown.</p> : null}
    </>
  )
}

function Progress({ b }: { b: Backfill }) {
  const part = (n: number) => ({ width: `${b.total > 0 ? (100 * n) / b.total : 0}%` })
  return (
    <span className="row">
      <span className="bar wide" aria-hidden="true">
        <i data-tone="bad" style={part(b.failed)} />
        <i data-tone="good" style={part(b.ended - b.failed)} />
        <i data-tone="busy" style={part(b.active)} />
      </span>
      <span className="sub nowrap">
        {count(b.ended)} of {count(b.total)}
      </span>
    </span>
  )
}

export function BackfillPage() {
  const { id } = useParams({ from: '/backfills/$id' })
  useWatch()
  const query = useQuery({
    queryKey: liveKey(['runs'], 'backfill', id),
    queryFn: ({ signal }) => get<Backfill>(path('backfills', id), {}, signal),
    refetchInterval: quick,
  })
  return <Loaded query={query}>{(b) => <One b={b} />}</Loaded>
}

function One({ b }: { b: Backfill }) {
  const { run: act } = useToastVerb()
  const verb = (name: string, key = newKey()) => post(`${path('backfills', b.id)}:${name}`, undefined, key)
  const open = b.state === 'running' || b.state === 'paused'
  const cancel: Question = {
    title: `Cancel backfill ${b.id}`,
    text: `${count(b.total - b.started)} instants will not be started. Runs that wait are stopped; ${count(b.active)} that have begun go on.`,
    answer: 'Cancel the backfill',
    danger: true,
    act: (_, key) => verb('cancel', key),
    done: 'The backfill is cancelled.',
  }
  const { question, asked } = useQuestion({ cancel: () => (open ? cancel : undefined) })
  const [does, undoes] = b.state === 'paused' ? ['resume', 'pause'] : ['pause', 'resume']
  return (
    <>
      <Head
        label={`Backfill ${b.id}`}
        title={
          <>
            Backfill {b.id} <State state={b.state} />
          </>
        }
        actions={
          open ? (
            <>
              <VerbButton
                verb="backfill.write"
                namespace={b.namespace}
                icon={b.state === 'paused' ? 'play' : 'pause'}
                onPress={() =>
                  act(
                    () => verb(does),
                    () =>
                      toast(`The backfill is ${does === 'pause' ? 'paused' : 'running again'}.`, {
                        undo: () => act(() => verb(undoes)),
                      }),
                  )
                }
              >
                {b.state === 'paused' ? 'Resume' : 'Pause'}
              </VerbButton>
              <VerbButton
                verb="backfill.write"
                namespace={b.namespace}
                icon="stop"
                onPress={() => asked.open('cancel')}
              >
                Cancel
              </VerbButton>
            </>
          ) : null
        }
      >
        <p className="row facts-line sub">
          <WorkflowLink name={b.workflow} />
          <span>{b.trigger ?? 'a list of instants'}</span>
          <span>
            {clock(b.first)} to {clock(b.last)}
          </span>
          <span>{plural(b.parallel, 'run')} at a time</span>
          <span>by {b.user}</span>
        </p>
      </Head>
      <Panel>
        <div className="strip">
          <Progress b={b} />
          <p className="row sub">
            <span>{count(b.active)} active</span>
            <span>{count(b.failed)} failed</span>
            <span>{count(b.total - b.started)} to start</span>
            {b.next_instant ? (
              <span>
                next: <Clock time={b.next_instant} />
              </span>
            ) : null}
            {b.failed > 0 ? (
              <Link to="/runs" search={{ backfill: String(b.id), state: 'failed' }}>
                Failed runs: look and recover
              </Link>
            ) : null}
          </p>
        </div>
      </Panel>
      <Runs id={b.id} />
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

function Runs({ id }: { id: number }) {
  const { cursor } = useSearch({ from: '/backfills/$id' })
  const query = useQuery({
    queryKey: liveKey(['runs'], 'backfill', String(id), 'runs', cursor ?? ''),
    queryFn: ({ signal }) =>
      get<ListBackfillRun>(path('backfills', id, 'runs'), { limit: 100, cursor }, signal),
    refetchInterval: quick,
    placeholderData: keepPreviousData,
  })
  return (
    <Panel
      title="Instants"
      actions={
        query.data?.next ? (
          <Link to="/backfills/$id" params={{ id: String(id) }} search={{ cursor: query.data.next }}>
            Next 100
          </Link>
        ) : null
      }
    >
      <Loaded query={query} isEmpty={(d) => d.items.length === 0} empty="No instant has been started yet.">
        {({ items }) => (
          <div className="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th>State</th>
                  <th>Instant</th>
                  <th>Run</th>
                  <th>Cause</th>
                  <th className="num">Took</th>
                </tr>
              </thead>
              <tbody>
                {items.map((r) => (
                  <tr key={r.instant}>
                    <td>
                      {r.state ? <State state={r.state} /> : <span className="muted">no longer kept</span>}
                    </td>
                    <td>
                      <Clock time={r.instant} />
                    </td>
                    <td>
                      <RunLink id={r.run} />
                    </td>
                    <td className="sub">{r.cause ?? ''}</td>
                    <td className="num">
                      <Span from={r.started_at} to={r.finished_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
    </Panel>
  )
}
