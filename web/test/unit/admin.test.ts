// The rules of the pages of the administration.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act, createElement } from 'react'
import { createRoot } from 'react-dom/client'
import { expect, test, vi } from 'vitest'
import { hasSomewhere } from '../../src/api/me'
import type { Me, Session, Token } from '../../src/api/types'
import { placeOf, runOf } from '../../src/pages/admin/audit'
import {
  agentOf,
  daysOn,
  inOrder,
  lacking,
  newPassword,
  providerOf,
  roleText,
  tokenStates,
} from '../../src/pages/admin/data'
import { quotas, readBound } from '../../src/pages/admin/namespaces'
import { faultOf } from '../../src/pages/admin/secrets'
import { TokenTable } from '../../src/pages/admin/tokens'
import { grouped, verbGroups } from '../../src/pages/admin/verbs'

/**
 * The verbs that roles can have, from the source of the server. They come before the verbs that no role has.
 */
function ofServer(): string[] {
  const text = readFileSync(join(process.cwd(), '../internal/access/verb.go'), 'utf8')
  const names = text.slice(text.indexOf('var verbNames'), text.indexOf('Public: "public"'))
  return [...names.matchAll(/: +"([a-z.]+)"/g)].map((m) => m[1] as string)
}

// The address has the open dialog, and there is no router here.
vi.mock('../../src/app/ask', () => {
  const asked = { name: '', of: '', open: () => {}, turn: () => {}, close: () => {} }
  return { useAsked: () => asked, useQuestion: () => ({ question: undefined, asked }) }
})

test('the page says what each verb of the server allows, and knows no other', () => {
  const known = verbGroups.flatMap(([, verbs]) => verbs)
  expect(known.map(([verb]) => verb)).toEqual(ofServer())
  expect(known.every(([, does]) => /^[a-z]/.test(does))).toBe(true)
  expect(new Set(known.map(([, does]) => does)).size).toBe(known.length)
})

test('verbs are grouped, and one that the page does not know is shown too', () => {
  expect(grouped(['role.read', 'run.read', 'new.verb'])).toEqual([
    ['See', [['run.read', 'see runs and their tasks']]],
    ['Administer the cluster', [['role.read', 'see roles']]],
    ['Other', [['new.verb', '']]],
  ])
})

const ann: Me = {
  kind: 'user',
  name: 'ann',
  verbs: { '*': ['run.read'], shop: ['run.start', 'member.write'] },
}

test('a role can be given only where the caller has each of its verbs', () => {
  const role = { verbs: ['run.read', 'run.start'] }
  expect(lacking(ann, role, 'shop')).toEqual([])
  expect(lacking(ann, role, '*')).toEqual(['run.start'])
  expect(lacking(ann, role, 'web')).toEqual(['run.start'])
  expect(lacking(undefined, role, '*')).toEqual([])
  expect([hasSomewhere(ann, 'member.write'), hasSomewhere(ann, 'user.write')]).toEqual([true, false])
  expect([roleText({ role: 'viewer' }), roleText({ role: 'viewer', namespace: 'shop' })]).toEqual([
    'viewer in all namespaces',
    'viewer in shop',
  ])
})

test('passwords that the page makes differ, and are of letters and digits that nobody mistakes', () => {
  const made = new Set(Array.from({ length: 200 }, newPassword))
  expect(made.size).toBe(200)
  for (const p of made) expect(p).toMatch(/^[a-km-zA-HJ-NP-Z2-9]{20}$/)
  expect(new Set([...made].join('')).size).toBeGreaterThan(50)
})

test('an expiry is some days from now, or none', () => {
  expect(daysOn('30', Date.UTC(2026, 0, 1))).toEqual({ expires_at: '2026-01-31T00:00:00.000Z' })
  expect(daysOn('')).toEqual({})
})

