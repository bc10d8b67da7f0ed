import type { Reason } from '../api/types'
import { Ago, Clock, Copy } from '../kit/parts'

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
  if (!full) return <p className="sub">{reasons[0]?.what}</p>
  return (
    <ul className="reasons">
      {reasons.map((r) => (
        <li key={`${r.kind} ${r.what}`}>
          <p>{sentence(r.what)}</p>
          <p className="sub row">
            {r.holder ? <span>Holder: {r.holder}</span> : null}
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
          {r.unblocks ? (
            <p className="sub row">
              <span className="grow">{sentence(r.unblocks)}</span>
              {r.unblocks.startsWith('skein ') ? (
                <Copy text={r.unblocks.split(/[;,]/)[0] ?? ''} label="Copy the command" />
              ) : null}
            </p>
          ) : null}
        </li>
      ))}
    </ul>
  )
}

/** Begins a sentence with a capital letter; a command stays as it is typed. */
export const sentence = (text: string) =>
  text.startsWith('skein ') ? text : text.charAt(0).toUpperCase() + text.slice(1)
