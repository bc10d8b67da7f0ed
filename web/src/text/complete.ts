// Completion in a workflow file: keys and values of the schema, and the names of tasks.
import type { CompletionContext, CompletionResult } from '@codemirror/autocomplete'
import { below, choicesOf, keysOf, type Schema } from './schema'

export type Place = {
  /** The keys above the place; * is an item of a list. */
  path: string[]
  /** The key whose value is typed at the place; undefined if a key is typed there. */
  key: string | undefined
  /** The place at which the word begins. */
  from: number
}

const entry = /^(\s*(?:- )*)(["']?)([\w.-]+)\2\s*:(?=\s|$)/

/** Finds the position of a place in the structure from the lines above it. */
export function placeOf(text: string, at: number): Place {
  const lineFrom = text.lastIndexOf('\n', at - 1) + 1
  const line = text.slice(lineFrom, at)
  const word = /[\w.-]*$/.exec(line)?.[0] ?? ''
  const inner = flowPath(line)
  const indentOf = (l: string) => /^\s*(?:- )*/.exec(l)?.[0].length ?? 0
  const path: string[] = []
  let indent = indentOf(line)
  if (/^\s*(?:- )+/.test(line)) path.unshift('*')
  const above = text.slice(0, Math.max(0, lineFrom - 1)).split('\n')
  for (let i = above.length - 1; i >= 0 && indent > 0; i--) {
    const l = above[i] as string
    const m = entry.exec(l)
    if (!m || /^\s*#/.test(l)) continue
    const column = m[1]?.length ?? 0
    const dash = (m[1] ?? '').indexOf('-')
    if (column >= indent) {
      // The first key of the list item that this line is in.
      if (column === indent && dash >= 0) {
        path.unshift('*')
        indent = dash
      }
      continue
    }
    path.unshift(...(dash >= 0 ? ['*', m[3] as string] : [m[3] as string]))
    indent = dash >= 0 ? dash : column
  }
  if (inner) return { path: [...path, ...inner.path], key: inner.key, from: at - word.length }
  const own = entry.exec(line)
  const key = own && line.length > own[0].length ? own[3] : undefined
  return { path, key, from: at - word.length }
}

/** The path within { } and [ ] of one line. */
function flowPath(line: string): { path: string[]; key: string | undefined } | undefined {
  const path: string[] = []
  const keys: (string | undefined)[] = []
  let current: string | undefined
  const tokens = line.matchAll(/(["'])(?:(?!\1).)*\1|[\w.-]+(?=\s*:(?:\s|$))|[{}[\],]/g)
  for (const [token] of tokens) {
    if (token === '{' || token === '[') {
      if (current !== undefined) path.push(current)
      if (token === '[') path.push('*')
      keys.push(token === '[' ? '*' : undefined)
      current = undefined
    } else if (token === '}' || token === ']') {
      keys.pop()
      if (token === ']') path.pop()
      path.pop()
      current = undefined
    } else if (token === ',') current = undefined
    else if (/^[\w.-]/.test(token)) current = token
  }
  if (keys.length === 0) return undefined
  const value = current !== undefined && /:\s+[\w.-]*$/.test(line)
  return { path, key: value ? current : undefined }
}

/** Makes the source of completions for an editor. */
export function completer(schema: () => Schema | undefined, tasks: () => string[]) {
  return (context: CompletionContext): CompletionResult | null => {
    const place = placeOf(context.state.doc.toString(), context.pos)
    if (!context.explicit && place.from === context.pos) return null
    const last = place.key ?? place.path.at(-1) ?? ''
    const names =
      last === 'needs' ||
      (last === '*' && place.path.at(-2) === 'needs') ||
      last === 'then' ||
      last === 'else'
    if (names)
      return {
        from: place.from,
        options: tasks().map((label) => ({ label, type: 'variable' })),
        validFor: /^[\w-]*$/,
      }
    const here = below(schema(), place.key === undefined ? place.path : [...place.path, place.key])
    const options =
      place.key === undefined
        ? keysOf(here).map(([label, s]) => ({
            label,
            type: 'property',
            apply: `${label}: `,
            ...(s.description ? { info: s.description } : {}),
          }))
        : choicesOf(here).map((label) => ({ label, type: 'constant' }))
    return options.length > 0 ? { from: place.from, options, validFor: /^[\w-]*$/ } : null
  }
}
