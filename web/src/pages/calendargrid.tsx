// The cells of the calendar: a grid with one focus, by pointer and by keys. A drag or Shift and an arrow selects a range.
import { type KeyboardEvent, type PointerEvent, useEffect, useRef } from 'react'
import { count } from '../kit/format'
import { Icon } from '../kit/icons'
import { Mark } from '../kit/parts'
import { lookOf } from '../kit/states'
import { locale, t } from '../text/t'
import {
  type Cell,
  type Change,
  dayKey,
  hourKey,
  isWithin,
  keyOf,
  kinds,
  past,
  readKey,
  type Span,
  type View,
  wordsOf,
} from './calendardata'

type Props = {
  view: View
  span: Span
  month: number
  cells: Map<string, Cell>
  changes: Change[]
  tries: boolean
  from: string | undefined
  to: string | undefined
  onSelect: (from: string, to: string) => void
}

const hours = Array.from({ length: 24 }, (_, h) => String(h).padStart(2, '0'))
const weekday = new Intl.DateTimeFormat(locale, { weekday: 'short' })
const longDay = new Intl.DateTimeFormat(locale, { weekday: 'long', day: 'numeric', month: 'long' })

/** The rows of keys: hours by days of a week, or weeks by days of a month. */
function rowsOf(view: View, span: Span): string[][] {
  if (view === 'week') return hours.map((h) => span.days.map((d) => `${d}T${h}`))
  const weeks: string[][] = []
  for (let i = 0; i < span.days.length; i += 7) weeks.push(span.days.slice(i, i + 7))
  return weeks
}

export function CalendarGrid(p: Props) {
  const rows = rowsOf(p.view, p.span)
  const now = keyOf(p.view, new Date())
  const to = p.to ?? p.from
  const focus = to ?? (rows.flat().includes(now) ? now : rows[0]?.[0])
  const most = Math.max(1, ...[...p.cells.values()].map((c) => Math.max(past(c) + c.ahead, c.tried)))
  const drag = useRef<string>(undefined)
  const grid = useRef<HTMLDivElement>(null)
  // The focus follows the selection only if it is in the grid already.
  useEffect(() => {
    if (grid.current?.contains(document.activeElement) && focus)
      grid.current.querySelector<HTMLElement>(`[data-key="${focus}"]`)?.focus()
  }, [focus])
  const keyAt = (e: PointerEvent) =>
    document
      .elementFromPoint(e.clientX, e.clientY)
      ?.closest<HTMLElement>('[data-key]')
      ?.getAttribute('data-key') ?? undefined
  const onDown = (e: PointerEvent) => {
    const key = keyAt(e)
    if (!key || e.button !== 0) return
    drag.current = e.shiftKey && p.from ? p.from : key
    p.onSelect(drag.current, key)
  }
  const onMove = (e: PointerEvent) => {
    const key = keyAt(e)
    // A finger scrolls the page; only a mouse or a pen drags.
    if (drag.current && key && key !== to && e.pointerType !== 'touch') p.onSelect(drag.current, key)
  }
  const onKey = (e: KeyboardEvent) => {
    if (!focus) return
    const row = rows.findIndex((r) => r.includes(focus))
    const column = rows[row]?.indexOf(focus) ?? -1
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    }
    const step = steps[e.key]
    const next = step
      ? rows[row + step[0]]?.[column + step[1]]
      : ['Enter', ' '].includes(e.key)
        ? focus
        : undefined
    if (!next) return
    e.preventDefault()
    p.onSelect(e.shiftKey && p.from ? p.from : next, next)
  }
  return (
    <div
      ref={grid}
      role="grid"
      aria-label={t('Fires of the schedules')}
      aria-multiselectable="true"
      className="calendar"
      data-view={p.view}
      onKeyDown={onKey}
      onPointerDown={onDown}
      onPointerMove={onMove}
      onPointerUp={() => {
        drag.current = undefined
      }}
      onPointerLeave={() => {
        drag.current = undefined
      }}
    >
      <div role="row" className="calendar-row calendar-head">
        <span role="columnheader" className="calendar-hour">
          <span className="hidden-text">{p.view === 'week' ? t('Hour') : t('Week of')}</span>
        </span>
        {p.span.days.slice(0, 7).map((d) => (
          <DayHead key={d} day={d} view={p.view} changes={p.changes} />
        ))}
      </div>
      {rows.map((row, i) => (
        <div role="row" className="calendar-row" key={row[0]}>
          <span role="rowheader" className="calendar-hour">
            {p.view === 'week' ? (
              hours[i]
            ) : (
              <span className="hidden-text">{t('Week of {day}', { day: row[0] ?? '' })}</span>
            )}
          </span>
          {row.map((key) => (
            <CellView
              key={key}
              at={key}
              p={p}
              now={now}
              most={most}
              focus={key === focus}
              selected={p.from !== undefined && to !== undefined && isWithin(key, p.from, to)}
            />
          ))}
        </div>
      ))}
    </div>
  )
}

