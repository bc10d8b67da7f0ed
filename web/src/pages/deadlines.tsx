// The deadlines of a run, which follow from the rules that watch its time, and the alert rules of a workflow.
import { useQuery } from '@tanstack/react-query'
import { get, path } from '../api/client'
import { hasSomewhere, useMe } from '../api/me'
import { slow } from '../api/queries'
import type { AlertRule, Deadline, ListDeadline, Run } from '../api/types'
import { duration } from '../kit/format'
import { Panel } from '../kit/panel'
import { Ago, Clock, State } from '../kit/parts'
import { isActive } from '../kit/states'
import { liveKey } from '../live/live'
import { rich, t } from '../text/t'
import { watchOf } from './alertdata'
import { Severity } from './alertparts'

const useDeadlines = (run: Run) => {
  const me = useMe()
  return useQuery({
    queryKey: liveKey([`run ${run.id}`], 'deadlines'),
    queryFn: ({ signal }) => get<ListDeadline>(path('runs', run.id, 'deadlines'), {}, signal),
    refetchInterval: isActive(run.state) ? slow : false,
    enabled: me !== undefined && hasSomewhere(me, 'alert.read'),
  })
}

const lookOf = (d: Deadline) => (d.state === 'passed' ? 'overdue' : d.state)

const goals: Record<Deadline['goal'], string> = {
  success: t('succeed'),
  end: t('end'),
  start: t('start'),
}

/** The deadline that matters now, in the head of a run: one that has passed, or else the next one. */
export function NextDeadline({ run }: { run: Run }) {
  const all = useDeadlines(run).data?.items ?? []
  const passed = all.find((d) => d.state === 'passed')
  const [next] = all
    .filter((d) => d.state === 'due' && isActive(run.state))
    .sort((a, b) => (a.due_at ?? '').localeCompare(b.due_at ?? ''))
  const d = passed ?? next
  if (!d?.due_at) return null
  return (
    <span className="row sub" title={t('Rule {rule}', { rule: d.rule })}>
      {passed ? (
        <State state={d.event === 'slow' ? 'slow' : 'late'} />
      ) : (
        rich('must {goal} by {time}', { goal: goals[d.goal], time: <Clock time={d.due_at} /> })
      )}
    </span>
  )
}

/** Every deadline of a run. */
export function DeadlinesOf({ run }: { run: Run }) {
  const all = useDeadlines(run).data?.items ?? []
  if (all.length === 0) return null
  return (
    <Panel title={t('Deadlines')} count={all.length}>
      <div className="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th>{t('State')}</th>
              <th>{t('Rule')}</th>
              <th>{t('Must')}</th>
              <th>{t('By')}</th>
              <th>{t('Channels')}</th>
            </tr>
          </thead>
          <tbody>
            {all.map((d) => (
              <tr key={d.rule}>
                <td>
                  <State state={lookOf(d)} />
                </td>
                <td>{d.rule}</td>
                <td className="nowrap">
                  {goals[d.goal]}
                  {d.event === 'slow' ? <span className="sub"> {t('or it is slow')}</span> : null}
                </td>
                <td className="nowrap">
                  {d.due_at ? (
                    <>
                      <Clock time={d.due_at} />{' '}
                      <span className="sub">
                        <Ago time={d.due_at} />
                      </span>
                    </>
                  ) : (
                    <span className="sub">
                      {d.state === 'ahead'
                        ? t('counts from the start')
                        : t('fewer than 5 runs have succeeded')}
                    </span>
                  )}
                </td>
                <td className="sub">{d.channels?.join(', ')}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}

/** The alert rules of a workflow. */
export function RulesOf({ rules }: { rules: AlertRule[] }) {
  return (
    <Panel title={t('Alert rules')} count={rules.length}>
      {rules.length === 0 ? (
        <p className="empty">
          <span>
            {rich('The workflow has no rules: nobody is notified of it. Add {code} to its file.', {
              code: <code>alerts: [{'{on: failed, to: CHANNEL}'}]</code>,
            })}
          </span>
        </p>
      ) : (
        <div className="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>{t('Rule')}</th>
                <th>{t('Severity')}</th>
                <th>{t('Watches')}</th>
                <th>{t('Channels')}</th>
                <th>{t('Escalation')}</th>
              </tr>
            </thead>
            <tbody>
              {rules.map((r) => (
                <tr key={r.name}>
                  <td className="nowrap">{r.name}</td>
                  <td>
                    <Severity of={r.severity} />
                  </td>
                  <td>
                    {watchOf(r)}
                    {r.message ? <div className="sub">{r.message}</div> : null}
                  </td>
                  <td>{r.channels?.join(', ')}</td>
                  <td className="sub">
                    {r.escalation?.map((s) => (
                      <div key={s.seconds}>
                        {t('after {time}: {channels}', {
                          time: duration(s.seconds * 1000),
                          channels: s.channels?.join(', ') ?? '',
                        })}
                      </div>
                    ))}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}
