// Keys of the whole page. Single letters work outside of fields only, and can be turned off (WCAG 2.1.4).
import { useEffect, useRef } from 'react'
import { t } from '../text/t'
import { preference } from './preferences'

export type Handler = (event: KeyboardEvent) => void
export type Keys = Record<string, Handler>

const layers: { current: Keys }[] = []
const chordTime = 1000
let first = ''
let firstAt = 0

/** Reports whether a key is for a field. Only the path of the event shows a field within a shadow root. */
const inField = (e: KeyboardEvent, target = e.composedPath()[0] ?? e.target) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))

/** Returns the name of a key in the form that handlers use: Ctrl-k, Escape, g, ?. */
export function nameOf(e: KeyboardEvent): string {
  const main = e.key === ' ' ? 'Space' : e.key
  return e.ctrlKey || e.metaKey ? `Ctrl-${main.toLowerCase()}` : main
}

/** The handler of a key that was added last. */
const find = (key: string): Handler | undefined =>
  key === '' ? undefined : layers.findLast((layer) => layer.current[key])?.current[key]

export function onKey(e: KeyboardEvent, now = Date.now()) {
  if (e.altKey || e.isComposing) return
  const name = nameOf(e)
  const single = name.length === 1
  if (single && (inField(e) || preference('keys') === 'off')) return
  if (name === 'Escape' && inField(e)) return
  // While a dialog or a menu is open, only its own keys and keys with Ctrl work.
  const modal = document.querySelector('.overlay, .popover')
  const chord = now - firstAt < chordTime ? `${first} ${name}` : ''
  // A chord of the shell takes precedence over a single key of the page: g r opens the runs, even on a page
  // where r recovers.
  const handler = find(chord) ?? find(name)
  if (handler && (!modal || name.startsWith('Ctrl-'))) {
    e.preventDefault()
    first = ''
    handler(e)
    return
  }
  if (single) {
    first = name
    firstAt = now
  }
}

/** Handles keys while the component is shown. The component that was shown last takes precedence. */
export function useKeys(keys: Keys) {
  const layer = useRef(keys)
  layer.current = keys
  useEffect(() => {
    layers.push(layer)
    return () => {
      layers.splice(layers.indexOf(layer), 1)
    }
  }, [])
}

export const keyTable: [string, string][] = [
  ['Ctrl-K', t('Search or run a command')],
  ['/', t('Filter this page')],
  ['g h', t('Home')],
  ['g w', t('Workflows')],
  ['g r', t('Runs')],
  ['g s', t('Schedules')],
  ['g q', t('Queues')],
  ['g c', t('Cluster')],
  ['g m', t('Admin')],
  ['g a', t('Alerts')],
  ['j k', t('Next and previous row')],
  ['Enter', t('Open the row')],
  ['Escape', t('Up one level')],
  ['x', t('Select the row')],
  ['1 … 9', t('Tab')],
  ['l', t('Log of the selected task')],
  ['n N', t('Next and previous task found in the graph, hit in a long log')],
  ['← → ↑ ↓', t('In the graph: needs, dependents, same column')],
  ['+ - 0', t('In the graph: zoom in, zoom out, show all')],
  ['[ ]', t('In the calendar: previous and next week or month')],
  ['Shift ← → ↑ ↓', t('In the calendar: select a range')],
  ['← → Space', t('On the slider of a replay: previous and next change, play')],
  ['f', t('Follow the log')],
  ['e', t('First error in the log')],
  ['r', t('Recover the run')],
  ['s', t('Stop the run')],
  ['p', t('Pause or resume')],
  ['a', t('Approve; in the list of alerts: acknowledge the row')],
  ['Ctrl-Enter', t('In the editor: look at the change and apply it')],
  ['a Del F2', t('In the graph of a draft: add a task after the selected one, delete it, rename it')],
  ['F8', t('In the editor: next problem')],
  ['y', t('Copy the link')],
  ['?', t('This table')],
]
