// What differs between two runs of a workflow.
import type { Run, Task } from '../api/types'

export type Difference = { what: string; a: string; b: string }

const shown = (value: unknown) =>
  value === undefined ? '–' : typeof value === 'string' && value !== '' ? value : JSON.stringify(value)

/** Lists the parameters that differ. */
export function paramChanges(a: Run, b: Run): Difference[] {
  const [of, to] = [a.params ?? {}, b.params ?? {}]
  return [...new Set([...Object.keys(of), ...Object.keys(to)])]
    .filter((k) => JSON.stringify(of[k]) !== JSON.stringify(to[k]))
    .sort()
    .map((k) => ({ what: k, a: shown(of[k]), b: shown(to[k]) }))
}

export type TaskPair = {
  name: string
  a: Task | undefined
  b: Task | undefined
  /** The duration of the last attempt in milliseconds; undefined if no attempt has ended. */
  tookA: number | undefined
  tookB: number | undefined
  /**
   * The importance for a reader: pairs with different states come first, then those with different workers or
   * longer times.
   */
  weight: number
}

function took(task: Task | undefined): number | undefined {
  const last = task?.attempts?.at(-1)
  if (!last?.started_at || !last.finished_at) return undefined
  return Date.parse(last.finished_at) - Date.parse(last.started_at)
}

const slowerBy = 1.5
const noise = 1000

/** Pairs the tasks of two runs by name, those that differ most first. */
export function taskPairs(a: Task[], b: Task[]): TaskPair[] {
  const of = new Map(a.map((t) => [t.name, t]))
  const names = [...new Set([...b.map((t) => t.name), ...of.keys()])]
  const to = new Map(b.map((t) => [t.name, t]))
  const pairs = names.map((name): TaskPair => {
    const [x, y] = [of.get(name), to.get(name)]
    const [tookA, tookB] = [took(x), took(y)]
    const more = (tookB ?? 0) - (tookA ?? 0)
    const slower = tookA !== undefined && tookB !== undefined && more > noise && tookB > slowerBy * tookA
    const worker = x?.attempts?.at(-1)?.node !== y?.attempts?.at(-1)?.node
    const state = x?.state !== y?.state ? (y?.state === 'failed' ? 3e9 : 2e9) : 0
    return { name, a: x, b: y, tookA, tookB, weight: state + (slower ? 1e9 + more : 0) + (worker ? 1 : 0) }
  })
  return pairs.sort((p, q) => q.weight - p.weight)
}
