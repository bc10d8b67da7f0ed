// Small rules about nodes and workers.
import type { Kind, Node, NodeLoadPoint } from '../api/types'
import { count, duration } from '../kit/format'
import { t } from '../text/t'

/** Reports whether a member only executes tasks: it owns no shards and serves no calls. */
export const isWorker = (n: Pick<Node, 'roles'>): boolean => n.roles?.length === 1 && n.roles[0] === 'worker'

/** The workers that are attached to a node. */
export const attachedTo = (nodes: Node[], name: string): Node[] => nodes.filter((n) => n.home === name)

/** Writes numbers in order, ranges in short: 0–3, 7. */
export function rangesOf(numbers: number[]): string {
  const out: [number, number][] = []
  for (const n of [...numbers].sort((a, b) => a - b)) {
    const last = out.at(-1)
    if (last && n === last[1] + 1) last[1] = n
    else out.push([n, n])
  }
  return out.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(', ')
}

/** The versions of other members that differ from the version of this one. */
export const otherVersions = (nodes: Node[], of: Node): string[] =>
  [...new Set(nodes.map((n) => n.version))].filter((v) => v !== of.version).sort()

/** The kinds that members declare differently. A task gets the declaration of its worker. */
export function differing(all: Pick<Kind, 'kind'>[]): Set<string> {
  const seen = new Set<string>()
  return new Set(all.filter((k) => seen.size === seen.add(k.kind).size).map((k) => k.kind))
}

/** One line of the chart of a node's load: its values as parts of the greatest one, between 0 and 1. */
export type LoadLine = { label: string; values: number[]; now: string; most: string }

/** The lines of a node's load. Busy slots are drawn against the slots that the node has. */
export function loadLines(points: NodeLoadPoint[]): LoadLine[] {
  const line = (
    label: string,
    of: (p: NodeLoadPoint) => number,
    say: (v: number) => string,
    whole = 0,
  ): LoadLine => {
    const values = points.map(of)
    const most = Math.max(0, ...values)
    const top = Math.max(most, whole) || 1
    return { label, values: values.map((v) => v / top), now: say(values.at(-1) ?? 0), most: say(most) }
  }
  const rate = (v: number) => (v < 10 ? v.toFixed(1) : count(Math.round(v)))
  const cores = (v: number) => v.toFixed(2)
  const seconds = (v: number) => duration(v * 1000)
  return [
    line(t('Busy slots'), (p) => p.busy, count, Math.max(0, ...points.map((p) => p.slots))),
    line(t('Attempts begun per second'), (p) => p.started, rate),
    line(t('Transactions per second'), (p) => p.commits, rate),
    line(t('Time of a transaction'), (p) => p.commit_s, seconds),
    line(t('Cores that the node uses, without its tasks'), (p) => p.cpu, cores),
    line(t('Age of its last heartbeat'), (p) => p.lag_s, seconds),
  ]
}
