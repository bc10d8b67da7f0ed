import { path } from '../api/client'
import type { Queue, Run } from '../api/types'
import { plural } from '../kit/format'

/** The path of a queue: NAME, which all namespaces share, or NAMESPACE/NAME. */
export const queuePath = (name: string): string => path('queues', ...name.split('/'))

/** The namespace of a queue; the empty text means that all namespaces share the queue. */
export const spaceOf = (name: string): string => (name.includes('/') ? (name.split('/')[0] ?? '') : '')

/** The part of the limit that is in use, from 0 to 1; undefined without a limit. */
export const shareOf = (held: number, limit: number | null): number | undefined =>
  limit === null ? undefined : limit === 0 ? 1 : Math.min(1, held / limit)

/** Describes in words the runs and tasks that wait for a slot. They wait in separate lines. */
export function waitersOf(q: Pick<Queue, 'waiting'> & { tasks: Pick<Queue['tasks'], 'waiting'> }): string {
  const parts: string[] = []
  if (q.waiting > 0) parts.push(plural(q.waiting, 'run'))
  if (q.tasks.waiting > 0) parts.push(plural(q.tasks.waiting, 'task'))
  return parts.join(', ') || '0'
}

/** The runs that wait in a queue, in the order of their positions. A line is named QUEUE/KEY. */
export const lineOf = (waiting: Run[], queue: string): Run[] =>
  waiting
    .filter((r) => r.position?.line.startsWith(`${queue}/`))
    .sort(
      (a, b) =>
        (a.position?.line ?? '').localeCompare(b.position?.line ?? '') ||
        (a.position?.number ?? Number.MAX_SAFE_INTEGER) - (b.position?.number ?? Number.MAX_SAFE_INTEGER),
    )

/** The queues with waiting runs or tasks, those with the most first. */
export const crowded = (queues: Queue[]): Queue[] => {
  const n = (q: Queue) => q.waiting + q.tasks.waiting
  return queues.filter((q) => n(q) > 0).sort((a, b) => n(b) - n(a))
}
