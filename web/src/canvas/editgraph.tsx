// The graph of a draft, which can be edited: tasks are dropped on it, needs are drawn from task to task. Each of these has
// a key and a button, too.
import { type DragEvent, type KeyboardEvent, type PointerEvent, useEffect, useRef, useState } from 'react'
import { plural } from '../kit/format'
import { Button } from '../kit/parts'
import { t } from '../text/t'
import { type Camera, centre, fit, type Size, sees, zoom } from './camera'
import { boxHeight, boxWidth, type Drawing } from './drawing'
import { neighbour } from './find'
import { GraphPainter, taskAt } from './graph'
import { useWheel } from './graphview'
import { useCanvas } from './usecanvas'

export type DropPlace = { after?: string; between?: [string, string] }

export type EditGraphProps = {
  drawing: Drawing
  selected: string | undefined
  /** Whether the picture is older than the text, which has a fault. */
  old: boolean
  onSelect: (task: string | undefined) => void
  onLink: (from: string, to: string) => void
  onDrop: (kind: string, at: DropPlace) => void
  onKey: (key: string) => boolean
}

export const taskType = 'application/x-skein-task'
const portReach = 26

type Mode =
  | { kind: 'pan'; x: number; y: number; camera: Camera; moved: boolean; task: number | undefined }
  | { kind: 'link'; from: number; x: number; y: number }

