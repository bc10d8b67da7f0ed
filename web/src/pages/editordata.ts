// The calls of the editor: the version that a draft began from, the check of a draft, and the apply.
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { Failure, get, path, send } from '../api/client'
import type { Applied, ApplyRequest, FileError, Validation, Version, Workflow } from '../api/types'
import { type Drawing, drawingOf } from '../canvas/drawing'
import { described, type Schema } from '../text/schema'
import { keyWords } from '../text/t'

/** The edited version, with all other data that an apply sends. */
export type Base = {
  revision: number
  version: number
  source: string
  files: NonNullable<ApplyRequest['files']>
  dir: string
}

export const template = (ns: string, name: string) =>
  `name: ${name}\n${ns === 'default' ? '' : `namespace: ${ns}\n`}tasks:\n  hello:\n    run: echo hello\n`

/** What a new workflow begins from. */
export const nothing: Base = { revision: 0, version: 0, source: '', files: [], dir: '' }

/** Reads the current version; for a workflow that does not exist yet, a first text. */
export async function readBase(ns: string, name: string, signal?: AbortSignal): Promise<Base> {
  try {
    const w = await get<Workflow>(path('workflows', ns, name), {}, signal)
    const where = path('workflows', ns, name, 'versions', w.version)
    const v = await get<Version>(where, { include: 'files' }, signal)
    return {
      revision: w.revision,
      version: w.version,
      source: v.source ?? '',
      files: v.files ?? [],
      dir: v.dir ?? '',
    }
  } catch (e) {
    if (!(e instanceof Failure) || e.kind !== 'not-found') throw e
    return nothing
  }
}

export const requestOf = (base: Base, source: string): ApplyRequest => ({
  source,
  ...(base.dir ? { dir: base.dir } : {}),
  ...(base.files.length > 0
    ? { files: base.files.map(({ name, mode, data }) => ({ name, mode, data })) }
    : {}),
})

export const useSchema = () =>
  useQuery({
    queryKey: ['schema'],
    queryFn: async ({ signal }) => {
      const [schema, words] = await Promise.all([
        get<Schema>('/schema/workflow.json', {}, signal),
        keyWords(),
      ])
      return described(schema, words)
    },
    staleTime: Number.POSITIVE_INFINITY,
  }).data

/** Applies a draft to the revision that it began from. */
export async function applyDraft(ns: string, name: string, base: Base, source: string): Promise<Applied> {
  const headers: Record<string, string> =
    base.revision > 0 ? { 'If-Match': `"${base.revision}"` } : { 'If-None-Match': '*' }
  const where = path('workflows', ns, name)
  return (await send(where, { method: 'PUT', body: requestOf(base, source), headers })).json()
}

export type Check = {
  /** The text that was checked. While the server checks a newer text, it is older than the draft. */
  text: string | undefined
  errors: FileError[]
  drawing: Drawing | undefined
  failure: Error | undefined
}

/** The server checks a text when no key has come for this time. */
const settle = 60
/** The files are sent with each check, so drafts with large files are checked less often. */
const settleLarge = 1500
const largeBytes = 1 << 20
/**
 * Problems are shown when no key has come for this time, because problems of an unfinished word are not
 * useful. The check of the server runs in this time, so it causes no further delay.
 */
const still = 150

const until = (time: number) =>
  new Promise<void>((done) => setTimeout(done, Math.max(0, time - performance.now())))

/** Has the server check and draw the draft, a moment after each change. A later change cancels the check. */
export function useCheck(base: Base, text: string): Check {
  const [check, setCheck] = useState<Check>({
    text: undefined,
    errors: [],
    drawing: undefined,
    failure: undefined,
  })
  useEffect(() => {
    const abort = new AbortController()
    const changed = performance.now()
    const size = text.length + base.files.reduce((sum, f) => sum + (f.data?.length ?? 0), 0)
    const ask = async () => {
      try {
        const response = await send('/validate', {
          method: 'POST',
          query: { include: 'layout' },
          body: requestOf(base, text),
          signal: abort.signal,
        })
        const { errors, layout } = (await response.json()) as Validation
        if (errors.length > 0) await until(changed + still)
        if (abort.signal.aborted) return
        setCheck((old) => ({
          text,
          errors,
          drawing: layout ? drawingOf(layout) : old.drawing,
          failure: undefined,
        }))
      } catch (e) {
        if (!abort.signal.aborted) setCheck((old) => ({ ...old, failure: e as Error }))
      }
    }
    const timer = setTimeout(() => void ask(), size > largeBytes ? settleLarge : settle)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [base, text])
  return check
}

/** The edit that corrects a problem, if the hint of the problem names the probable word. */
export function fixOf(text: string, p: FileError): { from: number; to: number; insert: string } | undefined {
  const meant = /^did you mean ([\w./-]+)\?$/.exec(p.hint)?.[1]
  if (!meant) return undefined
  let from = 0
  for (let line = 1; line < p.line; line++) {
    const end = text.indexOf('\n', from)
    if (end < 0) return undefined
    from = end + 1
  }
  const start = from + p.column - 1
  for (const [, word] of p.message.matchAll(/"([^"]+)"/g)) {
    for (const at of [start, start + 1])
      if (word && text.startsWith(word, at)) return { from: at, to: at + word.length, insert: meant }
  }
  return undefined
}

/** The place of a problem in the text. */
export function placeOf(text: string, line: number, column: number): number {
  let from = 0
  for (let l = 1; l < line; l++) {
    const end = text.indexOf('\n', from)
    if (end < 0) break
    from = end + 1
  }
  return Math.min(text.length, from + Math.max(0, column - 1))
}

/** The tasks that an edit adds, removes and changes, with the keys that it changes. */
export function taskChanges(from: TaskValues, to: TaskValues) {
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)
  const keys = (name: string) => {
    const [a, b] = [from.get(name) ?? {}, to.get(name) ?? {}]
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((k) => !same(a[k], b[k]))
  }
  return {
    added: [...to.keys()].filter((n) => !from.has(n)),
    removed: [...from.keys()].filter((n) => !to.has(n)),
    changed: [...to.keys()].flatMap((n) => {
      const changed = from.has(n) ? keys(n) : []
      return changed.length > 0 ? [{ name: n, keys: changed }] : []
    }),
  }
}

export type TaskValues = Map<string, Record<string, unknown>>
