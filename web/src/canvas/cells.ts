// The cells of a grid of runs and tasks.
import type { Grid } from '../api/types'

/** The cell of a task that a run does not have. */
export const absent = 255

/** Reads the packed cells of a run: one state for each task of the grid. */
export function readCells(packed: string, tasks: number): Uint8Array {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0))
  const cells = new Uint8Array(tasks).fill(absent)
  for (let at = 0, t = 0; at < bytes.length; ) {
    const state = bytes[at++]!
    let [count, factor] = [0, 1]
    for (;;) {
      const b = bytes[at++]
      if (b === undefined) throw new Error('the cells of a run end too early')
      count += (b & 127) * factor
      if (b < 128) break
      factor *= 128
    }
    cells.fill(state, t, t + count)
    t += count
  }
  return cells
}

export type Columns = { cells: Uint8Array[]; names: string[] }

export const readColumns = (g: Grid): Columns => ({
  cells: g.runs.map((r) => readCells(r.cells, g.tasks)),
  names: g.states,
})

/**
 * The rows to show: those whose name has the text in it. In the order "file", they keep the order of the
 * file. In the order "trouble", the tasks that failed last and most often come first, and a failure in the
 * newest run counts most.
 */
export function rowsOf(
  c: Columns,
  order: Uint32Array,
  names: string[],
  q: string,
  sort: string,
): Uint32Array {
  const text = q.toLowerCase()
  const rows = text ? order.filter((t) => names[t]?.toLowerCase().includes(text)) : order
  if (sort !== 'failed') return rows
  const bad = new Set(['failed', 'upstream_failed', 'retry_wait'].map((s) => c.names.indexOf(s)))
  const [failed] = [c.names.indexOf('failed')]
  const score = new Float64Array(names.length)
  for (const [i, cells] of c.cells.entries()) {
    const weight = 2 ** -Math.min(i, 40)
    for (let t = 0; t < cells.length; t++) {
      const state = cells[t]!
      if (bad.has(state)) score[t]! += state === failed ? weight : weight / 1e3
    }
  }
  return rows.filter((t) => score[t]! > 0).sort((a, b) => score[b]! - score[a]! || a - b)
}
