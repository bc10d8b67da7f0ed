// Drawings that are folded or compared: the sections that follow the drawing, states of groups, and the
// results of a search in them.
import { expect, test } from 'vitest'
import {
  changeOf,
  isGroup,
  nodesOf,
  noState,
  readDrawing,
  type States,
  statesOf,
} from '../../src/canvas/drawing'
import { find, foldedHits } from '../../src/canvas/find'

/** Packs a drawing of tasks in a row, each of which needs the one before. */
function packed(kinds: string[], tasks: [name: string, kind: number][], more: number[] = []): ArrayBuffer {
  const text = (s: string) => [...new TextEncoder().encode(s), 0]
  const u32 = (n: number) => [n & 255, (n >> 8) & 255, (n >> 16) & 255, n >>> 24]
  const bytes = [
    ...new TextEncoder().encode('SKL1'),
    ...u32(tasks.length),
    ...u32(Math.max(0, tasks.length - 1)),
    ...u32(tasks.length),
    kinds.length,
    ...kinds.flatMap(text),
    ...tasks.flatMap(([, kind], i) => [i === 0 ? 0 : 2, 0, kind]),
    ...tasks.flatMap((_, i) => (i === 0 ? [0] : [1, 2])),
    ...tasks.flatMap(([name]) => [0, ...text(name)]),
    ...more,
  ]
  return Uint8Array.from(bytes).buffer
}

const kinds = ['work', 'foreach', 'chain']
const m = 'M'.charCodeAt(0)
const c = 'C'.charCodeAt(0)
// The node a stands for itself. The chain stands for the tasks 1, 2 and 3. The node f is a foreach task,
// number 4.
const folded = () =>
  readDrawing(
    packed(
      kinds,
      [
        ['a', 0],
        ['b → … → d', 2],
        ['f', 1],
      ],
      [m, 1, 0, 3, 2, 2, 2, 1, 2],
    ),
  )
const order = ['failed', 'running', 'pending', 'succeeded']
const states = (of: number[]): States => ({
  names: ['pending', 'running', 'succeeded', 'failed'],
  of: Uint8Array.from(of),
  instances: new Map([[4, [[5, 7]]]]),
})

test('a plain drawing has no sections; those of a newer server are left alone', () => {
  const plain = readDrawing(packed(kinds, [['a', 0]]))
  expect([plain.members, plain.changes]).toEqual([undefined, undefined])
  expect(readDrawing(packed(kinds, [['a', 0]], ['Z'.charCodeAt(0), 1, 2])).n).toBe(1)
})

test('a group has the worst state of its tasks and counts all of them, instances too', () => {
  const d = folded()
  expect(d.members?.map((list) => [...list])).toEqual([[0], [1, 2, 3], [4]])
  expect([0, 1, 2].map((t) => isGroup(d, t))).toEqual([false, true, false])
  const s = statesOf(d, states([2, 2, 3, 0, 1, 2, 1]), order)
  expect([...s.of.subarray(0, 3)].map((i) => s.names[i])).toEqual(['succeeded', 'failed', 'running'])
  const inside = (t: number) =>
    (s.instances.get(t) ?? []).flatMap(([from, to]) => [...s.of.subarray(from, to)])
  expect(inside(0)).toEqual([])
  expect(inside(1)).toEqual([2, 3, 0])
  expect(inside(2)).toEqual([2, 1])
  expect([...nodesOf(d, 6)]).toEqual([0, 1, 1, 1, 2, -1])
})

test('what is found in the tasks marks the group that they are in', () => {
  expect([...(foldedHits(folded(), Uint8Array.from([0, 0, 1, 0, 0])) ?? [])]).toEqual([0, 1, 0])
  expect(foldedHits(folded(), undefined)).toBeUndefined()
})

test('a comparison says how tasks and edges differ; a task that the run lacks has no state', () => {
  const d = readDrawing(
    packed(
      kinds,
      [
        ['a', 0],
        ['b', 0],
        ['x', 0],
      ],
      [m, 1, 0, 1, 2, 0, c, 0, 3, 2, 1, 2],
    ),
  )
  expect([0, 1, 2].map((t) => changeOf(d, t))).toEqual(['same', 'changed', 'removed'])
  expect([...(d.edgeChanges ?? [])]).toEqual([1, 2])
  expect([...(find(d, undefined, 'change:removed') ?? [])]).toEqual([0, 0, 1])
  const s = statesOf(
    d,
    { names: ['pending', 'failed'], of: Uint8Array.from([0, 1]), instances: new Map() },
    order,
  )
  expect([...s.of]).toEqual([0, 1, noState])
  expect(statesOf(readDrawing(packed(kinds, [['a', 0]])), s, order)).toBe(s)
})
