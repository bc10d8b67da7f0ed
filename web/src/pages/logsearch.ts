// The search of the server through a whole log: hits arrive while the search runs.
import { useQuery } from '@tanstack/react-query'
import { useCallback, useEffect, useRef, useState } from 'react'
import { get, path, send } from '../api/client'

export type Hit = {
  line: number | null
  offset: number
  text: string
  at: number
  length: number
  /** In a search through a run: the place of the line. */
  task?: string
  attempt?: number
}
type End = { bytes: number; hits: number; lines?: number | null; next: number | string | null }
/** A search: for a text or an expression, for lines of a level, or for both, in one log or in all logs of the run. */
export type Wanted = { text: string; re: boolean; level: string; all: boolean }
export type Found = {
  hits: Hit[]
  /** The part of the log that was read so far. */
  progress?: { bytes: number; of?: number }
  end?: End
  error?: Error
}

const pause = 200
const hitsMax = 1000
/** The number of hits that are kept. */
const allMax = 20_000

/**
 * Returns the results of a search, and reads new lines of the log after its end. It returns nothing if there
 * is no search, or if the server need not search. It waits until the person has stopped typing, or until now
 * is called. It searches at once for a text from the address and for a level.
 */
export function useLogSearch(
  run: string,
  task: string,
  attempt: number,
  { text, re, level, all }: Wanted,
  served: boolean,
) {
  const [found, setFound] = useState<Found>()
  const going = useRef<{ abort: AbortController; is: Found } | undefined>(undefined)
  const searched = useRef(text)
  const pending = useRef<() => void>(undefined)
  const read = useCallback(
    (abort: AbortController, is: Found, after: number | string) => {
      const show = () => !abort.signal.aborted && setFound({ ...is, hits: [...is.hits] })
      show()
      void search(
        all ? path('runs', run, 'logs', 'search') : path('runs', run, 'tasks', task, 'logs', 'search'),
        {
          ...(all ? {} : { attempt }),
          ...(after ? { after } : {}),
          ...(text ? { q: text } : {}),
          ...(re && text ? { re: true } : {}),
          ...(level ? { level } : {}),
        },
        abort.signal,
        is,
        show,
      )
    },
    [run, task, attempt, text, re, level, all],
  )
  useEffect(() => {
    setFound(undefined)
    going.current = undefined
    if (!served || (text === '' && level === '')) return
    const abort = new AbortController()
    const typed = searched.current !== text
    searched.current = text
    const begin = () => {
      clearTimeout(timer)
      pending.current = undefined
      const is: Found = { hits: [] }
      going.current = { abort, is }
      read(abort, is, 0)
    }
    const timer = setTimeout(begin, typed ? pause : 0)
    pending.current = begin
    return () => {
      abort.abort()
      clearTimeout(timer)
      pending.current = undefined
    }
  }, [read, text, level, served])
  const more = () => {
    const now = going.current
    const next = now?.is.end?.next
    if (!now || next === null || next === undefined || now.is.hits.length >= allMax) return
    delete now.is.end
    delete now.is.error
    read(now.abort, now.is, next)
  }
  return { found, more, now: () => pending.current?.() }
}

async function search(
  where: string,
  query: Record<string, string | number | boolean>,
  signal: AbortSignal,
  is: Found,
  show: () => void,
) {
  try {
    const answer = await send(where, {
      query: { ...query, limit: hitsMax },
      headers: { Accept: 'application/x-ndjson' },
      signal,
    })
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ''
    for (;;) {
      const next = await reader?.read()
      if (!next || next.done) break
      const lines = (rest + next.value).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) take(is, JSON.parse(line))
      show()
    }
    if (!is.end) is.error = new Error('The search was cut off. Search again.')
  } catch (e) {
    is.error = e instanceof Error ? e : new Error(String(e))
  }
  show()
}

export function take(is: Found, line: { hit?: Hit; progress?: { bytes: number; of?: number }; end?: End }) {
  if (line.hit) is.hits.push(line.hit)
  if (line.progress) is.progress = line.progress
  if (line.end) is.end = line.end
}

type Index = { lines: number | null; errors: number | null; warnings: number | null; first: Hit[] }

/** The index of a whole log from the server: the number of lines, errors and warnings, and the first errors. */
export const useLogIndex = (run: string, task: string, attempt: number, ended: boolean, wanted: boolean) =>
  useQuery({
    queryKey: ['log index', run, task, attempt, ended],
    queryFn: ({ signal }) =>
      get<Index>(path('runs', run, 'tasks', task, 'logs', 'index'), { attempt }, signal),
    enabled: wanted,
    staleTime: 60_000,
    retry: 1,
  }).data

/**
 * Reads a place that a person has typed: a number of a line, a time of day, or an instant. A time of day is
 * on the day of the attempt.
 */
export function placeOf(text: string, day: string | null): { line: number } | { time: string } | undefined {
  const word = text.trim()
  if (/^\d+$/.test(word)) return Number(word) > 0 ? { line: Number(word) } : undefined
  const clock = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(word)
  const at = clock && day ? new Date(day) : new Date(word)
  if (clock && day) at.setHours(Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0), 0)
  // A time of day before the beginning of the attempt is on the next day.
  if (clock && day && at.getTime() + 1000 < new Date(day).getTime()) at.setDate(at.getDate() + 1)
  return Number.isNaN(at.getTime()) || (!clock && word.length < 8) ? undefined : { time: at.toISOString() }
}
