// The camera of a drawing: screen = drawing × scale + offset. A camera is never changed, it is replaced.
export type Camera = { scale: number; x: number; y: number }
export type Size = { width: number; height: number }

const scaleMax = 2
const margin = 24

/** Keeps a scale within what can be drawn and read. */
const clamp = (scale: number, least: number) => Math.min(scaleMax, Math.max(least, scale))

/** The camera that shows a whole drawing. A small one is not enlarged. */
export function fit(drawing: Size, view: Size): Camera {
  const scale = Math.min(
    1,
    (view.width - 2 * margin) / Math.max(1, drawing.width),
    (view.height - 2 * margin) / Math.max(1, drawing.height),
  )
  const safe = Math.max(scale, 1e-5)
  return {
    scale: safe,
    x: (view.width - drawing.width * safe) / 2,
    y: (view.height - drawing.height * safe) / 2,
  }
}

/** Zooms by a factor so that the point of the screen stays where it is. */
export function zoom(camera: Camera, factor: number, px: number, py: number, least: number): Camera {
  const scale = clamp(camera.scale * factor, Math.min(least, camera.scale))
  const ratio = scale / camera.scale
  return { scale, x: px - (px - camera.x) * ratio, y: py - (py - camera.y) * ratio }
}

/** Moves a camera so that a point of the drawing is in the middle, at a scale that can be read. */
export function centre(camera: Camera, x: number, y: number, view: Size, least = 0.8): Camera {
  const scale = Math.max(camera.scale, least)
  return { scale, x: view.width / 2 - x * scale, y: view.height / 2 - y * scale }
}

/** Keeps the middle of the view in the middle when the view changes its size. */
export const resized = (camera: Camera, from: Size, to: Size): Camera => ({
  scale: camera.scale,
  x: camera.x + (to.width - from.width) / 2,
  y: camera.y + (to.height - from.height) / 2,
})

/** Reports whether a point of the drawing is well inside of the view. */
export function sees(camera: Camera, x: number, y: number, view: Size): boolean {
  const [sx, sy] = [x * camera.scale + camera.x, y * camera.scale + camera.y]
  return sx > margin && sy > margin && sx < view.width - margin && sy < view.height - margin
}
