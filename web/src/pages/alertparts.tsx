// Parts of alerts that several pages show.
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { path, post } from '../api/client'
import { useOpenAlerts } from '../api/queries'
import type { Alert, AlertDetail } from '../api/types'
import { plural } from '../kit/format'
import { State, Tabs, WorkflowLink } from '../kit/parts'
import { labelIn } from '../kit/states'
import type { Question } from '../kit/verbs'
import { t } from '../text/t'
import { aboutAlert, isOver, severityName, severityTone, workflowOf } from './alertdata'
import { Head } from './head'

const tabs = [
  ['/alerts', t('Alerts')],
  ['/silences', t('Silences')],
] as const

/** The head of the lists of alerts and of silences. */
export function AlertsTop({
  here,
  actions,
  children,
}: {
  here: (typeof tabs)[number][0]
  actions: ReactNode
  children: ReactNode
}) {
  const title = here === '/alerts' ? t('Alerts') : t('Silences')
  return (
    <>
      <Head title={title} label={title} actions={actions}>
        <p className="sub">{children}</p>
      </Head>
      <Tabs label={t('Alerts and silences')}>
        {tabs.map(([to, label]) => (
          <Link key={to} to={to} aria-current={to === here ? 'page' : undefined}>
            {label}
          </Link>
        ))}
      </Tabs>
    </>
  )
}

export const act = (id: string, verb: 'ack' | 'resolve', reason: string) =>
  post<AlertDetail>(`${path('alerts', id)}:${verb}`, reason ? { reason } : {})

export const acknowledgeOf = (a: Alert): Question => ({
  title: t('Acknowledge the alert of {what}', { what: aboutAlert(a) }),
  text: a.workflow
    ? t(
        'The others see that you take care of it. No message is sent. The next success of the workflow resolves the alert.',
      )
    : t(
        'The others see that you take care of it. No message is sent. The end of the condition resolves the alert.',
      ),
  answer: t('Acknowledge'),
  reason: 'optional',
  act: (reason) => act(a.id, 'ack', reason),
  done: t('You take care of the alert of {what}.', { what: aboutAlert(a) }),
})

export const resolveOf = (a: Alert): Question => ({
  title: t('Resolve the alert of {what}', { what: aboutAlert(a) }),
  text: t('Its channels are notified of the end. The next failure opens a new alert.'),
  answer: t('Resolve the alert'),
  danger: true,
  reason: 'optional',
  act: (reason) => act(a.id, 'resolve', reason),
  done: t('The alert of {what} is resolved.', { what: aboutAlert(a) }),
})

/** Shows that a silence suppressed the messages of an alert. */
export function Silent({ a }: { a: Alert }) {
  if (!a.silence || a.silence.told || isOver(a)) return null
  return (
    <div>
      <Link to="/silences">
        <State state="silent" />
      </Link>
    </div>
  )
}

export function Severity({ of }: { of: string }) {
  return (
    <span className="state" data-tone={severityTone(of)}>
      {severityName(of)}
    </span>
  )
}

/** Links from a run or a workflow to its open alerts. It shows nothing without an open alert. */
export function AlertMark({ alerts }: { alerts: Alert[] | undefined }) {
  const [first] = alerts ?? []
  if (!alerts || !first) return null
  const state = alerts.some((a) => a.state === 'open') ? 'open' : 'acknowledged'
  const text =
    alerts.length === 1 ? t('Alert {state}', { state: labelIn(state) }) : plural(alerts.length, 'alert')
  const by = alerts.length === 1 ? first.acknowledged?.user : undefined
  return (
    <Link
      className="alert-mark"
      {...(alerts.length === 1
        ? { to: '/alerts/$id', params: { id: first.id } }
        : { to: '/alerts', search: { workflow: workflowOf(first) } })}
    >
      <State state={state}>{by ? t('{text} by {by}', { text, by }) : text}</State>
    </Link>
  )
}

/** The mark of a workflow's open alerts. */
export function AlertsOf({ workflow }: { workflow: string }) {
  return <AlertMark alerts={useOpenAlerts(workflow).data?.items} />
}

/** What an alert is about, as a link if it is a workflow. */
export function About({ a }: { a: Alert }) {
  if (!a.workflow) return <span>{aboutAlert(a)}</span>
  return (
    <>
      <WorkflowLink name={workflowOf(a)} />
      {a.subject ? <span className="sub"> {a.subject}</span> : null}
    </>
  )
}
