import { expect, test } from 'vitest'
import type { Queue, Run } from '../../src/api/types'
import { messageOf } from '../../src/pages/approvalsdata'
import { telling } from '../../src/pages/homedata'
import { crowded, lineOf, shareOf, waitersOf } from '../../src/pages/queuedata'

const queue = (name: string, waiting: number, tasks: number): Queue =>
  ({ name, waiting, tasks: { held: 0, waiting: tasks, runs: [] } }) as unknown as Queue

test('runs and tasks that wait are named apart', () => {
  expect(waitersOf(queue('q', 0, 0))).toBe('0')
  expect(waitersOf(queue('q', 1, 0))).toBe('1 run')
  expect(waitersOf(queue('q', 2, 1))).toBe('2 runs, 1 task')
})

test('the queues in which something waits come with the most waiting first', () => {
  const all = [queue('idle', 0, 0), queue('few', 1, 0), queue('many', 0, 3)]
  expect(crowded(all).map((q) => q.name)).toEqual(['many', 'few'])
})

test('a share needs a limit and ends at one; a limit of 0 is taken', () => {
  expect(shareOf(1, null)).toBeUndefined()
  expect(shareOf(1, 4)).toBe(0.25)
  expect(shareOf(9, 4)).toBe(1)
  expect(shareOf(0, 0)).toBe(1)
})

test('a line has the runs of one queue by their places, those without a number last', () => {
  const run = (id: string, line: string, number: number | null) =>
    ({ id, position: { line, number, of: 3, more: false } }) as unknown as Run
  const all = [
    run('c', 'etl/', null),
    run('b', 'etl/', 2),
    run('a', 'etl/', 1),
    run('x', 'etl2/', 1),
    { id: 'none', position: null } as unknown as Run,
  ]
  expect(lineOf(all, 'etl').map((r) => r.id)).toEqual(['a', 'b', 'c'])
})

test('the line of a log that tells most is the last that reads like an error', () => {
  expect(telling('ok\nERROR one\nERROR two\nbye\n')).toBe('ERROR two')
  expect(telling('a\n\u001b[31mb\u001b[0m\n\n')).toBe('b')
  expect(telling('\n \n')).toBeUndefined()
})

test('an approval says what is asked, if its workflow words it', () => {
  expect(messageOf({ args: { task: 'ok', message: 'Ship it?' } })).toBe('Ship it?')
  expect(messageOf({ args: { task: 'ok' } })).toBeUndefined()
})