export function EditGraph(props: EditGraphProps) {
  const { drawing: d, selected, onSelect } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const box = useRef<HTMLDivElement>(null)
  const painter = useRef<GraphPainter>(undefined)
  painter.current ??= new GraphPainter()
  const camera = useRef<Camera>(undefined)
  const mode = useRef<Mode>(undefined)
  const [hovered, setHovered] = useState<number>()
  const [edge, setEdge] = useState<[number, number]>()
  const at = selected === undefined ? -1 : d.names.indexOf(selected)
  const task = at < 0 ? undefined : at
  const [view, ask] = useCanvas(canvas, (pen, size, ink, ratio) => {
    camera.current ??= opening(d, size)
    const c = camera.current
    painter.current?.paint(pen, { drawing: d, selected: task, hovered }, c, size, ink, ratio)
    pen.setTransform(ratio * c.scale, 0, 0, ratio * c.scale, ratio * c.x, ratio * c.y)
    pen.strokeStyle = ink.focus
    pen.fillStyle = ink.box
    pen.lineWidth = 2
    for (const n of new Set([task, hovered])) {
      if (n === undefined || c.scale < 0.4) continue
      pen.beginPath()
      pen.roundRect(d.x[n]! + boxWidth - 6, d.y[n]! + boxHeight / 2 - 6, 12, 12, 6)
      pen.fill()
      pen.stroke()
    }
    const link = mode.current?.kind === 'link' ? mode.current : undefined
    if (link || edge) {
      const [x1, y1] = link ? outOf(d, link.from) : outOf(d, edge![0])
      const [x2, y2] = link ? [(link.x - c.x) / c.scale, (link.y - c.y) / c.scale] : into(d, edge![1])
      pen.lineWidth = 3
      pen.beginPath()
      pen.moveTo(x1, y1)
      pen.bezierCurveTo(x1 + 50, y1, x2 - 50, y2, x2, y2)
      pen.stroke()
    }
  })
  const move = (next: Camera) => {
    camera.current = next
    ask()
  }
  // The picture has another size after an edit. It moves only if the selected task would not be seen.
  useEffect(() => {
    const [now, size] = [camera.current, view]
    if (!now || !size || task === undefined) return
    const [x, y] = [d.x[task]! + boxWidth / 2, d.y[task]! + boxHeight / 2]
    if (sees(now, x, y, size)) return
    camera.current = centre(now, x, y, size, now.scale)
    ask()
  }, [task, d, view, ask])
  const least = view ? fit(d, view).scale : 0.01
  const middle = (f: number) =>
    view && camera.current && move(zoom(camera.current, f, view.width / 2, view.height / 2, least))
  useWheel(box, (x, y, f) => camera.current && move(zoom(camera.current, f, x, y, least)))
  const pointer = usePointer(props, { camera, mode, move, ask, setHovered })
  const place = (e: DragEvent) => dropPlace(d, camera.current, ...pointOf(e))
  const onKey = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey || (e.target as HTMLElement).closest('button')) return
    const act: Record<string, () => void> = {
      '+': () => middle(1.4),
      '-': () => middle(1 / 1.4),
      '0': () => view && move(fit(d, view)),
    }
    const known = act[e.key]
    if (e.key.startsWith('Arrow')) {
      const to = task === undefined ? d.sorted[0] : neighbour(d, task, e.key)
      if (to !== undefined) onSelect(d.names[to])
    } else if (known) known()
    else if (!props.onKey(e.key)) return
    e.preventDefault()
    e.stopPropagation()
  }
  return (
    <div
      ref={box}
      className="graph-view edit-graph"
      role="application"
      tabIndex={0}
      aria-label={t(
        'Graph of the draft, {tasks}. Arrow keys go along the edges, a adds a task after the selected one, Delete removes it.',
        { tasks: plural(d.n, 'task') },
      )}
      data-old={props.old || undefined}
      onKeyDown={onKey}
      {...pointer}
      onDragOver={(e) => {
        if (!e.dataTransfer.types.includes(taskType)) return
        e.preventDefault()
        const { on, edge: near } = place(e)
        setHovered(on)
        setEdge(near)
      }}
      onDragLeave={() => {
        setHovered(undefined)
        setEdge(undefined)
      }}
      onDrop={(e) => {
        e.preventDefault()
        const { on, edge: near } = place(e)
        setEdge(undefined)
        const name = (n: number) => d.names[n] ?? ''
        props.onDrop(e.dataTransfer.getData(taskType), {
          ...(on === undefined ? {} : { after: name(on) }),
          ...(near ? { between: [name(near[0]), name(near[1])] } : {}),
        })
      }}
    >
      <div className="graph-canvas" aria-hidden="true">
        <canvas ref={canvas} />
      </div>
      <div className="graph-tools">
        <Button icon="plus" aria-label={t('Zoom in')} onPress={() => middle(1.4)} />
        <Button icon="minus" aria-label={t('Zoom out')} onPress={() => middle(1 / 1.4)} />
        <Button
          icon="fit"
          aria-label={t('Show the whole graph')}
          onPress={() => view && move(fit(d, view))}
        />
      </div>
    </div>
  )
}

const outOf = (d: Drawing, task: number): [number, number] => [
  d.x[task]! + boxWidth,
  d.y[task]! + boxHeight / 2,
]
const into = (d: Drawing, task: number): [number, number] => [d.x[task]!, d.y[task]! + boxHeight / 2]

/** The whole graph if it can be read, else its beginning. */
function opening(d: Drawing, size: Size): Camera {
  const whole = fit(d, size)
  return whole.scale > 0.5 || d.n === 0 ? whole : { scale: 0.8, x: 24, y: whole.y }
}

const pointOf = (e: { currentTarget: Element; clientX: number; clientY: number }): [number, number] => {
  const r = e.currentTarget.getBoundingClientRect()
  return [e.clientX - r.left, e.clientY - r.top]
}

function dropPlace(d: Drawing, camera: Camera | undefined, x: number, y: number) {
  if (!camera) return {}
  const on = taskAt(d, camera, x, y)
  return on === undefined ? { edge: edgeAt(d, camera, x, y) } : { on }
}

