import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Timeline } from '../../src/api/types'
import { absent, readCells, rowsOf } from '../../src/canvas/cells'
import { gapsOf, ticks, timeAt, timeScale, xOf } from '../../src/canvas/timescale'
import { linesOf } from '../../src/pages/timeline'

const spans = fc.array(
  fc.tuple(fc.nat(100_000), fc.nat(20_000)).map(([from, took]) => ({ from, to: from + took })),
  { maxLength: 30 },
)

test('the axis covers the view without holes and never goes back', () => {
  fc.assert(
    fc.property(spans, fc.boolean(), fc.integer({ min: 1, max: 120_000 }), (busy, fold, to) => {
      const scale = timeScale({ from: 0, to }, busy, fold)
      const last = scale.pieces.at(-1)
      expect(scale.pieces[0]?.from).toBe(0)
      expect(last?.to).toBe(to)
      expect((last?.x ?? 0) + (last?.width ?? 0)).toBeCloseTo(1, 6)
      let before = -1
      for (let i = 0; i <= 50; i++) {
        const x = xOf(scale, (to * i) / 50)
        expect(x).toBeGreaterThanOrEqual(before)
        before = x
        expect(xOf(scale, timeAt(scale, i / 50))).toBeCloseTo(i / 50, 6)
      }
      for (const t of ticks(scale, 8)) expect(t >= 0 && t <= to).toBe(true)
    }),
  )
})

test('long idle time is folded, short is not', () => {
  const busy = [
    { from: 0, to: 1000 },
    { from: 1050, to: 2000 },
    { from: 90_000, to: 92_000 },
  ]
  expect(gapsOf({ from: 0, to: 92_000 }, busy)).toEqual([
    { from: 1000, to: 1050 },
    { from: 2000, to: 90_000 },
  ])
  const folded = timeScale({ from: 0, to: 92_000 }, busy, true)
  expect(folded.pieces.filter((p) => p.folded)).toHaveLength(1)
  expect(xOf(folded, 2000)).toBeGreaterThan(0.4)
  expect(xOf(timeScale({ from: 0, to: 92_000 }, busy, false), 2000)).toBeLessThan(0.03)
})

test('each attempt is a bar after what it waited for', () => {
  const t: Timeline = {
    run: 'r',
    state: 'running',
    t0: '2026-01-01T00:00:00Z',
    now: 9000,
    states: ['succeeded', 'failed', 'running'],
    nodes: ['n1'],
    instances: ['b.0'],
    ready: [0, 1000, 1000],
    task: [0, 1, 1, 2],
    number: [1, 1, 2, 1],
    outcome: [0, 1, 2, 0],
    assigned: [100, 1100, 5000, 1100],
    started: [200, 1200, -1, 1300],
    finished: [1000, 2000, -1, 1400],
    node: [0, 0, 0, 0],
    path: [0, 1],
  }
  const lines = linesOf(t, ['a', 'b'])
  expect(lines.map((l) => [l.name, l.state, l.critical])).toEqual([
    ['a', 'succeeded', true],
    ['b', 'running', true],
    ['b.0', 'succeeded', false],
  ])
  expect(lines[1]?.bars.map((b) => [b.waits, b.from, b.to, b.open])).toEqual([
    [1000, 1200, 2000, false],
    [2000, 5000, 9000, true],
  ])
})

test('cells of a run are read, and rows with recent failures come first', () => {
  const packed = (...bytes: number[]) => btoa(String.fromCharCode(...bytes))
  expect([...readCells(packed(1, 2, absent, 1, 0, 130, 1), 133)].slice(0, 4)).toEqual([1, 1, absent, 0])
  expect(() => readCells(packed(1), 3)).toThrow('too early')
  const names = ['succeeded', 'failed', 'upstream_failed']
  const columns = {
    names,
    cells: [Uint8Array.of(0, 2, 0, 0), Uint8Array.of(0, 0, 1, 0), Uint8Array.of(0, 1, 1, 0)],
  }
  const order = Uint32Array.of(3, 2, 1, 0)
  const tasks = ['load', 'check', 'clean', 'end']
  expect([...rowsOf(columns, order, tasks, '', '')]).toEqual([3, 2, 1, 0])
  expect([...rowsOf(columns, order, tasks, '', 'failed')]).toEqual([2, 1])
  expect([...rowsOf(columns, order, tasks, 'C', 'failed')]).toEqual([2, 1])
  expect([...rowsOf(columns, order, tasks, 'lo', '')]).toEqual([0])
})
