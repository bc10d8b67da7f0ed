// Six tasks of a person who is new, each from Home and with the page alone. It prints the presses, the typed characters
// and the seconds of each, for docs/internal/ui-review.md. The seconds are those of the page: a person reads in between.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as harness from '../e2e/harness'

let server: harness.Server
let browser: Browser
let context: BrowserContext
let wrong: string[]
const folder = mkdtempSync(join(tmpdir(), 'skein-stranger-'))
const mended = join(folder, 'orders.csv')
const gate = join(folder, 'gate')
const rows: string[] = []

const files: Record<string, string> = {
  night: `name: night\ntriggers: [{name: nightly, cron: "15 2 * * *"}]\ntasks:\n  extract: {run: "true"}\n  load: {needs: extract, run: 'test -e ${mended} || { echo "ERROR: ${mended} is missing" >&2; exit 2; }'}\n  publish: {needs: load, run: "true"}\n`,
  holder: `name: holder\nqueue: warehouse\ntasks: {a: {run: "until [ -e ${gate} ]; do sleep 0.2; done"}}\n`,
  waiter: 'name: waiter\nqueue: warehouse\ntasks: {a: {run: "true"}}\n',
  daily: 'name: daily\ntriggers: [{name: early, cron: "0 3 * * *"}]\ntasks: {a: {run: "true"}}\n',
  huge: 'name: huge\ntasks: {a: {run: "seq 1 700000; echo payment 8812 was refused; seq 700002 1500000"}}\n',
  release:
    'name: release\ntasks:\n  ok: {approval: {message: "Release 4.2?"}}\n  ship: {needs: ok, run: "true"}\n',
}

beforeAll(async () => {
  server = await harness.serve()
  browser = await harness.launch()
  const opened = await harness.contextOf(browser, server.base)
  context = opened.context
  wrong = opened.wrong
  for (const [name, text] of Object.entries(files)) await harness.apply(server.base, name, text)
  await harness.ask(`${server.base}/api/v1/queues/warehouse`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: '{"limit":1}',
  })
  const start = async (workflow: string) => (await harness.call(server.base, '/runs', { workflow })).id
  const [night, huge] = [await start('night'), await start('huge')]
  await start('holder')
  await start('waiter')
  await start('release')
  expect(await harness.ended(server.base, night)).toBe('failed')
  expect(await harness.ended(server.base, huge)).toBe('succeeded')
}, 300_000)

afterAll(async () => {
  writeFileSync(gate, '')
  await browser?.close()
  await server?.end()
  rmSync(folder, { recursive: true, force: true })
  console.log(`| task | presses | typed | seconds |\n|---|---:|---:|---:|\n${rows.join('\n')}`)
}, 300_000)

/** Plays a person with a pointer and a keyboard, who begins at Home. */
class Person {
  presses = 0
  typed = 0
  constructor(readonly page: Page) {}
  async press(what: Locator) {
    this.presses++
    await what.click()
  }
  async write(where: Locator, text: string) {
    this.presses++
    this.typed += text.length
    await where.fill(text)
  }
  async key(name: string) {
    this.typed++
    await this.page.keyboard.press(name)
  }
}

async function task(name: string, does: (p: Person) => Promise<unknown>) {
  const person = new Person(await harness.open(context, `${server.base}/`))
  const began = performance.now()
  await does(person)
  const seconds = (performance.now() - began) / 1000
  rows.push(`| ${name} | ${person.presses} | ${person.typed} | ${seconds.toFixed(1)} |`)
  expect(wrong.splice(0)).toEqual([])
  await person.page.close()
}

test('find why the night failed, and put it right', () =>
  task('find why the night failed, and put it right', async (p) => {
    const alarm = p.page.locator('.alarms li', { hasText: 'night' })
    await alarm.getByText('is missing').waitFor() // the cause is on Home
    writeFileSync(mended, '')
    await p.press(alarm.getByRole('link', { name: 'Open' }))
    await p.press(p.page.getByRole('button', { name: 'Recover', exact: true }))
    const plan = p.page.getByRole('dialog')
    await plan.getByText('will be done again').waitFor()
    await p.press(plan.getByRole('button', { name: 'Recover' }))
    await p.page.getByText('3 succeeded').waitFor()
  }))

