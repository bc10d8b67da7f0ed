// The session of the person who uses the page: whether the server asks for a sign-in, and how a session
// begins and ends.
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

// A refusal after a sign-out changes nothing, because it must not bring back the page of the former person.
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
  /**
   * Deletes the data that the person who left has kept in this browser, and reports whether all of it is
   * gone.
   */
  forget: () => Promise<boolean>
  /** Called after a person has signed in. */
  enter: () => void
  /** Loads the page anew, for another person. */
  reload: () => void
}

let person: Person = { forget: async () => true, enter: () => {}, reload: () => {} }

/** Sets the functions that are called when a person signs in or out. */
export function watchPerson(p: Person) {
  person = p
}

// The name of the person who used this browser last. The next person must not find the data of the previous
// one.
const userKey = 'skein.user'
// The name of the person whose view this tab shows. Another tab may have stored another name meanwhile.
let lastUser: string | undefined

function userBefore(): string | undefined {
  try {
    return localStorage.getItem(userKey) ?? undefined
  } catch {
    return lastUser // The browser stores nothing for this page.
  }
}

function remember(user: string | undefined) {
  lastUser = user
  try {
    if (user === undefined) localStorage.removeItem(userKey)
    else localStorage.setItem(userKey, user)
  } catch {
    // For this tab, the variable has the name.
  }
}

const differs = (a: string | undefined, b: string) => a !== undefined && a !== b

/**
 * Records who uses the page. It notifies the other tabs if the person is new, or if tells is set. If another
 * person used this browser or this tab before, it deletes their drafts and loads the page again. It returns
 * true if it loads the page again.
 */
export async function become(user: string, tells = false): Promise<boolean> {
  const [before, shown] = [userBefore(), lastUser]
  const isOther = differs(before, user) || differs(shown, user)
  const forgotten = !isOther || (await person.forget())
  // The name is stored only now: if the page ends before this line, the next page finds the name of the other
  // person again, and deletes the drafts then.
  if (forgotten) remember(user)
  else lastUser = user // The browser still names the other person, so the next page tries again.
  // The message is sent once per page, because an answer to it must not cause the next one.
  const isNew = shown !== user && (isOther || before === undefined)
  if (tells || isNew) tabs?.postMessage({ kind: 'in', user } satisfies News)
  // If the drafts could not be deleted, a page that shows nothing of the other person does not load again,
  // because it would load again for ever.
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
  // The other tabs are notified even for the same person, because they may ask for a sign-in.
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
    // If the session has already ended, the sign-out still succeeds.
    if (!(e instanceof Failure && e.problem.status === 401)) throw e
  }
  tabs?.postMessage({ kind: 'out' } satisfies News)
  const forgetting = person.forget()
  set('signed-out')
  // The name is removed only after the drafts are gone. Until then, the next person must find this name, and
  // delete the drafts. Another person may have signed in meanwhile, whose name is already stored.
  if ((await forgetting) && asked === 'signed-out') remember(undefined)
}

/**
 * The result of an address with a code. problem says why the server refused the code. offered is a code that
 * the page did not use, because the person decides. kept is true if the browser was already signed in, so
 * that the page dropped the code.
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
