// How the budgets of the page are measured: calibration, samples, the work of frames, and the table.
import type { CDPSession, Page } from 'playwright-core'

/** Milliseconds that the calibration takes on a quiet machine of the kind that the budgets were set for. */
const quiet = 300

/** Runs a fixed script that parses, sorts and draws. Returns how much slower than a quiet machine it is. */
export async function calibrate(page: Page): Promise<number> {
  const took = await page.evaluate(() => {
    const once = () => {
      const from = performance.now()
      const rows = Array.from({ length: 60_000 }, (_, i) => ({ id: (i * 7919) % 60_013, name: `task-${i}` }))
      for (let i = 0; i < 5; i++) {
        const read = JSON.parse(JSON.stringify(rows)) as typeof rows
        read.sort((a, b) => a.id - b.id)
      }
      const canvas = document.createElement('canvas')
      canvas.width = 1600
      canvas.height = 900
      const pen = canvas.getContext('2d') as CanvasRenderingContext2D
      for (let i = 0; i < 70_000; i++) {
        pen.fillStyle = i % 2 ? '#345' : '#cde'
        pen.fillRect((i * 37) % 1600, (i * 53) % 900, 24, 12)
      }
      pen.getImageData(0, 0, 1, 1)
      return performance.now() - from
    }
    once()
    return [once(), once(), once()].sort((a, b) => a - b)[1] as number
  })
  return took / quiet
}

/**
 * The processor time of the main thread, in milliseconds, from an input to the end of the frame that shows its effect.
 * Waiting does not count, neither for the display nor for other work on the machine.
 */
export async function work(page: Page, cdp: CDPSession, input: () => Promise<unknown>): Promise<number> {
  const before = await metric(cdp, 'ThreadTime')
  await input()
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  return ((await metric(cdp, 'ThreadTime')) - before) * 1000
}

/** Waits until the main thread has had nothing to do for a moment. */
export async function rest(page: Page, cdp: CDPSession) {
  for (let calm = 0; calm < 3; ) {
    const before = await metric(cdp, 'ThreadTime')
    await page.waitForTimeout(200)
    calm = (await metric(cdp, 'ThreadTime')) - before < 0.01 ? calm + 1 : 0
  }
}

/** The smallest sample that at least 95 of 100 do not exceed. */
export function p95(samples: number[]): number {
  const sorted = [...samples].sort((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * 0.95) - 1] ?? Number.NaN
}

export async function metric(cdp: CDPSession, name: string): Promise<number> {
  const { metrics } = await cdp.send('Performance.getMetrics')
  return metrics.find((m) => m.name === name)?.value ?? Number.NaN
}

/** Memory of the page's scripts in MB, without what can be collected. */
export async function heap(cdp: CDPSession): Promise<number> {
  await cdp.send('HeapProfiler.collectGarbage')
  return (await metric(cdp, 'JSHeapUsedSize')) / 1e6
}

export type Row = { what: string; scale: string; unit: string; is: number; budget: number; load?: number }

/** A time is divided by the slowness of the machine in that moment; a size is not. */
export const value = (r: Row): number => r.is / (r.load ?? 1)

const round = (x: number) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2))

export function table(rows: Row[]): string {
  const lines = rows.map((r) => {
    const met = value(r) <= r.budget
    const figure = `${round(value(r))} ${r.unit}`
    const cells = [
      r.what,
      r.scale,
      r.load ? `${round(r.is)} ${r.unit}` : '',
      r.load ? r.load.toFixed(2) : '',
      met ? `**${figure}**` : figure,
      `${r.budget} ${r.unit}`,
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    '| what | scale | measured, p95 | calibration | calibrated | budget |',
    '|---|---|---:|---:|---:|---:|',
    ...lines,
  ].join('\n')
}
