// Measures the page against its budgets in a headless Chromium, on data of the real engine: make bench-ui.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContext, CDPSession, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apply, ask, call, contextOf, ended, idle, launch, open, type Server, serve } from '../e2e/harness'
import { eightHours } from './hours'
import { calibrate, heap, p95, type Row, rest, table, work } from './measure'
import { bigLog, layered, layeredRuns, manyRuns, short, whole } from './seed'
import { cost, watched } from './viewers'

const isShort = Boolean(process.env.SKEIN_PERF_SHORT)
const only = process.env.SKEIN_PERF_ONLY ?? ''
const sizes = isShort ? short : whole
const report = join(process.cwd(), '../docs/performance-page.md')
const rows: Row[] = []
/** The number of measurements of the work of a key or of a frame. */
const inputs = 40
const thousands = (n: number) => n.toLocaleString('en')

let server: Server
let browser: Browser

beforeAll(async () => {
  server = await serve(['--retention-runs', '10000000', '--log-level', 'error'])
  browser = await launch()
})

afterAll(async () => {
  await browser?.close()
  await server?.end()
  console.log(table(rows))
  if (only) return
  const text = readFileSync(report, 'utf8')
  const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'long' }).format(new Date())
  const data = isShort ? 'the small data (`SHORT=1`)' : 'the whole data'
  const part = `<!-- bench-ui -->\n\nTaken on ${day}, on ${data}.\n\n${table(rows)}\n\n<!-- /bench-ui -->`
  const next = text.replace(/<!-- bench-ui -->[\s\S]*<!-- \/bench-ui -->/, () => part)
  expect(next, 'docs/performance-page.md has no place for the table').not.toBe(text)
  writeFileSync(report, next)
})

type Opened = { context: BrowserContext; page: Page; cdp: CDPSession; load: number }

/** Opens an empty page, and calibrates on it. */
async function blank(): Promise<Opened> {
  const { context } = await contextOf(browser, server.base)
  const page = await context.newPage()
  const load = await calibrate(page)
  const cdp = await context.newCDPSession(page)
  await cdp.send('Performance.enable')
  return { context, page, cdp, load }
}

/** Waits until an element fits, and returns the time since the page was asked for. */
async function since(page: Page, path: string, selector: string, text = ''): Promise<number> {
  await page.goto(server.base + path, { waitUntil: 'commit' })
  const found = await page.waitForFunction(
    ({ selector, text }) => {
      const all = [...document.querySelectorAll(selector)]
      return all.some((el) => el.textContent?.includes(text)) ? performance.now() : false
    },
    { selector, text },
    { polling: 'raf' },
  )
  return Number(await found.jsonValue())
}

/** Measures a page from its address to the element that makes it usable, each time in a new context. */
async function usable(what: string, scale: string, budget: number, path: string, at: [string, string?]) {
  const [samples, loads]: [number[], number[]] = [[], []]
  for (let i = 0; i < sizes.samples; i++) {
    const { context, page, load } = await blank()
    samples.push((await since(page, path, ...at)) / load)
    loads.push(load)
    await context.close()
  }
  add(what, scale, budget, samples, loads)
}

type Way = { from: string; act: (page: Page) => Promise<unknown>; to: [string, string] }

/** Measures from an input on an open page to the element that shows its effect, each time in a new context. */
async function shown(what: string, scale: string, budget: number, { from, act, to: [selector, text] }: Way) {
  const [samples, loads]: [number[], number[]] = [[], []]
  for (let i = 0; i < sizes.samples; i++) {
    const { context, page, cdp, load } = await blank()
    await page.goto(server.base + from)
    await idle(page)
    await rest(page, cdp)
    const begun = await page.evaluate(() => performance.now())
    await act(page)
    const found = await page.waitForFunction(
      ({ selector, text }) => {
        const all = [...document.querySelectorAll(selector)]
        return all.some((el) => el.textContent?.includes(text)) ? performance.now() : false
      },
      { selector, text },
      { polling: 'raf' },
    )
    samples.push((Number(await found.jsonValue()) - begun) / load)
    loads.push(load)
    await context.close()
  }
  add(what, scale, budget, samples, loads)
}

/** Processor time of the main thread is not calibrated. */
const addWork = (what: string, scale: string, budget: number, samples: number[]) =>
  rows.push({ what, scale, unit: 'ms', is: p95(samples), budget })

/**
 * Adds a row to the table. The samples are calibrated already, and the table also shows the measured values.
 */
