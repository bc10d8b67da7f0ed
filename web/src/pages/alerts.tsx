// Alerts: what happened, who was notified, and who takes care of it.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { get } from '../api/client'
import { quick } from '../api/queries'
import type { Alert, ListAlert } from '../api/types'
import { useQuestion } from '../app/ask'
import { useKeys } from '../app/keys'
import { useNamespace, within } from '../app/namespace'
import { TextFilter } from '../kit/filter'
import { count } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Button, RunLink, State } from '../kit/parts'
import { Confirm, VerbButton } from '../kit/verbs'
import { liveKey, useWatch } from '../live/live'
import { rich, t } from '../text/t'
import { isOver, partOf } from './alertdata'
import { About, AlertsTop, acknowledgeOf, Severity, Silent } from './alertparts'
import { useRowKeys } from './rowkeys'
import { SavedViews } from './savedviews'
import { aboutOf } from './silencedata'
import { NewSilence, NewSilenceButton } from './silenceform'

const pageSize = 100
const states = [undefined, 'open', 'acknowledged', 'resolved', 'all'] as const

export function Alerts() {
  useWatch()
  const [ns] = useNamespace()
  const { state, workflow, cursor } = useSearch({ from: '/alerts' })
  const navigate = useNavigate({ from: '/alerts' })
  const filter = { ...partOf(state), workflow, namespace: ns || undefined, cursor }
  const query = useQuery({
    queryKey: liveKey(['runs'], 'alerts of', filter),
    queryFn: ({ signal }) => get<ListAlert>('/alerts', { ...filter, limit: pageSize }, signal),
    refetchInterval: quick,
    placeholderData: keepPreviousData,
  })
  const shown = (query.data?.items ?? []).filter((a) => workflow || within(ns, a.namespace))
  const { question, asked } = useQuestion({
    ack: (id) => {
      const a = shown.find((i) => i.id === id)
      return a?.state === 'open' ? acknowledgeOf(a) : undefined
    },
  })
  const { at } = useRowKeys(
    shown.length,
    (i) => shown[i] && void navigate({ to: '/alerts/$id', params: { id: shown[i].id } }),
  )
  const current = shown[at]
  useKeys(current?.state === 'open' ? { a: () => asked.open('ack', current.id) } : {})
  const set = (change: { state?: string | undefined; workflow?: string | undefined; cursor?: undefined }) =>
    void navigate({ search: (old) => ({ ...old, cursor: undefined, ...change }), replace: true })
  const next = query.data?.next ?? undefined
  return (
    <>
      <AlertsTop
        here="/alerts"
        actions={
          <>
            <SavedViews />
            <NewSilenceButton quiet />
            <Link className="button" to="/admin/channels">
              {t('Channels')}
            </Link>
          </>
        }
      >
        {rich('A rule under {alerts} in a workflow file opens an alert. The next success resolves it.', {
          alerts: <code>alerts</code>,
        })}
      </AlertsTop>
      <div className="filters">
        <div className="row">
          {states.map((s) => (
            <button
              key={s ?? ''}
              type="button"
              className="chip"
              aria-pressed={state === s}
              onClick={() => set({ state: s })}
            >
              {s === undefined ? t('Not over') : s === 'all' ? t('All') : <State state={s} />}
            </button>
          ))}
          <TextFilter
            name="workflow"
            label={t('Workflow')}
            value={workflow}
            set={(v) => set({ workflow: v })}
            filter
          />
        </div>
      </div>
      <Panel title={t('Alerts')} count={query.data && `${count(shown.length)}${next ? '+' : ''}`}>
        <Loaded
          query={query}
          rows={6}
          isEmpty={() => shown.length === 0}
          empty={<None state={state} narrow={Boolean(workflow || ns || cursor)} />}
        >
          {() => <Table alerts={shown} at={at} acknowledge={(a) => asked.open('ack', a.id)} />}
        </Loaded>
        <footer className="pager">
          {cursor ? <Button onPress={() => set({})}>{t('Newest')}</Button> : null}
          {next ? (
            <Button onPress={() => void navigate({ search: (old) => ({ ...old, cursor: next }) })}>
              {t('Older')}
            </Button>
          ) : null}
        </footer>
      </Panel>
      <Confirm question={question} onClose={asked.close} />
      <NewSilence about={workflow ? aboutOf(workflow) : { namespace: ns || 'default' }} />
    </>
  )
}

function None({ state, narrow }: { state: string | undefined; narrow: boolean }) {
  if (narrow || state) return <p>{t('No alert fits the filter.')}</p>
  return (
    <p>
      {rich('No alert is open. A workflow with {code} opens one when a run fails.', {
        code: <code>alerts: [{'{on: failed, to: CHANNEL}'}]</code>,
      })}
    </p>
  )
}

function Table({
  alerts,
  at,
  acknowledge,
}: {
  alerts: Alert[]
  at: number
  acknowledge: (a: Alert) => void
}) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('State')}</th>
            <th>{t('Severity')}</th>
            <th>{t('Workflow')}</th>
            <th>{t('What happened')}</th>
            <th className="num">{t('Times')}</th>
            <th>{t('Since')}</th>
            <th>{t('Channels')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {alerts.map((a, i) => (
            <tr key={a.id} data-current={at === i || undefined}>
              <td className="nowrap">
                <Link to="/alerts/$id" params={{ id: a.id }}>
                  <State state={a.state} />
                </Link>
                <Whose a={a} />
                <Silent a={a} />
              </td>
              <td>
                <Severity of={a.severity} />
              </td>
              <td className="nowrap">
                <About a={a} />
                <div className="sub">{a.rule}</div>
              </td>
              <td className="what">
                <span lang="en">{a.reason ?? a.event}</span>
                <div className="sub">
                  {a.run ? rich('run {run}', { run: <RunLink id={a.run} /> }) : null}
                  {a.trigger ? ` ${t('trigger {trigger}', { trigger: a.trigger })}` : ''}
                </div>
              </td>
              <td className="num">{count(a.count)}</td>
              <td className="nowrap">
                <Ago time={a.opened_at ?? a.created_at} />
              </td>
              <td className="sub">{a.channels?.join(', ')}</td>
              <td className="num">
                {a.state === 'open' ? (
                  <VerbButton verb="alert.operate" namespace={a.namespace} onPress={() => acknowledge(a)}>
                    {t('Acknowledge')}
                  </VerbButton>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Who takes care of an alert, or what has ended it. */
function Whose({ a }: { a: Alert }) {
  const word = isOver(a) ? a.resolved : a.acknowledged
  if (!word) return null
  return (
    <div className="sub">
      {word.user ? t('by {user}', { user: word.user }) : word.run ? t('by a success') : ''}{' '}
      <Ago time={word.at} />
    </div>
  )
}
