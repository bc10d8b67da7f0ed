// The graph of a version or of a run, and beside it the same tasks as a list.
import {
  type KeyboardEvent,
  type PointerEvent,
  type ReactNode,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import { useKeys } from '../app/keys'
import { count, plural } from '../kit/format'
import { Button } from '../kit/parts'
import { lookOf } from '../kit/states'
import { t } from '../text/t'
import { term } from '../text/terms'
import { type Camera, centre, fit, resized, type Size, sees, zoom } from './camera'
import {
  boxHeight,
  boxWidth,
  changeOf,
  type Drawing,
  instanceCounts,
  isGroup,
  nodesOf,
  type States,
} from './drawing'
import { find, foldedHits, neighbour, nextHit } from './find'
import { GraphPainter, levelOf, taskAt } from './graph'
import { minimapSize, pressed, useMinimap } from './minimap'
import { Outline } from './outline'
import { useCanvas } from './usecanvas'

export type GraphViewProps = {
  drawing: Drawing
  states?: States | undefined
  selected?: string | undefined
  onSelect: (task: string | undefined) => void
  q: string
  onFind: (q: string) => void
  /** Leaves out the list, because the pane of the selected task takes its place. */
  narrow?: boolean
  /** The drawing with every task, if the shown drawing is folded. Names are found and selected in it. */
  plain?: { drawing: Drawing; states: States | undefined } | undefined
  /** Opens a group of a folded drawing. */
  onOpen?: (node: number) => void
  /** The other controls in the head. */
  tools?: ReactNode
}

const readable = 0.45

export function GraphView(props: GraphViewProps) {
  const { drawing: d, states, q, plain } = props
  const all = useMemo(
    () => (plain ? find(plain.drawing, plain.states, q) : find(d, states, q)),
    [d, states, q, plain],
  )
  const hits = useMemo(() => (plain ? foldedHits(d, all) : all), [d, plain, all])
  const found = useMemo(() => all?.reduce((a, b) => a + b, 0) ?? 0, [all])
  const selected = useMemo(() => {
    if (props.selected === undefined) return undefined
    const of = plain?.drawing ?? d
    const task = of.names.indexOf(props.selected)
    const node = plain && task >= 0 ? (nodesOf(d, of.n)[task] ?? -1) : task
    return node < 0 ? undefined : node
  }, [d, plain, props.selected])
  const select = (index: number | undefined) => {
    if (index !== undefined && isGroup(d, index)) props.onOpen?.(index)
    else props.onSelect(index === undefined ? undefined : d.names[index])
  }
  const step = (by: 1 | -1) => {
    const at = hits ? nextHit(d, hits, selected, by) : undefined
    if (at !== undefined) select(at)
  }
  useKeys({ n: () => step(1), N: () => step(-1) })
  const [list, setList] = useState(() => window.innerWidth > 640 || !props.narrow)
  return (
    <section className="panel graph" data-tall={states ? undefined : ''}>
      <header className="panel-head">
        <h2>
          {t('Graph')}
          <span className="count">
            {plain
              ? t('{shown} of {tasks}', { shown: count(d.n), tasks: plural(plain.drawing.n, 'task') })
              : plural(d.n, 'task')}
          </span>
        </h2>
        <div className="row">
          <input
            data-filter
            className="input graph-find"
            type="search"
            placeholder={t('Find: name, state:failed, load>')}
            title={t(
              'A part of a name; state:failed; kind:call; load> for all that depend on load; >load for all that it needs',
            )}
            aria-label={t('Find tasks')}
            value={q}
            onChange={(e) => props.onFind(e.target.value)}
            onKeyDown={(e) => e.key === 'Enter' && step(e.shiftKey ? -1 : 1)}
          />
          {hits ? (
            <span className="sub" role="status">
              {t('{found} found', { found: count(found) })}
            </span>
          ) : null}
          {props.tools}
          {props.narrow ? null : (
            <Button
              kind="quiet"
              icon="queue"
              aria-label={t('List of the tasks')}
              aria-pressed={list}
              onPress={() => setList(!list)}
            />
          )}
        </div>
      </header>
      <div className="graph-body">
        {list && !props.narrow ? (
          <Outline drawing={d} states={states} hits={hits} selected={selected} onSelect={select} />
        ) : null}
        <Picture drawing={d} states={states} hits={hits} selected={selected} onSelect={select} />
      </div>
    </section>
  )
}

type PictureProps = {
  drawing: Drawing
  states: States | undefined
  hits: Uint8Array | undefined
  selected: number | undefined
  onSelect: (task: number | undefined) => void
}

function Picture({ drawing: d, states, hits, selected, onSelect }: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const box = useRef<HTMLDivElement>(null)
  const painter = useRef<GraphPainter>(undefined)
  painter.current ??= new GraphPainter()
  const camera = useRef<Camera>(undefined)
  const drawn = useRef<Size>(undefined)
  const [hovered, setHovered] = useState<number>()
  const minimap = useMinimap()
  const [view, ask] = useCanvas(canvas, (pen, size, ink, ratio) => {
    camera.current = camera.current
      ? resized(camera.current, drawn.current ?? size, size)
      : opening(d, states, selected, size)
    drawn.current = size
    const scene = { drawing: d, states, hits, selected, hovered }
    painter.current?.paint(pen, scene, camera.current, size, ink, ratio)
    minimap.paint(scene, camera.current, size, ink, ratio)
    if (box.current) box.current.dataset.level = levelOf(camera.current.scale)
  })
  const move = (next: Camera) => {
    camera.current = next
    ask()
  }
  // A task that is selected elsewhere, such as in the list, comes into view.
  useEffect(() => {
    const [now, size] = [camera.current, view]
    if (selected === undefined || !now || !size) return
    const [x, y] = [d.x[selected]! + boxWidth / 2, d.y[selected]! + boxHeight / 2]
    if (sees(now, x, y, size) && now.scale > readable / 2) return
    camera.current = centre(now, x, y, size)
    ask()
  }, [selected, d, view, ask])
  const least = view ? fit(d, view).scale : 0.01
  const middle = (factor: number) =>
    view && camera.current && move(zoom(camera.current, factor, view.width / 2, view.height / 2, least))
  const drag = useDrag(camera, move, (x, y) =>
    onSelect(taskAt(d, camera.current ?? { scale: 1, x: 0, y: 0 }, x, y)),
  )
  useWheel(box, (x, y, factor) => camera.current && move(zoom(camera.current, factor, x, y, least)))
  const press = (e: PointerEvent<HTMLElement>) => {
    const to = view && camera.current ? pressed(e, d, camera.current, view) : undefined
    if (to) move(to)
  }
  const keys: Record<string, () => void> = {
    '+': () => middle(1.4),
    '=': () => middle(1.4),
    '-': () => middle(1 / 1.4),
    '0': () => view && move(fit(d, view)),
    f: () => view && move(fit(d, view)),
  }
  const onKey = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return
    const arrow = e.key.startsWith('Arrow')
    if (!arrow && !keys[e.key]) return
    e.preventDefault()
    e.stopPropagation()
    if (!arrow) return keys[e.key]?.()
    const to = selected === undefined ? d.sorted[0] : neighbour(d, selected, e.key)
    if (to !== undefined) onSelect(to)
  }
  return (
    <div
      ref={box}
      className="graph-view"
      role="application"
      tabIndex={0}
      aria-label={t('Graph of {tasks}. Arrow keys go along the edges; the list has the same tasks.', {
        tasks: plural(d.n, 'task'),
      })}
      onKeyDown={onKey}
      {...drag}
      onPointerMove={(e) => {
        drag.onPointerMove(e)
        const at = place(e)
        setHovered(e.buttons || !camera.current ? undefined : taskAt(d, camera.current, at[0], at[1]))
      }}
      onPointerLeave={() => setHovered(undefined)}
    >
      <div className="graph-canvas" aria-hidden="true">
        <canvas ref={canvas} />
      </div>
      <div className="minimap" aria-hidden="true" onPointerDown={press} onPointerMove={press} hidden>
        <canvas ref={minimap.canvas} style={minimapSize} />
      </div>
      <Tip drawing={d} states={states} task={hovered ?? selected} />
      <div className="graph-tools">
        <Button kind="plain" icon="plus" aria-label={t('Zoom in')} onPress={() => middle(1.4)} />
        <Button kind="plain" icon="minus" aria-label={t('Zoom out')} onPress={() => middle(1 / 1.4)} />
        <Button
          kind="plain"
          icon="fit"
          aria-label={t('Show the whole graph')}
          onPress={() => view && move(fit(d, view))}
        />
      </div>
    </div>
  )
}

