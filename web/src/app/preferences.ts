// Preferences belong to the person and not to the view. They are stored in this browser, never in the
// address.
import { useSyncExternalStore } from 'react'

const defaults = { theme: 'system', density: 'normal', keys: 'on', pane: '480', language: 'browser' }
export type Name = keyof typeof defaults

const listeners = new Set<() => void>()
const key = (name: Name) => `skein.${name}`

export function preference(name: Name): string {
  try {
    return localStorage.getItem(key(name)) ?? defaults[name]
  } catch {
    return defaults[name] // The browser stores nothing for this page.
  }
}

export function prefer(name: Name, value: string) {
  try {
    if (value === defaults[name]) localStorage.removeItem(key(name))
    else localStorage.setItem(key(name), value)
  } catch {
    // In this case the choice has no effect, and the page works as before.
  }
  paint()
  for (const listener of listeners) listener()
}

/** Puts theme and density on the document. */
export function paint() {
  const { dataset } = document.documentElement
  const theme = preference('theme')
  if (theme === 'system') delete dataset.theme
  else dataset.theme = theme
  dataset.density = preference('density')
}

export function usePreference(name: Name): [string, (value: string) => void] {
  const value = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => preference(name),
  )
  return [value, (v) => prefer(name, v)]
}
