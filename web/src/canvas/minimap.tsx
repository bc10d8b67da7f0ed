import { type PointerEvent, useRef } from 'react'
import { type Camera, fit, type Size } from './camera'
import { GraphPainter, type Scene } from './graph'
import type { Ink } from './ink'

export const minimapSize: Size = { width: 184, height: 112 }

/** The whole graph in a corner, with a frame around what is in view. The graph paints it with each of its frames. */
export function useMinimap() {
  const canvas = useRef<HTMLCanvasElement>(null)
  const painter = useRef<GraphPainter>(undefined)
  painter.current ??= new GraphPainter()
  const paint = (scene: Scene, camera: Camera, view: Size, ink: Ink, ratio: number) => {
    const el = canvas.current
    const pen = el?.getContext('2d', { alpha: false })
    if (!el?.parentElement || !pen) return
    // All of it is in view already, or there is no room.
    const needless = camera.scale <= fit(scene.drawing, view).scale * 1.05 || view.width < 420
    el.parentElement.hidden = needless
    if (needless) return
    const { width, height } = minimapSize
    if (el.width !== width * ratio) el.width = width * ratio
    if (el.height !== height * ratio) el.height = height * ratio
    const whole = fit(scene.drawing, minimapSize)
    painter.current?.paint(
      pen,
      { ...scene, selected: undefined, hovered: undefined },
      whole,
      minimapSize,
      ink,
      ratio,
    )
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
