// Small rules about alerts.
import type { Alert, AlertDetail, AlertNotice, AlertRule, EscalationStep } from '../api/types'
import { duration } from '../kit/format'
import type { Tone } from '../kit/states'
import { t } from '../text/t'

/** The full name of the workflow of an alert, in the form for links. */
export const workflowOf = (a: Pick<Alert, 'namespace' | 'workflow'>): string =>
  a.namespace === 'default' ? a.workflow : `${a.namespace}/${a.workflow}`

/** Names what an alert is about: a workflow and the group of its events, or the cluster and a part of it. */
export const aboutAlert = (a: Pick<Alert, 'namespace' | 'workflow' | 'subject'>): string =>
  a.workflow
    ? a.subject
      ? `${workflowOf(a)} (${a.subject})`
      : workflowOf(a)
    : a.subject
      ? t('the cluster: {subject}', { subject: a.subject })
      : t('the cluster')

/** Reports whether an alert is over. */
export const isOver = (a: Pick<Alert, 'state'>): boolean => a.state === 'resolved' || a.state === 'passed'

const tones: Record<string, Tone> = { critical: 'bad', error: 'bad', warning: 'warn' }

const severities: Record<string, string> = {
  critical: t('critical'),
  error: t('error'),
  warning: t('warning'),
  info: t('info'),
}

/** Names a severity, which files write in English. */
export const severityName = (severity: string): string => severities[severity] ?? severity

export const severityTone = (severity: string): Tone => tones[severity] ?? 'calm'

/**
 * The part of the list that the address names. Without a state in the address, the alerts that are not over.
 */
export function partOf(state: string | undefined): { state?: string; all?: boolean } {
  if (state === 'all') return { all: true }
  return state ? { state } : {}
}

/** Names the message that a notice stands for. */
export function messageOf(
  n: Pick<AlertNotice, 'seq'>,
  all: Pick<AlertNotice, 'seq'>[],
  over: boolean,
): string {
  if (n.seq === 1) return t('Beginning')
  const last = Math.max(...all.map((m) => m.seq))
  return over && n.seq === last ? t('End') : t('Message {seq}', { seq: n.seq })
}

/** Groups alerts by the full name of their workflow. */
export function byWorkflow(alerts: Alert[]): Map<string, Alert[]> {
  const by = new Map<string, Alert[]>()
  for (const a of alerts) {
    const name = workflowOf(a)
    by.set(name, [...(by.get(name) ?? []), a])
  }
  return by
}

export type Step = {
  state: 'sent' | 'planned' | 'cancelled'
  /** Seconds after the first message; undefined if the rule has no such step any more. */
  seconds?: number
  channels: string[]
  at?: string
}

/**
 * The steps of an alert's escalation. The steps that were taken follow from its messages: the first message
 * is the beginning, and the last one may be the end. The steps after them follow from the present rule.
 */
export function stepsOf(
  a: Pick<AlertDetail, 'state' | 'escalations' | 'escalates_at' | 'notices'>,
  rule: EscalationStep[],
): Step[] {
  const notices = a.notices ?? []
  const begun = notices.find((n) => n.seq === 1)?.created_at
  const steps: Step[] = []
  for (let i = 0; i < Math.max(a.escalations, rule.length); i++) {
    const said = rule[i]
    const seconds = said ? { seconds: said.seconds } : {}
    if (i < a.escalations) {
      const told = notices.filter((n) => n.seq === i + 2)
      const at = told[0] ? { at: told[0].created_at } : {}
      steps.push({ state: 'sent', ...seconds, channels: told.map((n) => n.channel), ...at })
      continue
    }
    const next = i === a.escalations ? a.escalates_at : undefined
    const at =
      next ?? (begun && said ? new Date(Date.parse(begun) + said.seconds * 1000).toISOString() : undefined)
    const open = a.state === 'open'
    steps.push({
      state: open ? 'planned' : 'cancelled',
      ...seconds,
      channels: said?.channels ?? [],
      ...(open && at ? { at } : {}),
    })
  }
  return steps
}

/** Describes in words what a rule watches. */
export function watchOf(r: Pick<AlertRule, 'on' | 'tasks' | 'deadline' | 'than' | 'after' | 'each'>): string {
  const d = r.deadline
  if (d) {
    const goal = { success: t('has succeeded'), end: t('has ended'), start: t('has started') }[d.for]
    if (d.by) return t('late unless it {goal} by {time}', { goal, time: `${d.by} ${d.timezone ?? 'UTC'}` })
    const from = { queued: t('its creation'), started: t('its start') }[d.from ?? ''] ?? t('its instant')
    return t('late unless it {goal} within {time} of {from}', {
      goal,
      time: duration(d.seconds * 1000),
      from,
    })
  }
  const than = r.than
  if (than)
    return than.seconds > 0
      ? t('slow if it runs longer than {time}', { time: duration(than.seconds * 1000) })
      : t('slow if it runs longer than {times} × p{percentile} of the last runs', {
          times: than.times,
          percentile: than.percentile,
        })
  const named = (r.on ?? []).join(', ')
  const events = r.tasks?.length
    ? t('{events} of {tasks}', { events: named, tasks: r.tasks.join(', ') })
    : named
  if (r.each) return t('{events}, each time', { events })
  return r.after > 1 ? t('{events}, {times} in a row', { events, times: r.after }) : events
}