/** The edge at a point of the screen: the nearest one, within a few pixels. */
export function edgeAt(d: Drawing, camera: Camera, px: number, py: number): [number, number] | undefined {
  const [x, y] = [(px - camera.x) / camera.scale, (py - camera.y) / camera.scale]
  let best: [number, number] | undefined
  let least = 14 / camera.scale
  for (let task = 0; task < d.n; task++) {
    for (let i = d.needOff[task]!; i < d.needOff[task + 1]!; i++) {
      const from = d.needs[i]!
      const [x1, y1] = outOf(d, from)
      const [x2, y2] = into(d, task)
      if (x < x1 - least || x > x2 + least) continue
      const bend = Math.min(60, (x2 - x1) / 2)
      for (let k = 0; k <= 16; k++) {
        const [cx, cy] = bezier(k / 16, [x1, x1 + bend, x2 - bend, x2], [y1, y1, y2, y2])
        const far = Math.hypot(cx - x, cy - y)
        if (far < least) [least, best] = [far, [from, task]]
      }
    }
  }
  return best
}

type Four = [number, number, number, number]
function bezier(s: number, x: Four, y: Four): [number, number] {
  const u = 1 - s
  const [a, b, c, e] = [u * u * u, 3 * u * u * s, 3 * u * s * s, s * s * s]
  return [a * x[0] + b * x[1] + c * x[2] + e * x[3], a * y[0] + b * y[1] + c * y[2] + e * y[3]]
}

type Hold = {
  camera: { current: Camera | undefined }
  mode: { current: Mode | undefined }
  move: (c: Camera) => void
  ask: () => void
  setHovered: (task: number | undefined) => void
}

/** A press on the right end of a task draws a need, a press on a task selects it, any other moves the picture. */
function usePointer({ drawing: d, onSelect, onLink }: EditGraphProps, h: Hold) {
  return {
    onPointerDown: (e: PointerEvent<HTMLElement>) => {
      const camera = h.camera.current
      if (e.button !== 0 || !camera || (e.target as HTMLElement).closest('button')) return
      e.currentTarget.setPointerCapture(e.pointerId)
      const [x, y] = pointOf(e)
      const task = taskAt(d, camera, x, y)
      const right = task === undefined ? 0 : (d.x[task]! + boxWidth) * camera.scale + camera.x
      if (task !== undefined && right - x < portReach * camera.scale)
        h.mode.current = { kind: 'link', from: task, x, y }
      else h.mode.current = { kind: 'pan', x: e.clientX, y: e.clientY, camera, moved: false, task }
    },
    onPointerMove: (e: PointerEvent<HTMLElement>) => {
      const camera = h.camera.current
      if (!camera) return
      const [x, y] = pointOf(e)
      const m = h.mode.current
      if (m?.kind === 'link') {
        h.mode.current = { ...m, x, y }
        h.setHovered(taskAt(d, camera, x, y))
        h.ask()
      } else if (m?.kind === 'pan') {
        const [dx, dy] = [e.clientX - m.x, e.clientY - m.y]
        m.moved ||= Math.hypot(dx, dy) > 4
        if (m.moved) h.move({ ...m.camera, x: m.camera.x + dx, y: m.camera.y + dy })
      } else h.setHovered(taskAt(d, camera, x, y))
    },
    onPointerUp: (e: PointerEvent<HTMLElement>) => {
      const [m, camera] = [h.mode.current, h.camera.current]
      h.mode.current = undefined
      h.ask()
      if (!m || !camera) return
      const to = taskAt(d, camera, ...pointOf(e))
      if (m.kind === 'pan' && !m.moved) onSelect(m.task === undefined ? undefined : d.names[m.task])
      if (m.kind === 'link' && to === m.from) onSelect(d.names[m.from])
      if (m.kind === 'link' && to !== undefined && to !== m.from)
        onLink(d.names[m.from] ?? '', d.names[to] ?? '')
    },
    onPointerCancel: () => {
      h.mode.current = undefined
      h.ask()
    },
    onPointerLeave: () => h.setHovered(undefined),
  }
}
