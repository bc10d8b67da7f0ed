// Tests when the page uses, offers or drops a code in the address, and the effect of a refusal after a
// sign-out.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { act, createElement } from 'react'
import { createRoot } from 'react-dom/client'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

let calls: string[] = []
let answers: Record<string, number> = {}

beforeEach(() => {
  vi.resetModules()
  calls = []
  answers = { 'POST /session': 200, 'DELETE /session': 204 }
  vi.stubGlobal('IS_REACT_ACT_ENVIRONMENT', true)
  vi.stubGlobal('fetch', async (url: string, { method }: { method: string }) => {
    const call = `${method} ${url.replace('/api/v1', '')}`
    calls.push(call)
    const status = answers[call] ?? 401
    return new Response(status === 204 ? null : '{}', { status })
  })
})

afterEach(() => {
  vi.unstubAllGlobals()
  vi.restoreAllMocks()
})

async function arrive(site: string, referrer: string, status: number) {
  document.head.innerHTML = site === 'no tag' ? '' : `<meta name="skein-site" content="${site}" />`
  vi.spyOn(document, 'referrer', 'get').mockReturnValue(referrer)
  location.hash = '#code=skein_code_x'
  answers['GET /session'] = status
  const { signInByAddress } = await import('../../src/api/session')
  const arrival = await signInByAddress()
  expect(location.hash).toBe('')
  return { arrival, used: calls.includes('POST /session') }
}

const used = { arrival: {}, used: true }
const dropped = { arrival: {}, used: false }
const kept = { arrival: { kept: true }, used: false }
const offered = { arrival: { offered: 'skein_code_x' }, used: false }
const here = () => `${location.origin}/runs`

test.each([
  ['none', '', 401, used],
  ['same-origin', '', 401, used],
  ['cross-site', '', 401, offered],
  ['same-site', '', 401, offered],
  ['', '', 401, used],
  ['', 'http://other.test/', 401, offered],
  ['no tag', 'http://other.test/', 401, offered],
  ['no tag', here(), 401, used],
  ['none', '', 200, kept],
  ['cross-site', '', 200, kept],
  ['none', '', 404, used],
  ['cross-site', '', 404, dropped],
  ['none', '', 503, offered],
])('site "%s", referrer "%s", session %i', async (site, referrer, status, want) => {
  expect(await arrive(site, referrer, status)).toEqual(want)
})

test('a late refusal does not bring back the page of the person who signed out', async () => {
  const { signIn, signOut } = await import('../../src/api/session')
  const { send } = await import('../../src/api/client')
  const { SignedIn } = await import('../../src/app/signin')
  const at = document.body.appendChild(document.createElement('div'))
  const queries = new QueryClient()
  const root = createRoot(at)
  const late = () => act(() => send('/runs').catch(() => undefined))
  await act(() =>
    root.render(
      createElement(
        QueryClientProvider,
        { client: queries },
        createElement(SignedIn, { arrival: {}, children: 'the runs of ann' }),
      ),
    ),
  )
  queries.setQueryData(['runs'], ['a run of ann'])
  await late()
  expect(at.textContent).toContain('Sign in to Skein')
  expect(at.textContent).toContain('the runs of ann')
  expect(queries.getQueryData(['runs'])).toEqual(['a run of ann'])
  await act(() => signIn({ token: 't' }))
  expect(at.textContent).toBe('the runs of ann')
  await act(() => signOut())
  await late()
  expect(at.textContent).toContain('Sign in to Skein')
  expect(at.textContent).not.toContain('the runs of ann')
  expect(queries.getQueryCache().getAll()).toEqual([])
  await act(() => root.unmount())
})

test('the form has a button for each identity provider, which returns to the present page', async () => {
  const list = { items: [{ name: 'corp', login: '/auth/corp/login' }] }
  vi.stubGlobal('fetch', async (url: string) =>
    url.endsWith('/identity-providers')
      ? new Response(JSON.stringify(list))
      : new Response('{}', { status: 401 }),
  )
  history.replaceState(null, '', '/runs?state=failed&user=a%26b')
  const { send } = await import('../../src/api/client')
  const { SignedIn } = await import('../../src/app/signin')
  const at = document.body.appendChild(document.createElement('div'))
  const root = createRoot(at)
  await act(() =>
    root.render(
      createElement(
        QueryClientProvider,
        { client: new QueryClient() },
        createElement(SignedIn, { arrival: {}, children: null }),
      ),
    ),
  )
  await act(() => send('/runs').catch(() => undefined))
  const link = await vi.waitUntil(() => at.querySelector('a.button'))
  expect(link.textContent).toBe('Sign in with corp')
  expect(link.getAttribute('href')).toBe('/auth/corp/login?return=%2Fruns%3Fstate%3Dfailed%26user%3Da%2526b')
  await act(() => root.unmount())
})
