import { expect, test } from 'vitest'
import { allows } from '../../src/api/me'
import type { Me } from '../../src/api/types'

const ann: Me = {
  kind: 'user',
  name: 'ann',
  verbs: { '*': ['run.read'], shop: ['run.start', 'run.control'], web: null },
}

test('a verb counts in the namespace of its role, and in all of them if the role has no other', () => {
  for (const [verb, namespace, want] of [
    ['run.read', 'shop', true],
    ['run.read', 'elsewhere', true],
    ['run.start', 'shop', true],
    ['run.start', 'web', false],
    ['run.start', 'elsewhere', false],
    ['run.start', '', false], // the cluster
    ['token.all', '*', false],
    ['run.read', '', true],
    ['run.redo', 'shop', false],
  ] as const)
    expect([verb, namespace, allows(ann, verb, namespace)]).toEqual([verb, namespace, want])
  expect(allows(undefined, 'token.all', '*')).toBe(true)
})
