// Stacked bars of how many runs ended, and how, in each period.
import { lookOf } from '../kit/states'
import { type Ends, stackOf } from './statsdata'

export function EndBars({
  rows,
  width,
  height,
}: {
  rows: (Ends | undefined)[]
  width: number
  height: number
}) {
  const most = Math.max(0, ...rows.map((row) => row?.n ?? 0))
  const step = width / Math.max(1, rows.length)
  return rows.map((row, i) =>
    stackOf(row, most, height).map((part) => (
      <rect
        key={`${i} ${part.state}`}
        data-tone={lookOf(part.state).tone}
        x={i * step + step * 0.1}
        width={step * 0.8}
        y={part.y}
        height={part.h}
      />
    )),
  )
}
