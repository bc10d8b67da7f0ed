// Every page in each of its states, by answers that the test gives in place of the server; and the loss of the stream.
import type { Browser, Page, Route } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apply, ask, call, contextOf, ended, idle, launch, open, type Server, serve } from './harness'

let server: Server
let browser: Browser

beforeAll(async () => {
  server = await serve()
  browser = await launch()
})

afterAll(async () => {
  await browser?.close()
  await server?.end()
})

const json = (body: unknown) => ({ status: 200, contentType: 'application/json', body: JSON.stringify(body) })
const none = json({ items: [], next: null, shifts: [] })
const broken = {
  status: 500,
  contentType: 'application/problem+json',
  body: JSON.stringify({
    type: 'internal',
    title: 'Internal error',
    status: 500,
    detail: 'the disk said no',
  }),
}

/** A page, the request that it reads, and the text that it shows if the answer is empty. */
const pages: { path: string; reads: RegExp; empty: string; full: RegExp | string }[] = [
  { path: '/workflows', reads: /\/workflows\?/, empty: 'There is none yet', full: 'hello' },
  { path: '/runs', reads: /\/runs\?.*limit=100(&|$)/, empty: 'There is none yet', full: 'hello' },
  { path: '/schedules', reads: /\/schedules\?/, empty: 'No workflow has a trigger', full: 'heartbeat' },
  { path: '/schedules/next', reads: /\/schedules\/next/, empty: 'No schedule will fire', full: 'heartbeat' },
  { path: '/schedules/missed', reads: /\/fires/, empty: 'No instant had this outcome', full: 'No instant' },
  { path: '/backfills', reads: /\/backfills\?/, empty: 'No backfill is kept', full: 'No backfill' },
  { path: '/approvals', reads: /\/runs\?.*state=suspended/, empty: 'Nothing waits', full: 'Nothing waits' },
  { path: '/alerts', reads: /\/alerts\?/, empty: 'No alert is open', full: 'No alert is open' },
  { path: '/silences', reads: /\/silences\?/, empty: 'No silence is active', full: 'No silence is active' },
  {
    path: '/admin/channels',
    reads: /\/channels/,
    empty: 'There is no channel yet',
    full: 'There is no channel yet',
  },
  { path: '/admin/users', reads: /\/users\?/, empty: 'There is no user yet', full: 'service' },
  { path: '/admin/tokens', reads: /\/tokens/, empty: 'There is no token yet', full: /no token yet|Valid/ },
  { path: '/admin/namespaces', reads: /\/namespaces/, empty: 'There is no namespace', full: 'Stored bytes' },
  { path: '/admin/secrets', reads: /\/secrets/, empty: 'There is no secret yet', full: 'no secret yet' },
  { path: '/admin/sessions', reads: /\/sessions/, empty: 'Nobody is signed in', full: /Nobody|this browser/ },
  { path: '/admin/audit', reads: /\/audit\?/, empty: 'No call is recorded yet', full: 'start-run' },
  { path: '/queues', reads: /\/queues/, empty: 'No workflow uses a named queue', full: /none|Held/ },
  { path: '/locks', reads: /\/locks/, empty: 'No run holds a lock', full: 'No run holds a lock' },
  { path: '/cluster', reads: /\/nodes/, empty: 'No node has joined', full: 'n1' },
  { path: '/n/n1', reads: /\/nodes$/, empty: 'No node or worker of the name n1', full: 'Slots' },
  {
    path: '/w/default/hello',
    reads: /\/runs\?.*workflow=hello/,
    empty: 'has not run yet',
    full: /Succeeded/,
  },
  { path: '/w/default/hello?tab=grid', reads: /\/grid/, empty: 'has not run yet', full: /Grid/ },
  {
    path: '/w/default/hello?tab=durations',
    reads: /\/stats\?by=day/,
    empty: 'No run has ended in this time',
    full: /Durations of runs/,
  },
  {
    path: '/w/default/hello?tab=triggers',
    reads: /\/schedules\?/,
    empty: 'no triggers',
    full: 'no triggers',
  },
]

const apiCalls = (url: RegExp) => (u: URL) =>
  u.pathname.startsWith('/api/') && url.test(u.pathname + u.search)

