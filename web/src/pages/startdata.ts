import type { Param } from '../api/types'

/** Reads what was typed as a value of the parameter's type. */
export function typed(p: Pick<Param, 'name' | 'type'>, text: string): unknown {
  if (p.type === 'bool') return text === 'true'
  if (p.type === 'int' || p.type === 'float') {
    const n = Number(text)
    if (!Number.isFinite(n) || (p.type === 'int' && !Number.isSafeInteger(n)))
      throw new Error(`${p.name}: ${text} is not a number of the type ${p.type}.`)
    return n
  }
  if (p.type !== 'json') return text
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`${p.name}: that is not JSON.`)
  }
}

/** Quotes a text for a shell. */
export const quote = (text: string) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** Writes the command that starts the same run. */
export const command = (workflow: string, texts: Record<string, string>) =>
  [
    'skein run',
    quote(workflow),
    ...Object.entries(texts).flatMap(([n, v]) => (v ? [`-p ${quote(`${n}=${v}`)}`] : [])),
  ].join(' ')
