// Checks the page for people who do not see well, who use no pointer, or who use a small screen: with axe,
// with keys, and in narrow windows.
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Repository, repository } from './gitserver'
import {
  apply,
  ask,
  axe,
  call,
  contextOf,
  ended,
  faults,
  goTo,
  idle,
  launch,
  open,
  palette,
  pressUntil,
  type Server,
  serve,
} from './harness'
import { pages } from './pages'

let server: Server
let browser: Browser
let repo: Repository
let failed = ''
let alert = ''
let backfill = ''

beforeAll(async () => {
  server = await serve()
  browser = await launch()
  await apply(
    server.base,
    'watched',
    'name: watched\nalerts: [{on: failed, to: ops, escalate: {after: 1h, to: lead}}, {deadline: {after: 1h}, to: ops}]\ntasks: {a: {run: "exit 1"}}\n',
  )
  const watched = await call(server.base, '/runs', { workflow: 'watched' })
  expect(await ended(server.base, watched.id)).toBe('failed')
  const put = async (path: string, body: object) => {
    const headers = { 'Content-Type': 'application/json' }
    const { status } = await ask(`${server.base}/api/v1${path}`, {
      method: 'PUT',
      headers,
      body: JSON.stringify(body),
    })
    expect(status, path).toBeLessThan(300)
  }
  await put('/channels/default/ops', { config: { log: {} } })
  repo = await repository('pass-word-1')
  repo.commit({ 'good.yaml': 'name: from-git\ntasks: {a: {run: "true"}}\n' })
  await put('/secrets/default/GIT_TOKEN', { value: 'pass-word-1' })
  await put('/git-sources/default/flows', {
    url: repo.url,
    login: 'git',
    password_secret: 'GIT_TOKEN',
    every: '1h',
  })
  const alerts = await (await ask(`${server.base}/api/v1/alerts`)).json()
  alert = (alerts as { items: { id: string }[] }).items[0]?.id as string
  await apply(
    server.base,
    'orders',
    'name: orders\ntriggers: [{name: created, event: {type: order.created}}]\ntasks: {wait: {wait: {event: {type: paid, filter: "true"}}}, ask: {sql: {connection: db, query: "SELECT :a", params: {a: 1}}}}\n',
  )
  await apply(
    server.base,
    'past',
    'name: past\ntriggers: [{name: daily, cron: "0 3 * * *"}]\ntasks: {a: {run: "true"}}\n',
  )
  const filled = await call(server.base, '/backfills', {
    workflow: 'past',
    trigger: 'daily',
    from: '2026-01-01T00:00:00Z',
    to: '2026-01-03T00:00:00Z',
  })
  expect(filled.id).toBeDefined()
  backfill = String(filled.id)
  // This makes the newest failed run, because the flow by keys opens the first run of the list.
  const { id } = await call(server.base, '/runs', { workflow: 'job-center', params: { fail: 't4' } })
  expect(await ended(server.base, id)).toBe('failed')
  failed = id
})

afterAll(async () => {
  await browser?.close()
  await server?.end()
  repo?.end()
})

const at = (c: BrowserContext, path: string): Promise<Page> => open(c, server.base + path)

const background = (page: Page) =>
  page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)

// Two pages are examined at the same time, because one can be examined while the other waits for the server.
// They share a session and the caches of the browser, and a tab is used again.
describe.concurrent('no accessibility fault and no forbidden request, in both themes, wide and narrow', () => {
  let shared: Awaited<ReturnType<typeof contextOf>>
  const free: Page[] = []
  beforeAll(async () => {
    shared = await contextOf(browser, server.base)
  })
  afterAll(() => shared?.context.close())
  test.for(pages)('%s', async (where, { expect }) => {
    const page = free.pop() ?? (await shared.context.newPage())
    await page.setViewportSize({ width: 1440, height: 900 })
    await goTo(
      page,
      server.base + where.replaceAll('FAILED', failed).replace('ALERT', alert).replace('BACKFILL', backfill),
    )
    if (/[?&]ask=/.test(where)) await page.getByRole('dialog').waitFor()
    await page.evaluate(axe) // the policy of the page forbids scripts that are added to it; the debugger may run one
    await page.emulateMedia({ colorScheme: 'light' })
    expect.soft(await faults(page), `${where}, light, 1440 px`).toEqual([])
    const light = await background(page)
    await page.emulateMedia({ colorScheme: 'dark' })
    expect(await background(page)).not.toBe(light)
    // Checks only what depends on colours. The colours of small screens are the same:
    // test/unit/tokens.test.ts.
    expect.soft(await faults(page, ['color-contrast']), `${where}, dark, 1440 px`).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    await idle(page)
    expect.soft(await faults(page), `${where}, dark, 390 px`).toEqual([])
    // An element that is wider than the screen scrolls within itself. The page does not scroll sideways.
    await page.setViewportSize({ width: 320, height: 700 })
    const wide = await page.evaluate(() => {
      const width = document.documentElement.scrollWidth
      const wider = (el: Element) => el.getBoundingClientRect().right > 321
      return width <= 320 ? '' : [...document.querySelectorAll('main *')].filter(wider).at(-1)?.outerHTML
    })
    expect.soft(wide?.slice(0, 200), 'at 320 px').toBe('')
    expect(shared.wrong.splice(0)).toEqual([])
    free.push(page)
  })
})