function add(what: string, scale: string, budget: number, samples: number[], loads: number[]) {
  const load = p95(loads)
  rows.push({ what, scale, unit: 'ms', is: p95(samples) * load, budget, load })
}

const runs = test.runIf('runs'.includes(only))
const tasks = test.runIf('tasks'.includes(only))
const logs = test.runIf('logs'.includes(only))
const editor = test.runIf('editor'.includes(only))
const viewers = test.runIf('viewers'.includes(only))
const hours = test.runIf('hours'.includes(only))

runs('Home and Runs among many runs', async () => {
  const scale = `${thousands(sizes.runs)} runs`
  await manyRuns(server.base, sizes.runs)
  const [cold, warm, filter, loads]: number[][] = [[], [], [], []]
  // The entry can come later than the page is idle, so the observer waits for it.
  const paint = (page: Page) =>
    page.evaluate(
      () =>
        new Promise<number>((done) => {
          new PerformanceObserver((list, observer) => {
            const first = list.getEntriesByName('first-contentful-paint')[0]
            if (first === undefined) return
            observer.disconnect()
            done(first.startTime)
          }).observe({ type: 'paint', buffered: true })
        }),
    )
  let memory = 0
  for (let i = 0; i < sizes.samples; i++) {
    const { context, page, cdp, load } = await blank()
    loads?.push(load)
    for (const samples of [cold, warm]) {
      await since(page, '/', 'h1')
      await idle(page)
      samples?.push((await paint(page)) / load)
    }
    memory = Math.max(memory, await heap(cdp))
    await since(page, '/runs', 'tbody tr')
    await idle(page)
    filter?.push((await toFailed(page)) / load)
    await context.close()
  }
  add('first paint of Home, cold cache', scale, 1000, cold ?? [], loads ?? [])
  add('… warm', scale, 300, warm ?? [], loads ?? [])
  add('Runs, from the filter to the failed rows', scale, 150, filter ?? [], loads ?? [])
  rows.push({ what: 'memory of Home', scale, unit: 'MB', is: memory, budget: 60 })
  await firstLoad(scale)
})

/** Presses the filter of failed runs, and returns the time until only such rows are shown. */
const toFailed = (page: Page): Promise<number> =>
  page.evaluate(
    () =>
      new Promise<number>((done) => {
        const from = performance.now()
        const look = () => {
          const shown = [...document.querySelectorAll('tbody tr')]
          const isDone = shown.length > 0 && shown.every((row) => row.textContent?.includes('Failed'))
          if (isDone) done(performance.now() - from)
          else requestAnimationFrame(look)
        }
        const chips = [...document.querySelectorAll<HTMLElement>('button.chip')]
        chips.find((el) => el.textContent === 'Failed')?.click()
        look()
      }),
  )

/**
 * Measures what the page fetches before the first data: the size of the scripts, and the number of requests.
 */
async function firstLoad(scale: string) {
  const { context, page } = await blank()
  await since(page, '/', 'h1')
  await idle(page)
  const [size, requests] = await page.evaluate(() => {
    const all = performance.getEntriesByType('resource') as PerformanceResourceTiming[]
    const first = Math.min(...all.filter((e) => e.name.includes('/api/')).map((e) => e.startTime))
    const before = all.filter((e) => e.startTime < first && !e.name.includes('/api/'))
    const scripts = before.filter((e) => e.name.endsWith('.js'))
    return [scripts.reduce((sum, e) => sum + e.encodedBodySize, 0) / 1024, before.length + 1] as const
  })
  rows.push({ what: 'scripts before the first data, compressed', scale, unit: 'KiB', is: size, budget: 230 })
  rows.push({ what: 'requests before the first data', scale, unit: 'requests', is: requests, budget: 4 })
  await context.close()
}

tasks('runs, grids and graphs of many tasks', async () => {
  const failed = { text: 'no such relation' }
  for (const [n, budget] of [
    [10, 500],
    [1000, 700],
    [sizes.graph, 2500],
  ] as const) {
    const id = await layeredRuns(server.base, n, 1)
    await shown(
      'a failed run, from the press on it to the error in its log',
      `${thousands(n)} tasks`,
      budget,
      {
        from: `/runs?workflow=d${n}`,
        act: (page) => page.locator(`a[href*="/r/${id}"]`).first().click(),
        to: ['.log-lines .line', failed.text],
      },
    )
  }
  for (const n of sizes.grids) await grid(n)
  await graph(sizes.graph)
})

