import type { BackfillRequest, Schedule } from '../api/types'
import { t } from '../text/t'
import { quote } from './startdata'

export type BackfillSearch = {
  [K in 'workflow' | 'trigger' | 'from' | 'to' | 'parallel' | 'only' | 'order']?: string
}

/** Turns the value of a field for a local date and time into an instant. */
const instant = (local: string | undefined) => {
  const at = local ? new Date(local) : undefined
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined
}

/** Makes the request for a backfill from the address of the form. */
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

const two = (n: number) => String(n).padStart(2, '0')
const minuteOf = (d: Date, time: string) =>
  `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${time}`

/** The ranges of whole days before today that the form offers, in the time zone of the browser. */
export function ranges(now: Date): { label: string; from: string; to: string }[] {
  const day = (back: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - back)
  const monday = (now.getDay() + 6) % 7
  const range = (label: string, first: number, last: number) => ({
    label,
    from: minuteOf(day(first), '00:00'),
    to: minuteOf(day(last), '23:59'),
  })
  return [
    range(t('Yesterday'), 1, 1),
    range(t('Last 7 days'), 7, 1),
    range(t('Last week'), monday + 7, monday + 1),
  ]
}

const timed = new Set(['cron', 'every', 'at', 'daily', 'weekly', 'monthly', 'annually'])

/** Whether a trigger has instants. A backfill can start runs only for instants. */
export const isTimed = (s: Pick<Schedule, 'sensor' | 'kind'>): boolean => !s.sensor && timed.has(s.kind)
