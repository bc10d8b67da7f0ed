// The states of the tasks of a run at any moment, made from the times of the attempts and from the decisions
// of people.
import type { Timeline } from '../api/types'
import { type Decisions, none } from './decisions'
import type { Drawing, States } from './drawing'

export type Replay = {
  /** The end of the run, or the present if it has not ended, in milliseconds after the begin of the run. */
  end: number
  /**
   * The times of the changes, in ascending order. The two arrays below have the task and the new state of
   * each change.
   */
  times: Float64Array
  tasks: Uint32Array
  to: Uint8Array
  names: string[]
  now: States
}

const pending = 0

/**
 * Makes the changes of a run. Between two attempts a task waits for its retry. A task without an attempt, such as one
 * that was skipped, has its last state from the moment when all that it needs had ended, or when a person marked it.
 */
export function replayOf(t: Timeline, d: Drawing, now: States, decided: Decisions = none): Replay {
  const names = ['pending', ...now.names.filter((n) => n !== 'pending')]
  const number = (name: string) => {
    const at = names.indexOf(name)
    return at >= 0 ? at : names.push(name) - 1
  }
  const changes: [time: number, order: number, task: number, state: number][] = []
  const add = (time: number, task: number, state: string) => {
    if (time >= 0 && task < now.of.length) changes.push([time, changes.length, task, number(state)])
  }
  const last = (task: number) => now.names[now.of[task] ?? 0] ?? 'pending'
  const attempts = attemptsOf(t)
  const marks = marksOf(d, decided)
  for (let task = 0; task < now.of.length; task++) {
    const own = attempts.get(task)
    if (own) played(t, task, own, endOf(t, own, marks.get(task)) ?? last(task), add)
  }
  for (const [foreach, ranges] of now.instances) instancesOf(t, foreach, ranges, attempts, last(foreach), add)
  for (let task = 0; task < d.n; task++) {
    if (attempts.has(task) || now.instances.has(task)) continue
    add(t.ready[task] ?? -1, task, marks.has(task) ? 'ready' : last(task))
  }
  for (const [task, all] of marks) for (const m of all) add(m.at, task, m.state)
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1])
  return {
    end: Math.max(1, t.now),
    times: Float64Array.from(changes, (c) => c[0]),
    tasks: Uint32Array.from(changes, (c) => c[2]),
    to: Uint8Array.from(changes, (c) => c[3]),
    names,
    now,
  }
}

/** The marks by task. */
function marksOf(d: Drawing, { marks }: Decisions): Map<number, Decisions['marks']> {
  const by = new Map<number, Decisions['marks']>()
  if (marks.length === 0) return by
  const numbers = new Map(d.names.map((name, i) => [name, i]))
  for (const m of marks) {
    const task = numbers.get(m.task)
    if (task === undefined) continue
    by.set(task, [...(by.get(task) ?? []), m])
  }
  return by
}

/** The state in which the last attempt left its task, if a person marked the task afterwards. */
function endOf(t: Timeline, own: number[], marks: Decisions['marks'] | undefined): string | undefined {
  const last = own.at(-1)
  if (last === undefined || !marks?.some((m) => m.at >= (t.finished[last] ?? 0))) return undefined
  return t.states[t.outcome[last] ?? -1]
}

/** The attempts by task, in the order of their numbers. */
function attemptsOf(t: Timeline): Map<number, number[]> {
  const by = new Map<number, number[]>()
  t.task.forEach((task, i) => {
    const own = by.get(task)
    if (own) own.push(i)
    else by.set(task, [i])
  })
  for (const own of by.values()) own.sort((a, b) => (t.assigned[a] ?? 0) - (t.assigned[b] ?? 0))
  return by
}

type Add = (time: number, task: number, state: string) => void

function played(t: Timeline, task: number, own: number[], last: string, add: Add) {
  add(t.ready[task] ?? -1, task, 'ready')
  own.forEach((i, n) => {
    const [assigned = -1, started = -1, finished = -1] = [t.assigned[i], t.started[i], t.finished[i]]
    add(assigned, task, 'assigned')
    add(started, task, 'running')
    add(finished, task, n < own.length - 1 ? 'retry_wait' : last)
  })
}

/** A foreach task runs from the first attempt of an instance until the last one of them has ended. */
function instancesOf(
  t: Timeline,
  foreach: number,
  ranges: [number, number][],
  attempts: Map<number, number[]>,
  last: string,
  add: Add,
) {
  let [from, to, isOpen] = [Number.POSITIVE_INFINITY, -1, false]
  for (const [first, until] of ranges)
    for (let task = first; task < until; task++)
      for (const i of attempts.get(task) ?? []) {
        from = Math.min(from, t.assigned[i] ?? from)
        to = Math.max(to, t.finished[i] ?? -1)
        isOpen ||= (t.finished[i] ?? -1) < 0
      }
  if (!Number.isFinite(from)) return add(t.ready[foreach] ?? -1, foreach, last)
  add(from, foreach, 'running')
  if (!isOpen) add(to, foreach, last)
}

/** The number of changes up to a moment, that moment included. */
export function changesUntil(r: Replay, time: number): number {
  let [low, high] = [0, r.times.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (r.times[middle]! <= time) low = middle + 1
    else high = middle
  }
  return low
}

/**
 * The states at a moment. From the end of the run on, they are the states of the run itself, and not those
 * that follow from the attempts.
 */
export function statesAt(r: Replay, time: number): States {
  if (time >= r.end) return r.now
  const of = new Uint8Array(r.now.of.length).fill(pending)
  const until = changesUntil(r, time)
  for (let i = 0; i < until; i++) of[r.tasks[i]!] = r.to[i]!
  return { names: r.names, of, instances: r.now.instances }
}

/** The moment of the next change after a time, or of the last one before it. */
export function neighbourTime(r: Replay, time: number, by: 1 | -1): number {
  if (by > 0) return r.times[changesUntil(r, time)] ?? r.end
  let i = changesUntil(r, time) - 1
  while (i >= 0 && r.times[i]! >= time) i--
  return i >= 0 ? r.times[i]! : 0
}

/** Counts the tasks that are drawn by state. */
export function tally(s: States, n: number): Map<string, number> {
  const counts = new Map<string, number>()
  for (let t = 0; t < n; t++) {
    const name = s.names[s.of[t]!] ?? 'pending'
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return counts
}
