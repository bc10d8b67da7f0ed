import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Fire, Schedule } from '../../src/api/types'
import {
  cellsOf,
  clockChanges,
  dayKey,
  endOf,
  isWithin,
  past,
  pausesIn,
  readKey,
  spanOf,
  step,
  wordsOf,
  zoneOf,
} from '../../src/pages/calendardata'
import { withRule } from '../../src/text/rule'

const zone = process.env.TZ
beforeAll(() => {
  process.env.TZ = 'Europe/Berlin'
})
afterAll(() => {
  process.env.TZ = zone
})

const fire = (o: Partial<Fire>): Fire => ({
  at: '2026-11-24T09:00:00Z',
  last: o.at ?? '2026-11-24T09:00:00Z',
  count: 1,
  decided: '2026-11-24T09:00:00Z',
  key: null,
  namespace: 'default',
  outcome: 'fired',
  reason: null,
  reasons: [],
  run: null,
  trigger: 't',
  workflow: 'w',
  ...o,
})

const count = (fires: Fire[], view: 'week' | 'month' = 'week', failed: string[] = []) =>
  cellsOf({
    view,
    fires,
    failed: new Set(failed),
    ahead: [],
    tried: [],
    limits: [],
    schedules: [],
    span: spanOf(view, new Date()),
  })

test('every fire is in just one cell, whatever the clocks do', () => {
  // From before the change to summer time until after the change back.
  const [from, to] = [Date.parse('2026-03-20T00:00:00Z'), Date.parse('2026-11-02T00:00:00Z')]
  fc.assert(
    fc.property(fc.array(fc.integer({ min: from, max: to }), { maxLength: 40 }), (times) => {
      const fires = times.map((t) => fire({ at: new Date(t).toISOString(), last: new Date(t).toISOString() }))
      for (const view of ['week', 'month'] as const) {
        const cells = count(fires, view)
        expect([...cells.values()].reduce((n, c) => n + past(c), 0)).toBe(times.length)
        for (const t of times) {
          const own = [...cells.keys()].filter((k) => {
            const start = readKey(k)?.getTime() ?? 0
            return start <= t && t < endOf(view, k).getTime()
          })
          // The hour that the clocks repeat is one cell of two hours.
          expect(own.length).toBe(1)
        }
      }
    }),
  )
})

test('a line of the ledger that stands for several instants counts in each of their cells', () => {
  const cells = count([
    fire({ at: '2026-11-24T08:00:00Z', last: '2026-11-24T10:30:00Z', count: 6, outcome: 'missed' }),
  ])
  expect([...cells].map(([k, c]) => [k, c.counts.missed])).toEqual([
    ['2026-11-24T09', 2],
    ['2026-11-24T10', 2],
    ['2026-11-24T11', 2],
  ])
})

test('a fire whose run failed counts as failed, and the words of a cell name the worst first', () => {
  const cells = count(
    [fire({ run: 'a' }), fire({ run: 'b' }), fire({ outcome: 'late', run: 'c' })],
    'month',
    ['b'],
  )
  expect(wordsOf(cells.get('2026-11-24'), false)).toBe('1 failed, 1 late, 1 fired')
  expect(wordsOf(undefined, false)).toBe('nothing')
})

test('a forecast marks the hours with more runs than slots, and the tried rule is told apart', () => {
  const hour = (at: string, fires: number, active: number) => ({
    at,
    fires,
    active,
    active_p95: active,
    mean: 1,
  })
  const cells = cellsOf({
    view: 'week',
    fires: [],
    failed: new Set(),
    ahead: [hour('2026-11-25T09:00:00Z', 4, 9), hour('2026-11-25T10:00:00Z', 4, 3)],
    tried: [hour('2026-11-25T09:00:00Z', 1, 1)],
    span: spanOf('week', readKey('2026-11-25') as Date),
    schedules: [],
    limits: [
      {
        kind: 'slots',
        limit: 8,
        hits: 1,
        peak: 9,
        first: null,
        instants: [],
        namespace: null,
        trigger: null,
        what: 'slots',
        workflow: null,
      },
    ],
  })
  expect(wordsOf(cells.get('2026-11-25T10'), true)).toBe(
    '4 to come, 1 with the tried rule, up to 9 runs at once, more than there are slots',
  )
  expect(cells.get('2026-11-25T11')?.crowded).toBe(0)
})

