// Saved views: addresses with a name, kept in this browser for the person who uses it.
import { useSyncExternalStore } from 'react'

export type View = { name: string; to: string }

const key = 'skein.views'
export const viewsMax = 50
export const nameMax = 60

type Kept = { user: string; views: View[] }

const none: View[] = []
const listeners = new Set<() => void>()
let text: string | null | undefined
let known: Kept | undefined

function read(): Kept | undefined {
  let now: string | null = null
  try {
    now = localStorage.getItem(key)
  } catch {
    // The browser stores nothing for this page.
  }
  if (now !== text) {
    text = now
    known = parse(now)
  }
  return known
}

function parse(json: string | null): Kept | undefined {
  try {
    const is: Partial<Kept> | null = json === null ? null : JSON.parse(json)
    if (!is || typeof is.user !== 'string' || !Array.isArray(is.views)) return undefined
    // A view must not contain the address of another site.
    const fits = (v: View) =>
      typeof v?.name === 'string' && typeof v.to === 'string' && /^\/(?!\/)/.test(v.to)
    return { user: is.user, views: is.views.filter(fits).slice(0, viewsMax) }
  } catch {
    return undefined
  }
}

function write(kept: Kept): boolean {
  try {
    if (kept.views.length === 0) localStorage.removeItem(key)
    else localStorage.setItem(key, JSON.stringify(kept))
  } catch {
    return false
  }
  for (const tell of listeners) tell()
  return true
}

/** The views of a person, by name. The views of another person are not shown. */
export function viewsOf(user: string | undefined): View[] {
  const kept = read()
  return kept && kept.user === user ? kept.views : none
}

/** Deletes the views of every other person. */
export function dropOthers(user: string) {
  const kept = read()
  if (kept && kept.user !== user) write({ user, views: [] })
}

/**
 * Saves an address under a name, and replaces a view of the same name. Reports whether the browser has stored
 * it.
 */
export function saveView(user: string, name: string, to: string): boolean {
  const others = viewsOf(user).filter((v) => v.name !== name)
  if (others.length >= viewsMax) return false
  const views = [...others, { name, to }].sort((a, b) => a.name.localeCompare(b.name))
  return write({ user, views })
}

export function deleteView(user: string, name: string): boolean {
  return write({ user, views: viewsOf(user).filter((v) => v.name !== name) })
}

/** The views of a person, including those that another tab saves. */
export function useViews(user: string | undefined): View[] {
  return useSyncExternalStore(
    (tell) => {
      const other = (e: StorageEvent) => e.key === key && tell()
      listeners.add(tell)
      window.addEventListener('storage', other)
      return () => {
        listeners.delete(tell)
        window.removeEventListener('storage', other)
      }
    },
    () => viewsOf(user),
  )
}
