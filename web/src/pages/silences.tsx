// Silences: times in which no channel is notified of a new alert.
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { all, slow } from '../api/queries'
import type { Silence } from '../api/types'
import { useQuestion } from '../app/ask'
import { useNamespace } from '../app/namespace'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Clock, Command, State, WorkflowLink } from '../kit/parts'
import { Confirm, VerbButton } from '../kit/verbs'
import { useWatch } from '../live/live'
import { t } from '../text/t'
import { AlertsTop } from './alertparts'
import { endOf, NewSilence, NewSilenceButton, silencesKey } from './silenceform'

export function Silences() {
  useWatch()
  const [ns] = useNamespace()
  const { state } = useSearch({ from: '/silences' })
  const navigate = useNavigate({ from: '/silences' })
  const filter = { namespace: ns || undefined, all: state === 'all' }
  const query = useQuery({
    queryKey: [...silencesKey, filter],
    queryFn: ({ signal }) => all<Silence>('/silences', filter, signal),
    refetchInterval: slow,
  })
  const items = query.data ?? []
  const { question, asked } = useQuestion({
    end: (id) => {
      const s = items.find((i) => i.id === id)
      return s?.state === 'active' ? endOf(s) : undefined
    },
  })
  return (
    <>
      <AlertsTop here="/silences" actions={<NewSilenceButton />}>
        {t(
          'An alert that opens in a silence is recorded and shown, and no channel is notified. A silence ends by itself.',
        )}
      </AlertsTop>
      <div className="filters">
        <div className="row">
          {[undefined, 'all'].map((s) => (
            <button
              key={s ?? ''}
              type="button"
              className="chip"
              aria-pressed={state === s}
              onClick={() => void navigate({ search: (old) => ({ ...old, state: s }), replace: true })}
            >
              {s ? t('Also those of the last 7 days') : t('Active')}
            </button>
          ))}
        </div>
      </div>
      <Panel title={t('Silences')} count={query.data?.length}>
        <Loaded
          query={query}
          isEmpty={(d) => d.length === 0}
          empty={
            <>
              <p>{t('No silence is active: every alert is told. Make one here, or so:')}</p>
              <Command text='skein alert silence --workflow NAME --for 2h --reason "the warehouse moves"' />
            </>
          }
        >
          {() => <Table silences={items} end={(s) => asked.open('end', s.id)} />}
        </Loaded>
      </Panel>
      <NewSilence about={{ namespace: ns || 'default' }} />
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

function Table({ silences, end }: { silences: Silence[]; end: (s: Silence) => void }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('State')}</th>
            <th>{t('About')}</th>
            <th>{t('Rule')}</th>
            <th>{t('Why')}</th>
            <th>{t('Until')}</th>
            <th>{t('By')}</th>
            <th>{t('Made')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {silences.map((s) => (
            <tr key={s.id}>
              <td>
                <State state={s.state === 'over' ? 'ended' : 'silent'} />
              </td>
              <td>
                <About s={s} />
              </td>
              <td>{s.rule ?? <span className="muted">{t('all')}</span>}</td>
              <td className="what">{s.reason}</td>
              <td className="nowrap">
                <Clock time={s.until} />
                {s.state === 'active' ? (
                  <div className="sub">
                    <Ago time={s.until} />
                  </div>
                ) : null}
              </td>
              <td className="sub">{s.user}</td>
              <td className="nowrap sub">
                <Ago time={s.created_at} />
              </td>
              <td className="num">
                {s.state === 'active' ? (
                  <VerbButton
                    verb="alert.operate"
                    namespace={s.namespace}
                    kind="quiet"
                    onPress={() => end(s)}
                  >
                    {t('End…')}
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

function About({ s }: { s: Silence }) {
  if (s.namespace === '*') return <strong>{t('everything')}</strong>
  if (!s.workflow) return <>{t('all of {namespace}', { namespace: s.namespace })}</>
  return <WorkflowLink name={s.namespace === 'default' ? s.workflow : `${s.namespace}/${s.workflow}`} />
}
