// The search of the server through a whole log: hits come while it goes on.
import { useEffect, useState } from 'react'
import { path, send } from '../api/client'

export type Hit = { line: number | null; offset: number; text: string; at: number }
type End = { bytes: number; hits: number; more: boolean; lines: number | null }
export type Found = {
  text: string
  hits: Hit[]
  /** How much of the log has been read. */
  progress?: { bytes: number; of: number }
  end?: End
  error?: Error
}

const pause = 300
const hitsMax = 1000

/** Gives what a search for a text finds; nothing while there is no text. */
export function useLogSearch(run: string, task: string, attempt: number, text: string): Found | undefined {
  const [found, setFound] = useState<Found>()
  useEffect(() => {
    setFound(undefined)
    if (text === '') return
    const abort = new AbortController()
    const timer = setTimeout(() => {
      const is: Found = { text, hits: [] }
      const show = () => !abort.signal.aborted && setFound({ ...is, hits: [...is.hits] })
      show()
      void search(
        path('runs', run, 'tasks', task, 'logs', 'search'),
        { attempt, q: text },
        abort.signal,
        is,
        show,
      )
    }, pause)
    return () => {
      abort.abort()
      clearTimeout(timer)
    }
  }, [run, task, attempt, text])
  return found
}

async function search(
  where: string,
  query: { attempt: number; q: string },
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

export function take(is: Found, line: { hit?: Hit; progress?: { bytes: number; of: number }; end?: End }) {
  if (line.hit) is.hits.push(line.hit)
  if (line.progress) is.progress = line.progress
  if (line.end) is.end = line.end
}
