// The durations of the tasks of a workflow in several of its runs.
import type { Timeline } from '../api/types'

/**
 * Returns the duration of each task of a version in one run, in milliseconds. NaN means that the task did not
 * run. The attempts of a task are added up. A foreach task takes from the start of its first instance to the
 * end of its last one.
 */
export function durationsOf(t: Timeline, names: string[]): Float64Array {
  const took = new Float64Array(names.length).fill(Number.NaN)
  const numbers = new Map(names.map((name, i) => [name, i]))
  const spans = new Map<number, [from: number, to: number]>()
  t.task.forEach((task, i) => {
    const started = t.started[i] ?? -1
    if (started < 0) return
    const finished = (t.finished[i] ?? -1) < 0 ? t.now : (t.finished[i] as number)
    if (task < names.length) {
      took[task] = (Number.isNaN(took[task]!) ? 0 : took[task]!) + Math.max(0, finished - started)
      return
    }
    const instance = t.instances[task - names.length] ?? ''
    const foreach = numbers.get(instance.slice(0, instance.indexOf('.')))
    if (foreach === undefined) return
    const [from, to] = spans.get(foreach) ?? [started, finished]
    spans.set(foreach, [Math.min(from, started), Math.max(to, finished)])
  })
  for (const [task, [from, to]] of spans) took[task] = Math.max(0, to - from)
  return took
}

export type RowTimes = { most: number; median: number; last: number }

/**
 * Sums up a row of the grid. The columns are in order, the newest first. It returns undefined if the task ran
 * in none of them.
 */
export function rowTimes(columns: (Float64Array | undefined)[], task: number): RowTimes | undefined {
  const all = columns.map((c) => c?.[task] ?? Number.NaN).filter((ms) => !Number.isNaN(ms))
  if (all.length === 0) return undefined
  const sorted = [...all].sort((a, b) => a - b)
  return {
    most: sorted.at(-1) as number,
    median: sorted[(sorted.length - 1) >> 1] as number,
    last: all[0] as number,
  }
}

/**
 * A task counts as slow lately if its last run took half as long again as the median, and the difference is
 * more than noise.
 */
export const isSlower = (r: RowTimes) => r.last > 1.5 * r.median && r.last - r.median > 1000
