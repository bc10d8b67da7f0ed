// One alert: its subject, and the messages to each channel with their tries.
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { get, path } from '../api/client'
import { useCan } from '../api/me'
import { quick, useWorkflow } from '../api/queries'
import type { AlertDetail, AlertWord } from '../api/types'
import { useQuestion } from '../app/ask'
import { count, duration } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Clock, Command, Field, RunLink, State } from '../kit/parts'
import { Confirm, VerbButton } from '../kit/verbs'
import { liveKey, useWatch } from '../live/live'
import { rich, t } from '../text/t'
import { aboutAlert, isOver, messageOf, stepsOf, workflowOf } from './alertdata'
import { About, acknowledgeOf, resolveOf, Severity, Silent } from './alertparts'
import { Head } from './head'
import { NewSilence } from './silenceform'

export function AlertPage() {
  const { id } = useParams({ from: '/alerts/$id' })
  useWatch()
  const query = useQuery({
    queryKey: liveKey(['runs'], 'alert', id),
    queryFn: ({ signal }) => get<AlertDetail>(path('alerts', id), {}, signal),
    refetchInterval: quick,
  })
  return (
    <Loaded query={query} rows={10}>
      {(a) => <One a={a} />}
    </Loaded>
  )
}

function One({ a }: { a: AlertDetail }) {
  const { question, asked } = useQuestion({
    ack: () => (a.state === 'open' ? acknowledgeOf(a) : undefined),
    resolve: () => (isOver(a) ? undefined : resolveOf(a)),
  })
  return (
    <>
      <Head
        title={rich('{alert} of {what}', {
          alert: <Link to="/alerts">{t('Alert')}</Link>,
          what: <About a={a} />,
        })}
        label={t('Alert of {what}', { what: aboutAlert(a) })}
        actions={
          isOver(a) ? null : (
            <>
              {a.state === 'open' ? (
                <VerbButton
                  verb="alert.operate"
                  namespace={a.namespace}
                  kind="primary"
                  onPress={() => asked.open('ack')}
                >
                  {t('Acknowledge…')}
                </VerbButton>
              ) : null}
              <VerbButton verb="alert.operate" namespace={a.namespace} onPress={() => asked.open('resolve')}>
                {t('Resolve…')}
              </VerbButton>
              <VerbButton verb="alert.operate" namespace={a.namespace} onPress={() => asked.open('silence')}>
                {t('Silence…')}
              </VerbButton>
            </>
          )
        }
      >
        <p className="row facts-line">
          <State state={a.state} />
          <Severity of={a.severity} />
          <Silent a={a} />
          <span className="sub">
            {rich('since {time}', { time: <Ago time={a.opened_at ?? a.created_at} /> })}
          </span>
        </p>
      </Head>
      <Panel title={t('What happened')}>
        <dl className="facts pad">
          <Field label={t('Reason')}>
            <span lang="en">{a.reason ?? a.event}</span>
          </Field>
          {a.message ? <Field label={t('Message of the rule')}>{a.message}</Field> : null}
          <Field label={t('Rule')}>{a.rule}</Field>
          <Field label={t('Newest event')}>
            {a.event}
            {a.count > 1 ? (
              <span className="sub"> · {t('{times} in a row', { times: count(a.count) })}</span>
            ) : null}
          </Field>
          {a.run ? (
            <Field label={t('Run')}>
              <RunLink id={a.run} />
            </Field>
          ) : null}
          {a.trigger ? <Field label={t('Trigger')}>{a.trigger}</Field> : null}
          <Field label={t('Opened')}>
            <Clock time={a.opened_at} />
          </Field>
          {a.due_at ? (
            <Field label={t('Deadline')}>
              <Clock time={a.due_at} />
            </Field>
          ) : null}
          {a.silence ? (
            <Field label={t('Silence')}>
              {rich(
                a.silence.told ? 'until {time} by {user}' : 'no channel was told: until {time} by {user}',
                { time: <Clock time={a.silence.until} />, user: a.silence.user },
              )}
              {a.silence.reason ? `: ${a.silence.reason}` : ''} · <Link to="/silences">{t('silences')}</Link>
            </Field>
          ) : null}
          {a.acknowledged ? (
            <Field label={t('Acknowledged')}>
              <Word of={a.acknowledged} />
            </Field>
          ) : null}
          {a.resolved ? (
            <Field label={t('Resolved')}>
              <Word of={a.resolved} />
            </Field>
          ) : null}
        </dl>
      </Panel>
      {a.workflow ? <Escalation a={a} /> : null}
      <Notices a={a} />
      <Command text={`skein alert get ${a.id}`} />
      <Confirm question={question} onClose={asked.close} />
      <NewSilence about={{ namespace: a.namespace, workflow: a.workflow, rule: a.rule }} />
    </>
  )
}

