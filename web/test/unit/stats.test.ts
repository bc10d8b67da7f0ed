import { expect, test } from 'vitest'
import type { StatsRow, WorkflowStats } from '../../src/api/types'
import { lineOf, periodsOf, scaleOf, stackOf, sumOf, trendOf } from '../../src/pages/statsdata'

const row = (at: string, succeeded: number, failed: number) =>
  ({ at, n: succeeded + failed, succeeded, failed, stopped: 0, skipped: 0 }) as unknown as StatsRow

test('a period in which nothing ended is empty', () => {
  const stats = {
    by: 'day',
    from: '2027-03-01T00:00:00Z',
    to: '2027-03-04T00:00:00Z',
    items: [row('2027-03-02T00:00:00Z', 3, 1)],
  } as unknown as WorkflowStats
  expect(periodsOf(stats).map((p) => p.row?.n)).toEqual([undefined, 4, undefined])
})

test('the parts of a bar stand on each other and fill it', () => {
  expect(stackOf(row('', 3, 1), 8, 80)).toEqual([
    { state: 'succeeded', n: 3, y: 50, h: 30 },
    { state: 'failed', n: 1, y: 40, h: 10 },
  ])
  expect(stackOf(undefined, 8, 80)).toEqual([])
})

test('a line breaks where there is no duration, and one duration alone is a dot', () => {
  const flat = () => 5
  expect(lineOf([1, 2, null, 3], flat, 40)).toBe('M5.0 5.0L15.0 5.0M35.0 5.0h0.1')
  expect(lineOf([], flat, 40)).toBe('')
})

test('the scale is logarithmic, from the least to the greatest duration', () => {
  const s = scaleOf([1, null, 100], 108)
  expect([s.least, s.most, s.y(1), Math.round(s.y(10)), s.y(100)]).toEqual([1, 100, 104, 54, 4])
  expect(scaleOf([undefined], 50).y(3)).toBe(50)
  expect(scaleOf([7, 7], 50).y(7)).toBe(46)
})

test('a trend tells slower from faster and from chance', () => {
  expect(trendOf(1.4)).toEqual({ text: '40 % slower', isSlower: true })
  expect(trendOf(0.5)).toEqual({ text: '50 % faster', isSlower: false })
  expect(trendOf(1.02).text).toBe('as before')
  expect(trendOf(null).text).toBe('–')
})

test('periods are added up by how their runs ended', () => {
  const row = { n: 3, succeeded: 2, failed: 1, stopped: 0, skipped: 0 }
  expect(sumOf([])).toEqual({ n: 0, succeeded: 0, failed: 0, stopped: 0, skipped: 0 })
  expect(sumOf([row, { ...row, n: 4, skipped: 1 }])).toEqual({
    n: 7,
    succeeded: 4,
    failed: 2,
    stopped: 0,
    skipped: 1,
  })
})
