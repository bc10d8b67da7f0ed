// Two persons in one browser: what each tab does when another one signs in or out, and what it deletes before.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'

/**
 * The tabs of one browser: every message that one tab posts reaches all other tabs, in the order of the
 * posts.
 */
class Channel {
  static open: Channel[] = []
  static posted: unknown[] = []
  private hear: (e: { data: unknown }) => void = () => {}
  constructor() {
    Channel.open.push(this)
  }
  addEventListener(_: string, hear: (e: { data: unknown }) => void) {
    this.hear = hear
  }
  postMessage(data: unknown) {
    Channel.posted.push(data)
    for (const other of Channel.open) if (other !== this) queueMicrotask(() => other.hear({ data }))
  }
}

const userKey = 'skein.user'
let signedIn = ''

beforeEach(() => {
  Channel.open = []
  Channel.posted = []
  localStorage.clear()
  vi.stubGlobal('BroadcastChannel', Channel)
  vi.stubGlobal('fetch', async (_: string, { method }: { method: string }) =>
    method === 'DELETE'
      ? new Response(null, { status: 204 })
      : new Response(JSON.stringify({ user: signedIn })),
  )
})

afterEach(() => vi.unstubAllGlobals())

/** Opens a tab. did lists what it has done to its view and its drafts. */
async function tab(forget: () => Promise<boolean> = async () => true) {
  vi.resetModules()
  const session = await import('../../src/api/session')
  const did: string[] = []
  session.watchPerson({
    forget: () => {
      did.push('forget')
      return forget()
    },
    enter: () => did.push('enter'),
    reload: () => did.push('reload'),
  })
  return { ...session, did }
}

/** Waits until all messages have arrived and their effects are done. */
const settle = () => new Promise((done) => setTimeout(done))

const kept = () => localStorage.getItem(userKey)

test('a sign-in without the form takes the view of the other person out of the other tabs', async () => {
  const anns = await tab()
  await anns.become('ann')
  const bobs = await tab()
  expect(await bobs.become('bob')).toBe(true)
  await settle()
  expect(bobs.did).toEqual(['forget', 'reload'])
  expect(anns.did).toEqual(['forget', 'reload'])
  expect(kept()).toBe('bob')
})

test('a tab that heard of no sign-in finds the other person by its own memory', async () => {
  const anns = await tab()
  await anns.become('ann')
  localStorage.setItem(userKey, 'bob')
  expect(await anns.become('bob')).toBe(true)
  expect(anns.did).toEqual(['forget', 'reload'])
})

test('a sign-in without the form opens the tabs that ask for one', async () => {
  const anns = await tab()
  await anns.become('ann')
  await anns.signOut()
  const next = await tab()
  expect(await next.become('bob')).toBe(false)
  await settle()
  expect(anns.did).toEqual(['forget', 'enter'])
})

test('a page of the same person tells nobody, but a sign-in by the form does, once', async () => {
  const first = await tab()
  await first.become('ann')
  const second = await tab()
  Channel.posted = []
  await second.become('ann')
  await first.become('ann')
  expect(Channel.posted).toEqual([])
  for (signedIn of ['ann', 'bob']) {
    Channel.posted = []
    await second.signIn({ token: 't' })
    await settle()
    expect(Channel.posted).toEqual([{ kind: 'in', user: signedIn }])
  }
  expect(first.did).toEqual(['enter', 'forget', 'reload'])
})

test('a browser that deletes no drafts keeps the name, and its pages do not begin anew for ever', async () => {
  const cannot = async () => false
  const anns = await tab()
  await anns.become('ann')
  const bobs = await tab(cannot)
  expect(await bobs.become('bob')).toBe(false)
  expect(await bobs.become('bob')).toBe(false)
  expect(bobs.did).toEqual(['forget', 'forget'])
  expect(Channel.posted.slice(1)).toEqual([{ kind: 'in', user: 'bob' }])
  expect(kept()).toBe('ann')
  const later = await tab()
  expect(await later.become('bob')).toBe(true)
  expect(later.did).toEqual(['forget', 'reload'])
  expect(kept()).toBe('bob')
})

test.each([
  [true, null],
  [false, 'ann'],
])('a sign-out drops the name after the drafts, if they are gone (%s)', async (gone, want) => {
  let end: (gone: boolean) => void = () => {}
  const anns = await tab(
    () =>
      new Promise((done) => {
        end = done
      }),
  )
  await anns.become('ann')
  const leaving = anns.signOut()
  await vi.waitUntil(() => anns.did.includes('forget'))
  expect(kept()).toBe('ann') // The tab may die here.
  end(gone)
  await leaving
  expect(kept()).toBe(want)
})

test('a sign-out that ends late does not drop the name of who signed in meanwhile', async () => {
  let end: (gone: boolean) => void = () => {}
  const anns = await tab(
    () =>
      new Promise((done) => {
        end = done
      }),
  )
  await anns.become('ann')
  const leaving = anns.signOut()
  await vi.waitUntil(() => anns.did.includes('forget'))
  signedIn = 'ann'
  await anns.signIn({ token: 't' })
  end(true)
  await leaving
  expect(kept()).toBe('ann')
})
