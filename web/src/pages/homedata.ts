import type { Instant, Run } from '../api/types'
import { level, plain } from '../text/ansi'

export type Failing = { run: Run; times: number }

/** Finds the workflows whose last ended run failed, newest first, and how many runs in a row failed. */
export function failing(newestFirst: Run[]): Failing[] {
  const found = new Map<string, Failing & { over: boolean }>()
  for (const run of newestFirst) {
    const seen = found.get(run.workflow)
    if (seen?.over) continue
    if (run.state === 'failed') {
      if (seen) seen.times++
      else found.set(run.workflow, { run, times: 1, over: false })
    } else if (run.state === 'succeeded') {
      if (seen) seen.over = true
      else found.set(run.workflow, { run, times: 0, over: true })
    }
  }
  return [...found.values()].filter((f) => f.times > 0).map(({ run, times }) => ({ run, times }))
}

const hourMs = 3_600_000

/** Counts instants by the hour that they are in, from the present hour on. */
export function hours(items: Instant[], now: number, n: number): { at: number; n: number }[] {
  const start = Math.floor(now / hourMs) * hourMs
  const bars = Array.from({ length: n }, (_, i) => ({ at: start + i * hourMs, n: 0 }))
  for (const item of items) {
    const bar = bars[Math.floor((Date.parse(item.time) - start) / hourMs)]
    if (bar) bar.n++
  }
  return bars
}

/**
 * The most useful line at the end of a log: the last line that looks like an error, or else the last line
 * with a text.
 */
export function telling(text: string): string | undefined {
  const lines = text
    .split('\n')
    .map((line) => plain(line).trim())
    .filter((line) => line !== '')
  return lines.findLast((line) => level(line) === 'error') ?? lines.at(-1)
}

export type Waiting = { run: Run; more: number }

/** One line for each workflow with runs that wait: its oldest run, and how many more there are. */
export function waiting(newestFirst: Run[]): Waiting[] {
  const found = new Map<string, Waiting>()
  for (const run of newestFirst) {
    const seen = found.get(run.workflow)
    found.set(run.workflow, { run, more: seen ? seen.more + 1 : 0 })
  }
  return [...found.values()]
}
