// A canvas of the size of its element, painted again at most once a frame.
import { type RefObject, useCallback, useEffect, useRef, useState } from 'react'
import type { Size } from './camera'
import { type Ink, readInk } from './ink'

export type Paint = (pen: CanvasRenderingContext2D, view: Size, ink: Ink, ratio: number) => void

/** Connects a canvas with a paint function. The returned function requests a frame. */
export function useCanvas(
  canvas: RefObject<HTMLCanvasElement | null>,
  paint: Paint,
): [Size | undefined, () => void] {
  const [view, setView] = useState<Size>()
  const latest = useRef({ paint, ink: undefined as Ink | undefined, frame: 0 })
  latest.current.paint = paint
  const ask = useCallback(() => {
    const state = latest.current
    if (state.frame) return
    state.frame = requestAnimationFrame(() => {
      state.frame = 0
      const el = canvas.current
      const pen = el?.getContext('2d', { alpha: false })
      if (!el || !pen) return
      const ratio = window.devicePixelRatio || 1
      const size = { width: el.clientWidth, height: el.clientHeight }
      const [w, h] = [Math.round(size.width * ratio), Math.round(size.height * ratio)]
      if (el.width !== w || el.height !== h) {
        el.width = w
        el.height = h
      }
      state.ink ??= readInk()
      state.paint(pen, size, state.ink, ratio)
    })
  }, [canvas])
  useEffect(() => {
    const el = canvas.current
    if (!el) return
    const measure = () => {
      setView({ width: el.clientWidth, height: el.clientHeight })
      ask()
    }
    const resized = new ResizeObserver(measure)
    resized.observe(el)
    const repaint = () => {
      latest.current.ink = undefined
      ask()
    }
    const themed = new MutationObserver(repaint)
    themed.observe(document.documentElement, {
      attributes: true,
      attributeFilter: ['data-theme', 'data-density'],
    })
    const system = window.matchMedia('(prefers-color-scheme: dark)')
    system.addEventListener('change', repaint)
    measure()
    return () => {
      resized.disconnect()
      themed.disconnect()
      system.removeEventListener('change', repaint)
      cancelAnimationFrame(latest.current.frame)
      latest.current.frame = 0
    }
  }, [canvas, ask])
  // Every render requests a frame, because the canvas may show the changed data, too.
  useEffect(ask)
  return [view, ask]
}
