// The times at which the tasks of a run waited and ran: one row for each task, one bar for each attempt.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { type PointerEvent, useMemo, useRef, useState } from 'react'
import { get, path } from '../api/client'
import { useDrawing } from '../api/columns'
import type { Run, Timeline } from '../api/types'
import { useKeys } from '../app/keys'
import { type TimeScale, ticks, timeAt, timeScale, xOf } from '../canvas/timescale'
import { clock, duration, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Button, Mark } from '../kit/parts'
import { Rows } from '../kit/rows'
import { isActive, lookOf } from '../kit/states'
import { liveKey } from '../live/live'
import { t } from '../text/t'
import { isLarge } from './runtasks'

const row = 26

export type Bar = {
  from: number
  to: number
  state: string
  waits: number
  number: number
  node: string
  open: boolean
}
export type Line = {
  task: number
  name: string
  ready: number
  bars: Bar[]
  critical: boolean
  state: string
}

export function TimelineView({ run, task }: { run: Run; task: string | undefined }) {
  const large = isLarge(run)
  const drawing = useDrawing(path('runs', run.id, 'layout'))
  const timeline = useQuery({
    queryKey: large ? ['timeline', run.id, run.state] : liveKey([`run ${run.id}`], 'timeline'),
    queryFn: ({ signal }) => get<Timeline>(path('runs', run.id, 'timeline'), {}, signal),
    placeholderData: keepPreviousData,
    refetchInterval: large && isActive(run.state) ? 10_000 : false,
  })
  return (
    <Loaded query={timeline} rows={12}>
      {(times) => (
        <Loaded query={drawing} rows={12}>
          {(d) => <Chart timeline={times} names={d.names} selected={task} />}
        </Loaded>
      )}
    </Loaded>
  )
}

/**
 * Sorts the attempts of a run into one line for each task, ordered by the time at which the task could begin.
 */
export function linesOf(times: Timeline, names: string[]): Line[] {
  const lines = new Map<number, Line>()
  const path = new Set(times.path)
  const name = (task: number) => names[task] ?? times.instances[task - names.length] ?? `#${task}`
  times.task.forEach((task, i) => {
    const line = lines.get(task) ?? {
      task,
      name: name(task),
      ready: times.ready[task] ?? -1,
      bars: [],
      critical: path.has(task),
      state: '',
    }
    lines.set(task, line)
    const [assigned = 0, started = -1, finished = -1] = [
      times.assigned[i],
      times.started[i],
      times.finished[i],
    ]
    const state = times.states[times.outcome[i] ?? 0] ?? ''
    const open = finished < 0
    const before = line.bars.at(-1)?.to ?? line.ready
    const from = started < 0 ? assigned : started
    line.bars.push({
      from,
      to: open ? times.now : Math.max(finished, from),
      state,
      waits: Math.min(before < 0 ? assigned : before, from),
      number: times.number[i] ?? 0,
      node: times.nodes[times.node[i] ?? 0] ?? '',
      open,
    })
    line.state = state
  })
  return [...lines.values()].sort((a, b) => start(a) - start(b) || a.task - b.task)
}

const start = (l: Line) => l.bars[0]?.waits ?? 0

function Chart({
  timeline,
  names,
  selected,
}: {
  timeline: Timeline
  names: string[]
  selected: string | undefined
}) {
  const search = useSearch({ from: '/r/$id' })
  const navigate = useNavigate({ from: '/r/$id' })
  const set = (change: object) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  const all = useMemo(() => linesOf(timeline, names), [timeline, names])
  const critical = search.critical === '1'
  const q = search.q ?? ''
  const lines = useMemo(
    () => all.filter((l) => l.name.includes(q) && (!critical || l.critical)),
    [all, q, critical],
  )
  const view = useMemo(
    () => zoomed(search.from, search.to, timeline.now),
    [search.from, search.to, timeline.now],
  )
  const fold = search.fold !== '0'
  const scale = useMemo(
    () =>
      timeScale(
        view,
        all.flatMap((l) => l.bars),
        fold,
      ),
    [view, all, fold],
  )
  const t0 = Date.parse(timeline.t0)
  useKeys({
    c: () => set({ critical: critical ? undefined : '1' }),
    Home: () => set({ from: undefined, to: undefined }),
  })
  const folded = scale.pieces.some((p) => p.folded)
  return (
    <Panel
      title={t('Timeline')}
      count={
        critical
          ? t('{tasks} decided how long the run took', { tasks: plural(lines.length, 'task') })
          : plural(lines.length, 'task')
      }
      actions={
        <div className="row">
          <input
            data-filter
            className="input"
            type="search"
            placeholder={t('Filter by name')}
            aria-label={t('Filter tasks by name')}
            value={q}
            onChange={(e) => set({ q: e.target.value || undefined })}
          />
          <button
            type="button"
            className="chip"
            aria-pressed={critical}
            onClick={() => set({ critical: critical ? undefined : '1' })}
          >
            {t('Critical path')}
          </button>
          {folded || !fold ? (
            <button
              type="button"
              className="chip"
              aria-pressed={fold}
              onClick={() => set({ fold: fold ? '0' : undefined })}
            >
              {t('Fold idle time')}
            </button>
          ) : null}
          {search.from ? (
            <Button
              kind="quiet"
              icon="fit"
              hint={t('Show the whole run (Home)')}
              aria-label={t('Show the whole run')}
              onPress={() => set({ from: undefined, to: undefined })}
            />
          ) : null}
        </div>
      }
    >
      {lines.length === 0 ? (
        <p className="empty">
          {all.length === 0 ? t('No task of the run has been started yet.') : t('No task fits the filter.')}
        </p>
      ) : (
        <div className="timeline">
          <Axis scale={scale} t0={t0} onZoom={(from, to) => set({ from: String(from), to: String(to) })} />
          <Rows
            n={lines.length}
            row={row}
            label={t('Tasks by the time at which they could begin')}
            className="rows timeline-rows"
          >
            {(i) => {
              const line = lines[i]
              return line ? (
                <TimelineRow
                  key={line.task}
                  line={line}
                  scale={scale}
                  current={line.name === selected}
                  onOpen={() => set({ task: line.name })}
                />
              ) : null
            }}
          </Rows>
        </div>
      )}
    </Panel>
  )
}

