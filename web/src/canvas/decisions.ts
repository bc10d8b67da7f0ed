// The decisions of people about a run while it was active, read from its history: pauses of the run and marks of tasks.
import type { Event } from '../api/types'

export type Decisions = {
  /** The beginning and the end of a pause, in milliseconds after the begin of the run. A pause that lasts has no end yet. */
  pauses: [from: number, to: number | undefined][]
  marks: { at: number; task: string; state: string; by: string | undefined }[]
}

/** The kinds of events that record decisions. */
export const decisionKinds = 'state,marked'

export const none: Decisions = { pauses: [], marks: [] }

/** Reads the decisions of a run from its history, oldest first. */
export function decisionsOf(
  events: Pick<Event, 'kind' | 'at' | 'task' | 'state' | 'actor'>[],
  t0: string,
): Decisions {
  const begin = Date.parse(t0)
  const out: Decisions = { pauses: [], marks: [] }
  for (const e of events) {
    const at = Math.max(0, Date.parse(e.at) - begin)
    if (e.kind === 'marked' && e.task !== null && e.state !== null)
      out.marks.push({ at, task: e.task, state: e.state, by: e.actor ?? undefined })
    if (e.kind !== 'state' || e.task !== null) continue
    const last = out.pauses.at(-1)
    const open = last !== undefined && last[1] === undefined
    if (e.state === 'paused' && !open) out.pauses.push([at, undefined])
    else if (e.state !== 'paused' && open) last[1] = at
  }
  return out
}

/** Whether the run was paused at a moment. */
export const isPaused = (d: Decisions, time: number): boolean =>
  d.pauses.some(([from, to]) => from <= time && (to === undefined || time < to))

/** The decision that changed a task, if a decision did. */
export const markAt = (d: Decisions, task: string | undefined, time: number) =>
  d.marks.find((m) => m.task === task && Math.abs(m.at - time) < 1)
