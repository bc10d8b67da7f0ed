import type { BackfillRequest } from '../api/types'
import { quote } from './startdata'

export type BackfillSearch = {
  [K in 'workflow' | 'trigger' | 'from' | 'to' | 'parallel' | 'only' | 'order']?: string
}

/** Turns a local date and time, as fields of that type give it, into an instant. */
const instant = (local: string | undefined) => {
  const at = local ? new Date(local) : undefined
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined
}

/** Makes the request for a backfill of what the address of the form says. */
export function requestOf(s: BackfillSearch): BackfillRequest {
  const [from, to] = [instant(s.from), instant(s.to)]
  return {
    workflow: s.workflow ?? '',
    ...(s.trigger ? { trigger: s.trigger } : {}),
    ...(from ? { from } : {}),
    ...(to ? { to } : {}),
    parallel: Math.max(1, Math.min(10_000, Math.floor(Number(s.parallel ?? 1)) || 1)),
    ...(s.only && s.only !== 'all' ? { only: s.only as BackfillRequest['only'] & string } : {}),
    ...(s.order && s.order !== 'ascending' ? { order: s.order as BackfillRequest['order'] & string } : {}),
  }
}

/** Writes the command that starts the same backfill. */
export const backfillCommand = (r: BackfillRequest) =>
  [
    'skein backfill create',
    quote(r.workflow || 'WORKFLOW'),
    ...(r.trigger ? [`--trigger ${quote(r.trigger)}`] : []),
    ...(r.from ? [`--from ${r.from}`] : []),
    ...(r.to ? [`--to ${r.to}`] : []),
    ...(r.parallel && r.parallel > 1 ? [`--parallel ${r.parallel}`] : []),
    ...(r.only ? [`--only ${quote(r.only)}`] : []),
    ...(r.order ? [`--order ${quote(r.order)}`] : []),
  ].join(' ')
