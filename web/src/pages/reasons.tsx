import type { Reason } from '../api/types'
import { Ago, Clock, Copy, RunLink } from '../kit/parts'
import { partsOf, withoutState } from '../text/reason'

/** Says why something is as it is: what the server explains, and what would change it. */
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
        {sentence(withoutState(first?.what ?? ''))}
        {first?.holder && runID.test(first.holder) ? (
          <>
            , held by <Linked text={first.holder} />
          </>
        ) : null}
      </p>
    )
  return (
    <ul className="reasons">
      {reasons.map((r) => (
        <li key={`${r.kind} ${r.what}`}>
          <p>{sentence(withoutState(r.what))}</p>
          <p className="sub row">
            {r.holder ? (
              <span>
                Holder: <Linked text={r.holder} />
              </span>
            ) : null}
            {r.since ? (
              <span>
                Since <Clock time={r.since} />
              </span>
            ) : null}
            {r.expected_at ? (
              <span>
                Expected <Ago time={r.expected_at} />
              </span>
            ) : null}
          </p>
          {r.unblocks ? <Unblocks text={sentence(r.unblocks)} /> : null}
        </li>
      ))}
    </ul>
  )
}

/** What would change it. A command in it is set as one, and can be copied. */
function Unblocks({ text }: { text: string }) {
  const parts = partsOf(text)
  const whole = parts.find((p) => p.isWhole)
  return (
    <p className="sub row">
      <span className="grow unblocks">
        {parts.map((p) =>
          p.isCommand ? <code key={p.text}>{p.text}</code> : <Linked key={p.text} text={p.text} />,
        )}
      </span>
      {whole ? <Copy text={whole.text} label="Copy the command" /> : null}
    </p>
  )
}

const runID = /(run )?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/

/** A text whose ids of runs are links to them. */
function Linked({ text }: { text: string }) {
  const m = runID.exec(text)
  if (!m?.[2]) return text
  const after = text.slice(m.index + m[0].length)
  return (
    <>
      {text.slice(0, m.index)}
      {m[1] ?? ''}
      <RunLink id={m[2]} />
      {after ? <Linked text={after} /> : null}
    </>
  )
}

/** Begins a sentence with a capital letter; a command stays as it is typed. */
export const sentence = (text: string) =>
  text.startsWith('skein ') ? text : text.charAt(0).toUpperCase() + text.slice(1)