async function grid(n: number) {
  await layeredRuns(server.base, n, 25)
  const scale = `${thousands(n)} tasks × 25 runs`
  const path = `/w/default/d${n}?tab=grid`
  await usable('grid', scale, n > 5000 ? 1500 : 800, path, ['[role=gridcell]'])
  const { context, page, cdp } = await blank()
  await since(page, path, '[role=gridcell]')
  await idle(page)
  const scroll = () =>
    page.evaluate(() => {
      let el = document.querySelector('[role=gridcell]')
      while (el && !(el.scrollHeight > el.clientHeight + 400 && getComputedStyle(el).overflowY !== 'visible'))
        el = el.parentElement
      if (!el) throw new Error('the grid does not scroll')
      el.scrollTop += 400
    })
  const frames: number[] = []
  for (let i = 0; i < inputs; i++) frames.push(await work(page, cdp, scroll))
  addWork('… work of a frame while it scrolls', scale, 16, frames)
  await context.close()
}

async function graph(n: number) {
  const scale = `${thousands(n)} tasks`
  const id = await layeredRuns(server.base, n, 1)
  const { context, page, cdp, load } = await blank()
  await since(page, `/r/${id}?view=graph&task=load`, '[role=application][data-level]')
  await idle(page)
  const box = page.locator('[role=application]')
  await box.hover()
  const [zooms, pans]: [number[], number[]] = [[], []]
  for (let i = 0; i < inputs; i++)
    zooms.push(await work(page, cdp, () => page.mouse.wheel(0, i < inputs / 2 ? 120 : -120)))
  addWork('graph: work of a frame of zooming', scale, 16, zooms)
  await page.mouse.down()
  for (let i = 0; i < inputs; i++)
    pans.push(await work(page, cdp, () => page.mouse.move(600 + 6 * i, 400 + (i % 20) * 4)))
  await page.mouse.up()
  addWork('… of panning', scale, 16, pans)
  const found: number[] = []
  for (let i = 0; i < sizes.samples; i++) found.push((await find(page, `t${i}7`)) / load)
  add('graph: from a key in Find to its count', scale, 50, found, [load])
  rows.push({ what: 'memory of the run', scale, unit: 'MB', is: await heap(cdp), budget: 150 })
  await since(page, `/r/${id}?view=replay`, 'input[type=range]')
  await idle(page)
  await page.locator('input[type=range]').waitFor()
  const seeks: number[] = []
  for (let i = 0; i < sizes.samples; i++)
    seeks.push((await changed(page, 'input[type=range]', 0.1 + i / 15)) / load)
  add('replay: from the slider to the picture', scale, 50, seeks, [load])
  await context.close()
}

/** Types a text into Find, and returns the time until the frame that shows another count. */
const find = (page: Page, text: string): Promise<number> => changed(page, 'input.graph-find', text)

/**
 * Gives a field a value as a person does, and returns the time until the end of the next frame. A number is a
 * part of the field's range.
 */
const changed = (page: Page, selector: string, to: string | number): Promise<number> =>
  page.evaluate(
    ({ selector, to }) =>
      new Promise<number>((done) => {
        const field = document.querySelector(selector) as HTMLInputElement
        const text = typeof to === 'number' ? String(to * Number(field.max)) : to
        const from = performance.now()
        // React notices a value only if it was set past the property that it has put over the field's own one.
        Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(field, text)
        field.dispatchEvent(new Event('input', { bubbles: true }))
        const rest = performance.now() - from
        requestAnimationFrame(() => {
          const frame = performance.now()
          const channel = new MessageChannel()
          channel.port1.onmessage = () => done(rest + performance.now() - frame)
          channel.port2.postMessage(0)
        })
      }),
    { selector, to },
  )

logs('a large log', async () => {
  const scale = `${thousands(sizes.log)} MiB`
  const id = await bigLog(server.base, sizes.log)
  const log = `/r/${id}/log/talk`
  const error = ['.log-lines .line', 'ERROR: no such relation'] as [string, string]
  await shown('log: from its key to its end', scale, 300, {
    from: `/r/${id}?task=talk`,
    act: (page) => page.keyboard.press('l'),
    to: ['.log-page .log-lines .line', 'row 4711'],
  })
  const index = await ask(`${server.base}/api/v1/runs/${id}/tasks/talk/logs/index`)
  const { first } = (await index.json()) as { first: { line: number }[] }
  const enter = (label: string, text: string) => async (page: Page) => {
    await page.getByLabel(label, { exact: true }).fill(text)
    await page.keyboard.press('Enter')
  }
  const line = { from: log, act: enter('Go to a line or a time', String(first[0]?.line)), to: error }
  await shown('log: to a line in its middle', scale, 200, line)
  const search = 'Search in the log'
  await shown('log: to the first hit of a text', scale, 500, {
    from: log,
    act: enter(search, 'such relation'),
    to: error,
  })
  await shown('log: to its errors', scale, 500, {
    from: log,
    act: (page) => page.getByLabel('Lines', { exact: true }).selectOption('error'),
    to: error,
  })
  await shown('log: to the end of a search through all of it', scale, 3000, {
    from: log,
    act: enter(search, 'never printed'),
    to: ['.log-found', 'No hit in'],
  })
})

