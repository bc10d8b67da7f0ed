// The filters of lists whose server reads the filter: the address has their values.
import { useEffect, useState } from 'react'
import { t } from '../text/t'

const spans: [string, string][] = [
  ['1h', t('last hour')],
  ['24h', t('last 24 hours')],
  ['7d', t('last 7 days')],
  ['30d', t('last 30 days')],
]
const unit: Record<string, number> = { h: 3_600_000, d: 86_400_000 }

/** Turns an age such as 24h into the instant at which it began. An instant stays unchanged. */
export function sinceOf(text: string | undefined, now: number): string | undefined {
  const m = text?.match(/^(\d+)([hd])$/)
  if (!m) return text
  return new Date(Math.floor(now / 60_000) * 60_000 - Number(m[1]) * (unit[m[2] ?? 'h'] ?? 0)).toISOString()
}

/**
 * A text field whose text is sent to the server when the text is complete: at Enter, or when the field loses
 * the focus.
 */
export function TextFilter({
  name,
  label,
  value = '',
  set,
  filter,
}: {
  name: string
  label: string
  value?: string | undefined
  set: (v: string | undefined) => void
  filter?: boolean
}) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  return (
    <input
      className="input"
      type="search"
      name={name}
      aria-label={label}
      placeholder={label}
      data-filter={filter || undefined}
      value={text}
      onChange={(e) => setText(e.target.value)}
      onBlur={() => text !== value && set(text || undefined)}
      onKeyDown={(e) => e.key === 'Enter' && set(text || undefined)}
    />
  )
}

/** How far back a list goes. An instant in the address stays unchanged. */
export function SinceSelect({
  label,
  value = '',
  set,
}: {
  label: string
  value?: string | undefined
  set: (v: string | undefined) => void
}) {
  return (
    <select
      className="select"
      aria-label={label}
      value={value}
      onChange={(e) => set(e.target.value || undefined)}
    >
      <option value="">{t('of any time')}</option>
      {spans.map(([of, text]) => (
        <option key={of} value={of}>
          {text}
        </option>
      ))}
      {value && !spans.some(([of]) => of === value) ? (
        <option value={value}>{t('since {value}', { value })}</option>
      ) : null}
    </select>
  )
}