/** Presses Tab until the named element has the focus. */
async function tabTo(page: Page, name: RegExp) {
  for (let i = 0; i < 120; i++) {
    await page.keyboard.press('Tab')
    const has = await page.evaluate(() => {
      const el = document.activeElement
      return el?.getAttribute('aria-label') ?? el?.textContent ?? ''
    })
    if (name.test(has.trim())) return
  }
  throw new Error(`Tab does not reach ${name}`)
}

test('keys alone: a workflow is started from the palette', async () => {
  const { context, wrong } = await contextOf(browser, server.base)
  const page = await at(context, '/')
  await palette(page, 'start hello', /^Start hello/)
  await page.waitForURL(/\/start/)
  await page.getByRole('button', { name: 'Start the run' }).waitFor()
  await tabTo(page, /^Start the run$/)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/r\//)
  await page.locator('.facts-line').getByText('Succeeded').waitFor()
  expect(wrong).toEqual([])
  await context.close()
})

test('keys alone: a failed run is found, understood and recovered', async () => {
  const { context, wrong } = await contextOf(browser, server.base)
  const page = await at(context, '/')
  await pressUntil(page, ['g', 'r'], () => page.url().endsWith('/runs'))
  await page.goto(`${server.base}/runs?state=failed`)
  await page.getByRole('row').filter({ hasText: 'job-center' }).first().waitFor()
  await idle(page)
  await page.keyboard.press('j')
  await page.locator('tr[data-current]').waitFor()
  await page.keyboard.press('Enter')
  await page.waitForURL(new RegExp(`/r/${failed}.*task=t4`))
  await pressUntil(page, ['l'], () => page.url().includes('/log/t4'))
  await page.locator('.log-lines', { hasText: 'failing, because' }).waitFor()
  await page.keyboard.press('Escape')
  await page.waitForURL((url) => !url.pathname.includes('/log/'))
  await page.getByRole('button', { name: 'Recover', exact: true }).waitFor()
  await pressUntil(page, ['r'], () => page.getByRole('dialog').isVisible())
  await page.getByRole('dialog').getByText('will be done again').waitFor()
  await page.keyboard.press('Enter')
  await page.getByText('generation 2').waitFor()
  expect(wrong).toEqual([])
  await context.close()
})

test('keys alone: an approval is given on its run', async () => {
  await apply(server.base, 'asks', 'name: asks\ntasks:\n  ok: {approval: {}}\n')
  const { id } = await call(server.base, '/runs', { workflow: 'asks' })
  const { context, wrong } = await contextOf(browser, server.base)
  const page = await at(context, `/r/${id}?task=ok`)
  await page.getByRole('button', { name: 'Approve' }).waitFor()
  await pressUntil(page, ['a'], () => page.locator('.facts-line').getByText('Succeeded').isVisible())
  expect(wrong).toEqual([])
  await context.close()
})

test('keys alone: a workflow is paused, and the pause is undone', async () => {
  const { context, wrong } = await contextOf(browser, server.base)
  const page = await at(context, '/w/default/heartbeat')
  await tabTo(page, /^Pause$/)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1 }).getByText('Paused').waitFor()
  await tabTo(page, /^Undo$/)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1 }).getByText('Active').waitFor()
  expect(wrong).toEqual([])
  await context.close()
})

test('keys alone: a trigger is found, paused with a reason, and resumed', async () => {
  const { context, wrong } = await contextOf(browser, server.base)
  const page = await at(context, '/')
  await pressUntil(page, ['g', 's'], () => page.url().endsWith('/schedules'))
  await page.getByRole('heading', { name: 'Schedules' }).waitFor()
  await page.getByRole('link', { name: 'created' }).waitFor()
  await tabTo(page, /^created$/)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Pause…' }).waitFor()
  await tabTo(page, /^Pause…$/)
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.type('the shop moves')
  await page.keyboard.press('Enter')
  await page.getByText(/^Paused by .*the shop moves/).waitFor()
  await tabTo(page, /^Resume$/)
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Pause…' }).waitFor()
  expect(wrong).toEqual([])
  await context.close()
})

test('a phone: from Home to the failed run, its log and the recovery, without a sideways scroll', async () => {
  const { id } = await call(server.base, '/runs', { workflow: 'job-center', params: { fail: 't9' } })
  expect(await ended(server.base, id)).toBe('failed')
  const { context, wrong } = await contextOf(browser, server.base, { width: 390, height: 844 })
  const page = await at(context, '/')
  await page
    .locator('.alarms li', { hasText: 'job-center' })
    .first()
    .getByRole('link', { name: 'Open' })
    .click()
  await page.waitForURL(/\/r\//)
  await page.goto(`${server.base}/r/${id}?task=t9`)
  await page.locator('.log-lines', { hasText: 'failing, because' }).waitFor()
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390)
  await page.getByRole('button', { name: 'Recover', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Recover' }).click()
  await page.getByText('generation 2').waitFor()
  // The present tab is in view, although the tabs before it are wider than the screen.
  await goTo(page, `${server.base}/admin/about`)
  const tab = await page.locator('.tabs a[href$="/admin/about"][aria-current]').boundingBox()
  expect((tab?.x ?? 0) + (tab?.width ?? 999)).toBeLessThanOrEqual(390)
  expect(wrong).toEqual([])
  await context.close()
})