function zoomed(from: string | undefined, to: string | undefined, now: number) {
  const [a, b] = [Number(from), Number(to)]
  return from !== undefined && Number.isFinite(a) && Number.isFinite(b) && b > a
    ? { from: a, to: b }
    : { from: 0, to: Math.max(1, now) }
}

const percent = (x: number) => `${(100 * x).toFixed(3)}%`

function TimelineRow({
  line,
  scale,
  current,
  onOpen,
}: {
  line: Line
  scale: TimeScale
  current: boolean
  onOpen: () => void
}) {
  const last = line.bars.at(-1)
  const waited = line.bars.reduce((sum, b) => sum + b.from - b.waits, 0)
  const took = line.bars.reduce((sum, b) => sum + b.to - b.from, 0)
  const words = [
    lookOf(line.state).label,
    t('waited {time}', { time: duration(waited) }),
    ...(line.bars.length > 1 ? [plural(line.bars.length, 'attempt')] : []),
    ...(last?.node ? [t('on {node}', { node: last.node })] : []),
  ].join(', ')
  return (
    <button
      type="button"
      className="timeline-row"
      data-current={current || undefined}
      style={{ height: row }}
      title={t('{name}: {words}, ran {time}', { name: line.name, words, time: duration(took) })}
      onClick={onOpen}
    >
      <span className="timeline-name">
        <Mark state={line.state} size={14} />
        <span className="clip">{line.name}</span>
        <span className="hidden-text">{words}</span>
      </span>
      <span className="timeline-track" data-critical={line.critical || undefined}>
        {line.bars.map((b) => {
          const [w, x, end] = [xOf(scale, b.waits), xOf(scale, b.from), xOf(scale, b.to)]
          if (b.to < scale.from || b.waits > scale.to) return null
          return (
            <span key={b.number}>
              {x > w ? <i className="waits" style={{ left: percent(w), width: percent(x - w) }} /> : null}
              <i
                className="ran"
                data-tone={lookOf(b.state).tone}
                data-fill={b.open ? 'solid' : lookOf(b.state).fill}
                data-open={b.open || undefined}
                style={{ left: percent(x), width: percent(end - x) }}
              />
            </span>
          )
        })}
      </span>
      <span className="num sub">{duration(took)}</span>
    </button>
  )
}

/** The time axis. Dragging over the axis zooms to the dragged range. */
function Axis({
  scale,
  t0,
  onZoom,
}: {
  scale: TimeScale
  t0: number
  onZoom: (from: number, to: number) => void
}) {
  const box = useRef<HTMLDivElement>(null)
  const [drag, setDrag] = useState<[number, number]>()
  const at = (e: PointerEvent) => {
    const r = box.current?.getBoundingClientRect()
    return r ? Math.max(0, Math.min(1, (e.clientX - r.left) / r.width)) : 0
  }
  const end = () => {
    setDrag(undefined)
    if (!drag) return
    const [a, b] = [Math.min(...drag), Math.max(...drag)]
    if (b - a > 0.01) onZoom(Math.floor(timeAt(scale, a)), Math.ceil(timeAt(scale, b)))
  }
  return (
    <div className="timeline-head" aria-hidden="true">
      <span className="sub">{clock(t0 + scale.from)}</span>
      <div
        ref={box}
        className="timeline-axis"
        title={t('Drag to zoom')}
        onPointerDown={(e) => {
          e.currentTarget.setPointerCapture(e.pointerId)
          setDrag([at(e), at(e)])
        }}
        onPointerMove={(e) => drag && setDrag([drag[0], at(e)])}
        onPointerUp={end}
        onPointerCancel={() => setDrag(undefined)}
      >
        {scale.pieces
          .filter((p) => p.folded)
          .map((p) => (
            <i
              key={p.from}
              className="torn"
              style={{ left: percent(p.x), width: percent(p.width) }}
              title={t('Nothing ran for {time}', { time: duration(p.to - p.from) })}
            />
          ))}
        {ticks(scale, matchMedia('(max-width: 640px)').matches ? 3 : 8).map((time) => (
          <span key={time} style={{ left: percent(xOf(scale, time)) }}>
            {time === 0 ? '0' : duration(time)}
          </span>
        ))}
        {drag ? (
          <i
            className="brush"
            style={{ left: percent(Math.min(...drag)), width: percent(Math.abs(drag[1] - drag[0])) }}
          />
        ) : null}
      </div>
      <span className="num sub">{t('Ran')}</span>
    </div>
  )
}
