import type { Param } from '../api/types'
import { t } from '../text/t'

/** Reads a typed text as a value of the parameter's type. */
export function typed(p: Pick<Param, 'name' | 'type'>, text: string): unknown {
  if (p.type === 'bool') return text === 'true'
  if (p.type === 'int' || p.type === 'float') {
    const n = Number(text)
    if (text.trim() === '' || !Number.isFinite(n) || (p.type === 'int' && !Number.isSafeInteger(n)))
      throw new Error(`${p.name}: ${t('{text} is not a number of the type {type}.', { text, type: p.type })}`)
    return n
  }
  if (p.type !== 'json') return text
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`${p.name}: ${t('that is not JSON.')}`)
  }
}

/** Returns what is wrong with a typed text, or undefined. An empty field stands for the default. */
export function fault(
  p: Pick<Param, 'name' | 'type' | 'enum' | 'required'>,
  text: string | undefined,
): string | undefined {
  if (text === undefined || text === '') return p.required ? t('A value is required.') : undefined
  try {
    const value = typed(p, text)
    const allowed = p.enum as unknown[] | null
    if (allowed && !allowed.some((a) => JSON.stringify(a) === JSON.stringify(value)))
      return t('The value must be one of {values}.', { values: allowed.map(String).join(', ') })
    return undefined
  } catch (e) {
    return (e as Error).message.replace(`${p.name}: `, '')
  }
}

/** Returns a value in the form in which a person types it. */
export const textOf = (value: unknown): string =>
  value === null || value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value)

/** Quotes a text for a shell. */
export const quote = (text: string) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** The texts in the form for commands: a value of the type secret is replaced by a word. */
export const shownOf = (params: Pick<Param, 'name' | 'type'>[], texts: Record<string, string>) => {
  const hidden = (name: string) => params.some((p) => p.name === name && p.type === 'secret')
  return Object.fromEntries(Object.entries(texts).map(([n, v]) => [n, v && hidden(n) ? 'SECRET' : v]))
}

export type StartOptions = { priority?: string; version?: string; key?: string }

/** Writes the command that starts the same run. */
export const command = (workflow: string, texts: Record<string, string>, o: StartOptions = {}) =>
  [
    'skein run',
    quote(workflow),
    ...Object.entries(texts).flatMap(([n, v]) => (v ? [`-p ${quote(`${n}=${v}`)}`] : [])),
    ...(['priority', 'version', 'key'] as const).flatMap((n) => (o[n] ? [`--${n} ${quote(o[n])}`] : [])),
  ].join(' ')

/** Writes the body of the request that starts the same run. */
export function requestOf(workflow: string, params: Param[], texts: Record<string, string>, o: StartOptions) {
  const values = Object.fromEntries(
    params.flatMap((p) => (texts[p.name] ? [[p.name, typed(p, texts[p.name] as string)]] : [])),
  )
  return {
    workflow,
    params: values,
    ...(o.priority ? { priority: o.priority } : {}),
    ...(o.version ? { version: Number(o.version) } : {}),
  }
}

/**
 * Writes the request for the command line, with the key that keeps a repetition from starting a second run.
 */
export const request = (body: object, key: string) =>
  `skein api POST /runs -H ${quote(`Idempotency-Key: ${key}`)} --data ${quote(JSON.stringify(body))}`
