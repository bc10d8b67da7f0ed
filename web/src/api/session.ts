// The session of the person who uses the page: whether the server asks for one, and how to get and end it.
import { useSyncExternalStore } from 'react'
import { basePath, Failure, post, send, watchRefused } from './client'
import type { Session } from './types'

export type Credential = { token: string } | { code: string } | { user: string; password: string }

/** Whether the page asks for a sign-in, and why: the server refused a call, or the person signed out. */
export type Asked = 'no' | 'refused' | 'signed-out'

const listeners = new Set<() => void>()
let asked: Asked = 'no'
let since = 0

function set(value: Asked) {
  if (asked === value) return
  asked = value
  for (const tell of listeners) tell()
}

// A refusal after a sign-out changes nothing: it must not bring the page of the former person back.
function refuse() {
  if (asked === 'no') set('refused')
}

// A request that began before the sign-in says nothing about the present session.
watchRefused((began) => began >= since && refuse())

export const useSignInAsked = (): Asked =>
  useSyncExternalStore(
    (tell) => {
      listeners.add(tell)
      return () => listeners.delete(tell)
    },
    () => asked,
  )

/** What a tab tells the other tabs of this browser: who signed in, or that the person signed out. */
type News = { kind: 'in'; user: string } | { kind: 'out' }

const tabs = typeof BroadcastChannel === 'undefined' ? undefined : new BroadcastChannel('skein session')

type Person = {
  /** Forgets what the person who left has kept in this browser, and reports whether that is gone. */
  forget: () => Promise<boolean>
  /** Somebody has signed in. */
  enter: () => void
  /** Loads the page anew, for another person. */
  reload: () => void
}

let person: Person = { forget: async () => true, enter: () => {}, reload: () => {} }

/** Has functions called when a person enters or leaves. */
export function watchPerson(p: Person) {
  person = p
}

// Who used this browser last. Another person must not find what that one has left.
const userKey = 'skein.user'
// Whose view this tab shows. Another tab may have noted another person meanwhile.
let lastUser: string | undefined

function userBefore(): string | undefined {
  try {
    return localStorage.getItem(userKey) ?? undefined
  } catch {
    return lastUser // The browser keeps nothing for this page.
  }
}

function remember(user: string | undefined) {
  lastUser = user
  try {
    if (user === undefined) localStorage.removeItem(userKey)
    else localStorage.setItem(userKey, user)
  } catch {
    // The variable has it for this tab.
  }
}

const differs = (a: string | undefined, b: string) => a !== undefined && a !== b

/**
 * Notes who uses the page, and tells the other tabs if it is somebody new or if tells is set. If this browser or
 * this tab had another person before, their drafts are deleted and the page begins anew. Reports whether it does.
 */
export async function become(user: string, tells = false): Promise<boolean> {
  const [before, shown] = [userBefore(), lastUser]
  const isOther = differs(before, user) || differs(shown, user)
  const forgotten = !isOther || (await person.forget())
  // Only now: a page that ends before this line finds the other person again, and forgets then.
  if (forgotten) remember(user)
  else lastUser = user // The browser still names the other person, so the next page tries again.
  // Once per page: an answer to this message must not cause the next one.
  const isNew = shown !== user && (isOther || before === undefined)
  if (tells || isNew) tabs?.postMessage({ kind: 'in', user } satisfies News)
  // Without the deletion, a page that shows nothing of the other person would begin anew for ever.
  const begins = isOther && (forgotten || differs(shown, user))
  if (begins) person.reload()
  return begins
}

tabs?.addEventListener('message', ({ data }: MessageEvent<News>) => {
  if (data.kind === 'out') {
    lastUser = undefined
    void person.forget()
    set('signed-out')
  } else if (lastUser !== undefined && lastUser !== data.user) {
    void person.forget().then(person.reload)
  } else {
    enter(data.user)
  }
})

function enter(user: string) {
  since = performance.now()
  lastUser = user
  person.enter()
  set('no')
}

export async function signIn(credential: Credential): Promise<void> {
  const { user } = await post<Session>('/session', credential)
  // The same person, too: the other tabs may ask for a sign-in.
  const begins = await become(user, true)
  if (!begins) enter(user)
}

/** An identity provider by which a person can sign in: its name, and the path at which that begins. */
export type Provider = { name: string; login: string }

/** Lists the identity providers. If the server does not answer, the other ways to sign in stay. */
export async function identityProviders(): Promise<Provider[]> {
  try {
    const list = (await (await send('/identity-providers')).json()) as { items?: Provider[] }
    return list.items ?? []
  } catch {
    return []
  }
}

/** The address that begins a sign-in by a provider and returns to the present page. */
export function loginAddress(provider: Provider): string {
  const here = location.pathname.slice(basePath.length) + location.search
  return `${provider.login}?return=${encodeURIComponent(here)}`
}

/** Ends the session in all tabs, with the drafts of the person. The page asks for a new session. */
export async function signOut(): Promise<void> {
  try {
    await send('/session', { method: 'DELETE' })
  } catch (e) {
    // A session that has ended already is one that the person leaves, too.
    if (!(e instanceof Failure && e.problem.status === 401)) throw e
  }
  tabs?.postMessage({ kind: 'out' } satisfies News)
  const forgetting = person.forget()
  set('signed-out')
  // Only when the drafts are gone: until then the next person must find the name of this one, and delete them.
  // Somebody may have signed in meanwhile, and is noted already.
  if ((await forgetting) && asked === 'signed-out') remember(undefined)
}

/**
 * The result of an address with a code. problem says why the server refused the code. offered is a code that the
 * page did not use: the person decides. kept: the browser is signed in already, and the page dropped the code.
 */
export type Arrival = { problem?: string; offered?: string; kept?: boolean }

/**
 * Takes a code out of the address, so that neither the history nor a bookmark has it, and signs in with it. A link
 * of another site does not sign in: its author would choose the user as whom the person works.
 */
export async function signInByAddress(): Promise<Arrival> {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1]
  if (!code) return {}
  history.replaceState(history.state, '', location.pathname + location.search)
  const status = await sessionStatus()
  if (status === 200) return { kept: true }
  const open = status === 404 // the server answers calls without a session
  if (open && isForeign()) return {}
  if (!open && (status !== 401 || isForeign())) {
    refuse()
    return { offered: code }
  }
  try {
    await signIn({ code })
    return {}
  } catch (e) {
    if (open) return {}
    refuse()
    return { problem: e instanceof Error ? e.message : String(e) }
  }
}

const sessionStatus = (): Promise<number> =>
  send('/session').then(
    (answer) => answer.status,
    (e) => (e instanceof Failure ? e.problem.status : 0),
  )

/**
 * Reports whether another site may have opened this page. The server writes the browser's header Sec-Fetch-Site
 * into the page. Browsers omit the header over plain HTTP to another machine. Then only the referrer is known.
 */
function isForeign(): boolean {
  const site = document.querySelector('meta[name="skein-site"]')?.getAttribute('content')
  if (site) return site !== 'none' && site !== 'same-origin'
  return document.referrer !== '' && new URL(document.referrer).origin !== location.origin
}
