// Eight hours of an open page in a few minutes: its timers run faster, and as many runs change as in that time.
import type { Browser, Page } from 'playwright-core'
import { expect } from 'vitest'
import { call, contextOf, idle, open } from '../e2e/harness'
import { heap, metric } from './measure'

/** How much faster the timers of the page are. */
const faster = 50
/** A run changes every four seconds, and the person turns to another page every minute. */
const walkEvery = 15
const walk = ['/workflows', '/runs', '/schedules', '/queues', '/cluster', '/runs?workflow=hello', '/']

/** What the page tells tests: the number of messages that it has handled, and whether it reads nothing. */
type Shown = { skein: { seen: () => number; idle: () => boolean } }

export type Grown = { updates: number; before: number; after: number; nodes: number }

/**
 * Opens Home, lets runs change while the page walks through the others, and compares the memory of Home with that after
 * a tenth of the runs, in MB. nodes is the growth of the number of elements.
 */
export async function eightHours(browser: Browser, base: string, runs: number): Promise<Grown> {
  const { context, wrong } = await contextOf(browser, base)
  // Without a shared worker the tab reads the stream itself, so its memory counts, too.
  await context.addInitScript((faster) => {
    Object.defineProperty(window, 'SharedWorker', { value: undefined })
    const now = performance.now.bind(performance)
    const after = window.setTimeout.bind(window)
    const each = window.setInterval.bind(window)
    window.setTimeout = ((f: TimerHandler, ms = 0, ...more: unknown[]) =>
      after(f, ms / faster, ...more)) as typeof setTimeout
    window.setInterval = ((f: TimerHandler, ms = 0, ...more: unknown[]) =>
      each(f, ms / faster, ...more)) as typeof setInterval
    performance.now = () => now() * faster
  }, faster)
  const page = await open(context, `${base}/`)
  await page.locator('.fresh[data-state="live"]').waitFor()
  const cdp = await context.newCDPSession(page)
  await cdp.send('Performance.enable')
  const measure = async () => {
    await turn(page, '/')
    const used = await heap(cdp)
    return { used, nodes: await metric(cdp, 'Nodes') }
  }
  let before = { used: 0, nodes: 0 }
  const first = Math.max(walkEvery * walk.length, Math.ceil(runs / 10))
  for (let i = 0; i < runs; i++) {
    if (i === first) before = await measure()
    if (i % walkEvery === 0) await turn(page, walk[(i / walkEvery) % walk.length] as string)
    const seen = await page.evaluate(() => (window as unknown as Shown).skein.seen())
    await call(base, '/runs', { workflow: 'hello' })
    await page.waitForFunction(
      (seen) => {
        const { skein } = window as unknown as Shown
        return skein.seen() > seen && skein.idle()
      },
      seen,
      { polling: 'raf' },
    )
  }
  const after = await measure()
  expect(wrong).toEqual([])
  await context.close()
  return { updates: runs, before: before.used, after: after.used, nodes: after.nodes - before.nodes }
}

/** Turns to a page as a press on a link does, without loading the program again. */
async function turn(page: Page, path: string) {
  await page.evaluate((path) => {
    history.pushState({}, '', path)
    window.dispatchEvent(new PopStateEvent('popstate', { state: history.state }))
  }, path)
  await page.locator('h1').first().waitFor()
  await idle(page)
}