function DayHead({ day, view, changes }: { day: string; view: View; changes: Change[] }) {
  const at = readKey(day) as Date
  const change = changes.find((c) => c.day === day)
  const shift = change
    ? t('clocks {hours} h', { hours: `${change.minutes > 0 ? '+' : '−'}${Math.abs(change.minutes) / 60}` })
    : ''
  return (
    <span role="columnheader" data-today={day === dayKey(new Date()) || undefined}>
      {weekday.format(at)}
      {view === 'week' ? ` ${at.getDate()}` : ''}
      {view === 'week' && shift ? <small>{shift}</small> : null}
    </span>
  )
}

function CellView({
  at,
  p,
  now,
  most,
  focus,
  selected,
}: {
  at: string
  p: Props
  now: string
  most: number
  focus: boolean
  selected: boolean
}) {
  const cell = p.cells.get(at)
  const day = readKey(at) as Date
  // An hour that the clocks leave out has no instant.
  const absent = p.view === 'week' && hourKey(day) !== at
  const words = absent ? t('the clocks leave this hour out') : wordsOf(cell, p.tries)
  const name = `${longDay.format(day)}${p.view === 'week' ? `, ${at.slice(11)}:00` : ''}: ${words}`
  return (
    <span
      role="gridcell"
      tabIndex={focus ? 0 : -1}
      aria-selected={selected}
      title={name}
      data-key={at}
      data-now={at === now || undefined}
      data-past={at < now || undefined}
      data-absent={absent || undefined}
      data-paused={(cell?.paused ?? 0) > 0 || undefined}
      data-other={(p.view === 'month' && day.getMonth() !== p.month) || undefined}
      className="calendar-cell"
    >
      <span className="hidden-text">{name}</span>
      {p.view === 'month' ? <b aria-hidden="true">{day.getDate()}</b> : null}
      {cell && !absent ? (
        <Content cell={cell} most={most} tries={p.tries} isDay={p.view === 'month'} />
      ) : null}
    </span>
  )
}

function Content({ cell, most, tries, isDay }: { cell: Cell; most: number; tries: boolean; isDay: boolean }) {
  const worst = kinds.find((k) => cell.counts[k] > 0 && k !== 'fired' && k !== 'merged')
  const total = past(cell) + cell.ahead
  const difference = tries ? cell.tried - cell.ahead : 0
  const shown = kinds.filter((k) => cell.counts[k] > 0)
  return (
    <>
      <span
        className="calendar-bar-of"
        aria-hidden="true"
        style={{ width: `${100 * Math.sqrt(total / most)}%` }}
      >
        {shown.reverse().map((k) => {
          const look = lookOf(k)
          return (
            <i key={k} data-tone={look.tone} data-fill={look.fill} style={{ flexGrow: cell.counts[k] }} />
          )
        })}
        {cell.ahead > 0 ? <i data-ahead style={{ flexGrow: cell.ahead }} /> : null}
      </span>
      <span className="calendar-text" aria-hidden="true">
        {worst ? (
          <>
            <Mark state={worst} size={14} />
            <em>{count(cell.counts[worst])}</em>
          </>
        ) : null}
        {cell.crowded > 0 ? <Icon name="warn" size={13} /> : null}
        {difference !== 0 ? (
          <strong data-tone={difference > 0 ? 'busy' : 'warn'}>
            {difference > 0 ? '+' : '−'}
            {count(Math.abs(difference))}
          </strong>
        ) : null}
        {total > 0 ? (
          <span>
            {count(total)}
            {isDay ? <i className="unit"> {total === 1 ? 'fire' : 'fires'}</i> : null}
          </span>
        ) : null}
      </span>
    </>
  )
}
