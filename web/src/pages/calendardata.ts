// The data of the calendar of schedules: past and coming fires, counted by hour or by day of the viewer's
// clocks.
import type { Fire, Schedule, SimulatedHour, SimulatedLimit } from '../api/types'
import { plural } from '../kit/format'
import { labelIn } from '../kit/states'
import { t } from '../text/t'

export type View = 'week' | 'month'

/**
 * The kinds of fires that a cell counts. The fire of a failed run counts as failed, and not by its outcome.
 */
export const kinds = ['failed', 'missed', 'late', 'skipped', 'merged', 'fired'] as const
export type Kind = (typeof kinds)[number]

export type Cell = {
  counts: Record<Kind, number>
  /** The numbers of coming fires, and of the coming fires with the rule that is tried. */
  ahead: number
  tried: number
  /** The largest number of concurrent runs in the forecast, if it is more than the slots. */
  crowded: number
  /** The number of triggers with a planned pause in a part of the cell. */
  paused: number
}

export type Span = { from: Date; to: Date; days: string[] }

const two = (n: number) => String(n).padStart(2, '0')

export const dayKey = (d: Date) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`
export const hourKey = (d: Date) => `${dayKey(d)}T${two(d.getHours())}`
export const keyOf = (view: View, d: Date) => (view === 'week' ? hourKey(d) : dayKey(d))

/** Reads a day or an hour of the viewer's clocks. It returns undefined if the text is neither. */
export function readKey(key: string | undefined): Date | undefined {
  const m = /^(\d{4})-(\d\d)-(\d\d)(?:T(\d\d))?$/.exec(key ?? '')
  if (!m) return undefined
  const at = new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]), Number(m[4] ?? 0))
  return dayKey(at) === key?.slice(0, 10) ? at : undefined
}

const addDays = (d: Date, n: number) => new Date(d.getFullYear(), d.getMonth(), d.getDate() + n)

/** The week, or the weeks of the month, that a day is in. A week begins on Monday. */
export function spanOf(view: View, day: Date): Span {
  const first = view === 'week' ? day : new Date(day.getFullYear(), day.getMonth(), 1)
  const from = addDays(first, -((first.getDay() + 6) % 7))
  const last = view === 'week' ? addDays(from, 6) : new Date(day.getFullYear(), day.getMonth() + 1, 0)
  const days: string[] = []
  for (let d = from; d <= last || d.getDay() !== 1; d = addDays(d, 1)) days.push(dayKey(d))
  return { from, to: addDays(from, days.length), days }
}

/** Returns the first day of an earlier or later span, n spans away. */
export function step(view: View, day: Date, n: number): string {
  if (view === 'week') return dayKey(addDays(spanOf('week', day).from, 7 * n))
  return dayKey(new Date(day.getFullYear(), day.getMonth() + n, 1))
}

/** The first instant after a cell. */
export function endOf(view: View, key: string): Date {
  const at = readKey(key) ?? new Date(0)
  return view === 'week'
    ? new Date(at.getFullYear(), at.getMonth(), at.getDate(), at.getHours() + 1)
    : addDays(at, 1)
}

/** Orders two cells and says whether a third one is between them. The keys sort by time. */
export const isWithin = (key: string, a: string, b: string) =>
  a < b ? a <= key && key <= b : b <= key && key <= a

const none = (): Cell => ({
  counts: { failed: 0, missed: 0, late: 0, skipped: 0, merged: 0, fired: 0 },
  ahead: 0,
  tried: 0,
  crowded: 0,
  paused: 0,
})

/**
 * If a line of the ledger has at most this number of instants, each instant is counted. Otherwise only its
 * first instant is counted.
 */
const spreadMax = 10_000

export type Counted = {
  view: View
  span: Span
  fires: Fire[]
  /** The ids of runs that failed. */
  failed: ReadonlySet<string>
  ahead: SimulatedHour[]
  tried: SimulatedHour[]
  limits: SimulatedLimit[]
  /** The triggers that the calendar shows, for their planned pauses. */
  schedules: Pick<Schedule, 'planned_pauses'>[]
}

/** The keys of the cells of a span that a range of time touches. */
function cellsIn(view: View, span: Span, p: { from: string; until: string }): string[] {
  const [from, until] = [Date.parse(p.from), Math.min(Date.parse(p.until), span.to.getTime())]
  const keys: string[] = []
  for (let d = new Date(Math.max(from, span.from.getTime())); d.getTime() < until; ) {
    const key = keyOf(view, d)
    keys.push(key)
    d = endOf(view, key)
  }
  return [...new Set(keys)]
}

/**
 * Counts fires by the cells of the calendar. A forecast has hours of UTC. An hour is counted in the cell in
 * which it begins.
 */
export function cellsOf(c: Counted): Map<string, Cell> {
  const cells = new Map<string, Cell>()
  const at = (d: Date) => {
    const key = keyOf(c.view, d)
    const cell = cells.get(key) ?? none()
    cells.set(key, cell)
    return cell
  }
  for (const f of c.fires) {
    const kind = f.run && c.failed.has(f.run) ? 'failed' : f.outcome
    const [first, last] = [Date.parse(f.at), Date.parse(f.last)]
    if (f.count <= 1 || f.count > spreadMax || !(last > first)) {
      at(new Date(first)).counts[kind] += f.count
      continue
    }
    // The instants of a line are spread evenly, which is right for most schedules.
    for (let i = 0; i < f.count; i++)
      at(new Date(first + ((last - first) * i) / (f.count - 1))).counts[kind]++
  }
  for (const h of c.ahead) at(new Date(h.at)).ahead += h.fires
  for (const h of c.tried) at(new Date(h.at)).tried += h.fires
  for (const s of c.schedules)
    for (const p of s.planned_pauses ?? [])
      for (const key of cellsIn(c.view, c.span, p)) at(readKey(key) as Date).paused++
  const slots = c.limits.find((l) => l.kind === 'slots')
  if (slots)
    for (const h of c.ahead) {
      const cell = at(new Date(h.at))
      if (h.active > slots.limit) cell.crowded = Math.max(cell.crowded, h.active)
    }
  return cells
}

export const past = (cell: Cell) => kinds.reduce((sum, k) => sum + cell.counts[k], 0)

/** Describes the content of a cell in words. */
export function wordsOf(cell: Cell | undefined, tries: boolean): string {
  if (!cell) return t('nothing')
  const words: string[] = kinds
    .filter((k) => cell.counts[k] > 0)
    .map((k) => `${cell.counts[k]} ${labelIn(k)}`)
  if (cell.ahead > 0) words.push(t('{n} to come', { n: cell.ahead }))
  if (tries && cell.tried !== cell.ahead) words.push(t('{n} with the tried rule', { n: cell.tried }))
  if (cell.paused > 0)
    words.push(t('{triggers} paused by plan', { triggers: plural(cell.paused, 'trigger') }))
  if (cell.crowded > 0)
    words.push(t('up to {n} runs at once, more than there are slots', { n: cell.crowded }))
  return words.join(', ') || t('nothing')
}

/** The planned pauses of a trigger that overlap a range. */
export const pausesIn = (s: Pick<Schedule, 'planned_pauses'>, start: Date, end: Date) =>
  (s.planned_pauses ?? []).filter(
    (p) => Date.parse(p.from) < end.getTime() && Date.parse(p.until) > start.getTime(),
  )

export type Change = { day: string; minutes: number }

/** The days of a span on which the viewer's clocks change, and by how much. */
export function clockChanges(span: Span): Change[] {
  return span.days.flatMap((day) => {
    const from = readKey(day) as Date
    const minutes = from.getTimezoneOffset() - addDays(from, 1).getTimezoneOffset()
    return minutes === 0 ? [] : [{ day, minutes }]
  })
}

/** The body of a request that simulates the part of a span that is to come. */
export function forecast(span: Span, filter: { workflow?: string; ns: string }) {
  return {
    ...(span.from.getTime() > Date.now() ? { from: span.from.toISOString() } : {}),
    to: span.to.toISOString(),
    ...(filter.workflow ? { workflow: filter.workflow } : {}),
    ...(filter.ns && !filter.workflow ? { namespace: filter.ns } : {}),
  }
}

/** The kinds of triggers that use no time of day, so that their time zone is not shown. */
const timeless = new Set([
  'webhook',
  'file',
  'again',
  'start',
  'event',
  'poll',
  'query',
  'object',
  'kafka',
  'nats',
  'redis',
  'mqtt',
  'amqp',
  'sqs',
  'source',
])

/** The time zone to show behind the rule of a trigger. The empty text means none. */
export const zoneOf = (s: Pick<Schedule, 'kind' | 'description' | 'timezone'>): string =>
  timeless.has(s.kind) || s.description.includes(s.timezone) ? '' : s.timezone
