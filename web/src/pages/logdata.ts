import { useCallback, useEffect, useRef, useState } from 'react'
import { path, type Query, send } from '../api/client'
import { block, LogWindow, windowMax } from '../text/log'

const pollEvery = 800
const wholeMax = 2 * 1024 * 1024

/** Reads the log of an attempt: its end first, what is before it on demand, and what is added while it runs. */
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
      return { from: Number(response.headers.get('Skein-Log-Offset') ?? 0), bytes }
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
        const { from, bytes } = await read({ offset: -wholeMax }, abort.signal)
        fresh.begin(from, bytes)
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

  const busy = useRef(false)
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

  return { window: log.current, error, loading, earlier, again: () => setTries(tries + 1) }
}