test('find why a run waits, and for whom', () =>
  task('find why a run waits, and who holds it', async (p) => {
    const alarm = p.page.locator('.alarms li', { hasText: 'waiter' })
    await alarm
      .getByText(/warehouse/)
      .first()
      .waitFor()
    await p.press(alarm.getByRole('link', { name: 'Open' }))
    await p.press(p.page.locator('.reasons').getByRole('link').first())
    await p.page.getByRole('heading', { level: 1 }).getByText('holder').waitFor()
  }))

test('fill the gap of last week', () =>
  task('fill the gap of last week', async (p) => {
    await p.press(p.page.getByRole('link', { name: 'Workflows', exact: true }))
    await p.press(p.page.getByRole('main').getByRole('link', { name: 'daily', exact: true }))
    await p.press(p.page.getByRole('link', { name: 'Triggers', exact: true }))
    await p.press(p.page.getByRole('main').getByRole('link', { name: 'early' }))
    await p.press(p.page.getByRole('link', { name: 'Backfill…' }))
    await p.press(p.page.getByRole('button', { name: 'Last week' }))
    await p.press(p.page.getByRole('button', { name: 'Count the instants' }))
    await p.press(p.page.getByRole('button', { name: 'Start 7 runs' }))
    await p.page
      .getByRole('heading', { level: 1, name: /Backfill/ })
      .getByText('Done')
      .waitFor()
  }))

test('change a schedule without a surprise', () =>
  task('change a schedule without a surprise', async (p) => {
    await p.press(p.page.getByRole('link', { name: 'Workflows', exact: true }))
    await p.press(p.page.getByRole('main').getByRole('link', { name: 'daily', exact: true }))
    await p.press(p.page.getByRole('link', { name: 'Edit', exact: true }))
    const text = p.page.getByRole('textbox', { name: /^Source of/ })
    await text.getByText('0 3 * * *').waitFor()
    await p.press(text.getByText('0 3 * * *'))
    await p.key('Home')
    for (let i = 0; i < 33; i++) await p.page.keyboard.press('ArrowRight')
    await p.key('ArrowRight')
    await p.key('Delete')
    await p.key('4')
    await p.press(p.page.getByRole('button', { name: 'Apply…' }))
    const dialog = p.page.getByRole('dialog')
    await dialog.getByText(/early/).first().waitFor()
    await p.press(dialog.getByRole('button', { name: 'Apply', exact: true }))
    await p.page.getByText('Version 2 of daily is applied').waitFor()
  }))

test('find a line in a huge log', () =>
  task('find a line in a log of 1,500,000 lines', async (p) => {
    await p.press(p.page.getByRole('link', { name: 'Workflows', exact: true }))
    await p.press(p.page.getByRole('main').getByRole('link', { name: 'huge', exact: true }))
    await p.press(p.page.getByRole('main').getByRole('table').getByRole('link').first())
    await p.press(p.page.getByRole('main').getByRole('link', { name: 'a', exact: true }).first())
    await p.write(p.page.getByLabel('Search in the log'), 'payment')
    await p.page.getByText(/1 hit/).waitFor()
    await p.press(p.page.getByRole('button', { name: '700,001' }))
    await p.page.locator('.line[data-marked]').getByText('payment 8812 was refused').waitFor()
  }))

test('approve', () =>
  task('approve', async (p) => {
    await p.press(p.page.getByRole('link', { name: /approval/i }).first())
    const item = p.page.getByRole('listitem').filter({ hasText: 'Release 4.2?' })
    await p.press(item.getByRole('button', { name: 'Approve' }))
    await p.page.getByText('Nothing waits for an answer').waitFor()
  }))
