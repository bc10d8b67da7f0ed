// Paints a graph at three levels: an overview of pixels, blocks, and boxes with names. Colour, edges and labels never
// change where a task is.
import { iconPath, isFilled } from '../kit/icons'
import { lookOf, type Tone, taskOrder } from '../kit/states'
import type { Camera, Size } from './camera'
import {
  boxHeight,
  boxWidth,
  type Change,
  changeOf,
  columnWidth,
  type Drawing,
  instanceCounts,
  isGroup,
  type States,
} from './drawing'
import { type Ink, pixel } from './ink'

/** The part of a canvas that the painter uses, so that tests can record its calls. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | 'beginPath'
  | 'bezierCurveTo'
  | 'createImageData'
  | 'fill'
  | 'fillRect'
  | 'fillStyle'
  | 'fillText'
  | 'font'
  | 'globalAlpha'
  | 'lineTo'
  | 'lineWidth'
  | 'moveTo'
  | 'putImageData'
  | 'rect'
  | 'restore'
  | 'roundRect'
  | 'save'
  | 'scale'
  | 'setLineDash'
  | 'setTransform'
  | 'stroke'
  | 'strokeStyle'
  | 'textAlign'
  | 'textBaseline'
  | 'translate'
>

export type Scene = {
  drawing: Drawing
  states?: States | undefined
  hits?: Uint8Array | undefined
  selected?: number | undefined
  hovered?: number | undefined
}

export type Level = 'overview' | 'blocks' | 'boxes'

/** Lines that one frame draws at most. More edges are drawn as a sample, which shows how dense they are. */
export const linesMax = 4000

export const levelOf = (scale: number): Level =>
  boxHeight * scale < 3 ? 'overview' : boxHeight * scale < 14 ? 'blocks' : 'boxes'

/** How a change between two versions is drawn: a tone, and a sign for those who do not see colours. */
export const changeLooks: Record<Exclude<Change, 'same'>, { tone: Tone; sign: string }> = {
  added: { tone: 'good', sign: '+' },
  removed: { tone: 'bad', sign: '−' },
  changed: { tone: 'warn', sign: '~' },
}

const changeLook = (d: Drawing, t: number) => {
  const change = d.changes ? changeOf(d, t) : 'same'
  return change === 'same' ? undefined : changeLooks[change]
}

/** The tasks in view, column by column. */
export function visible(d: Drawing, camera: Camera, view: Size): Uint32Array {
  const [left, right] = [-camera.x / camera.scale, (view.width - camera.x) / camera.scale]
  const [top, bottom] = [-camera.y / camera.scale - boxHeight, (view.height - camera.y) / camera.scale]
  const first = Math.max(0, Math.floor((left - boxWidth) / columnWidth))
  const last = Math.min(d.columns - 1, Math.floor(right / columnWidth))
  const found = new Uint32Array(d.n)
  let n = 0
  for (let c = first; c <= last; c++) {
    const end = d.columnOff[c + 1]!
    const from = firstBelow(d, d.columnOff[c]!, end, top)
    let to = firstBelow(d, from, end, bottom)
    while (to < end && d.y[d.sorted[to]!]! === bottom) to++
    found.set(d.sorted.subarray(from, to), n)
    n += to - from
  }
  return found.subarray(0, n)
}

function firstBelow(d: Drawing, from: number, end: number, top: number): number {
  let [low, high] = [from, end]
  while (low < high) {
    const middle = (low + high) >> 1
    if (d.y[d.sorted[middle]!]! < top) low = middle + 1
    else high = middle
  }
  return low
}

/** The task at a point of the screen. */
export function taskAt(d: Drawing, camera: Camera, px: number, py: number): number | undefined {
  const [x, y] = [(px - camera.x) / camera.scale, (py - camera.y) / camera.scale]
  const c = Math.floor(x / columnWidth)
  // A task of the overview is smaller than a pointer, so the nearest one counts.
  const reach = Math.max(0, 6 / camera.scale - boxHeight / 2)
  if (c < 0 || c >= d.columns || x - c * columnWidth > boxWidth + reach) return undefined
  const end = d.columnOff[c + 1]!
  let best: number | undefined
  for (let i = firstBelow(d, d.columnOff[c]!, end, y - boxHeight - reach); i < end; i++) {
    const t = d.sorted[i]!
    if (d.y[t]! > y + reach) break
    if (best === undefined || distance(d, t, y) < distance(d, best, y)) best = t
  }
  return best
}

const distance = (d: Drawing, t: number, y: number) => Math.abs(d.y[t]! + boxHeight / 2 - y)

