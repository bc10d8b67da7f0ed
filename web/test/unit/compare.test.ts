import { expect, test } from 'vitest'
import type { Run, Task } from '../../src/api/types'
import { paramChanges, taskPairs } from '../../src/pages/comparedata'

const task = (name: string, state: string, seconds?: number, node = 'n1') =>
  ({
    name,
    state,
    attempts:
      seconds === undefined
        ? []
        : [
            {
              node,
              started_at: '2026-11-01T00:00:00Z',
              finished_at: new Date(Date.UTC(2026, 10, 1) + seconds * 1000).toISOString(),
            },
          ],
  }) as unknown as Task

test('the task that failed comes first, then other states, then what took longer', () => {
  const before = [
    task('a', 'succeeded', 2),
    task('b', 'succeeded', 2),
    task('c', 'succeeded', 10),
    task('d', 'skipped'),
    task('e', 'succeeded', 1),
  ]
  const after = [
    task('a', 'succeeded', 2.2),
    task('b', 'failed', 3),
    task('c', 'succeeded', 60),
    task('d', 'succeeded', 1),
    task('f', 'succeeded', 1, 'n2'),
  ]
  const pairs = taskPairs(before, after)
  expect(pairs.map((p) => p.name)).toEqual(['b', 'd', 'f', 'e', 'c', 'a'])
  expect(pairs.find((p) => p.name === 'c')?.tookB).toBe(60_000)
  expect(pairs.at(-1)?.weight).toBe(0)
})

test('parameters that differ, also where one run has none', () => {
  const run = (params: Record<string, unknown> | null) => ({ params }) as Run
  expect(paramChanges(run({ day: 'x', n: 1 }), run({ day: '', n: '1', more: [1] }))).toEqual([
    { what: 'day', a: 'x', b: '""' },
    { what: 'more', a: '–', b: '[1]' },
    { what: 'n', a: '1', b: '1' },
  ])
  expect(paramChanges(run(null), run({}))).toEqual([])
})
