import type { Reason } from '../api/types'

/** Finds the task that a reason is about in the address of its actions: …/tasks/NAME:approve. */
export function taskOfAction(reason: Pick<Reason, 'actions' | 'args'>): string | undefined {
  const named = (reason.args as Record<string, unknown> | undefined)?.task
  if (typeof named === 'string') return named
  for (const action of reason.actions ?? []) {
    const m = action.path.match(/\/tasks\/(.+):\w+$/)
    if (m?.[1]) return decodeURIComponent(m[1])
  }
  return undefined
}

/** What an approval asks, as its workflow words it. */
export function messageOf(reason: Pick<Reason, 'args'>): string | undefined {
  const text = (reason.args as Record<string, unknown> | undefined)?.message
  return typeof text === 'string' && text !== '' ? text : undefined
}
