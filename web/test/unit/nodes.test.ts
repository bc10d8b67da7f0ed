import { expect, test } from 'vitest'
import type { Node } from '../../src/api/types'
import { attachedTo, isWorker, otherVersions, rangesOf } from '../../src/pages/nodedata'

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
