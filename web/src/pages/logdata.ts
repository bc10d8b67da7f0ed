import { useCallback, useEffect, useRef, useState } from 'react'
import { path, type Query, send } from '../api/client'
import { block, LogWindow, windowMax } from '../text/log'

const pollEvery = 800
const wholeMax = 2 * 1024 * 1024

/** The line or time that a log opens at. If the offset is known, the server need not search for the line. */
export type Place = { line: number | null; offset?: number; time?: string }

/** How many lines before a place are read with it. */
const before = 200

/**
 * Reads the log of an attempt: first its end, then earlier parts on demand, and new lines while the attempt
 * runs.
 */
export function useLogWindow(run: string, task: string, attempt: number, ended: boolean) {
  const log = useRef(new LogWindow())
  const [, redraw] = useState(0)
  const [error, setError] = useState<Error>()
  const [loading, setLoading] = useState(true)
  const [tries, setTries] = useState(0)

  const read = useCallback(
    async (query: Query, signal?: AbortSignal) => {
      const response = await send(path('runs', run, 'tasks', task, 'logs'), {
        query: { attempt, ...query },
        headers: { Accept: 'text/plain' },
        ...(signal ? { signal } : {}),
      })
      const bytes = new Uint8Array(await response.arrayBuffer())
      const line = Number(response.headers.get('Skein-Log-Line') ?? 0)
      return { from: Number(response.headers.get('Skein-Log-Offset') ?? 0), bytes, line }
    },
    [run, task, attempt],
  )

  // biome-ignore lint/correctness/useExhaustiveDependencies: tries starts it again
  useEffect(() => {
    const abort = new AbortController()
    const fresh = new LogWindow()
    let timer: ReturnType<typeof setTimeout> | undefined
    setLoading(true)
    setError(undefined)
    const fail = (e: unknown) => {
      if (!abort.signal.aborted) setError(e instanceof Error ? e : new Error(String(e)))
    }
    const more = async () => {
      try {
        const { bytes } = await read({ offset: fresh.to, limit: 4 * block }, abort.signal)
        if (bytes.length > 0) {
          fresh.append(bytes)
          redraw((n) => n + 1)
        }
        setError(undefined)
        if (!ended || bytes.length === 4 * block)
          timer = setTimeout(() => void more(), bytes.length === 4 * block ? 0 : pollEvery)
      } catch (e) {
        fail(e)
        if (!abort.signal.aborted) timer = setTimeout(() => void more(), 3 * pollEvery)
      }
    }
    const begin = async () => {
      try {
        const { from, bytes, line } = await read({ offset: -wholeMax }, abort.signal)
        fresh.begin(from, bytes)
        fresh.numbered(from, line)
        log.current = fresh
        setLoading(false)
        redraw((n) => n + 1)
        if (!ended) timer = setTimeout(() => void more(), pollEvery)
      } catch (e) {
        fail(e)
        if (!abort.signal.aborted) setLoading(false)
      }
    }
    void begin()
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [read, ended, tries])

  const [atEnd, setAtEnd] = useState(true)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new window is one of the end
  useEffect(() => setAtEnd(true), [read, tries])

  /** Shows the part of the log around a place, and returns the index of the line there. */
  const jump = useCallback(
    async (to: Place): Promise<number> => {
      const fresh = new LogWindow()
      let place = 0
      if (to.offset !== undefined) {
        const begun = Math.max(0, to.offset - block)
        const { from, bytes, line } = await read({ offset: begun, limit: 2 * block })
        fresh.begin(from, bytes)
        fresh.numbered(from, line)
        place = fresh.placeOf(to.offset, from, bytes)
        if (to.line !== null) fresh.first = to.line - place
      } else if (to.time !== undefined) {
        const { from, bytes, line } = await read({ time: to.time, limit: 2 * block })
        fresh.begin(from, bytes)
        fresh.numbered(from, line)
      } else {
        const first = Math.max(1, (to.line ?? 1) - before)
        const { from, bytes } = await read({ line: first, limit: 2 * block })
        fresh.begin(from, bytes, first)
        place = (to.line ?? 1) - first
      }
      log.current = fresh
      setAtEnd(false)
      redraw((n) => n + 1)
      return place
    },
    [read],
  )

  const busy = useRef(false)
  /** Reads on after a place in the middle of the log. */
  const later = useCallback(async () => {
    const here = log.current
    if (busy.current || atEnd || here.to - here.from > windowMax) return
    busy.current = true
    try {
      const { bytes } = await read({ offset: here.to, limit: block })
      here.append(bytes)
      if (bytes.length === 0) setAtEnd(true)
      redraw((n) => n + 1)
    } catch (e) {
      setError(e instanceof Error ? e : new Error(String(e)))
    } finally {
      busy.current = false
    }
  }, [read, atEnd])

  const earlier = useCallback(async () => {
    const here = log.current
    if (busy.current || here.from === 0 || here.to - here.from > windowMax) return
    busy.current = true
    try {
      const from = Math.max(0, here.from - block)
      const { bytes } = await read({ offset: from, limit: here.from - from })
      here.prepend(from, bytes)
      redraw((n) => n + 1)
    } catch (e) {
      setError(e instanceof Error ? e : new Error(String(e)))
    } finally {
      busy.current = false
    }
  }, [read])

  return {
    window: log.current,
    error,
    loading,
    earlier,
    later,
    jump,
    atEnd,
    again: () => setTries(tries + 1),
  }
}