test('planned pauses mark the cells that they touch, also over a clock change', () => {
  const marked = (view: 'week' | 'month', from: string, until: string) => {
    const day = readKey('2026-10-25') as Date // the clocks of Berlin go back from 03:00 to 02:00
    const schedules = [{ planned_pauses: [{ from, until, by: 'ada', reason: null }] }]
    const cells = cellsOf({
      view,
      span: spanOf(view, day),
      schedules,
      fires: [],
      failed: new Set(),
      ahead: [],
      tried: [],
      limits: [],
    })
    return [...cells].filter(([, c]) => c.paused === 1).map(([key]) => key)
  }
  expect(marked('week', '2026-10-24T23:30:00Z', '2026-10-25T02:00:00Z')).toEqual([
    '2026-10-25T01',
    '2026-10-25T02',
  ])
  expect(marked('month', '2026-10-30T23:00:00Z', '2036-01-01T00:00:00Z')).toEqual([
    '2026-10-31',
    '2026-11-01',
  ])
  expect(marked('week', '2026-09-01T00:00:00Z', '2026-09-02T00:00:00Z')).toEqual([])
  expect(pausesIn({}, new Date(0), new Date())).toEqual([])
})

test('weeks begin on Monday, a month is whole weeks, and days that do not exist are none', () => {
  const day = readKey('2026-11-24') as Date
  expect(spanOf('week', day).days).toEqual([23, 24, 25, 26, 27, 28, 29].map((d) => `2026-11-${d}`))
  const month = spanOf('month', day).days
  expect([month[0], month.at(-1), month.length % 7]).toEqual(['2026-10-26', '2026-12-06', 0])
  expect(step('week', day, -1)).toBe('2026-11-16')
  expect(step('month', readKey('2026-01-31') as Date, 1)).toBe('2026-02-01')
  expect([readKey('2026-02-30'), readKey('x'), readKey(undefined)]).toEqual([undefined, undefined, undefined])
  expect(dayKey(readKey('2026-11-24T07') as Date)).toBe('2026-11-24')
})

test('the days on which the clocks change are named', () => {
  expect(clockChanges(spanOf('week', readKey('2026-10-22') as Date))).toEqual([
    { day: '2026-10-25', minutes: -60 },
  ])
  expect(clockChanges(spanOf('week', readKey('2026-03-27') as Date))).toEqual([
    { day: '2026-03-29', minutes: 60 },
  ])
})

test('a range is the cells between its ends, whichever end was first', () => {
  expect(isWithin('2026-11-24T03', '2026-11-25T01', '2026-11-23T22')).toBe(true)
  expect(isWithin('2026-11-25T02', '2026-11-25T01', '2026-11-23T22')).toBe(false)
})

test('another rule is put into the text, and all else stays byte for byte', () => {
  const text =
    'name: x\n# Mine.\ntriggers:\n  - cron: "0 3 * * *" # each night\n    name: a\n  - {every: 5m}\ntasks: {t: {run: "true"}}\n'
  expect(withRule(text, { name: 'a', kind: 'cron', expression: '0 3 * * *' }, '0 4 * * 1')).toBe(
    text.replace('"0 3 * * *"', '0 4 * * 1'),
  )
  expect(withRule(text, { name: 'every-5m', kind: 'every', expression: '5m' }, '10m')).toBe(
    text.replace('every: 5m', 'every: 10m'),
  )
  // A text that YAML would read as another value is quoted.
  expect(withRule(text, { name: 'a', kind: 'cron', expression: '' }, '*/5 * * * *')).toContain(
    '"*/5 * * * *"',
  )
  expect(withRule(text, { name: 'b', kind: 'cron', expression: '' }, '1')).toBeUndefined()
  expect(withRule('name: x\n', { name: 'b', kind: 'cron', expression: '' }, '1')).toBeUndefined()
})

test('a time zone is shown where a rule has a time of day and does not name it', () => {
  const zone = (kind: Schedule['kind'], description: string) => zoneOf({ kind, description, timezone: 'UTC' })
  expect(zone('cron', 'at 02:15 every day')).toBe('UTC')
  expect(zone('daily', 'at 02:15 every day, UTC')).toBe('')
  for (const kind of ['event', 'poll', 'query', 'object'] as const)
    expect(zone(kind, 'when something new comes')).toBe('')
})