/** Answers a request of a page as the test sets. All other answers come from the server. */
async function faked(url: RegExp, answer: (route: Route) => Promise<unknown>) {
  const opened = await contextOf(browser, server.base)
  const page = await opened.context.newPage()
  await page.route(apiCalls(url), async (route) => void (await answer(route)))
  return { ...opened, page }
}

/** The tab of the tests that change nothing that the next test would see. */
async function newTab() {
  const opened = await contextOf(browser, server.base)
  return { ...opened, page: await opened.context.newPage() }
}

let shared: ReturnType<typeof newTab> | undefined

async function sharedTab() {
  shared ??= newTab()
  const tab = await shared
  await tab.page.unrouteAll({ behavior: 'ignoreErrors' })
  tab.wrong.length = 0
  return tab
}

const main = (page: Page) => page.locator('main')

/** Makes a page read its data again. */
const again = (page: Page) =>
  page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())

beforeAll(async () => {
  const { id } = await call(server.base, '/runs', { workflow: 'hello' })
  expect(await ended(server.base, id)).toBe('succeeded')
})

type Answer = (route: Route) => Promise<unknown>

/**
 * Presses the button that reads a failed part again, and notes the press in the page. The button is away while the
 * page reads because of a change or a timer, so it is found and pressed in one step.
 */
const tryAgain = (page: Page) =>
  page.waitForFunction(() => {
    const alerts = document.querySelectorAll<HTMLElement>('main [role=alert] button')
    const button = [...alerts].find((b) => b.textContent === 'Try again')
    if (!button) return false
    Object.assign(window, { pressed: true })
    button.click()
    return true
  })

const pressed = (page: Page) => page.evaluate(() => 'pressed' in window).catch(() => false)

// All pages are opened in one tab, because the caches of the browser make the pages after the first one fast.
test.each(pages)(
  '$path: loading shows its shape, an error its reason, empty what would be there, and the button reads again',
  async ({ path, reads, empty, full }) => {
    const { page, wrong } = await sharedTab()
    let begin = () => {}
    let answer: Answer | Promise<Answer> = new Promise((given) => {
      begin = () => given((route) => route.fulfill(broken))
    })
    await page.route(apiCalls(reads), async (route) => (await answer)(route))
    await page.goto(server.base + path)
    await main(page).locator('[aria-busy]').first().waitFor()
    begin()
    const alert = main(page).getByRole('alert')
    await alert.getByText('the disk said no').first().waitFor()
    await expect.poll(() => main(page).locator('[aria-busy]').count()).toBe(0)
    // Each read fails until the button is pressed, so no other read can take the new answer.
    const grid = { next: null, runs: [], states: [], tasks: 0, version: 1 }
    const nothing = reads.source.includes('grid') ? json(grid) : none
    answer = async (route) => route.fulfill((await pressed(page)) ? nothing : broken)
    await tryAgain(page)
    await main(page).getByText(empty).first().waitFor()
    await alert.first().waitFor({ state: 'detached' })
    answer = (route) => route.continue()
    await again(page)
    await main(page).getByText(full).first().waitFor()
    // The browser notes the answer 500 as an error.
    expect(wrong.filter((text) => !text.includes('status of 500'))).toEqual([])
  },
)

test('old rows stay when a later read fails, and the page says that they are old', async () => {
  let fail = false
  const { context, page } = await faked(/\/workflows\?/, (r) => (fail ? r.fulfill(broken) : r.continue()))
  await page.goto(`${server.base}/workflows`)
  await main(page).getByRole('link', { name: 'hello', exact: true }).waitFor()
  fail = true
  await again(page)
  await main(page).getByText('This is not up to date').waitFor()
  expect(await main(page).getByRole('link', { name: 'hello', exact: true }).count()).toBe(1)
  await context.close()
})

test('Home does not say that all is well when a part of it could not be read', async () => {
  const { context, page } = await faked(/\/runs\?.*state=waiting/, (r) => r.fulfill(broken))
  await page.goto(`${server.base}/`)
  await main(page).getByRole('alert').getByText('the disk said no').waitFor()
  expect(await main(page).getByText('nothing waits for a queue').count()).toBe(0)
  await context.close()
})