/** The first camera: the whole graph if it can be read, else the task that is selected, has failed or comes first. */
function opening(d: Drawing, states: States | undefined, selected: number | undefined, view: Size): Camera {
  const whole = fit(d, view)
  if (whole.scale >= readable || d.n === 0) return whole
  const failed = states ? states.of.subarray(0, d.n).findIndex((s) => states.names[s] === 'failed') : -1
  const task = selected ?? (failed >= 0 ? failed : undefined)
  if (task !== undefined) return centre(whole, d.x[task]!, d.y[task]!, view)
  return whole
}

const place = (e: PointerEvent): [number, number] => {
  const r = e.currentTarget.getBoundingClientRect()
  return [e.clientX - r.left, e.clientY - r.top]
}

/** Dragging moves the picture; a press that does not move is a click. */
function useDrag(
  camera: { current: Camera | undefined },
  move: (c: Camera) => void,
  click: (x: number, y: number) => void,
) {
  const from = useRef<{ x: number; y: number; camera: Camera; moved: boolean }>(undefined)
  return {
    onPointerDown: (e: PointerEvent<HTMLElement>) => {
      if (e.button !== 0 || !camera.current || (e.target as HTMLElement).closest('button, .minimap')) return
      e.currentTarget.setPointerCapture(e.pointerId)
      from.current = { x: e.clientX, y: e.clientY, camera: camera.current, moved: false }
    },
    onPointerMove: (e: PointerEvent<HTMLElement>) => {
      const start = from.current
      if (!start) return
      const [dx, dy] = [e.clientX - start.x, e.clientY - start.y]
      start.moved ||= Math.hypot(dx, dy) > 4
      if (start.moved) move({ ...start.camera, x: start.camera.x + dx, y: start.camera.y + dy })
    },
    onPointerUp: (e: PointerEvent<HTMLElement>) => {
      const start = from.current
      from.current = undefined
      if (start && !start.moved) click(...place(e))
    },
    onPointerCancel: () => {
      from.current = undefined
    },
  }
}