export class GraphPainter {
  private image: ImageData | undefined

  /** Paints a frame. ratio is the number of pixels of the device to one of the page. */
  paint(pen: Pen, scene: Scene, camera: Camera, view: Size, ink: Ink, ratio: number) {
    pen.setTransform(ratio, 0, 0, ratio, 0, 0)
    pen.fillStyle = ink.ground
    pen.fillRect(0, 0, view.width, view.height)
    const level = levelOf(camera.scale)
    if (level === 'overview') this.overview(pen, scene, camera, view, ink, ratio)
    const seen = visible(scene.drawing, camera, view)
    pen.translate(camera.x, camera.y)
    pen.scale(camera.scale, camera.scale)
    edges(pen, scene, seen, camera, ink, level)
    if (level === 'blocks') blocks(pen, scene, seen, ink)
    if (level === 'boxes') for (const t of seen) box(pen, scene, t, ink)
    if (level !== 'boxes') marks(pen, scene, camera, ink)
  }

  /** One run of pixels for each task: 100,000 of them take about a millisecond. */
  private overview(
    pen: Pen,
    { drawing: d, states, hits }: Scene,
    camera: Camera,
    view: Size,
    ink: Ink,
    ratio: number,
  ) {
    const [w, h] = [Math.round(view.width * ratio), Math.round(view.height * ratio)]
    if (this.image?.width !== w || this.image.height !== h) this.image = pen.createImageData(w, h)
    const pixels = new Uint32Array(this.image.data.buffer)
    pixels.fill(pixel(ink.ground))
    const scale = camera.scale * ratio
    const colours = statePixels(states, ink)
    const faint = pixel(ink.line)
    const [wide, high] = [
      Math.max(1, Math.round(boxWidth * scale)),
      Math.max(1, Math.round(boxHeight * scale)),
    ]
    for (let t = 0; t < d.n; t++) {
      const x = Math.round(d.x[t]! * scale + camera.x * ratio)
      const y = Math.round(d.y[t]! * scale + camera.y * ratio)
      if (x >= w || y >= h || x + wide <= 0 || y + high <= 0) continue
      const change = changeLook(d, t)
      const colour =
        hits && !hits[t]
          ? faint
          : change
            ? pixel(ink.tones[change.tone].tone)
            : (colours[states?.of[t] ?? 0] ?? faint)
      for (let row = Math.max(0, y); row < Math.min(h, y + high); row++)
        pixels.fill(colour, row * w + Math.max(0, x), row * w + Math.min(w, x + wide))
    }
    pen.putImageData(this.image, 0, 0)
  }
}

function statePixels(states: States | undefined, ink: Ink): number[] {
  if (!states) return [pixel(ink.tones.calm.tone)]
  return states.names.map((name) => pixel(ink.tones[lookOf(name).tone].tone))
}

const stateOf = (states: States | undefined, t: number) => states?.names[states.of[t]!]

/**
 * Draws the edges that touch a task in view: faint lines for all edges, clear lines for those of the task
 * under the pointer.
 */
function edges(pen: Pen, scene: Scene, seen: Uint32Array, camera: Camera, ink: Ink, level: Level) {
  const { drawing: d } = scene
  const inView = new Uint8Array(d.n)
  for (const t of seen) inView[t] = 1
  let total = 0
  for (const t of seen) total += d.needOff[t + 1]! - d.needOff[t]! + d.nextOff[t + 1]! - d.nextOff[t]!
  const step = Math.ceil(total / linesMax)
  pen.strokeStyle = ink.edge
  pen.lineWidth = 1 / camera.scale
  pen.globalAlpha = (scene.hits ? 0.15 : level === 'boxes' ? 0.6 : 0.35) / Math.sqrt(Math.max(1, step))
  pen.beginPath()
  let k = 0
  for (const t of seen) {
    for (let i = d.needOff[t]!; i < d.needOff[t + 1]!; i++)
      if (k++ % step === 0) curve(pen, d, d.needs[i]!, t, level)
    for (let i = d.nextOff[t]!; i < d.nextOff[t + 1]!; i++)
      if (!inView[d.next[i]!] && k++ % step === 0) curve(pen, d, t, d.next[i]!, level)
  }
  pen.stroke()
  pen.globalAlpha = 1
  if (d.edgeChanges) changedEdges(pen, d, seen, camera, ink, level)
  for (const t of new Set([scene.selected, scene.hovered])) {
    if (t === undefined) continue
    pen.strokeStyle = ink.focus
    pen.lineWidth = 1.8 / camera.scale
    pen.beginPath()
    const many = d.needOff[t + 1]! - d.needOff[t]! + d.nextOff[t + 1]! - d.nextOff[t]! > linesMax
    const until = (end: number, from: number) => (many ? Math.min(end, from + linesMax / 2) : end)
    for (let i = d.needOff[t]!; i < until(d.needOff[t + 1]!, d.needOff[t]!); i++)
      curve(pen, d, d.needs[i]!, t, level)
    for (let i = d.nextOff[t]!; i < until(d.nextOff[t + 1]!, d.nextOff[t]!); i++)
      curve(pen, d, t, d.next[i]!, level)
    pen.stroke()
  }
}

