import { expect, test } from 'vitest'
import type { Run } from '../../src/api/types'
import { score } from '../../src/app/score'
import { ago, bytes, duration } from '../../src/kit/format'
import { windowOf } from '../../src/kit/rows'
import { failing, waiting } from '../../src/pages/homedata'
import { type Found, placeOf, take } from '../../src/pages/logsearch'
import { command, typed } from '../../src/pages/startdata'
import { level, pieces, plain } from '../../src/text/ansi'
import { LogWindow } from '../../src/text/log'
import levels from './levels.json'

test('terminal colours become tones, and nothing else is obeyed', () => {
  expect(pieces('a\u001b[31mred\u001b[0mb')).toEqual([
    { text: 'a' },
    { text: 'red', colour: 'bad' },
    { text: 'b' },
  ])
  expect(plain('10%\r100%\r')).toBe('100%')
  expect(plain('\u001b]0;title\u0007\u001b[2Jx\u0007')).toBe('x')
})

test('a line that reads like an error', () => {
  expect(level('ERROR relation "orders" does not exist')).toBe('error')
  expect(level('done, 0 errors')).toBeUndefined()
  expect(level('warning: old')).toBe('warning')
  for (const [line, is] of levels) expect([line, level(plain(line ?? '')) ?? '']).toEqual([line, is])
})

test('a window on a log grows at both ends and never shows half a line', () => {
  const bytesOf = (text: string) => new TextEncoder().encode(text)
  const log = new LogWindow()
  log.begin(10, bytesOf('st\nthree\nfo'))
  expect([log.length, log.line(0), log.line(1), log.from, log.to]).toEqual([2, 'three', 'fo', 13, 21])
  log.append(bytesOf('ur\n'))
  expect([log.length, log.line(1)]).toEqual([2, 'four'])
  log.prepend(0, bytesOf('one\nnot first\n').subarray(0, 13))
  expect([log.first, log.line(0)]).toEqual([1, 'one'])
})

test('a window in the middle of a log knows the numbers of its lines from one of them', () => {
  const text = 'one\ntwo\nthree\nfour\nfive\n'
  const bytes = new TextEncoder().encode(text)
  const log = new LogWindow()
  log.begin(5, bytes.subarray(5)) // within line 2
  const place = log.placeOf(14, 5, bytes.subarray(5)) // of line 4
  expect([place, log.line(place)]).toEqual([1, 'four'])
  log.first = 4 - place
  log.prepend(4, bytes.subarray(4, log.from))
  expect([log.first, log.line(0)]).toEqual([3, 'three'])
  log.begin(4, bytes.subarray(4), 2) // the beginning of a line
  expect([log.first, log.line(0), log.from]).toEqual([2, 'two', 4])
})

test('a search gathers hits, its progress and its end', () => {
  const is: Found = { hits: [] }
  take(is, { hit: { line: 2, offset: 4, text: 'ax', at: 1, length: 1 } })
  take(is, { progress: { bytes: 9, of: 20 } })
  expect([is.hits.length, is.progress?.bytes, is.end]).toEqual([1, 9, undefined])
  take(is, { end: { bytes: 20, hits: 1, lines: 3, next: null } })
  expect(is.end?.lines).toBe(3)
})

test('a line or a time to go to', () => {
  const began = '2026-11-27T23:30:00Z'
  const at = (text: string) => placeOf(text, began)
  expect(at(' 42 ')).toEqual({ line: 42 })
  expect([at('0'), at('soon'), at(''), at('7:9')]).toEqual([undefined, undefined, undefined, undefined])
  expect(at('2026-11-28T00:10:00Z')).toEqual({ time: '2026-11-28T00:10:00.000Z' })
  const local = new Date(began)
  const next = new Date(local.getTime() - 60 * 60_000) // an hour before the beginning of the attempt is a time of the next day
  const place = at(`${next.getHours()}:${String(next.getMinutes()).padStart(2, '0')}`)
  expect(place).toEqual({ time: new Date(next.getTime() + 24 * 60 * 60_000).toISOString() })
})

test('a window tells the numbers of its lines from the number of the first byte', () => {
  const bytes = new TextEncoder().encode('st\nthree\n')
  const log = new LogWindow()
  log.begin(10, bytes)
  log.numbered(10, 2)
  expect([log.first, log.line(0)]).toEqual([3, 'three'])
  log.begin(13, bytes.subarray(3), 3)
  log.numbered(13, 3)
  expect(log.first).toBe(3)
  log.numbered(13, 0)
  expect(log.first).toBe(3)
})

test('a character that is cut in two is one again', () => {
  const log = new LogWindow()
  const all = new TextEncoder().encode('grün\n')
  log.begin(0, all.subarray(0, 3))
  log.append(all.subarray(3))
  expect(log.line(0)).toBe('grün')
})

test('spans have units', () => {
  expect([0, 950, 1500, 61_000, 3_660_000, 90_000_000].map(duration)).toEqual([
    '0 ms',
    '950 ms',
    '1.5 s',
    '1 m 1 s',
    '1 h 1 m',
    '1 d 1 h',
  ])
  expect(bytes(1536)).toBe('1.5 KiB')
  expect(ago('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:02:00Z'))).toBe('2 m ago')
})

test('rows beyond what an element can hold are reached at both ends', () => {
  const n = 11_682_649
  expect(windowOf(0, 600, 18, n).first).toBe(0)
  const end = windowOf(8_000_000 - 600, 600, 18, n)
  expect(end.first + end.count).toBe(n)
})

test('a workflow is failing while its last ended run failed', () => {
  const run = (workflow: string, state: string) => ({ id: `${workflow}${state}`, workflow, state }) as never
  const found = failing([
    run('a', 'running'),
    run('a', 'failed'),
    run('a', 'failed'),
    run('a', 'succeeded'),
    run('a', 'failed'),
    run('b', 'succeeded'),
    run('b', 'failed'),
  ])
  expect(found.map((f) => [f.run.workflow, f.times])).toEqual([['a', 2]])
})

test('parameters get the type that is declared, and the command says the same', () => {
  expect(typed({ name: 'n', type: 'int' }, '3')).toBe(3)
  expect(() => typed({ name: 'n', type: 'int' }, '3.5')).toThrow('n: 3.5')
  expect(command('hello', { day: '2026-01-01', note: "it's" })).toBe(
    "skein run hello -p day=2026-01-01 -p 'note=it'\\''s'",
  )
})

test('the palette finds by words and by first letters', () => {
  expect(score('nightly', 'shop/nightly-orders')).toBeGreaterThan(score('nightly', 'the nxixgxhxtxlxy'))
  expect(score('sno', 'shop/nightly-orders')).toBeGreaterThan(0)
  expect(score('zz', 'shop')).toBe(0)
})

test('runs that wait are one line for each workflow: the oldest, and how many more', () => {
  const run = (id: string, workflow: string) => ({ id, workflow }) as Run
  expect(
    waiting([run('3', 'a'), run('2', 'b'), run('1', 'a'), run('0', 'a')]).map((w) => [w.run.id, w.more]),
  ).toEqual([
    ['0', 2],
    ['2', 0],
  ])
  expect(waiting([])).toEqual([])
})