test('a session is named by its browser and system, and the present one comes first', () => {
  for (const [agent, want] of [
    [
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36',
      'Chrome on Linux',
    ],
    [
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0',
      'Firefox on Windows',
    ],
    [
      'Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 Version/19.0 Safari/604.1',
      'Safari on iOS',
    ],
    [
      'Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0',
      'Edge on Windows',
    ],
    ['curl/8.5.0', 'curl'],
    ['something else', 'something else'],
    ['', 'unknown'],
  ])
    expect(agentOf(agent as string)).toBe(want)
  const of = (id: string, used_at: string, current: boolean) => ({ id, used_at, current }) as Session
  expect(
    inOrder([
      of('old', '2026-01-01T00:00:00Z', false),
      of('new', '2026-01-03T00:00:00Z', false),
      of('me', '2026-01-02T00:00:00Z', true),
    ]).map((s) => s.id),
  ).toEqual(['me', 'new', 'old'])
})

test('a secret is of as many bytes as the server takes', () => {
  expect([faultOf('12345'), faultOf('123456'), faultOf('äöü')].map((f) => f === undefined)).toEqual([
    false,
    true,
    true,
  ])
  expect(faultOf('x'.repeat(64 << 10))).toBeUndefined()
  expect(faultOf('x'.repeat((64 << 10) + 1))).toMatch(/64 KiB/)
})

test('tokens are filtered by each state that the server tells', () => {
  const document = JSON.parse(readFileSync(join(process.cwd(), '../sdk/go/api/v1/openapi.json'), 'utf8'))
  expect([...tokenStates].sort()).toEqual([...document.components.schemas.Token.properties.state.enum].sort())
})

test('a token that has ended can be revoked, since it may become valid again', async () => {
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true)
  vi.stubGlobal('fetch', async () => new Response('{}', { status: 503 }))
  const token = (state: Token['state'], id: number): Token => ({
    id,
    name: `t${id}`,
    kind: 'worker',
    state,
    created_at: '2026-01-01T00:00:00Z',
    created_by: 'root',
    expires_at: null,
    revoked_at: null,
    user: null,
    parent: null,
    replaces: null,
    replaced_by: null,
  })
  const at = document.body.appendChild(document.createElement('div'))
  const root = createRoot(at)
  await act(() =>
    root.render(
      createElement(
        QueryClientProvider,
        { client: new QueryClient() },
        createElement(TokenTable, { tokens: tokenStates.map(token) }),
      ),
    ),
  )
  const rows = [...at.querySelectorAll('tbody tr')].map((row) =>
    [...row.querySelectorAll('button')].map((b) => b.textContent),
  )
  expect(Object.fromEntries(tokenStates.map((state, i) => [state, rows[i]]))).toEqual({
    valid: ['Rotate', 'Revoke'],
    ended: ['Revoke'],
    expired: [],
    revoked: [],
  })
  await act(() => root.unmount())
  vi.unstubAllGlobals()
})

test('the source of a user names its identity provider', () => {
  expect(['local', 'oidc:corp', 'oidc:a:b'].map((source) => providerOf({ source }))).toEqual([
    undefined,
    'corp',
    'a:b',
  ])
})

test('a row of the audit log leads to its run, and says what the tree has of it', () => {
  const id = '019300aa-0000-7000-8000-00000000abcd'
  const of = (object: string) => runOf({ object })
  expect([of(`/runs/${id}`), of(`/api/v1/runs/${id}/tasks/a:mark`), of(`/runs/${id}:stop`)]).toEqual([
    id,
    id,
    id,
  ])
  expect([of('/secrets/default/A'), of('/runs'), of(`/runs/${id}0`)]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
  expect(placeOf({ id: 7, index: 0 })).toBe('leaf 0')
  expect(placeOf({ id: 7, index: null })).toBe('no place yet')
  expect(placeOf({ id: 0, index: null })).toBe('the run is the record')
})

test('a bound is a number with or without a unit', () => {
  const typed = ['', ' 7 ', '64Ki', '2 Gi', '0', '-1', '1.5', '1 Zi', 'x', '999999999999999Gi']
  expect(typed.map(readBound)).toEqual([undefined, 7, 65536, 2 ** 31, NaN, NaN, NaN, NaN, NaN, NaN])
  expect(new Set(quotas.map((q) => q.name)).size).toBe(10)
})
