import { type PointerEvent, useRef } from 'react'
import { type Camera, fit, type Size } from './camera'
import { GraphPainter, type Scene } from './graph'
import type { Ink } from './ink'

export const minimapSize: Size = { width: 184, height: 112 }

/**
 * The values from which the picture of the whole graph was made. While they are the same, the picture is the
 * same.
 */
type Made = Pick<Scene, 'drawing' | 'states' | 'hits'> & { ink: Ink; ratio: number }

const isSame = (a: Made | undefined, b: Made) =>
  a?.drawing === b.drawing &&
  a.states === b.states &&
  a.hits === b.hits &&
  a.ink === b.ink &&
  a.ratio === b.ratio

/**
 * The whole graph in a corner, with a frame around what is in view. The graph paints it with each of its frames: the frame
 * moves then, and the picture below it is copied.
 */
export function useMinimap() {
  const canvas = useRef<HTMLCanvasElement>(null)
  const painter = useRef<GraphPainter>(undefined)
  painter.current ??= new GraphPainter()
  const kept = useRef<{ picture: HTMLCanvasElement; of: Made }>(undefined)
  const picture = (of: Made, whole: Camera): HTMLCanvasElement | undefined => {
    if (isSame(kept.current?.of, of)) return kept.current?.picture
    const el = kept.current?.picture ?? document.createElement('canvas')
    el.width = minimapSize.width * of.ratio
    el.height = minimapSize.height * of.ratio
    const pen = el.getContext('2d', { alpha: false })
    if (!pen) return undefined
    painter.current?.paint(pen, of, whole, minimapSize, of.ink, of.ratio)
    kept.current = { picture: el, of }
    return el
  }
  const paint = (scene: Scene, camera: Camera, view: Size, ink: Ink, ratio: number) => {
    const el = canvas.current
    const pen = el?.getContext('2d', { alpha: false })
    if (!el?.parentElement || !pen) return
    // The whole graph is in view already, or there is no room for the minimap.
    const needless = camera.scale <= fit(scene.drawing, view).scale * 1.05 || view.width < 420
    el.parentElement.hidden = needless
    if (needless) return
    const { width, height } = minimapSize
    if (el.width !== Math.floor(width * ratio)) el.width = width * ratio
    if (el.height !== Math.floor(height * ratio)) el.height = height * ratio
    pen.setTransform(1, 0, 0, 1, 0, 0)
    const whole = fit(scene.drawing, minimapSize)
    const { drawing, states, hits } = scene
    const under = picture({ drawing, states, hits, ink, ratio }, whole)
    if (under) pen.drawImage(under, 0, 0)
    pen.setTransform(ratio, 0, 0, ratio, 0, 0)
    pen.strokeStyle = ink.focus
    pen.lineWidth = 1.5
    const scale = whole.scale / camera.scale
    pen.strokeRect(
      whole.x - camera.x * scale,
      whole.y - camera.y * scale,
      view.width * scale,
      view.height * scale,
    )
  }
  return { canvas, paint }
}

/** The camera for a press on the minimap. */
export function pressed(
  e: PointerEvent<HTMLElement>,
  drawing: Size,
  camera: Camera,
  view: Size,
): Camera | undefined {
  if (e.type === 'pointermove' && !e.buttons) return undefined
  const whole = fit(drawing, minimapSize)
  const r = e.currentTarget.getBoundingClientRect()
  const [x, y] = [(e.clientX - r.left - whole.x) / whole.scale, (e.clientY - r.top - whole.y) / whole.scale]
  return { scale: camera.scale, x: view.width / 2 - x * camera.scale, y: view.height / 2 - y * camera.scale }
}
