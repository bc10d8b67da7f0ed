// The time axis of a run. Spans in which nothing happened are folded, so that a run that waited for a night can be read.

export type Span = { from: number; to: number }

/** A piece of the axis: time from…to is drawn at x…x + width, in parts of 1. */
export type Piece = Span & { x: number; width: number; folded: boolean }

export type TimeScale = { pieces: Piece[]; from: number; to: number }

/** A gap of at least this part of the shown time is folded to foldedWidth. */
const foldFrom = 0.12
const foldedWidth = 0.03

/** Makes the axis for a span of time. In spans, something happened. If fold is true, gaps are folded. */
export function timeScale(view: Span, spans: Span[], fold: boolean): TimeScale {
  const total = Math.max(1, view.to - view.from)
  const idle = gapsOf(view, spans)
  // A view in which nothing happened is not folded.
  const busy = total - idle.reduce((sum, g) => sum + g.to - g.from, 0) >= 1
  const gaps = fold && busy ? idle.filter((g) => g.to - g.from >= foldFrom * total) : []
  const gone = gaps.reduce((sum, g) => sum + g.to - g.from, 0)
  const open = 1 - gaps.length * foldedWidth
  const left = Math.max(1, total - gone)
  const pieces: Piece[] = []
  let [at, x] = [view.from, 0]
  const add = (to: number, folded: boolean) => {
    const width = folded ? foldedWidth : ((to - at) / left) * open
    if (to > at) pieces.push({ from: at, to, x, width, folded })
    x += to > at ? width : 0
    at = Math.max(at, to)
  }
  for (const gap of gaps) {
    add(gap.from, false)
    add(gap.to, true)
  }
  add(view.to, false)
  return { pieces, from: view.from, to: view.to }
}

/** The spans of a view in which nothing happened, in their order. */
export function gapsOf(view: Span, spans: Span[]): Span[] {
  const sorted = spans.filter((s) => s.to > view.from && s.from < view.to).sort((a, b) => a.from - b.from)
  const gaps: Span[] = []
  let at = view.from
  for (const s of sorted) {
    if (s.from > at) gaps.push({ from: at, to: s.from })
    at = Math.max(at, s.to)
  }
  if (at < view.to) gaps.push({ from: at, to: view.to })
  return gaps
}

/** Where a time is drawn, in parts of 1. Times outside of the view are drawn at its ends. */
export function xOf(scale: TimeScale, time: number): number {
  for (const p of scale.pieces) {
    if (time <= p.to) return p.x + p.width * Math.max(0, (time - p.from) / (p.to - p.from))
  }
  return 1
}

/** The time that is drawn at a place. */
export function timeAt(scale: TimeScale, x: number): number {
  for (const p of scale.pieces) {
    if (x <= p.x + p.width) return p.from + (p.to - p.from) * Math.max(0, (x - p.x) / Math.max(1e-9, p.width))
  }
  return scale.to
}

const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3]
const minute = 60e3
for (const n of [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080]) steps.push(n * minute)

/** Times to write under the axis: at most n, at round distances, none in a folded gap. */
export function ticks(scale: TimeScale, n: number): number[] {
  const shown = scale.pieces.filter((p) => !p.folded).reduce((sum, p) => sum + p.to - p.from, 0)
  const step = steps.find((s) => shown / s <= n) ?? Math.ceil(shown / n)
  const out: number[] = []
  for (const p of scale.pieces) {
    if (p.folded) continue
    for (let t = Math.ceil(p.from / step) * step; t <= p.to; t += step) out.push(t)
  }
  return out
}
