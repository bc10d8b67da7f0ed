// The packed drawing of a graph and the packed states of a run, as typed arrays. internal/layout and internal/server
// describe the two forms.

import type { Layout } from '../api/types'

export const layoutType = 'application/vnd.skein.layout'
export const statesType = 'application/vnd.skein.states'

/** Sizes of a drawing, in its own units: pixels at the scale 1. */
export const columnWidth = 220
export const rowHeight = 40
export const boxWidth = 168
export const boxHeight = 30

export type Drawing = {
  n: number
  columns: number
  width: number
  height: number
  kinds: string[]
  x: Float64Array
  y: Float64Array
  kind: Uint8Array
  names: string[]
  needOff: Uint32Array
  needs: Uint32Array
  nextOff: Uint32Array
  next: Uint32Array
  /** Tasks by column, from top to bottom: those of column c are sorted[columnOff[c]…columnOff[c + 1]]. */
  columnOff: Uint32Array
  sorted: Uint32Array
  /** The index of each task in sorted. */
  rank: Uint32Array
  /**
   * Only of a folded or compared drawing: for each node, the tasks of the plain drawing that the node stands
   * for.
   */
  members?: Uint32Array[] | undefined
  /**
   * Only of a drawing that is compared with another version: the change of each node and of each edge, in the
   * order of needs.
   */
  changes?: Uint8Array | undefined
  edgeChanges?: Uint8Array | undefined
}

/** The changes of a drawing that is compared, by their numbers. */
export const changeNames = ['same', 'added', 'removed', 'changed'] as const
export type Change = (typeof changeNames)[number]

export const changeOf = (d: Drawing, t: number): Change => changeNames[d.changes?.[t] ?? 0] ?? 'same'

/** The kinds of nodes that stand for several tasks. */
const groups = new Set(['chain', 'alike', 'named'])

export const isGroup = (d: Drawing, t: number): boolean => groups.has(d.kinds[d.kind[t]!] ?? '')

export type States = {
  names: string[]
  /** The state of each task, as an index into names. Instances of foreach tasks follow the drawn tasks. */
  of: Uint8Array
  /** The instances of each foreach task, by the number of the task, as ranges from and until. */
  instances: Map<number, [number, number][]>
}

class Reader {
  private at = 0
  private bytes: Uint8Array
  constructor(buffer: ArrayBuffer) {
    this.bytes = new Uint8Array(buffer)
  }
  get more() {
    return this.at < this.bytes.length
  }
  byte(): number {
    const b = this.bytes[this.at++]
    if (b === undefined) throw new Error('the packed answer ends too early')
    return b
  }
  magic(text: string) {
    for (const c of text) if (this.byte() !== c.charCodeAt(0)) throw new Error(`the answer is not ${text}`)
  }
  u32(): number {
    return (this.byte() | (this.byte() << 8) | (this.byte() << 16) | (this.byte() << 24)) >>> 0
  }
  varint(): number {
    let value = 0
    let factor = 1
    for (;;) {
      const b = this.byte()
      value += (b & 127) * factor
      if (b < 128) return value
      factor *= 128
    }
  }
  zigzag(): number {
    const v = this.varint()
    return v % 2 === 0 ? v / 2 : -(v + 1) / 2
  }
  /** Reads bytes up to a NUL. */
  text(): Uint8Array {
    const end = this.bytes.indexOf(0, this.at)
    const part = this.bytes.subarray(this.at, end)
    this.at = end + 1
    return part
  }
}

const utf8 = new TextDecoder()

