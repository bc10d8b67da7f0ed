import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Timeline } from '../../src/api/types'
import { decisionsOf, isPaused, markAt } from '../../src/canvas/decisions'
import { readDrawing, type States } from '../../src/canvas/drawing'
import { changesUntil, neighbourTime, replayOf, statesAt, tally } from '../../src/canvas/replay'
import { packDrawing } from './packed'

const timeline = (o: Partial<Timeline>): Timeline => ({
  run: 'r',
  state: 'failed',
  t0: '2026-11-24T00:00:00Z',
  now: 100,
  states: [],
  nodes: [],
  instances: [],
  ready: [],
  task: [],
  number: [],
  outcome: [],
  assigned: [],
  started: [],
  finished: [],
  node: [],
  path: [],
  ...o,
})

const drawing = (names: string[]) =>
  readDrawing(packDrawing(names.map((name, i) => ({ name, needs: i > 0 ? [i - 1] : [], column: i, y: 0 }))))

const states = (of: string[], instances: States['instances'] = new Map()): States => {
  const names = [...new Set(of)]
  return { names, of: Uint8Array.from(of, (s) => names.indexOf(s)), instances }
}

const at = (r: ReturnType<typeof replayOf>, time: number) => {
  const s = statesAt(r, time)
  return [...s.of].map((n) => s.names[n])
}

test('a task waits, runs, waits for its retry and fails; what needs it fails at that moment', () => {
  const t = timeline({
    ready: [0, 30, 80],
    task: [0, 1, 1],
    number: [1, 1, 2],
    assigned: [5, 35, 60],
    started: [10, 40, 61],
    finished: [30, 50, 80],
  })
  const r = replayOf(t, drawing(['a', 'b', 'c']), states(['succeeded', 'failed', 'upstream_failed']))
  expect(at(r, -1)).toEqual(['pending', 'pending', 'pending'])
  expect(at(r, 0)).toEqual(['ready', 'pending', 'pending'])
  expect(at(r, 12)).toEqual(['running', 'pending', 'pending'])
  expect(at(r, 30)).toEqual(['succeeded', 'ready', 'pending'])
  expect(at(r, 55)).toEqual(['succeeded', 'retry_wait', 'pending'])
  expect(at(r, 79)).toEqual(['succeeded', 'running', 'pending'])
  expect(at(r, 80)).toEqual(['succeeded', 'failed', 'upstream_failed'])
  expect(neighbourTime(r, 55, 1)).toBe(60)
  expect(neighbourTime(r, 60, -1)).toBe(50)
  expect(neighbourTime(r, 80, 1)).toBe(100)
  expect(neighbourTime(r, 0, -1)).toBe(0)
})

test('a foreach task runs while its instances run', () => {
  const t = timeline({
    ready: [0],
    instances: ['a.0', 'a.1'],
    task: [1, 2],
    number: [1, 1],
    assigned: [10, 20],
    started: [11, 21],
    finished: [30, -1],
  })
  const r = replayOf(t, drawing(['a']), states(['running', 'succeeded', 'running'], new Map([[0, [[1, 3]]]])))
  expect(at(r, 5)).toEqual(['pending', 'pending', 'pending'])
  expect(at(r, 15)).toEqual(['running', 'running', 'pending'])
  expect(at(r, 40)).toEqual(['running', 'succeeded', 'running'])
  expect([...tally(statesAt(r, 40), 1)]).toEqual([['running', 1]])
})

test('at its end a replay has the states of the run, and each seek equals a play up to it', () => {
  const attempt = fc.record({
    task: fc.nat(4),
    assigned: fc.nat(90),
    wait: fc.nat(5),
    took: fc.integer({ min: -1, max: 9 }),
  })
  const state = fc.constantFrom('succeeded', 'failed', 'running', 'skipped', 'pending')
  fc.assert(
    fc.property(
      fc.array(attempt, { maxLength: 20 }),
      fc.array(state, { minLength: 5, maxLength: 5 }),
      fc.nat(110),
      (all, of, time) => {
        const t = timeline({
          ready: [0, 1, 2, 3, -1],
          task: all.map((a) => a.task),
          number: all.map((_, i) => i),
          assigned: all.map((a) => a.assigned),
          started: all.map((a) => a.assigned + a.wait),
          finished: all.map((a) => (a.took < 0 ? -1 : a.assigned + a.wait + a.took)),
        })
        const now = states(of)
        const r = replayOf(t, drawing(['a', 'b', 'c', 'd', 'e']), now)
        expect(statesAt(r, 100)).toBe(now)
        for (let i = 1; i < r.times.length; i++)
          expect(r.times[i]).toBeGreaterThanOrEqual(r.times[i - 1] as number)
        const until = changesUntil(r, time)
        expect([...r.times].filter((x) => x <= time)).toHaveLength(until)
        if (time >= r.end) return
        const played = new Array(5).fill('pending')
        for (let i = 0; i < until; i++) played[r.tasks[i] as number] = r.names[r.to[i] as number]
        expect(at(r, time)).toEqual(played)
      },
    ),
  )
})

test('a mark changes its task when it was made, not before, and an attempt before it ended as it did', () => {
  const t = timeline({
    states: ['failed'],
    ready: [0, 30],
    task: [0],
    number: [1],
    outcome: [0],
    assigned: [5],
    started: [10],
    finished: [30],
    now: 100,
  })
  const events = [
    { kind: 'marked', at: '2026-11-24T00:00:00.060Z', task: 'a', state: 'succeeded', actor: 'ada' },
    { kind: 'marked', at: '2026-11-24T00:00:00.070Z', task: 'b', state: 'skipped', actor: null },
    { kind: 'marked', at: '2026-11-24T00:00:00.080Z', task: 'gone', state: 'skipped', actor: null },
  ] as const
  const decided = decisionsOf([...events], t.t0)
  const r = replayOf(t, drawing(['a', 'b']), states(['succeeded', 'skipped']), decided)
  expect([20, 40, 65, 75].map((time) => at(r, time))).toEqual([
    ['running', 'pending'],
    ['failed', 'ready'],
    ['succeeded', 'ready'],
    ['succeeded', 'skipped'],
  ])
  expect(markAt(decided, 'a', 60)?.by).toBe('ada')
  expect(markAt(decided, 'a', 30)).toBeUndefined()
})

test('a pause lasts from the state paused to the next state, or still', () => {
  const state = (at: string, of: string, task: string | null = null) =>
    ({ kind: 'state', at: `2026-11-24T00:00:${at}Z`, task, state: of, actor: null }) as const
  const d = decisionsOf(
    [
      state('00', 'running'),
      state('02', 'paused'),
      state('03', 'skipped', 'a'),
      state('05', 'running'),
      state('08', 'paused'),
    ],
    '2026-11-24T00:00:00Z',
  )
  expect(d.pauses).toEqual([
    [2000, 5000],
    [8000, undefined],
  ])
  expect([1000, 2000, 4999, 5000, 9000].map((time) => isPaused(d, time))).toEqual([
    false,
    true,
    true,
    false,
    true,
  ])
})
