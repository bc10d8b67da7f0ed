// Tests the rules of silences, the steps of an escalation, the descriptions of rules, and the dialogs in the
// address.
import { expect, test } from 'vitest'
import type { AlertNotice, AlertRule } from '../../src/api/types'
import { readAsk, writeAsk } from '../../src/app/ask'
import { stepsOf, watchOf } from '../../src/pages/alertdata'
import { aboutOf, type Draft, faultOf, requestOf, scopeOf, secondsOf } from '../../src/pages/silencedata'

const draft = (change: Partial<Draft> = {}): Draft => ({
  namespace: 'shop',
  workflow: '',
  rule: '',
  length: '7200',
  reason: 'a move',
  ...change,
})
const now = Date.parse('2026-11-27T10:00:00Z')

test('a silence has a place, a length of at most 90 days, and a reason', () => {
  expect(faultOf(draft(), now)).toBeUndefined()
  expect(faultOf(draft({ namespace: '*' }), now)).toBeUndefined()
  expect(faultOf(draft({ namespace: '*', workflow: 'orders' }), now)).toContain('its namespace')
  expect(faultOf(draft({ namespace: 'No' }), now)).toContain('namespace')
  expect(faultOf(draft({ length: ' ' }), now)).toContain('future')
  expect(faultOf(draft({ length: '2020-01-01T00:00' }), now)).toContain('future')
  expect(faultOf(draft({ length: String(91 * 86_400) }), now)).toContain('90 days')
  expect(faultOf(draft({ reason: ' ' }), now)).toContain('why')
})

test('an end by the clock is as many seconds from now; only what is named is sent', () => {
  const at = new Date(now + 90_000)
  const local = new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
  expect(secondsOf(local, now)).toBe(90)
  expect(requestOf(draft(), now)).toEqual({ seconds: 7200, reason: 'a move' })
  expect(requestOf(draft({ workflow: 'orders', rule: 'failed', reason: ' x ' }), now)).toEqual({
    workflow: 'orders',
    rule: 'failed',
    seconds: 7200,
    reason: 'x',
  })
})

test('a silence says what it is about', () => {
  const of = (namespace: string, workflow: string | null, rule: string | null) =>
    scopeOf({ namespace, workflow, rule })
  expect(of('*', null, null)).toBe('everything')
  expect(of('*', null, 'failed')).toBe('everything, rule failed')
  expect(of('shop', null, null)).toBe('the namespace shop')
  expect(of('shop', 'orders', 'failed')).toBe('shop/orders, rule failed')
  expect(of('default', 'orders', null)).toBe('orders')
  expect(aboutOf('shop/orders')).toEqual({ namespace: 'shop', workflow: 'orders' })
  expect(aboutOf('orders')).toEqual({ namespace: 'default', workflow: 'orders' })
})

const notice = (seq: number, channel: string) =>
  ({ seq, channel, created_at: `2026-11-27T1${seq}:00:00Z` }) as AlertNotice

test('steps of an escalation are told, to come, or not needed any more', () => {
  const rule = [
    { seconds: 1800, channels: ['oncall'] },
    { seconds: 7200, channels: ['lead'] },
  ]
  const open = { state: 'open' as const, escalations: 1, escalates_at: '2026-11-27T13:30:00Z' }
  const notices = [notice(1, 'ops'), notice(2, 'oncall')]
  expect(stepsOf({ ...open, notices }, rule)).toEqual([
    { state: 'sent', seconds: 1800, channels: ['oncall'], at: '2026-11-27T12:00:00Z' },
    { state: 'planned', seconds: 7200, channels: ['lead'], at: '2026-11-27T13:30:00Z' },
  ])
  const over = { state: 'acknowledged' as const, escalations: 0, escalates_at: null, notices }
  expect(stepsOf(over, rule).map((s) => [s.state, s.at])).toEqual([
    ['cancelled', undefined],
    ['cancelled', undefined],
  ])
  // An edit has removed the step from the rule. The steps of sent messages stay.
  expect(stepsOf({ ...open, notices, escalates_at: null }, [])).toEqual([
    { state: 'sent', channels: ['oncall'], at: '2026-11-27T12:00:00Z' },
  ])
})

test('a rule says in words what it watches', () => {
  const rule = (r: Partial<AlertRule>) =>
    watchOf({ on: [], deadline: undefined as never, than: undefined as never, after: 1, each: false, ...r })
  const deadline = { seconds: 7200, from: null, by: null, timezone: null, for: 'success' as const }
  expect(rule({ on: ['failed', 'missed'] })).toBe('failed, missed')
  expect(rule({ on: ['failed'], after: 3 })).toBe('failed, 3 in a row')
  expect(rule({ on: ['task_failed'], tasks: ['load', 'mo*'], after: 2 })).toBe(
    'task_failed of load, mo*, 2 in a row',
  )
  expect(rule({ on: ['failed'], each: true })).toBe('failed, each time')
  expect(rule({ deadline })).toBe('late unless it has succeeded within 2 h of its instant')
  expect(
    rule({ deadline: { ...deadline, seconds: 0, by: '07:30', timezone: 'Europe/Berlin', for: 'end' } }),
  ).toBe('late unless it has ended by 07:30 Europe/Berlin')
  expect(rule({ deadline: { ...deadline, from: 'queued', for: 'start' } })).toBe(
    'late unless it has started within 2 h of its creation',
  )
  expect(rule({ than: { seconds: 2700, times: 0, percentile: 0 } })).toBe('slow if it runs longer than 45 m')
  expect(rule({ than: { seconds: 0, times: 2, percentile: 95 } })).toBe(
    'slow if it runs longer than 2 × p95 of the last runs',
  )
})

test('a dialog in the address has a name, and what it is about', () => {
  for (const [name, of] of [
    ['stop', ''],
    ['drain', 'n1'],
    ['end', 'a:b'],
  ] as const)
    expect(readAsk(writeAsk(name, of))).toEqual([name, of])
  expect(readAsk('')).toEqual(['', ''])
})
