import { expect, test } from 'vitest'
import type { Timeline } from '../../src/api/types'
import { durationsOf, isSlower, rowTimes } from '../../src/canvas/durations'

test('attempts are added up, a foreach spans its instances, and an open attempt lasts until now', () => {
  const t = {
    now: 100,
    instances: ['each.0', 'each.b.1', 'gone.0'],
    task: [0, 0, 3, 4, 2, 5],
    started: [0, 20, 10, 30, 90, 1],
    finished: [10, 25, 40, 60, -1, 2],
  } as unknown as Timeline
  expect([...durationsOf(t, ['a', 'each', 'open'])]).toEqual([15, 50, 10])
  expect([...durationsOf({ ...t, task: [0], started: [-1] } as unknown as Timeline, ['a'])]).toEqual([
    Number.NaN,
  ])
})

test('a row has the median and the newest time of the runs that have one', () => {
  const column = (ms: number) => Float64Array.of(ms)
  const row = rowTimes([undefined, column(Number.NaN), column(9000), column(2000), column(4000)], 0)
  expect(row).toEqual({ most: 9000, median: 4000, last: 9000 })
  expect(row && isSlower(row)).toBe(true)
  expect(isSlower({ most: 9, median: 2, last: 9 })).toBe(false)
  expect(rowTimes([undefined], 0)).toBeUndefined()
})
