// The states of the tasks of a workflow in its last runs: a row for each task, a column for each run, the
// newest right.
import { useQueries, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { type KeyboardEvent, type MouseEvent, memo, type PointerEvent, useMemo } from 'react'
import { get, path } from '../api/client'
import { useDrawing } from '../api/columns'
import { useExplain } from '../api/queries'
import type { Workflow as Definition, Grid, GridRun, Timeline } from '../api/types'
import { absent, type Columns, readColumns, rowsOf } from '../canvas/cells'
import type { Drawing } from '../canvas/drawing'
import { durationsOf, isSlower, rowTimes } from '../canvas/durations'
import { clock, duration, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Button, Clock, Message, RunLink, Span, State } from '../kit/parts'
import { Rows } from '../kit/rows'
import { isActive, lookOf } from '../kit/states'
import { liveKey } from '../live/live'
import { rich, t } from '../text/t'
import { Reasons } from './reasons'
import { useTask } from './taskpane'

const row = 24
const runsShown = 25
/** The page reads the times of each run as a whole, so it offers times only up to this number of tasks. */
const timesMax = 2000

export function GridOf({ w }: { w: Definition }) {
  const { cursor } = useSearch({ from: '/w/$ns/$name' })
  const where = path('workflows', w.namespace, w.name)
  const drawing = useDrawing(`${where}/layout`, { version: w.version })
  const grid = useQuery({
    queryKey: liveKey([`workflow ${w.workflow}`], 'grid', cursor ?? '', w.version),
    queryFn: ({ signal }) =>
      get<Grid>(`${where}/grid`, { runs: runsShown, cursor, version: w.version }, signal),
    placeholderData: (old) => (old?.version === w.version ? old : undefined),
  })
  return (
    <Loaded query={drawing} rows={12}>
      {(d) => (
        <Loaded
          query={grid}
          rows={12}
          isEmpty={(g) => g.runs.length === 0}
          empty={t('The workflow has not run yet. Start it with the button above.')}
        >
          {(g) => <GridPanel w={w} grid={g} drawing={d} />}
        </Loaded>
      )}
    </Loaded>
  )
}

type Times = (Float64Array | undefined)[]

/**
 * Reads the durations of the tasks in the runs that have the version of the grid. Other versions number their
 * tasks differently.
 */
function useTimes(grid: Grid, names: string[], isShown: boolean): Times | undefined {
  const columns = useQueries({
    queries: grid.runs.map((r) => ({
      queryKey: ['timeline', r.id, r.state, r.generation],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        get<Timeline>(path('runs', r.id, 'timeline'), {}, signal),
      enabled: isShown && r.version === grid.version && r.started_at !== null,
      staleTime: isActive(r.state) ? 5_000 : Number.POSITIVE_INFINITY,
    })),
    combine: (all) => all.map((q) => q.data),
  })
  return useMemo(
    () => (isShown ? columns.map((task) => (task ? durationsOf(task, names) : undefined)) : undefined),
    [isShown, columns, names],
  )
}

function GridPanel({ w, grid, drawing }: { w: Definition; grid: Grid; drawing: Drawing }) {
  const { q = '', sort = '', task, run, cursor, show } = useSearch({ from: '/w/$ns/$name' })
  const navigate = useNavigate({ from: '/w/$ns/$name' })
  const set = (change: object, replace = true) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace })
  const columns = useMemo(() => readColumns(grid), [grid])
  const rows = useMemo(
    () => rowsOf(columns, drawing.sorted, drawing.names, q, sort),
    [columns, drawing, q, sort],
  )
  // Old left, new right, as time goes.
  const order = useMemo(() => grid.runs.map((_, i) => grid.runs.length - 1 - i), [grid.runs])
  const times = useTimes(grid, drawing.names, show === 'times' && drawing.n <= timesMax)
  const each = task === undefined ? -1 : drawing.names.indexOf(task)
  const i = grid.runs.findIndex((r) => r.id === run)
  const select = (row: number, column: number) => {
    const name = drawing.names[rows[row] ?? -1]
    const id = grid.runs[order[column] ?? -1]?.id
    if (name && id) set({ task: name, run: id })
  }
  const onKey = (e: KeyboardEvent) => {
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    }
    const step = steps[e.key]
    if (!step) return
    e.preventDefault()
    const [at, col] = [rows.indexOf(each), order.indexOf(i)]
    const clamp = (n: number, most: number) => Math.max(0, Math.min(most, n))
    select(
      at < 0 ? 0 : clamp(at + step[0], rows.length - 1),
      col < 0 ? order.length - 1 : clamp(col + step[1], order.length - 1),
    )
  }
  const onClick = (e: MouseEvent) => {
    const at = cellAt(e)
    if (at) select(at.row, at.column)
  }
  // A tooltip in each of some thousand cells would be written again with each frame of a scroll.
  const onPointerOver = (e: PointerEvent) => {
    const at = cellAt(e)
    if (!at) return
    const task = rows[at.row] ?? 0
    const n = order[at.column] ?? 0
    at.cell.title = titleOf(drawing.names[task] ?? '', columns, n, task, grid.runs[n], times)
  }
  return (
    <Panel
      title={t('Grid')}
      count={`${plural(rows.length, 'task')}, ${plural(grid.runs.length, 'run')}`}
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
            aria-pressed={sort === 'failed'}
            onClick={() => set({ sort: sort === 'failed' ? undefined : 'failed' })}
          >
            {t('Failed lately')}
          </button>
          {drawing.n <= timesMax ? (
            <button
              type="button"
              className="chip"
              aria-pressed={times !== undefined}
              onClick={() => set({ show: times ? undefined : 'times' })}
            >
              {t('Durations')}
            </button>
          ) : null}
          <Button
            kind="quiet"
            icon="left"
            isDisabled={!grid.next}
            onPress={() => set({ cursor: grid.next ?? undefined, run: undefined }, false)}
          >
            {t('Older')}
          </Button>
          {cursor ? (
            <Button kind="quiet" onPress={() => set({ cursor: undefined, run: undefined }, false)}>
              {t('Newest')}
            </Button>
          ) : null}
        </div>
      }
    >
      <div className="grid-body">
        <div className="grid-table">
          <Head runs={order.map((n) => grid.runs[n] as GridRun)} hasTimes={times !== undefined} />
          {rows.length === 0 ? (
            <p className="empty">
              {sort === 'failed' && !q ? t('No task failed in these runs.') : t('No task fits the filter.')}
            </p>
          ) : (
            <Rows
              n={rows.length}
              row={row}
              label={t('Tasks of {workflow} by run', { workflow: w.workflow })}
              className="rows grid-rows"
              grid={{ columns: order.length + 1, onKeyDown: onKey, onClick, onPointerOver, rowId }}
            >
              {(at, top, slot) => (
                <GridRow
                  key={slot}
                  id={rowId(slot)}
                  at={at}
                  top={top}
                  name={drawing.names[rows[at] ?? 0] ?? ''}
                  task={rows[at] ?? 0}
                  columns={columns}
                  order={order}
                  runs={grid.runs}
                  times={times}
                  selected={rows[at] === each ? i : undefined}
                />
              )}
            </Rows>
          )}
        </div>
        {task !== undefined && run !== undefined ? <Cell run={run} task={task} /> : null}
      </div>
    </Panel>
  )
}