/** Reads a packed drawing. */
export function readDrawing(buffer: ArrayBuffer): Drawing {
  const r = new Reader(buffer)
  r.magic('SKL1')
  const [n, edges, columns] = [r.u32(), r.u32(), r.u32()]
  const kinds = Array.from({ length: r.byte() }, () => utf8.decode(r.text()))
  const [x, y, kind, column] = [
    new Float64Array(n),
    new Float64Array(n),
    new Uint8Array(n),
    new Uint32Array(n),
  ]
  let [c, h, height] = [0, 0, 0]
  for (let t = 0; t < n; t++) {
    c += r.zigzag()
    h += r.zigzag()
    column[t] = c
    x[t] = c * columnWidth
    y[t] = h / 4
    height = Math.max(height, h / 4 + boxHeight)
    kind[t] = r.byte()
  }
  const [needOff, needs] = [new Uint32Array(n + 1), new Uint32Array(edges)]
  let e = 0
  for (let t = 0; t < n; t++) {
    const count = r.varint()
    for (let i = 0; i < count; i++) needs[e++] = t - r.zigzag()
    needOff[t + 1] = e
  }
  const names = readNames(r, n)
  return drawn(
    { n, columns, height, kinds, x, y, kind, names, needOff, needs, ...readSections(r, n, edges) },
    column,
  )
}

/** Reads the further sections of drawings that are folded or compared. */
function readSections(
  r: Reader,
  n: number,
  edges: number,
): Pick<Drawing, 'members' | 'changes' | 'edgeChanges'> {
  const out: Pick<Drawing, 'members' | 'changes' | 'edgeChanges'> = {}
  while (r.more) {
    const tag = String.fromCharCode(r.byte())
    if (tag === 'M') {
      let before = 0
      out.members = Array.from({ length: n }, () =>
        Uint32Array.from({ length: r.varint() }, () => {
          before += r.zigzag()
          return before
        }),
      )
    } else if (tag === 'C') {
      out.changes = Uint8Array.from({ length: n }, () => r.byte())
      out.edgeChanges = Uint8Array.from({ length: edges }, () => r.byte())
    } else break // a newer server sends sections that this page does not know
  }
  return out
}

type Placed = Omit<Drawing, 'width' | 'nextOff' | 'next' | 'columnOff' | 'sorted' | 'rank'>

function drawn(placed: Placed, column: Uint32Array): Drawing {
  const { n, columns, needOff, needs, y } = placed
  const [nextOff, next] = turned(n, needOff, needs)
  const [columnOff, sorted, rank] = byColumn(columns, column, y)
  const width = Math.max(0, columns - 1) * columnWidth + boxWidth
  return { ...placed, width, nextOff, next, columnOff, sorted, rank }
}

/** Makes a drawing of one that the server sent as JSON, such as that of a draft. */
export function drawingOf(layout: Layout): Drawing {
  const n = layout.nodes.length
  const kinds = [...new Set(layout.nodes.map((t) => t.kind))]
  const lists: number[][] = Array.from({ length: n }, () => [])
  for (const [from, to] of layout.edges as [number, number][]) lists[to]?.push(from)
  const needOff = new Uint32Array(n + 1)
  lists.forEach((list, t) => {
    needOff[t + 1] = needOff[t]! + list.length
  })
  const y = Float64Array.from(layout.nodes, (t) => t.y)
  const placed = {
    n,
    columns: layout.columns,
    height: y.reduce((most, top) => Math.max(most, top + boxHeight), 0),
    kinds,
    x: Float64Array.from(layout.nodes, (t) => t.x),
    y,
    kind: Uint8Array.from(layout.nodes, (t) => kinds.indexOf(t.kind)),
    names: layout.nodes.map((t) => t.name),
    needOff,
    needs: Uint32Array.from(lists.flat()),
  }
  return drawn(
    placed,
    Uint32Array.from(layout.nodes, (t) => t.x / columnWidth),
  )
}

function readNames(r: Reader, n: number): string[] {
  let name = new Uint8Array(0)
  return Array.from({ length: n }, () => {
    const same = r.varint()
    const rest = r.text()
    const whole = new Uint8Array(same + rest.length)
    whole.set(name.subarray(0, same))
    whole.set(rest, same)
    name = whole
    return utf8.decode(whole)
  })
}

