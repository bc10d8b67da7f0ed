// Values as YAML text: short ones in one line, long texts as block scalars.
import { Scalar, stringify } from 'yaml'

export type Value = string | number | boolean | null | Value[] | { [key: string]: Value }

const options = { lineWidth: 0, flowCollectionPadding: false, defaultStringType: Scalar.PLAIN } as const

/** Writes a value in one line, as within { } or [ ]. */
export function inlineText(value: Value): string {
  if (typeof value === 'string' && /[\n\r]/.test(value)) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(inlineText).join(', ')}]`
  if (value !== null && typeof value === 'object')
    return `{${Object.entries(value)
      .map(([k, v]) => `${inlineText(k)}: ${inlineText(v)}`)
      .join(', ')}}`
  const text = stringify(value, options).trimEnd()
  // A plain text that needs no quotes on its own line may need them within brackets.
  return typeof value === 'string' && text === value && /[,[\]{}]/.test(text) ? JSON.stringify(value) : text
}

/** Writes what follows the colon of a key whose indentation is given. */
export function blockText(value: Value, indent: string, eol: string): string {
  if (typeof value === 'string' && value.includes('\n')) return textBlock(value, indent, eol)
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
    const entries = Object.entries(value)
    if (entries.length === 0) return ' {}'
    if (indent.length > 2 && entries.every(([, v]) => v === null || typeof v !== 'object')) {
      const flow = inlineText(value)
      if (flow.length < 70 && !flow.includes('\\n')) return ` ${flow}`
    }
    return entries
      .map(([k, v]) => `${eol}${indent}  ${inlineText(k)}:${blockText(v, `${indent}  `, eol)}`)
      .join('')
  }
  if (typeof value === 'string') {
    const text = stringify(value, options).trimEnd()
    return text.includes('\n') ? ` ${JSON.stringify(value)}` : ` ${text}`
  }
  return ` ${inlineText(value)}`
}

function textBlock(value: string, indent: string, eol: string): string {
  const lines = value.split('\n')
  const keeps = value.endsWith('\n')
  // Some texts cannot be written as a block scalar because of their ends, beginnings or characters.
  if (
    /\n\n$/.test(value) ||
    /^[ \n\t]/.test(value) ||
    /[^\t\n\x20-\x7e\u00a0-\ufffd]/.test(value) ||
    value.trim() === ''
  )
    return ` ${JSON.stringify(value)}`
  if (keeps) lines.pop()
  return ` |${keeps ? '' : '-'}${eol}${lines.map((l) => (l ? `${indent}  ${l}` : '')).join(eol)}`
}

/** Reads a typed text as a number, true or false, if the value can be written back as the same text. */
export function plainValue(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  const n = Number(text)
  return text.trim() !== '' && Number.isFinite(n) && String(n) === text ? n : text
}