/** The cell that an event is about. */
function cellAt(e: MouseEvent) {
  const cell = (e.target as HTMLElement).closest<HTMLElement>('[data-cell]')
  const row = cell?.closest<HTMLElement>('[data-row]')
  return cell && row ? { cell, row: Number(row.dataset.row), column: Number(cell.dataset.cell) } : undefined
}

const wordsOf = (label: string, took: number) => (Number.isNaN(took) ? label : `${label}, ${duration(took)}`)

function titleOf(
  name: string,
  columns: Columns,
  n: number,
  task: number,
  run: GridRun | undefined,
  times: Times | undefined,
): string {
  const state = columns.cells[n]?.[task] ?? absent
  if (state === absent) return t('{name} is not in v{version}', { name, version: run?.version ?? 0 })
  return `${name}: ${wordsOf(lookOf(columns.names[state] ?? '').label, times?.[n]?.[task] ?? Number.NaN)}`
}

/** The runs over the columns: the height is the duration, a line stands where the version changed. */
function Head({ runs, hasTimes }: { runs: GridRun[]; hasTimes: boolean }) {
  const span = (r: GridRun) =>
    r.started_at ? Date.parse(r.finished_at ?? new Date().toISOString()) - Date.parse(r.started_at) : 0
  const most = Math.max(1, ...runs.map(span))
  return (
    <div className="grid-head">
      <span className="sub">{t('up to {most}', { most: duration(most) })}</span>
      <span className="grid-cells">
        {runs.map((r, i) => {
          const text = `${lookOf(r.state).label}, ${duration(span(r))}, v${r.version}, ${clock(r.instant)}`
          const look = lookOf(r.state)
          return (
            <Link
              key={r.id}
              to="/r/$id"
              params={{ id: r.id }}
              title={text}
              aria-label={text}
              className="grid-bar"
              data-tone={look.tone}
              data-fill={look.fill}
              data-edge={(i > 0 && runs[i - 1]?.version !== r.version) || undefined}
            >
              <i style={{ height: `${12 + (88 * span(r)) / most}%` }} />
            </Link>
          )
        })}
      </span>
      {hasTimes ? <span className="grid-times sub">{t('median · last')}</span> : null}
    </div>
  )
}