/** React listens to the wheel passively, so that the page would scroll, too. */
export function useWheel(
  box: { current: HTMLElement | null },
  act: (x: number, y: number, factor: number) => void,
) {
  const latest = useRef(act)
  latest.current = act
  useEffect(() => {
    const el = box.current
    if (!el) return
    const wheel = (e: WheelEvent) => {
      e.preventDefault()
      const r = el.getBoundingClientRect()
      latest.current(e.clientX - r.left, e.clientY - r.top, 2 ** (-e.deltaY / (e.deltaMode === 0 ? 300 : 10)))
    }
    el.addEventListener('wheel', wheel, { passive: false })
    return () => el.removeEventListener('wheel', wheel)
  }, [box])
}

/** Describes the task under the pointer in words. */
function Tip({
  drawing: d,
  states,
  task: node,
}: {
  drawing: Drawing
  states: States | undefined
  task: number | undefined
}): ReactNode {
  if (node === undefined || node >= d.n) return null
  const state = states?.names[states.of[node]!]
  const parts = states
    ? [...instanceCounts(states, node)].map(([s, n]) => `${count(n)} ${lookOf(s).label.toLowerCase()}`)
    : []
  const [needs, next] = [d.needOff[node + 1]! - d.needOff[node]!, d.nextOff[node + 1]! - d.nextOff[node]!]
  return (
    <p className="graph-tip">
      <b>{d.names[node]}</b>
      {d.changes && changeOf(d, node) !== 'same' ? <span>{term(changeOf(d, node))}</span> : null}
      {isGroup(d, node) ? (
        <span>{t('{tasks}: press to open', { tasks: plural(d.members?.[node]?.length ?? 0, 'task') })}</span>
      ) : null}
      {state ? <span>{lookOf(state).label}</span> : null}
      {parts.length > 0 ? <span>{parts.join(', ')}</span> : null}
      <span>
        {t('needs {needs}, {dependents}', { needs: count(needs), dependents: plural(next, 'dependent') })}
      </span>
    </p>
  )
}
