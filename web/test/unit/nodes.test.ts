import { expect, test } from 'vitest'
import type { Node, NodeLoadPoint } from '../../src/api/types'
import { attachedTo, isWorker, loadLines, otherVersions, rangesOf } from '../../src/pages/nodedata'

const node = (name: string, version: string, roles: string[], home: string | null = null) =>
  ({ name, version, roles, home }) as unknown as Node

const all = [
  node('n1', '1.1', ['api', 'scheduler', 'worker']),
  node('n2', '1.0', ['api', 'scheduler']),
  node('w1', '1.1', ['worker'], 'n1'),
  node('w2', '1.0', ['worker'], 'n2'),
]

test('a worker is a member that does nothing else, and is attached to one node', () => {
  expect(all.filter(isWorker).map((n) => n.name)).toEqual(['w1', 'w2'])
  expect(attachedTo(all, 'n1').map((n) => n.name)).toEqual(['w1'])
})

test('other versions are named once, in order', () => {
  expect(otherVersions(all, all[0] as Node)).toEqual(['1.0'])
  expect(otherVersions(all.slice(0, 1), all[0] as Node)).toEqual([])
})

test('numbers of shards are written in short', () => {
  expect(rangesOf([])).toBe('')
  expect(rangesOf([3])).toBe('3')
  expect(rangesOf([7, 2, 0, 1, 9, 10])).toBe('0–2, 7, 9–10')
})

test('the load of a node is drawn as parts of the greatest value, busy slots as parts of the slots', () => {
  const at = (busy: number, commits: number, lag_s: number) =>
    ({ at: '', busy, slots: 4, started: 0, commits, commit_s: 0.002, cpu: 0.25, lag_s }) as NodeLoadPoint
  const lines = loadLines([at(0, 0, 1), at(2, 1200, 3), at(1, 60, 0.5)])
  expect(lines.map((l) => [l.label, l.now, l.most])).toEqual([
    ['Busy slots', '1', '2'],
    ['Attempts begun per second', '0.0', '0.0'],
    ['Transactions per second', '60', '1,200'],
    ['Time of a transaction', '2 ms', '2 ms'],
    ['Cores that the node uses, without its tasks', '0.25', '0.25'],
    ['Age of its last heartbeat', '500 ms', '3.0 s'],
  ])
  expect(lines[0]?.values).toEqual([0, 0.5, 0.25])
  expect(lines[1]?.values).toEqual([0, 0, 0])
  expect(lines[2]?.values).toEqual([0, 1, 0.05])
})