const rowId = (slot: number) => `grid-row-${slot}`

const GridRow = memo(function GridRow({
  id,
  at,
  top,
  name,
  task,
  columns,
  order,
  runs,
  times,
  selected,
}: {
  id: string
  at: number
  top: number
  name: string
  task: number
  columns: Columns
  order: number[]
  runs: GridRun[]
  times: Times | undefined
  selected: number | undefined
}) {
  const own = times ? rowTimes(times, task) : undefined
  return (
    <div
      role="row"
      id={id}
      aria-rowindex={at + 1}
      data-row={at}
      className="grid-row"
      style={{ height: row, top }}
      data-current={selected !== undefined || undefined}
    >
      <span role="rowheader" className="clip" title={name}>
        {name}
      </span>
      <span className="grid-cells" data-times={times ? true : undefined}>
        {order.map((n, column) => {
          const state = columns.cells[n]?.[task] ?? absent
          const known = state !== absent
          const look = lookOf(columns.names[state] ?? '')
          const took = times?.[n]?.[task] ?? Number.NaN
          const words = wordsOf(look.label, took)
          return (
            <span
              key={runs[n]?.id ?? n}
              role="gridcell"
              aria-label={known ? words : t('not in this version')}
              aria-selected={selected === n}
              data-cell={column}
              data-edge={
                (column > 0 && runs[order[column - 1] ?? 0]?.version !== runs[n]?.version) || undefined
              }
            >
              {known ? (
                <i
                  data-tone={look.tone}
                  data-fill={look.fill}
                  data-none={(times && Number.isNaN(took)) || undefined}
                  style={
                    own && !Number.isNaN(took) ? { height: 3 + (15 * took) / Math.max(1, own.most) } : {}
                  }
                />
              ) : null}
            </span>
          )
        })}
      </span>
      {times ? (
        <span role="gridcell" className="grid-times num" data-slower={(own && isSlower(own)) || undefined}>
          {own ? `${duration(own.median)} · ${duration(own.last)}` : '–'}
        </span>
      ) : null}
    </div>
  )
})

/** One task in one run: its result, and links to more. */
function Cell({ run, task }: { run: string; task: string }) {
  const query = useTask(run, task)
  const explain = useExplain(run, task)
  return (
    <aside className="grid-cell pad stack" aria-label={t('Task {task}', { task })}>
      <h3 className="clip">{task}</h3>
      <Loaded query={query} rows={3}>
        {(row) => {
          const last = row.attempts?.at(-1)
          return (
            <>
              <State state={row.state} />
              <p className="sub">
                {rich('run {run}', { run: <RunLink id={run} /> })}
                {last ? (
                  <>
                    {' '}
                    · {t('attempt {number} on {node}', { number: last.number, node: last.node || '–' })} ·{' '}
                    <Clock time={last.started_at ?? last.assigned_at} /> (
                    <Ago time={last.started_at ?? last.assigned_at} />) ·{' '}
                    <Span from={last.started_at} to={last.finished_at} />
                  </>
                ) : null}
              </p>
              {row.message ? (
                <p>
                  <Message of={row} />
                </p>
              ) : null}
              {row.state === 'succeeded' ? null : (
                <Reasons reasons={explain.data?.reasons ?? undefined} fallback="" full />
              )}
              <p className="row">
                <Link className="button" to="/r/$id" params={{ id: run }} search={{ task }}>
                  {t('Open in its run')}
                </Link>
                {last ? (
                  <Link className="button" to="/r/$id/log/$task" params={{ id: run, task }}>
                    {t('Log')}
                  </Link>
                ) : null}
              </p>
            </>
          )
        }}
      </Loaded>
    </aside>
  )
}
