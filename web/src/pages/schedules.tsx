import { Link, useSearch } from '@tanstack/react-router'
import { path } from '../api/client'
import { useFires, useNext, useSchedules } from '../api/queries'
import type { Schedule } from '../api/types'
import { plainVerb } from '../api/verbs'
import { useNamespace, within } from '../app/namespace'
import { toast } from '../kit/dialog'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Clock, RuleWords, RunLink, State, Tabs, TriggerLink, WorkflowLink } from '../kit/parts'
import { useToastVerb, VerbButton } from '../kit/verbs'
import { useWatch } from '../live/live'
import { t } from '../text/t'
import { zoneOf } from './calendardata'
import { Head } from './head'
import { FireWhy } from './reasons'
import { SourceState } from './sourceparts'

const tabs = [
  ['/schedules', t('All')],
  ['/schedules/calendar', t('Calendar')],
  ['/schedules/next', t('Next##of a schedule')],
  ['/schedules/missed', t('Missed and late')],
  ['/backfills', t('Backfills')],
] as const

export function ScheduleTop({ here }: { here: string }) {
  return (
    <>
      <Head title={t('Schedules')} label={t('Schedules')} />
      <Tabs label={t('Views of the schedules')}>
        {tabs.map(([to, label]) => (
          <Link
            key={to}
            to={to}
            activeOptions={{ exact: true }}
            aria-current={to === here ? 'page' : undefined}
          >
            {label}
          </Link>
        ))}
      </Tabs>
    </>
  )
}

export function Schedules() {
  useWatch()
  const [ns] = useNamespace()
  const query = useSchedules()
  const shown = (query.data ?? []).filter((s) => within(ns, s.namespace))
  return (
    <>
      <ScheduleTop here="/schedules" />
      <Panel title={t('Triggers')} count={query.data ? shown.length : undefined}>
        <Loaded query={query} isEmpty={() => shown.length === 0} empty={t('No workflow has a trigger.')}>
          {() => <ScheduleTable all={shown} />}
        </Loaded>
      </Panel>
    </>
  )
}

export function ScheduleTable({ all }: { all: Schedule[] }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('State')}</th>
            <th>{t('Workflow')}</th>
            <th>{t('Trigger')}</th>
            <th>{t('Rule')}</th>
            <th>{t('Next##of a schedule')}</th>
            <th className="num">{t('Fired')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {all.map((s) => (
            <Row key={`${s.workflow} ${s.name}`} s={s} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Row({ s }: { s: Schedule }) {
  const { run: act } = useToastVerb()
  const paused = s.state === 'paused'
  const verb = (name: string) =>
    plainVerb(`${path('schedules', s.namespace, s.workflow.split('/').pop() ?? '', s.name)}:${name}`, {})
  const [does, undoes] = paused ? ['resume', 'pause'] : ['pause', 'resume']
  return (
    <tr>
      <td>
        <State state={s.state} />
      </td>
      <td className="nowrap">
        <WorkflowLink name={s.workflow} tab="triggers" />
      </td>
      <td className="nowrap">
        <TriggerLink workflow={s.workflow} name={s.name} />
      </td>
      <td>
        <RuleWords s={s} />
        {zoneOf(s) ? <span className="sub"> {zoneOf(s)}</span> : null}
      </td>
      <td className="nowrap">{s.source ? <SourceState s={s} /> : <Ago time={s.next} />}</td>
      <td className="num">{s.fired}</td>
      <td className="num">
        {s.state === 'ended' ? null : (
          <VerbButton
            verb="schedule.operate"
            namespace={s.namespace}
            onPress={() =>
              act(
                () => verb(does),
                () =>
                  toast(
                    paused
                      ? t('{name} of {workflow} is active.', s)
                      : t('{name} of {workflow} is paused.', s),
                    {
                      undo: () => act(() => verb(undoes)),
                    },
                  ),
              )
            }
          >
            {paused ? t('Resume') : t('Pause')}
          </VerbButton>
        )}
      </td>
    </tr>
  )
}

export function Next() {
  const [ns] = useNamespace()
  const { workflow } = useSearch({ from: '/schedules/next' })
  const query = useNext({ n: 200, workflow })
  const shown = (query.data?.items ?? []).filter((i) => within(ns, i.namespace))
  return (
    <>
      <ScheduleTop here="/schedules/next" />
      <Panel title={t('Next fires')}>
        <Loaded query={query} isEmpty={() => shown.length === 0} empty={t('No schedule will fire.')}>
          {() => (
            <table>
              <tbody>
                {shown.map((i) => (
                  <tr key={`${i.workflow} ${i.trigger} ${i.time}`}>
                    <td className="nowrap">
                      <Clock time={i.time} />
                    </td>
                    <td className="nowrap">
                      <Ago time={i.time} />
                    </td>
                    <td className="nowrap">
                      <WorkflowLink name={i.workflow} />
                    </td>
                    <td className="grow">{i.trigger}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </Loaded>
      </Panel>
    </>
  )
}

export function Missed() {
  const [ns] = useNamespace()
  const { outcome = 'missed' } = useSearch({ from: '/schedules/missed' })
  const query = useFires({ outcome, limit: 200 })
  const shown = (query.data?.items ?? []).filter((f) => within(ns, f.namespace))
  return (
    <>
      <ScheduleTop here="/schedules/missed" />
      <div className="row">
        {['missed', 'late', 'skipped', 'merged', 'fired'].map((o) => (
          <Link
            key={o}
            to="/schedules/missed"
            search={{ outcome: o }}
            className="chip"
            aria-current={o === outcome ? 'true' : undefined}
          >
            <State state={o} />
          </Link>
        ))}
      </div>
      <Panel title={t('Ledger')}>
        <Loaded query={query} isEmpty={() => shown.length === 0} empty={t('No instant had this outcome.')}>
          {() => (
            <div className="scroll" tabIndex={0}>
              <table>
                <tbody>
                  {shown.map((f) => (
                    <tr key={`${f.workflow} ${f.trigger} ${f.at}`}>
                      <td>
                        <State state={f.outcome} />
                      </td>
                      <td className="nowrap">
                        <Clock time={f.at} />
                      </td>
                      <td>
                        <WorkflowLink name={f.workflow} />{' '}
                        <TriggerLink workflow={f.workflow} name={f.trigger} />
                      </td>
                      <td className="sub">
                        <FireWhy f={f} />
                      </td>
                      <td>{f.run ? <RunLink id={f.run} /> : null}</td>
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
