// Rows draws only the rows on screen. Rows are addressed by number: the height of an element ends at some 16 million
// pixels, so beyond that the scrollbar is mapped onto the rows.
import {
  type KeyboardEvent,
  type MouseEvent,
  type PointerEvent,
  type ReactNode,
  type Ref,
  useEffect,
  useImperativeHandle,
  useRef,
  useState,
} from 'react'

const heightMax = 8_000_000
const spare = 8

export type RowsHandle = { show: (index: number, block?: 'center' | 'end') => void; atEnd: () => boolean }

/** The most rows that a view of this height draws. */
const slotsOf = (height: number, row: number) => Math.ceil(height / row) + 2 * spare

/** Puts consecutive rows in the order of their slots; the row n has the slot n % slots. */
export function bySlot<T>(rows: T[], first: number, slots: number): T[] {
  const wrap = slots - (first % slots)
  return [...rows.slice(wrap), ...rows.slice(0, wrap)]
}

/** The first row and the number of rows to draw, for a scroll position. */
export function windowOf(
  top: number,
  height: number,
  row: number,
  n: number,
): { first: number; count: number; pad: number } {
  const total = n * row
  const drawn = Math.min(total, heightMax)
  const scale = drawn > height ? (total - height) / (drawn - height) : 1
  const real = top * scale
  const first = Math.max(0, Math.floor(real / row) - spare)
  const count = Math.min(n - first, slotsOf(height, row))
  return { first, count: Math.max(0, count), pad: top - (real - first * row) }
}

export function Rows({
  n,
  row,
  children,
  className,
  label,
  handle,
  grid,
  onTop,
  onScrolled,
}: {
  n: number
  row: number
  /**
   * Draws a row. In a grid, top is its place, which does not change while other rows come and go. A row that leaves the
   * window and the one that comes instead have the same slot, so that their elements can be used again.
   */
  children: (index: number, top: number, slot: number) => ReactNode
  className?: string
  label: string
  handle?: Ref<RowsHandle>
  /** Makes the rows those of a grid. */
  grid?: {
    columns: number
    onKeyDown: (e: KeyboardEvent) => void
    onClick: (e: MouseEvent) => void
    onPointerOver: (e: PointerEvent) => void
    /** The id of the element of a slot. */
    rowId: (slot: number) => string
  }
  onTop?: () => void
  onScrolled?: (atEnd: boolean) => void
}) {
  const box = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: 0, height: 600 })
  useEffect(() => {
    const el = box.current
    if (!el) return
    const measure = () => setView({ top: el.scrollTop, height: el.clientHeight })
    const observer = new ResizeObserver(measure)
    observer.observe(el)
    measure()
    return () => observer.disconnect()
  }, [])
  useImperativeHandle(handle, () => ({
    show: (index, block = 'center') => {
      const el = box.current
      if (!el) return
      const total = n * row
      const drawn = Math.min(total, heightMax)
      const scale = drawn > el.clientHeight ? (total - el.clientHeight) / (drawn - el.clientHeight) : 1
      const at = block === 'end' ? (index + 1) * row - el.clientHeight : index * row - el.clientHeight / 2
      // The padding of the element is part of its end.
      el.scrollTop = index >= n - 1 ? el.scrollHeight : Math.max(0, at) / scale
      setView({ top: el.scrollTop, height: el.clientHeight }) // before the event: a log that grows fast stays visible
    },
    atEnd: () => {
      const el = box.current
      return !el || el.scrollTop + el.clientHeight >= el.scrollHeight - 2 * row
    },
  }))
  const { first, count, pad } = windowOf(view.top, view.height, row, n)
  const slots = slotsOf(view.height, row)
  const inTurn = Array.from({ length: count }, (_, i) =>
    children(first + i, pad + i * row, (first + i) % slots),
  )
  // An element that is moved is styled and laid out anew. So the slots of a grid keep their order among each other, and
  // aria-owns says in which order the rows are.
  const rows = grid ? bySlot(inTurn, first, slots) : inTurn
  const order = grid ? inTurn.map((_, i) => grid.rowId((first + i) % slots)).join(' ') : undefined
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: both roles have a name.
    <div
      ref={box}
      className={className}
      tabIndex={0}
      role={grid ? 'grid' : 'region'}
      aria-label={label}
      {...(grid
        ? {
            'aria-rowcount': n,
            'aria-colcount': grid.columns,
            'aria-owns': order,
            onKeyDown: grid.onKeyDown,
            onClick: grid.onClick,
            onPointerOver: grid.onPointerOver,
          }
        : {})}
      onScroll={(e) => {
        const el = e.currentTarget
        setView({ top: el.scrollTop, height: el.clientHeight })
        if (el.scrollTop === 0) onTop?.()
        onScrolled?.(el.scrollTop + el.clientHeight >= el.scrollHeight - 2 * row)
      }}
    >
      <div role="presentation" style={{ height: Math.min(n * row, heightMax), position: 'relative' }}>
        {grid ? (
          rows
        ) : (
          <div role="presentation" style={{ position: 'absolute', top: pad, minWidth: '100%' }}>
            {rows}
          </div>
        )}
      </div>
    </div>
  )
}
