import type { Fire, Reason } from '../api/types'
import { clock } from '../kit/format'
import { Ago, Clock, Copy, RunLink } from '../kit/parts'
import { lookOf } from '../kit/states'
import { partsOf, withoutState } from '../text/reason'
import { byCode, rich, spanWords, t } from '../text/t'

/** Shows the reasons for the present state of an object, and what would change it. */
export function Reasons({
  reasons,
  fallback,
  full,
}: {
  reasons: Reason[] | undefined
  fallback: string
  full?: boolean
}) {
  if (!reasons || reasons.length === 0) return fallback ? <p className="sub">{fallback}</p> : null
  const [first] = reasons
  if (!full)
    return (
      <p className="sub">
        {first ? <What r={first} /> : null}
        {first?.holder && runID.test(first.holder)
          ? rich(', held by {holder}', { holder: <Linked text={first.holder} /> })
          : null}
      </p>
    )
  return (
    <ul className="reasons">
      {reasons.map((r) => (
        <li key={`${r.kind} ${r.what}`}>
          <p>
            <What r={r} />
          </p>
          <p className="sub row">
            {r.holder ? (
              <span>{rich('Holder: {holder}', { holder: <Linked text={r.holder} /> })}</span>
            ) : null}
            {r.since ? <span>{rich('Since {time}', { time: <Clock time={r.since} /> })}</span> : null}
            {r.expected_at ? (
              <span>{rich('Expected {time}', { time: <Ago time={r.expected_at} /> })}</span>
            ) : null}
          </p>
          {r.unblocks ? <Unblocks code={r.code} text={sentence(r.unblocks)} /> : null}
        </li>
      ))}
    </ul>
  )
}

/**
 * The sentence of a reason. In another language than English it is made from the code. A message of the
 * server stays unchanged.
 */
export function What({ r }: { r: Reason }) {
  const args = r.args as Record<string, unknown>
  const state = typeof args.state === 'string' ? lookOf(args.state).label : undefined
  const text = byCode(`reason.${r.code}`, { ...args, state })
  if (!text) return <span lang="en">{sentence(withoutState(r.what))}</span>
  const own = [args.message, args.why, args.reason].find((a) => typeof a === 'string' && a !== '')
  return (
    <>
      {text}
      {own ? <span lang="en"> ({String(own)})</span> : null}
    </>
  )
}

const times = new Set(['instant', 'from', 'until'])
const spans = new Set(['late', 'tolerance', 'span'])

const shownArg = (name: string, value: string) => {
  if (times.has(name)) return clock(value)
  if (spans.has(name)) return spanWords(value)
  return name === 'state' ? lookOf(value).label : value
}

/**
 * Returns the reason of a fire in the language of the page. It returns undefined if the page is in English, or if
 * a part of the reason has no text.
 */
export function fireWords({ reasons }: Pick<Fire, 'reasons'>): string | undefined {
  // A node of an earlier version sends none.
  const parts = (reasons ?? []).map(({ code, args }) =>
    byCode(
      `fire.${code}`,
      Object.fromEntries(Object.entries(args).map(([name, value]) => [name, shownArg(name, value)])),
    ),
  )
  return parts.length > 0 && parts.every((part) => part !== undefined) ? parts.join('；') : undefined
}

/** Shows the reason of a fire. */
export function FireWhy({ f }: { f: Pick<Fire, 'reason' | 'reasons'> }) {
  const words = fireWords(f)
  return <span lang={words ? undefined : 'en'}>{words ?? f.reason}</span>
}

/** What would change the state. A command in the text is shown as one, and can be copied. */
function Unblocks({ code, text }: { code: string; text: string }) {
  const remedy = byCode(`remedy.${code}`)
  const parts = partsOf(text).filter((p) => !remedy || p.isWhole)
  const whole = parts.find((p) => p.isWhole)
  return (
    <p className="sub row">
      <span className="grow unblocks" lang={remedy ? undefined : 'en'}>
        {remedy ? `${remedy} ` : null}
        {parts.map((p) =>
          p.isCommand ? <code key={p.text}>{p.text}</code> : <Linked key={p.text} text={p.text} />,
        )}
      </span>
      {whole ? <Copy text={whole.text} label={t('Copy the command')} /> : null}
    </p>
  )
}

const runID = /(run )?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/

/** A text in which the ids of runs are links. */
function Linked({ text }: { text: string }) {
  const m = runID.exec(text)
  if (!m?.[2]) return text
  const after = text.slice(m.index + m[0].length)
  return (
    <>
      {text.slice(0, m.index)}
      {m[1] ? `${t('run')} ` : ''}
      <RunLink id={m[2]} />
      {after ? <Linked text={after} /> : null}
    </>
  )
}

/** Begins a sentence with a capital letter; a command stays unchanged. */
export const sentence = (text: string) =>
  text.startsWith('skein ') ? text : text.charAt(0).toUpperCase() + text.slice(1)
