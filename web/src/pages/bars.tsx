import { Link } from '@tanstack/react-router'
import type { Run } from '../api/types'
import { duration, full } from '../kit/format'
import { isActive, lookOf } from '../kit/states'
import { t } from '../text/t'

/** The last runs of a workflow, oldest left: the height is the duration, the colour and the fill are the state. */
export function Bars({ runs }: { runs: Run[] }) {
  const span = (r: Run) =>
    r.started_at ? Date.parse(r.finished_at ?? new Date().toISOString()) - Date.parse(r.started_at) : 0
  const most = Math.max(1, ...runs.map(span))
  if (runs.length === 0) return <span className="muted">–</span>
  return (
    <span className="bars">
      {[...runs].reverse().map((r) => {
        const look = lookOf(r.state)
        const took = duration(span(r))
        const time = isActive(r.state) ? t('{time} so far', { time: took }) : took
        const text = `${look.label}, ${time} · ${full(r.created_at)}`
        return (
          <Link
            key={r.id}
            to="/r/$id"
            params={{ id: r.id }}
            title={text}
            aria-label={text}
            data-tone={look.tone}
            data-fill={look.fill}
          >
            <i style={{ height: `${20 + (80 * span(r)) / most}%` }} />
          </Link>
        )
      })}
    </span>
  )
}