/** Turns lists of needs into lists of dependents. */
function turned(n: number, off: Uint32Array, list: Uint32Array): [Uint32Array, Uint32Array] {
  const [back, out] = [new Uint32Array(n + 1), new Uint32Array(list.length)]
  for (const p of list) back[p + 1]!++
  for (let t = 0; t < n; t++) back[t + 1]! += back[t]!
  const fill = back.slice()
  for (let t = 0; t < n; t++) for (let i = off[t]!; i < off[t + 1]!; i++) out[fill[list[i]!]!++] = t
  return [back, out]
}

function byColumn(columns: number, column: Uint32Array, y: Float64Array) {
  const off = new Uint32Array(columns + 1)
  for (const c of column) off[c + 1]!++
  for (let c = 0; c < columns; c++) off[c + 1]! += off[c]!
  const sorted = Uint32Array.from(column, (_, t) => t)
  sorted.sort((a, b) => column[a]! - column[b]! || y[a]! - y[b]! || a - b)
  const rank = new Uint32Array(column.length)
  sorted.forEach((t, i) => {
    rank[t] = i
  })
  return [off, sorted, rank] as const
}

/** Reads the packed states of a run; n is the number of tasks that are drawn. */
export function readStates(buffer: ArrayBuffer, n: number): States {
  const r = new Reader(buffer)
  r.magic('SKS1')
  const tasks = r.u32()
  const names = Array.from({ length: r.byte() }, () => utf8.decode(r.text()))
  const of = new Uint8Array(tasks)
  for (let t = 0; t < tasks; ) {
    const state = r.byte()
    const until = t + r.varint()
    of.fill(state, t, until)
    t = until
  }
  const instances: States['instances'] = new Map()
  for (let t = n; r.more; ) {
    const [foreach, count] = [r.varint(), r.varint()]
    instances.set(foreach, [...(instances.get(foreach) ?? []), [t, t + count]])
    t += count
  }
  return { names, of, instances }
}

/** Counts the instances of a foreach task by state. */
export function instanceCounts(states: States, task: number): Map<string, number> {
  const counts = new Map<string, number>()
  for (const [from, until] of states.instances.get(task) ?? []) {
    for (let t = from; t < until; t++) {
      const name = states.names[states.of[t]!] ?? 'pending'
      counts.set(name, (counts.get(name) ?? 0) + 1)
    }
  }
  return counts
}

/** Stands for a node that has no state: its task is not part of the run. */
export const noState = 255

/**
 * The states of the nodes of a drawing that is folded or compared. Of the states in a group, the group has
 * the one that most needs a person. Its tasks and their instances are counted like those of a foreach task.
 */
export function statesOf(d: Drawing, plain: States, order: string[]): States {
  if (!d.members) return plain
  const rank = plain.names.map((name) => (order.includes(name) ? order.indexOf(name) : order.length))
  const of: number[] = new Array(d.n).fill(noState)
  const instances: States['instances'] = new Map()
  const inside = (t: number) =>
    (plain.instances.get(t) ?? []).flatMap(([from, until]) => [...plain.of.subarray(from, until)])
  d.members.forEach((members, node) => {
    const [first] = members
    if (first === undefined) return
    const all = [...members].flatMap((t) => {
      const many = inside(t)
      return many.length > 0 ? many : [plain.of[t]!]
    })
    of[node] = members.length === 1 ? plain.of[first]! : all.reduce((a, b) => (rank[b]! < rank[a]! ? b : a))
    if (members.length === 1 && inside(first).length === 0) return
    instances.set(node, [[of.length, of.length + all.length]])
    of.push(...all)
  })
  return { names: plain.names, of: Uint8Array.from(of), instances }
}

/** Returns for each task of the plain drawing the node that stands for it. */
export function nodesOf(d: Drawing, n: number): Int32Array {
  const at = new Int32Array(n).fill(-1)
  d.members?.forEach((members, node) => {
    for (const t of members) at[t] = node
  })
  return at
}