editor('the editor: keys and problems', async () => {
  for (const [n, key, problems] of [
    [1000, 16, 500],
    [10_000, 30, 1000],
  ] as const) {
    await apply(server.base, `e${n}`, layered(`e${n}`, n))
    const { context, page, cdp, load } = await blank()
    const path = `/edit/default/e${n}`
    await since(page, path, '.editor [role=application]')
    await idle(page)
    const source = page.getByRole('textbox', { name: /^Source of/ })
    await source.click()
    await page.keyboard.press('Control+End')
    await rest(page, cdp)
    const [keys, faults]: [number[], number[]] = [[], []]
    for (let i = 0; i < inputs; i++) keys.push(await work(page, cdp, () => page.keyboard.press('#')))
    for (let i = 0; i < inputs; i++) await page.keyboard.press('Backspace')
    await page.keyboard.type('  wrong: {run: "true", needs: nothing}')
    await page.keyboard.press('ArrowLeft')
    let missing = 'nothing'
    for (let i = 0; i < sizes.samples; i++) {
      missing += 'x'
      const from = Date.now()
      await page.keyboard.press('x')
      await page.getByRole('region', { name: 'Problems' }).getByText(missing).first().waitFor()
      faults.push((Date.now() - from) / load)
    }
    const scale = `${thousands(n)} tasks`
    addWork('editor: work of a key, to its frame', scale, key, keys)
    add('editor: from a key to the problem', scale, problems, faults, [load])
    await context.close()
  }
})

/** The times from the start of a run to its row in a list that is open in a browser, calibrated. */
async function rowsOfStarts(base: string, n: number): Promise<{ samples: number[]; load: number }> {
  const { context } = await contextOf(browser, base)
  const page = await open(context, `${base}/runs?workflow=hello`)
  const load = await calibrate(page)
  const samples: number[] = []
  for (let i = 0; i < n; i++) {
    const from = Date.now()
    const { id } = await call(base, '/runs', { workflow: 'hello' })
    await page.locator(`tbody a[href*="${id}"]`).first().waitFor()
    samples.push((Date.now() - from) / load)
    await ended(base, id)
  }
  await context.close()
  return { samples, load }
}

runs('what others do is shown', async () => {
  const { samples, load } = await rowsOfStarts(server.base, sizes.samples)
  add('live: from the start of a run to its row', '1 viewer', 1000, samples, [load])
})

viewers('many viewers', async () => {
  const own = await serve(['--log-level', 'error'])
  try {
    const { alone, watched: seen, slower, dearer } = await cost(own, 100, sizes.rounds)
    console.log(`100 viewers: ${JSON.stringify({ alone, seen, slower, dearer })}`)
    const more = { scale: '100 viewers', unit: '%', budget: 2 }
    rows.push({ what: 'starts at full speed: fewer a second with viewers', is: slower, ...more })
    rows.push({ what: '… more processor time of the node for each', is: dearer, ...more })
    const close = await watched(own.base, 1000)
    const { samples, load } = await rowsOfStarts(own.base, inputs)
    await close()
    console.log(`1,000 viewers: the slowest row came after ${(Math.max(...samples) * load).toFixed(0)} ms`)
    add('live: from the start of a run to its row', '1,000 viewers', 1000, samples, [load])
  } finally {
    await own.end()
  }
})

hours('a page that stays open for eight hours', async () => {
  const { updates, before, after, nodes } = await eightHours(browser, server.base, sizes.hours)
  const most = Number((before * 1.1).toFixed(2))
  const scale = `${thousands(updates)} runs, ${before.toFixed(2)} MB before`
  rows.push({
    what: 'memory of Home after the changes of eight hours',
    scale,
    unit: 'MB',
    is: after,
    budget: most,
  })
  expect(after, `${nodes} elements more`).toBeLessThan(most)
})
