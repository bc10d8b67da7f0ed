// Small rules about nodes and workers.
import type { Kind, Node } from '../api/types'

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

/** The versions that other members run, if they differ from this one's. */
export const otherVersions = (nodes: Node[], of: Node): string[] =>
  [...new Set(nodes.map((n) => n.version))].filter((v) => v !== of.version).sort()

/** The kinds that members declare differently. A task gets the declaration of its worker. */
export function differing(all: Pick<Kind, 'kind'>[]): Set<string> {
  const seen = new Set<string>()
  return new Set(all.filter((k) => seen.size === seen.add(k.kind).size).map((k) => k.kind))
}