/** The steps of the escalation: those that were taken, and those that come unless the alert is acknowledged. */
function Escalation({ a }: { a: AlertDetail }) {
  const rule = useWorkflow(workflowOf(a)).data?.alerts?.find((r) => r.name === a.rule)
  const steps = stepsOf(a, rule?.escalation ?? [])
  if (steps.length === 0) return null
  return (
    <Panel
      title={t('Escalation')}
      count={t('{busy} of {total}', { busy: a.escalations, total: steps.length })}
    >
      <div className="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th>{t('State')}</th>
              <th>{t('Step')}</th>
              <th>{t('After the first message')}</th>
              <th>{t('Channels')}</th>
              <th>{t('When')}</th>
            </tr>
          </thead>
          <tbody>
            {steps.map((s, i) => (
              <tr key={i}>
                <td>
                  <State state={s.state}>{stepWords[s.state]}</State>
                </td>
                <td>{i + 1}</td>
                <td className="nowrap">{s.seconds === undefined ? '–' : duration(s.seconds * 1000)}</td>
                <td>{s.channels.join(', ')}</td>
                <td className="nowrap">
                  {s.at ? <Clock time={s.at} /> : <span className="muted">–</span>}
                  {s.at && s.state === 'planned' ? (
                    <div className="sub">
                      <Ago time={s.at} />
                    </div>
                  ) : null}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}

const stepWords = { sent: t('Told'), planned: t('To come'), cancelled: t('Not needed') }

function Word({ of: w }: { of: AlertWord }) {
  return (
    <>
      <Clock time={w.at} />
      {w.user ? ` ${t('by {user}', { user: w.user })}` : ''}
      {w.run ? (
        <> {rich('by {run}', { run: <RunLink id={w.run}>{t('the run that succeeded')}</RunLink> })}</>
      ) : null}
      {w.reason ? `: ${w.reason}` : ''}
    </>
  )
}

function Notices({ a }: { a: AlertDetail }) {
  const can = useCan()('alert.channel', a.namespace)
  const all = a.notices ?? []
  return (
    <Panel title={t('Messages')} count={all.length}>
      {all.length === 0 ? (
        <p className="empty">{t('No channel was told yet.')}</p>
      ) : (
        <div className="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>{t('State')}</th>
                <th>{t('Message')}</th>
                <th>{t('Channel')}</th>
                <th className="num">{t('Tries')}</th>
                <th>{t('Made')}</th>
                <th>{t('Sent, or next try')}</th>
                <th>{t('Error of the last try')}</th>
              </tr>
            </thead>
            <tbody>
              {all.map((n) => (
                <tr key={`${n.seq} ${n.channel}`}>
                  <td>
                    <State state={n.state} />
                  </td>
                  <td className="nowrap">{messageOf(n, all, isOver(a))}</td>
                  <td className="nowrap">
                    {can ? (
                      <Link to="/admin/channels" search={{ q: `${a.namespace}/${n.channel}` }}>
                        {n.channel}
                      </Link>
                    ) : (
                      n.channel
                    )}
                  </td>
                  <td className="num">{count(n.tries)}</td>
                  <td className="nowrap">
                    <Clock time={n.created_at} />
                  </td>
                  <td className="nowrap">
                    {n.ended_at ? <Clock time={n.ended_at} /> : <Ago time={n.next_at} />}
                  </td>
                  <td className="what">{n.error ?? <span className="muted">–</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}