/** Draws the edges that only one of two versions has. */
function changedEdges(pen: Pen, d: Drawing, seen: Uint32Array, camera: Camera, ink: Ink, level: Level) {
  for (const [change, tone] of [
    [1, 'good'],
    [2, 'bad'],
  ] as const) {
    pen.strokeStyle = ink.tones[tone].tone
    pen.lineWidth = 1.8 / camera.scale
    pen.setLineDash(change === 2 ? [6 / camera.scale, 4 / camera.scale] : [])
    pen.beginPath()
    let lines = 0
    for (const t of seen) {
      for (let i = d.needOff[t]!; i < d.needOff[t + 1]!; i++)
        if (d.edgeChanges?.[i] === change && lines++ < linesMax) curve(pen, d, d.needs[i]!, t, level)
    }
    pen.stroke()
  }
  pen.setLineDash([])
}

function curve(pen: Pen, d: Drawing, from: number, to: number, level: Level) {
  const [x1, y1] = [d.x[from]! + boxWidth, d.y[from]! + boxHeight / 2]
  const [x2, y2] = [d.x[to]!, d.y[to]! + boxHeight / 2]
  pen.moveTo(x1, y1)
  if (level !== 'boxes') {
    pen.lineTo(x2, y2)
    return
  }
  const bend = Math.min(60, (x2 - x1) / 2)
  pen.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2)
}

/** Draws plain rectangles. All rectangles with the same look form one path. */
function blocks(pen: Pen, scene: Scene, seen: Uint32Array, ink: Ink) {
  const groups = new Map<string, number[]>()
  for (const t of seen) {
    const faint = scene.hits && !scene.hits[t]
    const change = changeLook(scene.drawing, t)
    const key = faint ? '' : change ? `tone ${change.tone}` : (stateOf(scene.states, t) ?? 'pending')
    const group = groups.get(key)
    if (group) group.push(t)
    else groups.set(key, [t])
  }
  for (const [state, tasks] of groups) {
    const change = state.startsWith('tone ') ? (state.slice(5) as Tone) : undefined
    const look = state === '' || change ? undefined : lookOf(state)
    const { tone, soft } = change
      ? ink.tones[change]
      : look
        ? ink.tones[look.tone]
        : { tone: ink.line, soft: ink.line }
    pen.beginPath()
    for (const t of tasks) pen.rect(scene.drawing.x[t]!, scene.drawing.y[t]!, boxWidth, boxHeight)
    pen.fillStyle = look && look.fill !== 'solid' ? soft : tone
    pen.fill()
    if (look && look.fill !== 'solid') {
      pen.strokeStyle = tone
      pen.lineWidth = 4
      pen.stroke()
    }
  }
}

/**
 * Draws rings around the selected task and the task under the pointer, if the boxes are too small to show
 * this.
 */
function marks(pen: Pen, { drawing: d, selected, hovered }: Scene, camera: Camera, ink: Ink) {
  const pad = 3 / camera.scale
  for (const t of new Set([selected, hovered])) {
    if (t === undefined) continue
    pen.strokeStyle = ink.focus
    pen.lineWidth = 2 / camera.scale
    pen.beginPath()
    pen.rect(d.x[t]! - pad, d.y[t]! - pad, boxWidth + 2 * pad, boxHeight + 2 * pad)
    pen.stroke()
  }
}

