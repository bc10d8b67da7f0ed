// Keeps the draft of the editor in this browser.
import { useBlocker } from '@tanstack/react-router'
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { type Draft, dropDraft, noteDrafts, saveDraft } from '../text/drafts'
import { t } from '../text/t'
import type { Base } from './editordata'

const saveEvery = 1000

type Desk = {
  workflow: string
  base: Base
  text: string
  savedAt: number | undefined
  /** Whether this tab has the draft. A tab that has not saves and drops nothing. */
  isHeld: boolean
  /** The present text. The page may show an older one. */
  typed: { current: string }
}

/**
 * Whether the draft of a text that is equal to its version is still kept: asked means that the browser is
 * deleting it.
 */
export type Dropping = 'no' | 'asked' | 'failed'

/**
 * Saves the draft in this browser at most a second after a change, and when the page is hidden or left. A draft that is
 * equal to its version is dropped. drop forgets the draft. If the browser keeps no drafts, leaving the page asks first.
 */
export function useDraft(desk: Desk) {
  const { workflow, base, text, isHeld } = desk
  const [saved, setSaved] = useState(desk.savedAt)
  const [dropping, setDropping] = useState<Dropping>('no')
  const latest = useRef(desk)
  latest.current = desk
  const unsaved = useRef<Draft>(undefined)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const lost = useRef(false)
  // Whether the browser has stored a draft, or may store one because a write is in progress.
  const isKept = useRef(desk.savedAt !== undefined)
  const take = useCallback(() => {
    clearTimeout(timer.current)
    timer.current = undefined
    const draft = unsaved.current
    unsaved.current = undefined
    return draft
  }, [])
  const flush = useCallback(() => {
    const draft = take()
    if (!draft) return
    const before = isKept.current
    isKept.current = true
    void saveDraft(draft).then((kept) => {
      lost.current = !kept
      if (!kept) isKept.current = before
      setSaved(kept ? draft.savedAt : undefined)
    })
  }, [take])
  const drops = useRef(0)
  const drop = useCallback(async () => {
    take()
    lost.current = false
    setSaved(undefined)
    if (isKept.current) setDropping('asked')
    const mine = ++drops.current
    const gone = await dropDraft(workflow)
    if (mine !== drops.current) return
    if (gone) isKept.current = false
    setDropping(isKept.current ? 'failed' : 'no')
  }, [take, workflow])
  const change = useCallback(
    (now: string) => {
      const { workflow, base, isHeld } = latest.current
      if (!isHeld) return
      if (now === base.source) {
        void drop()
        return
      }
      drops.current++
      const { revision, version, source } = base
      unsaved.current = { workflow, text: now, revision, version, base: source, savedAt: Date.now() }
      timer.current ??= setTimeout(flush, saveEvery)
    },
    [drop, flush],
  )
  // Not useEffect, which runs after the page has been painted: what the page then said could be undone by leaving it.
  // biome-ignore lint/correctness/useExhaustiveDependencies: change reads the others by their ref
  useLayoutEffect(() => change(text), [workflow, base, text, isHeld, change])
  useEffect(() => {
    const leave = () => {
      const { text, typed } = latest.current
      if (typed.current !== text) change(typed.current)
      flush()
      noteDrafts()
    }
    const hidden = () => {
      if (document.visibilityState === 'hidden') leave()
    }
    document.addEventListener('visibilitychange', hidden)
    addEventListener('pagehide', leave)
    return () => {
      document.removeEventListener('visibilitychange', hidden)
      removeEventListener('pagehide', leave)
      flush()
      noteDrafts()
    }
  }, [change, flush])
  useBlocker({
    shouldBlockFn: ({ current, next }) =>
      lost.current &&
      current.pathname !== next.pathname &&
      !window.confirm(t('This browser keeps no drafts. Do you leave the page and lose your change?')),
    enableBeforeUnload: () => lost.current,
  })
  return { saved, dropping, drop, flush }
}