test('a run and a workflow that do not exist are said to be absent', async () => {
  const { context } = await contextOf(browser, server.base)
  const page = await context.newPage()
  for (const path of ['/r/01900000-0000-7000-8000-000000000000', '/w/default/nothing', '/nowhere']) {
    await page.goto(server.base + path)
    await main(page)
      .getByText(/not found|no such page/i)
      .first()
      .waitFor()
  }
  await context.close()
})

test('a verb on many runs is not carried out on another number than the one that was shown', async () => {
  await apply(server.base, 'broken', 'name: broken\ntasks:\n  a: {run: "exit 3"}\n')
  const fail = async () => {
    const { id } = await call(server.base, '/runs', { workflow: 'broken' })
    expect(await ended(server.base, id)).toBe('failed')
  }
  await fail()
  const { context } = await contextOf(browser, server.base)
  const page = await open(context, `${server.base}/runs?workflow=broken&state=failed`)
  await page.getByRole('button', { name: 'All that fit the filter' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Rerun', exact: true }).click()
  await dialog.getByText('1 run would be started again').waitFor()
  await fail()
  await dialog.getByRole('button', { name: 'Rerun 1 run' }).click()
  await dialog.getByText('2 runs would be started again').waitFor()
  await dialog.getByRole('alert').waitFor()
  await dialog.getByRole('button', { name: 'Rerun 2 runs' }).click()
  await page.getByText('2 runs started again').waitFor()
  // Only one of the runs has the tag.
  const { id } = await call(server.base, '/runs', { workflow: 'broken', tags: { team: 'data' } })
  expect(await ended(server.base, id)).toBe('failed')
  await page.goto(`${server.base}/runs?tag=team%3Ddata&state=failed`)
  await page.getByRole('button', { name: 'All that fit the filter' }).click()
  await dialog.getByText('1 run would be recovered').waitFor()
  await dialog.getByRole('button', { name: 'Recover 1 run' }).click()
  await page.getByText('1 run recovered').waitFor()
  await context.close()
})

test('a log grows while its task runs, and stays where it is when the task ends', async () => {
  const { writeFileSync, mkdtempSync, rmSync } = await import('node:fs')
  const gate = mkdtempSync('/tmp/skein-gate-')
  const text = `name: talk\ntasks:\n  a:\n    run: |\n      echo first\n      until [ -e ${gate}/one ]; do sleep 0.1; done\n      echo second\n      until [ -e ${gate}/two ]; do sleep 0.1; done\n      echo third\n`
  await apply(server.base, 'talk', text)
  const { id } = await call(server.base, '/runs', { workflow: 'talk' })
  const { context, wrong } = await contextOf(browser, server.base)
  const page = await context.newPage()
  await page.goto(`${server.base}/r/${id}/log/a`)
  const lines = page.locator('.log-lines .line')
  await lines.filter({ hasText: 'first' }).waitFor()
  expect(await lines.filter({ hasText: 'second' }).count()).toBe(0)
  writeFileSync(`${gate}/one`, '')
  await lines.filter({ hasText: 'second' }).waitFor()
  // The loaded lines must not disappear, not even for a moment. This mark would disappear with them.
  await page.locator('.log-lines').evaluate((el) => el.setAttribute('data-kept', ''))
  writeFileSync(`${gate}/two`, '')
  await lines.filter({ hasText: 'third' }).waitFor()
  await page.getByText('the attempt is running').waitFor({ state: 'detached' })
  expect(await page.locator('.log-lines[data-kept]').count()).toBe(1)
  expect(await lines.count()).toBe(3)
  expect(wrong).toEqual([])
  rmSync(gate, { recursive: true })
  await context.close()
})

test('a node is cordoned, the cordon undone, then it is drained after a question that counts what runs', async () => {
  const { items } = (await (await ask(`${server.base}/api/v1/nodes`)).json()) as { items: object[] }
  const node: Record<string, unknown> = {
    ...items[0],
    name: 'n2',
    state: 'active',
    orders_refused: null,
    slots: { busy: 3, total: 4 },
    shards: { owned: 2 },
  }
  const asked: string[] = []
  const { context, page, wrong } = await faked(/\/nodes/, async (route) => {
    const verb = route.request().url().split('n2:')[1]
    if (verb) {
      asked.push(verb)
      node.state = verb === 'uncordon' ? 'active' : 'cordoned'
    }
    await route.fulfill(verb ? { status: 202 } : json({ items: [node], next: null }))
  })
  // The real answer is checked first: this node is alone, accepts no orders, and says so.
  expect((items[0] as { orders_refused: string }).orders_refused).toContain('this node is alone')
  await page.goto(`${server.base}/cluster`)
  const row = main(page).getByRole('row').filter({ hasText: 'n2' })
  await row.getByRole('button', { name: 'Cordon', exact: true }).click()
  await row.getByText('3 attempts and 2 shards left').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await row.getByRole('button', { name: 'Drain' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('3 attempts on n2 will finish').waitFor()
  // The question is in the address: it survives a reload, and Back closes it.
  await page.reload()
  await dialog.getByText('3 attempts on n2 will finish').waitFor()
  await page.goBack()
  await dialog.waitFor({ state: 'detached' })
  await page.goForward()
  await dialog.getByText('3 attempts on n2 will finish').waitFor()
  expect(asked).toEqual(['cordon', 'uncordon'])
  await dialog.getByRole('button', { name: 'Drain the node' }).click()
  await row.getByText('Cordoned').waitFor()
  node.state = 'drained'
  await again(page)
  await row.getByText('Drained').waitFor()
  await row.getByRole('button', { name: 'Uncordon' }).waitFor()
  expect(page.url()).not.toContain('ask=')
  node.orders_refused = 'this node is alone'
  await again(page)
  await main(page).getByText('in a cluster on PostgreSQL').waitFor()
  expect(await row.getByRole('button').count()).toBe(0)
  expect(asked).toEqual(['cordon', 'uncordon', 'drain'])
  expect(wrong).toEqual([])
  await context.close()
})

test('a browser without a network says so, keeps what it shows, and is right when it is back', async () => {
  const { context } = await contextOf(browser, server.base)
  const page = await open(context, `${server.base}/runs?workflow=hello`)
  const rows = page.getByRole('row').filter({ hasText: 'Succeeded' })
  const before = await rows.count()
  await context.setOffline(true)
  await again(page)
  await main(page).getByText('This is not up to date').waitFor()
  expect(await rows.count()).toBe(before)
  // The page also reads by itself when the network is back. Held answers keep the button until it is pressed.
  let answer = () => {}
  const held = new Promise<void>((go) => {
    answer = go
  })
  await page.route(apiCalls(/./), (route) => held.then(() => route.continue()))
  await context.setOffline(false)
  await main(page).getByRole('button', { name: 'Try again' }).first().click()
  answer()
  await main(page).getByText('This is not up to date').waitFor({ state: 'detached' })
  expect(await rows.count()).toBe(before)
  await context.close()
})

test('seven tabs of one browser load and stay live: they share one stream', async () => {
  const { context, wrong } = await contextOf(browser, server.base)
  const path = `${server.base}/runs?workflow=hello`
  const tabs: Page[] = []
  // The first page fills the caches of the browser.
  tabs.push(await open(context, path))
  tabs.push(...(await Promise.all(Array.from({ length: 6 }, () => open(context, path)))))
  const rows = (tab: Page) => tab.getByRole('row').filter({ hasText: 'Succeeded' }).count()
  const before = await rows(tabs[0] as Page)
  const { id } = await call(server.base, '/runs', { workflow: 'hello' })
  expect(await ended(server.base, id)).toBe('succeeded')
  for (const tab of tabs) await expect.poll(() => rows(tab)).toBe(before + 1)
  expect(wrong).toEqual([])
  await context.close()
})

test('a node that is killed leaves the page visibly stale, and a new one makes it right', async () => {
  const { context } = await contextOf(browser, server.base)
  const page = await open(context, `${server.base}/runs?workflow=hello`)
  const rows = page.getByRole('row').filter({ hasText: 'Succeeded' })
  const before = await rows.count()
  await server.kill()
  await page.locator('.fresh[data-state="polling"]').waitFor()
  await page.getByRole('status').getByText('The stream of changes is broken').waitFor()
  expect(await rows.count()).toBe(before)
  await server.start()
  await page.locator('.fresh[data-state="live"]').waitFor()
  const { id } = await call(server.base, '/runs', { workflow: 'hello' })
  expect(await ended(server.base, id)).toBe('succeeded')
  await expect.poll(() => rows.count()).toBe(before + 1)
  await idle(page)
  expect(await page.getByText('This is not up to date').count()).toBe(0)
  await context.close()
})
