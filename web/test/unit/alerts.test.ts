// The rules of alerts and of their channels.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Alert } from '../../src/api/types'
import {
  configOf,
  kindOf,
  kinds,
  missing,
  parsed,
  targetOf,
  textsOf,
} from '../../src/pages/admin/channeldata'
import { byWorkflow, isOver, messageOf, partOf, severityTone, workflowOf } from '../../src/pages/alertdata'

const alert = (namespace: string, workflow: string, state = 'open') =>
  ({ id: `${namespace} ${workflow} ${state}`, namespace, workflow, state }) as Alert

test('a part of the list is what the server filters by; without one, what is not over', () => {
  expect(partOf(undefined)).toEqual({})
  expect(partOf('acknowledged')).toEqual({ state: 'acknowledged' })
  expect(partOf('all')).toEqual({ all: true })
})

test('alerts are found by the name that runs give their workflow', () => {
  const all = [alert('default', 'a'), alert('shop', 'a'), alert('default', 'a', 'acknowledged')]
  expect(all.map(workflowOf)).toEqual(['a', 'shop/a', 'a'])
  expect([...byWorkflow(all)].map(([name, of]) => [name, of.length])).toEqual([
    ['a', 2],
    ['shop/a', 1],
  ])
  expect(['open', 'acknowledged', 'resolved', 'passed'].map((s) => isOver(alert('x', 'y', s)))).toEqual([
    false,
    false,
    true,
    true,
  ])
})

test('messages are named by what they tell: the last one of an alert that is over tells the end', () => {
  const [one, two, three] = [{ seq: 1 }, { seq: 2 }, { seq: 3 }]
  const names = (over: boolean, ...all: { seq: number }[]) => all.map((n) => messageOf(n, all, over))
  expect(names(false, one)).toEqual(['Beginning'])
  expect(names(true, one)).toEqual(['Beginning'])
  expect(names(true, one, two)).toEqual(['Beginning', 'End'])
  expect(names(false, one, two, three)).toEqual(['Beginning', 'Message 2', 'Message 3'])
})

test('each severity has a tone, also one that the page does not know', () => {
  expect(['critical', 'error', 'warning', 'info', 'new'].map(severityTone)).toEqual([
    'bad',
    'bad',
    'warn',
    'calm',
    'calm',
  ])
})

/** The fields of a struct of the server by their JSON names; a name that may be absent ends with ?. */
function structOf(source: string, name: string): string[] {
  const body = new RegExp(`type ${name} struct \\{(.*?)\\n?\\}`, 's').exec(source)?.[1] ?? ''
  return [...body.matchAll(/`json:"(\w+)(,omitempty)?"`/g)].map((m) => `${m[1]}${m[2] ? '?' : ''}`)
}

test('every kind of the server has a form with its fields, and those that must be set are required', () => {
  const source = ['channel', 'webhook', 'service', 'bots', 'email', 'command']
    .map((f) => readFileSync(join(process.cwd(), `../internal/notify/${f}.go`), 'utf8'))
    .join('\n')
  const types = [...source.matchAll(/^\t\w+ +\*(\w+) +`json:"(\w+),omitempty"`/gm)]
    .map((m) => [m[2] ?? '', m[1] ?? ''])
    .filter(([, type]) => source.includes(`type ${type} struct`))
  expect(types.map(([kind]) => kind).sort()).toEqual(Object.keys(kinds).sort())
  for (const [kind, type] of types) {
    const has = (kinds[kind as string]?.fields ?? []).map((f) => `${f.name}${f.required ? '' : '?'}`)
    // The form cannot hold several keys, so such a channel is written as JSON.
    const is = structOf(source, type as string).filter((f) => f !== 'keys?')
    expect(has.sort(), kind).toEqual(is.sort())
  }
})

test('a configuration becomes fields and the same configuration again, or is written as JSON', () => {
  const kept = [
    { log: {} },
    { slack: { url: { secret: 'SLACK' } } },
    { webhook: { url: 'https://example.org/x' } },
    { webhook: { url: { secret: 'HOOK' }, secret: { secret: 'KEY' } } },
    { email: { to: ['a@example.org', 'b@example.org'] } },
    { command: { run: ['/bin/page', 'ops now'] } },
    { teams: { url: { secret: 'TEAMS' } } },
    { pagerduty: { key: { secret: 'PD' }, url: 'https://events.eu.pagerduty.com' } },
    { alertmanager: { url: 'http://am:9093' } },
    { telegram: { token: { secret: 'BOT' }, chat: '@ops' } },
    { dingtalk: { url: { secret: 'DING' }, secret: { secret: 'KEY' } } },
    { feishu: { url: { secret: 'LARK' } } },
    { wecom: { url: { secret: 'WECOM' } } },
    { ntfy: { topic: 'alerts', token: { secret: 'NTFY' }, url: 'https://ntfy.example.org' } },
    { ntfy: { topic: { secret: 'TOPIC' } } },
  ]
  for (const config of kept) {
    expect(configOf(kindOf(config) ?? '', textsOf(config) ?? {})).toEqual(config)
  }
  const lost = [
    { webhook: { url: 'https://example.org', keys: [{ secret: 'A' }] } },
    { command: { run: ['/bin/sh', '-c', 'a\nb'] } },
    { command: { run: ['/bin/page', ''] } },
    { webhook: { url: 'secret:x' } },
    { slack: { url: 'https://example.org' } },
    { telegram: { token: { secret: 'BOT' }, chat: { secret: 'CHAT' } } },
    { pager: {} },
    { log: {}, email: {} },
    null,
  ]
  for (const config of lost) expect(textsOf(config), JSON.stringify(config)).toBeUndefined()
})

test('the form keeps what is written into it', () => {
  const line = fc.stringMatching(/^[!-~]{1,20}$/)
  fc.assert(
    fc.property(fc.constantFrom(...Object.keys(kinds)), fc.array(line, { minLength: 1 }), (kind, lines) => {
      const fields = kinds[kind]?.fields ?? []
      const texts = Object.fromEntries(
        fields.map((f) => [f.name, f.takes === 'list' ? lines.join('\n') : (lines[0] ?? '')]),
      )
      const back = textsOf(configOf(kind, texts))
      // A text after secret: is the name of a secret.
      if (back) expect(back).toEqual(texts)
      else expect(Object.values(texts)).toContain('secret:')
    }),
  )
})

test('what lacks is named, and JSON that is no channel says what is wrong', () => {
  expect(missing('email', { to: ' \n' })).toEqual(['Recipients'])
  expect(missing('log', {})).toEqual([])
  expect(parsed('{"log": {}}')).toEqual({ config: { log: {} } })
  expect(parsed('{"log": {}, "email": {}}')).toEqual({
    fault: 'Exactly one kind with its settings, such as {"log": {}}.',
  })
  expect('fault' in parsed('{')).toBe(true)
})

test('a channel says to what it sends, and never more than the name of a secret', () => {
  expect(targetOf({ email: { to: ['a@x.org', 'b@x.org'], password: { secret: 'P' } } })).toBe(
    'a@x.org, b@x.org',
  )
  expect(targetOf({ slack: { url: { secret: 'SLACK' } } })).toBe('secret SLACK')
  expect(targetOf({ command: { run: ['/bin/page', 'ops'] } })).toBe('/bin/page ops')
  expect(targetOf({ pager: { routing_key: { secret: 'K' } } })).toBe('secret K')
  expect(targetOf({ telegram: { token: { secret: 'B' }, chat: '@ops' } })).toBe('@ops')
  expect(targetOf({ log: {} })).toBe('')
})
