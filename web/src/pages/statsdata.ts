// The data of the chart of durations.
import type { StatsRow } from '../api/types'
import { t } from '../text/t'

/** How many runs ended in a period, and how. */
export type Ends = { at?: string | null; n: number } & Record<(typeof outcomes)[number], number>
export type Period<R extends Ends = StatsRow> = { at: number; row?: R }

export const lengthOf = (by: string) => (by === 'hour' ? 3_600_000 : 86_400_000)

/** The periods from the first to the last, also those in which nothing ended. */
export function periodsOf<R extends Ends>(stats: {
  by: string
  from: string
  to: string
  items: R[]
}): Period<R>[] {
  const step = lengthOf(stats.by)
  const rows = new Map(stats.items.map((row) => [row.at ? Date.parse(row.at) : 0, row]))
  const all: Period<R>[] = []
  for (let at = Date.parse(stats.from); at < Date.parse(stats.to); at += step) {
    const row = rows.get(at)
    all.push(row ? { at, row } : { at })
  }
  return all
}

export const outcomes = ['succeeded', 'failed', 'stopped', 'skipped'] as const

/** The sum of several periods. */
export const sumOf = (rows: Ends[]): Omit<Ends, 'at'> =>
  rows.reduce(
    (sum, row) => ({
      n: sum.n + row.n,
      succeeded: sum.succeeded + row.succeeded,
      failed: sum.failed + row.failed,
      stopped: sum.stopped + row.stopped,
      skipped: sum.skipped + row.skipped,
    }),
    { n: 0, succeeded: 0, failed: 0, stopped: 0, skipped: 0 },
  )

/** The parts of a bar from below, as heights between 0 and height. */
export function stackOf(row: Ends | undefined, most: number, height: number) {
  let y = height
  return outcomes.flatMap((state) => {
    const n = row?.[state] ?? 0
    if (n === 0) return []
    const h = (n / Math.max(1, most)) * height
    y -= h
    return [{ state, n, y, h }]
  })
}

/** The places of durations on a logarithmic scale; the line is interrupted where there is no duration. */
export function lineOf(
  values: (number | null | undefined)[],
  scale: (s: number) => number,
  width: number,
): string {
  let path = ''
  let isOpen = false
  values.forEach((v, i) => {
    if (v === null || v === undefined) {
      isOpen = false
      return
    }
    const x = ((i + 0.5) * width) / values.length
    path += `${isOpen ? 'L' : 'M'}${x.toFixed(1)} ${scale(v).toFixed(1)}`
    if (!isOpen && (values[i + 1] === null || values[i + 1] === undefined)) path += 'h0.1'
    isOpen = true
  })
  return path
}

/** A logarithmic scale from the least to the greatest duration, with the durations at its ends. */
export function scaleOf(values: (number | null | undefined)[], height: number) {
  const known = values.filter((v): v is number => typeof v === 'number').map((v) => Math.max(v, 0.001))
  const least = Math.min(...known, Number.POSITIVE_INFINITY)
  const most = Math.max(...known, 0)
  if (most === 0) return { least: 0, most: 0, y: () => height }
  const low = Math.log(least)
  const span = Math.log(most) - low || 1
  return {
    least,
    most,
    y: (v: number) => height - 4 - ((Math.log(Math.max(v, 0.001)) - low) / span) * (height - 8),
  }
}

/** Describes a trend. A change of a third or more is not regarded as chance. */
export function trendOf(trend: number | null): { text: string; isSlower: boolean } {
  if (trend === null) return { text: '–', isSlower: false }
  const percent = Math.round((trend - 1) * 100)
  if (Math.abs(percent) < 5) return { text: t('as before'), isSlower: false }
  const by = `${Math.abs(percent)} %`
  return { text: percent > 0 ? t('{by} slower', { by }) : t('{by} faster', { by }), isSlower: percent > 33 }
}
