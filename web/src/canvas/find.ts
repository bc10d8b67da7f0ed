// The search expressions that people type to find tasks in a graph.
import { changeOf, type Drawing, type States } from './drawing'

/**
 * Finds tasks by terms: a part of the name, state:failed, kind:call, load> for load and all tasks that depend
 * on it, >load for load and all tasks that it needs, change:added if versions are compared. Terms are
 * separated by spaces and must all hold. It returns undefined if the text has no term.
 */
export function find(d: Drawing, states: States | undefined, text: string): Uint8Array | undefined {
  const terms = text.trim().toLowerCase().split(/\s+/).filter(Boolean)
  if (terms.length === 0) return undefined
  const hits = new Uint8Array(d.n).fill(1)
  for (const term of terms) {
    const test = tester(d, states, term)
    for (let t = 0; t < d.n; t++) if (hits[t] && !test(t)) hits[t] = 0
  }
  return hits
}

function tester(d: Drawing, states: States | undefined, term: string): (t: number) => boolean {
  const [key, value = ''] = term.split(':', 2)
  if (key === 'state') return (t) => (states?.names[states.of[t]!] ?? 'pending').startsWith(value)
  if (key === 'change') return (t) => changeOf(d, t).startsWith(value)
  if (key === 'kind') return (t) => (d.kinds[d.kind[t]!] ?? '').startsWith(value)
  if (term.endsWith('>')) return reach(d, term.slice(0, -1), d.nextOff, d.next)
  if (term.startsWith('>')) return reach(d, term.slice(1), d.needOff, d.needs)
  return (t) => d.names[t]!.toLowerCase().includes(term)
}

/** Marks a task and all tasks that can be reached from it. */
function reach(d: Drawing, name: string, off: Uint32Array, list: Uint32Array): (t: number) => boolean {
  const seen = new Uint8Array(d.n)
  const open = d.names.flatMap((n, t) => (n.toLowerCase() === name ? [t] : []))
  for (const t of open) seen[t] = 1
  for (let t = open.pop(); t !== undefined; t = open.pop()) {
    for (let i = off[t]!; i < off[t + 1]!; i++) {
      const next = list[i]!
      if (!seen[next]) {
        seen[next] = 1
        open.push(next)
      }
    }
  }
  return (t) => seen[t] === 1
}

/** Returns the nodes of a folded drawing that stand for found tasks. */
export function foldedHits(d: Drawing, hits: Uint8Array | undefined): Uint8Array | undefined {
  return hits && Uint8Array.from(d.members ?? [], (members) => (members.some((t) => hits[t]) ? 1 : 0))
}

/** Returns the next found task, in the order of the drawing. */
export function nextHit(
  d: Drawing,
  hits: Uint8Array,
  from: number | undefined,
  step: 1 | -1,
): number | undefined {
  const start = from === undefined ? (step > 0 ? -1 : d.n) : d.rank[from]!
  for (let i = 1; i <= d.n; i++) {
    const t = d.sorted[(((start + step * i) % d.n) + d.n) % d.n]!
    if (hits[t]) return t
  }
  return undefined
}

/** The task that an arrow key leads to: right to a dependent, left to a need, up and down within the column. */
export function neighbour(d: Drawing, t: number, key: string): number | undefined {
  if (key === 'ArrowUp' || key === 'ArrowDown') {
    const to = d.sorted[d.rank[t]! + (key === 'ArrowUp' ? -1 : 1)]
    return to !== undefined && d.x[to] === d.x[t] ? to : undefined
  }
  const [off, list] = key === 'ArrowRight' ? [d.nextOff, d.next] : [d.needOff, d.needs]
  let best: number | undefined
  for (let i = off[t]!; i < off[t + 1]!; i++) {
    const to = list[i]!
    if (best === undefined || Math.abs(d.y[to]! - d.y[t]!) < Math.abs(d.y[best]! - d.y[t]!)) best = to
  }
  return best
}
