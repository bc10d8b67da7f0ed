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
import { rich, t } from '../text/t'
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
        title={t('Backfills')}
        label={t('Backfills')}
        actions={
          <Link className="button" data-kind="primary" to="/backfills/new">
            {t('New backfill')}
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
            {s ? <State state={s} /> : t('All')}
          </Link>
        ))}
      </div>
      <Panel title={t('Backfills')} count={query.data ? shown.length : undefined}>
        <Loaded
          query={query}
          isEmpty={() => shown.length === 0}
          empty={
            <p>{t('No backfill is kept. One starts the runs of a schedule for instants of the past.')}</p>
          }
        >
          {() => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>{t('State')}</th>
                    <th>{t('Backfill')}</th>
                    <th>{t('Workflow')}</th>
                    <th>{t('Instants')}</th>
                    <th>{t('Progress')}</th>
                    <th className="num">{t('Failed')}</th>
                    <th>{t('Created')}</th>
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
                        {t('{from} to {to}', { from: clock(b.first), to: clock(b.last) })}
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
      {query.data?.next ? <p className="sub">{t('Only the newest 100 backfills are shown.')}</p> : null}
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
        {t('{busy} of {total}', { busy: count(b.ended), total: count(b.total) })}
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
    title: t('Cancel backfill {id}', { id: b.id }),
    text: t(
      '{total} instants will not be started. Runs that wait are stopped; {active} that have begun go on.',
      { total: count(b.total - b.started), active: count(b.active) },
    ),
    answer: t('Cancel the backfill'),
    danger: true,
    act: (_, key) => verb('cancel', key),
    done: t('The backfill is cancelled.'),
  }
  const { question, asked } = useQuestion({ cancel: () => (open ? cancel : undefined) })
  const [does, undoes] = b.state === 'paused' ? ['resume', 'pause'] : ['pause', 'resume']
  return (
    <>
      <Head
        label={t('Backfill {id}', { id: b.id })}
        title={
          <>
            {t('Backfill {id}', { id: b.id })} <State state={b.state} />
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
                      toast(
                        does === 'pause' ? t('The backfill is paused.') : t('The backfill is running again.'),
                        {
                          undo: () => act(() => verb(undoes)),
                        },
                      ),
                  )
                }
              >
                {b.state === 'paused' ? t('Resume') : t('Pause')}
              </VerbButton>
              <VerbButton
                verb="backfill.write"
                namespace={b.namespace}
                icon="stop"
                onPress={() => asked.open('cancel')}
              >
                {t('Cancel')}
              </VerbButton>
            </>
          ) : null
        }
      >
        <p className="row facts-line sub">
          <WorkflowLink name={b.workflow} />
          <span>{b.trigger ?? t('a list of instants')}</span>
          <span>{t('{from} to {to}', { from: clock(b.first), to: clock(b.last) })}</span>
          <span>{t('{runs} at a time', { runs: plural(b.parallel, 'run') })}</span>
          <span>{t('by {user}', { user: b.user })}</span>
        </p>
      </Head>
      <Panel>
        <div className="strip">
          <Progress b={b} />
          <p className="row sub">
            <span>{t('{n} active', { n: b.active })}</span>
            <span>{t('{n} failed', { n: b.failed })}</span>
            <span>{t('{n} to start', { n: b.total - b.started })}</span>
            {b.next_instant ? (
              <span>{rich('next: {time}', { time: <Clock time={b.next_instant} /> })}</span>
            ) : null}
            {b.failed > 0 ? (
              <Link to="/runs" search={{ backfill: String(b.id), state: 'failed' }}>
                {t('Failed runs: look and recover')}
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
      title={t('Instants')}
      actions={
        query.data?.next ? (
          <Link to="/backfills/$id" params={{ id: String(id) }} search={{ cursor: query.data.next }}>
            {t('Next 100')}
          </Link>
        ) : null
      }
    >
      <Loaded
        query={query}
        isEmpty={(d) => d.items.length === 0}
        empty={t('No instant has been started yet.')}
      >
        {({ items }) => (
          <div className="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th>{t('State')}</th>
                  <th>{t('Instant')}</th>
                  <th>{t('Run')}</th>
                  <th>{t('Cause')}</th>
                  <th className="num">{t('Took')}</th>
                </tr>
              </thead>
              <tbody>
                {items.map((r) => (
                  <tr key={r.instant}>
                    <td>
                      {r.state ? (
                        <State state={r.state} />
                      ) : (
                        <span className="muted">{t('no longer kept')}</span>
                      )}
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
