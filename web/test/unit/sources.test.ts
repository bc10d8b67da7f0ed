import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Schedule } from '../../src/api/types'
import { configOf, missing, textsOf } from '../../src/pages/admin/channeldata'
import { sideOf, types } from '../../src/pages/admin/connectiondata'
import { ranges } from '../../src/pages/backfilldata'
import { differing } from '../../src/pages/nodedata'
import { isAway, lagText, seekPlan, seekTo, targetsOf } from '../../src/pages/sourcedata'

const source = (of: Partial<NonNullable<Schedule['source']>>): NonNullable<Schedule['source']> => ({
  cursor: null,
  from: 'now',
  lag: null,
  away_at: null,
  why: null,
  taken_at: null,
  filtered: 0,
  lost: 0,
  ...of,
})

test('a source is away only while its trigger reads', () => {
  const away = source({ away_at: '2026-11-27T18:00:00Z' })
  expect(isAway({ state: 'active', source: away })).toBe(true)
  expect(isAway({ state: 'paused', source: away })).toBe(false)
  expect(isAway({ state: 'active', source: source({}) })).toBe(false)
  expect(isAway({ state: 'active' })).toBe(false)
})

test('the lag is said as what it is: unknown is not none', () => {
  expect([null, 0, 1, 1200].map(lagText)).toEqual(['not known', 'none', '1 event', '1,200 events'])
})

test('only the log of events knows times, and a target is sent as the server takes it', () => {
  expect(targetsOf('event')).toContain('time')
  expect(targetsOf('query')).not.toContain('time')
  expect(seekTo('now', 'x')).toBe('now')
  expect(seekTo('cursor', ' 12 ')).toBe('12')
  expect(seekTo('cursor', ' ')).toBeUndefined()
  expect(seekTo('time', 'soon')).toBeUndefined()
  expect(seekTo('time', '2026-11-27T06:00:00Z')).toBe('2026-11-27T06:00:00.000Z')
})

test('a plan says what is read again, what is left out, and that a paused trigger reads nothing', () => {
  const s = { kind: 'event', state: 'active', source: source({ cursor: '17', lag: 3 }) } as const
  expect(seekPlan(s, 'now').join(' ')).toContain('3 events wait now and start no runs')
  expect(seekPlan({ ...s, source: source({ cursor: '17', lag: 0 }) }, 'now').join(' ')).toContain(
    'nothing is left out',
  )
  expect(seekPlan({ ...s, source: source({ cursor: '17' }) }, 'now').join(' ')).toContain('not read yet')
  expect(seekPlan(s, 'beginning').join(' ')).toContain('all up to 17')
  expect(seekPlan({ ...s, state: 'paused' }, 'cursor').at(-1)).toContain('paused')
})

/** The fields of a struct of the server by their JSON names; a name that may be absent ends with ?. */
function structOf(text: string, name: string): string[] {
  const body = new RegExp(`type ${name} struct \\{(.*?)\\n\\}`, 's').exec(text)?.[1] ?? ''
  return [...body.matchAll(/`json:"(\w+)(,omitempty)?"`/g)].map((m) => `${m[1]}${m[2] ? '?' : ''}`)
}

test('every type of connection has a form with the fields of the server', () => {
  const text = ['connection', 'ssh']
    .map((f) => readFileSync(join(process.cwd(), `../internal/connection/${f}.go`), 'utf8'))
    .join('\n')
  const all = [...text.matchAll(/^\t(\w+) +\*\w+ +`json:"(\w+),omitempty"`/gm)].filter((m) =>
    text.includes(`type ${m[1]} `),
  )
  expect(all.map((m) => m[2]).sort()).toEqual(Object.keys(types).sort())
  for (const [, go = '', type = ''] of all) {
    const has = (types[type]?.fields ?? []).map((f) => `${f.name}${f.required ? '' : '?'}`)
    // Some fields, such as headers, have no form and are written as JSON.
    const is = structOf(text, go === 'MySQL' ? 'Postgres' : go).filter(
      (f) => f !== 'headers?' && f !== 'create?',
    )
    expect(has.sort(), type).toEqual(is.sort())
  }
})

test('a connection becomes fields and is the same again; one with more stays JSON', () => {
  const config = {
    postgres: { host: 'db', port: 5433, user: 'ada', password: { secret: 'PW' }, tls: 'encrypt' },
  }
  const texts = textsOf(config, types)
  expect(texts).toEqual({ host: 'db', port: '5433', user: 'ada', password: 'PW', tls: 'encrypt' })
  expect(configOf('postgres', texts ?? {}, types)).toEqual(config)
  expect(textsOf({ http: { url: 'https://x', headers: { a: 'b' } } }, types)).toBeUndefined()
  expect(missing('ssh', { host: 'm', user: 'u' }, types)).toEqual([
    'Secret with the private key',
    'Keys of the machine',
  ])
  expect(sideOf({ type: 'postgres', config })).toBe('ada@db:5433')
  expect(sideOf({ type: 'http', config: { http: { url: 'https://crm' } } })).toBe('https://crm')
  expect(sideOf({ type: 'http', config: null })).toBe('')
})

test('a kind with two declarations differs', () => {
  expect([...differing([{ kind: 'a' }, { kind: 'b' }, { kind: 'b' }])]).toEqual(['b'])
})

test('the ranges of a backfill are whole days before today; a week begins on Monday', () => {
  const at = (now: Date) => Object.fromEntries(ranges(now).map((r) => [r.label, [r.from, r.to]]))
  expect(at(new Date(2026, 10, 27, 9))).toEqual({
    Yesterday: ['2026-11-26T00:00', '2026-11-26T23:59'],
    'Last 7 days': ['2026-11-20T00:00', '2026-11-26T23:59'],
    'Last week': ['2026-11-16T00:00', '2026-11-22T23:59'],
  })
  expect(at(new Date(2026, 2, 1, 0))['Last week']).toEqual(['2026-02-16T00:00', '2026-02-22T23:59'])
})