/** A task with its glyph and its name. */
function box(pen: Pen, scene: Scene, t: number, ink: Ink) {
  const { drawing: d, states, hits } = scene
  const [x, y] = [d.x[t]!, d.y[t]!]
  const kind = d.kinds[d.kind[t]!] ?? 'work'
  pen.globalAlpha = hits && !hits[t] ? 0.25 : 1
  const many = kind === 'foreach' || isGroup(d, t)
  const change = changeLook(d, t)
  if (many) {
    card(pen, x + 6, y + 6, ink.box, ink.line, 1)
    card(pen, x + 3, y + 3, ink.box, ink.line, 1)
  }
  const state = stateOf(states, t)
  const look = state ? lookOf(state) : undefined
  const chosen = scene.selected === t || scene.hovered === t
  // Tasks that a person looks for are coloured. Tasks that succeeded or have not begun are not.
  const loud = look !== undefined && ['bad', 'busy', 'warn'].includes(look.tone)
  const ground = loud ? ink.tones[look.tone].soft : ink.box
  const border = change ? ink.tones[change.tone].tone : loud ? ink.tones[look.tone].tone : ink.edge
  if (change?.sign === changeLooks.removed.sign) pen.setLineDash([5, 3])
  card(pen, x, y, ground, chosen ? ink.focus : border, chosen ? 2.5 : change ? 2 : 1)
  pen.setLineDash([])
  let left = x + 10
  if (look) {
    glyph(pen, x + 15, y + boxHeight / 2, look, ink)
    left = x + 28
  }
  const counts = states && many ? instanceCounts(states, t) : undefined
  const total = counts ? [...counts.values()].reduce((a, b) => a + b, 0) : 0
  const label = change
    ? change.sign
    : isGroup(d, t)
      ? `×${d.members?.[t]?.length ?? 0}`
      : total > 0
        ? `×${total}`
        : kind === 'work'
          ? ''
          : kind
  pen.textBaseline = 'middle'
  const middle = y + boxHeight / 2 + (total > 0 ? -2 : 0.5)
  if (label) {
    pen.font = change ? `700 14px ${ink.font}` : `10.5px ${ink.font}`
    pen.fillStyle = change ? ink.tones[change.tone].tone : ink.muted
    pen.textAlign = 'right'
    pen.fillText(label, x + boxWidth - 8, middle)
  }
  pen.font = `500 12px ${ink.font}`
  pen.fillStyle = ink.text
  pen.textAlign = 'left'
  pen.fillText(
    shorten(d.names[t]!, Math.floor((x + boxWidth - 8 - left - label.length * 6) / 6.7)),
    left,
    middle,
  )
  if (counts && total > 0) bar(pen, x + 28, y + boxHeight - 7, boxWidth - 36, counts, total, ink)
  pen.globalAlpha = 1
}

function card(pen: Pen, x: number, y: number, fill: string, border: string, width: number) {
  pen.beginPath()
  pen.roundRect(x, y, boxWidth, boxHeight, 5)
  pen.fillStyle = fill
  pen.fill()
  pen.strokeStyle = border
  pen.lineWidth = width
  pen.stroke()
}

function glyph(pen: Pen, x: number, y: number, look: ReturnType<typeof lookOf>, ink: Ink) {
  const { tone, soft } = ink.tones[look.tone]
  pen.beginPath()
  pen.roundRect(x - 7.5, y - 7.5, 15, 15, 7.5)
  pen.fillStyle = look.fill === 'solid' ? tone : look.fill === 'hatch' ? soft : ink.box
  pen.fill()
  pen.strokeStyle = tone
  pen.lineWidth = 1.5
  pen.setLineDash(look.fill === 'dashed' ? [3, 2] : [])
  pen.stroke()
  pen.setLineDash([])
  const path = iconPath(look.glyph)
  if (!path) return
  pen.save()
  pen.translate(x - 6, y - 6)
  pen.scale(0.75, 0.75)
  pen.strokeStyle = look.fill === 'solid' ? ink.ground : tone
  pen.fillStyle = pen.strokeStyle
  pen.lineWidth = 1.8
  pen.stroke(path)
  if (isFilled(look.glyph)) pen.fill(path)
  pen.restore()
}

function bar(
  pen: Pen,
  x: number,
  y: number,
  width: number,
  counts: Map<string, number>,
  total: number,
  ink: Ink,
) {
  let at = x
  for (const state of taskOrder) {
    const part = (width * (counts.get(state) ?? 0)) / total
    if (part === 0) continue
    pen.fillStyle = ink.tones[lookOf(state).tone as Tone].tone
    pen.fillRect(at, y, part, 3)
    at += part
  }
}

/** Keeps the beginning and the end of a name that is too long: names of one kind differ at one of the two. */
export function shorten(name: string, max: number): string {
  if (name.length <= max) return name
  const tail = Math.floor((max - 1) / 3)
  return `${name.slice(0, max - 1 - tail)}…${name.slice(name.length - tail)}`
}
