// Small rules about alerts.
import type { Alert, AlertNotice } from '../api/types'
import type { Tone } from '../kit/states'

/** The full name of the workflow of an alert, as links take it. */
export const workflowOf = (a: Pick<Alert, 'namespace' | 'workflow'>): string =>
  a.namespace === 'default' ? a.workflow : `${a.namespace}/${a.workflow}`

/** Reports whether an alert is over. */
export const isOver = (a: Pick<Alert, 'state'>): boolean => a.state === 'resolved' || a.state === 'passed'

const tones: Record<string, Tone> = { critical: 'bad', error: 'bad', warning: 'warn' }

export const severityTone = (severity: string): Tone => tones[severity] ?? 'calm'

/** The part of the list that the address asks for. Without one, what is not over. */
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
  if (n.seq === 1) return 'Beginning'
  const last = Math.max(...all.map((m) => m.seq))
  return over && n.seq === last ? 'End' : `Message ${n.seq}`
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
