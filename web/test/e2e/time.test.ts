// The calendar of schedules and the replay of a run, on the real program.
import type { Browser, BrowserContext } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apply, ask, call, contextOf, ended, idle, launch, open, type Server, serve } from './harness'

let server: Server
let browser: Browser
let context: BrowserContext
let wrong: string[]

beforeAll(async () => {
  server = await serve()
  browser = await launch()
  const opened = await contextOf(browser, server.base)
  context = opened.context
  wrong = opened.wrong
})

afterAll(async () => {
  await browser?.close()
  await server?.end()
})

test('calendar: a cell shows its fires, a range is selected by keys, and is backfilled', async () => {
  await apply(
    server.base,
    'ticks',
    'name: ticks\ntriggers: [{name: often, every: 1s}]\ntasks:\n  a: {run: "true"}\n',
  )
  const fires = async () =>
    ((await (await ask(`${server.base}/api/v1/fires?workflow=ticks`)).json()) as { items: unknown[] }).items
      .length
  await expect.poll(fires).toBeGreaterThan(1)
  const page = await open(context, `${server.base}/schedules/calendar?workflow=ticks`)
  const cell = page.getByRole('gridcell', { name: /\d fired/ }).first()
  await cell.click()
  await page.waitForURL(/from=/)
  const ledger = page.getByRole('list', { name: 'Ledger' })
  await ledger.getByText('Fired').first().waitFor()
  const first = new URL(page.url()).searchParams.get('from') ?? ''
  await page.keyboard.press(first.endsWith('T00') ? 'Shift+ArrowDown' : 'Shift+ArrowUp')
  await page.waitForURL(/to=/)
  await expect.poll(() => page.locator('[role=gridcell][aria-selected=true]').count()).toBe(2)
  await page.getByRole('link', { name: 'Backfill this range…' }).click()
  await page.waitForURL(/\/backfills\/new.*workflow=ticks.*trigger=often.*only=failed_or_missing/)
  await page.getByRole('button', { name: 'Count the instants' }).waitFor()
  expect(wrong).toEqual([])
  await page.close()
})

test('calendar: a range is selected by a drag', async () => {
  const page = await open(context, `${server.base}/schedules/calendar?day=2026-01-07`)
  const cells = page.getByRole('gridcell')
  const [a, b] = [await cells.nth(2).boundingBox(), await cells.nth(2 + 3 * 7).boundingBox()]
  await page.mouse.move((a?.x ?? 0) + 5, (a?.y ?? 0) + 5)
  await page.mouse.down()
  await page.mouse.move((b?.x ?? 0) + 5, (b?.y ?? 0) + 5, { steps: 6 })
  await page.mouse.up()
  await page.waitForURL(
    (url) =>
      url.searchParams.get('from') === '2026-01-07T00' && url.searchParams.get('to') === '2026-01-07T03',
  )
  await page.getByText('The ledger has no line in this range').waitFor()
  expect(await page.locator('[role=gridcell][aria-selected=true]').count()).toBe(4)
  expect(wrong).toEqual([])
  await page.close()
})

test('calendar: a range to come is paused by a drag, undone, and paused again by keys', async () => {
  const file = 'name: nights\ntriggers: [{name: night, cron: "0 1,2 * * *"}]\ntasks:\n  a: {run: "true"}\n'
  await apply(server.base, 'nights', file)
  const pauses = async () =>
    (
      (await (await ask(`${server.base}/api/v1/schedules/default/nights/night`)).json()) as {
        planned_pauses?: { from: string; until: string; reason: string | null }[]
      }
    ).planned_pauses ?? []
  const page = await open(context, `${server.base}/schedules/calendar?workflow=nights`)
  await page.getByRole('button', { name: 'Next week' }).click()
  await expect.poll(() => page.getByRole('gridcell', { name: /01:00: 1 to come/ }).count()).toBe(7)
  await idle(page)
  // Monday 00:00 to Monday 02:00: two instants.
  const cells = page.getByRole('gridcell')
  const [a, b] = [await cells.nth(0).boundingBox(), await cells.nth(2 * 7).boundingBox()]
  await page.mouse.move((a?.x ?? 0) + 5, (a?.y ?? 0) + 5)
  await page.mouse.down()
  await page.mouse.move((b?.x ?? 0) + 5, (b?.y ?? 0) + 5, { steps: 6 })
  await page.mouse.up()
  await page.getByRole('button', { name: 'Pause in this range…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('2 instants are skipped.').waitFor()
  await dialog.getByRole('textbox', { name: 'Reason' }).fill('holidays')
  await page.keyboard.press('Enter')
  await page.getByText('1 trigger will be paused.').waitFor()
  await expect.poll(() => page.getByRole('gridcell', { name: /01:00: 1 to come/ }).count()).toBe(6)
  expect(await page.getByRole('gridcell', { name: /1 trigger paused by plan/ }).count()).toBe(3)
  expect((await pauses())[0]?.reason).toBe('holidays')
  await page.getByRole('button', { name: 'Undo' }).click()
  await expect.poll(pauses).toEqual([])
  await expect.poll(() => page.getByRole('gridcell', { name: /01:00: 1 to come/ }).count()).toBe(7)
  // With keys alone, the selection of the drag is continued and widened by a day.
  await page.locator('[role=gridcell][tabindex="0"]').focus()
  await page.keyboard.press('Shift+ArrowRight')
  await expect.poll(() => page.locator('[role=gridcell][aria-selected=true]').count()).toBe(27)
  await page.getByRole('button', { name: 'Pause in this range…' }).focus()
  await page.keyboard.press('Enter')
  await dialog.getByText('4 instants are skipped.').waitFor()
  await page.keyboard.press('Enter')
  await expect.poll(async () => (await pauses()).length).toBe(1)
  await page.getByRole('button', { name: 'Remove the pause' }).focus()
  await page.keyboard.press('Enter')
  await expect.poll(pauses).toEqual([])
  expect(wrong).toEqual([])
  await page.close()
})

test('what-if: another rule shows what it adds, and nothing is applied', async () => {
  const file = 'name: daily\ntriggers: [{name: early, cron: "0 3 * * *"}]\ntasks:\n  a: {run: "true"}\n'
  await apply(server.base, 'daily', file)
  const page = await open(context, `${server.base}/schedules/calendar?workflow=daily&trigger=early`)
  await page.getByRole('button', { name: 'Next week' }).click()
  await expect.poll(() => page.getByRole('gridcell', { name: /03:00: 1 to come/ }).count()).toBe(7)
  await page.getByRole('textbox', { name: /^cron/ }).fill('0 3,4 * * *')
  await page.getByRole('button', { name: 'Show in the calendar' }).click()
  await page.getByText('7 → 14 fires in this span').waitFor()
  await expect
    .poll(() => page.getByRole('gridcell', { name: /04:00: 1 with the tried rule/ }).count())
    .toBe(7)
  await page.getByRole('textbox', { name: /^cron/ }).fill('0 3 * *')
  await page.getByRole('button', { name: 'Show in the calendar' }).click()
  await page.getByRole('alert').waitFor()
  const kept = (await (await ask(`${server.base}/api/v1/workflows/default/daily`)).json()) as {
    source: string
  }
  expect(kept.source).toBe(file)
  expect(wrong.splice(0).filter((text) => !text.includes('422'))).toEqual([])
  await page.close()
})

test('replay: the slider goes from change to change, and the graph has the states of that moment', async () => {
  await apply(
    server.base,
    'played',
    'name: played\ntasks:\n  a: {run: "true"}\n  b: {needs: a, run: "exit 3"}\n  c: {needs: b, run: "true"}\n',
  )
  const { id } = await call(server.base, '/runs', { workflow: 'played' })
  expect(await ended(server.base, id)).toBe('failed')
  const page = await open(context, `${server.base}/r/${id}?view=replay`)
  const list = page.getByRole('region', { name: 'Tasks of the graph' }).getByRole('button')
  const states = async () => (await list.allInnerTexts()).map((text) => text.replace(/\s+/, ' '))
  await expect.poll(states).toEqual(['a Succeeded', 'b Failed', 'c Upstream failed'])
  const slider = page.getByRole('slider', { name: 'Moment of the run' })
  await slider.focus()
  // The replay goes back change by change until b runs: from the end of the run, past the ends of b and c.
  while (!(await slider.getAttribute('aria-valuetext'))?.includes('running')) {
    const before = await slider.inputValue()
    await page.keyboard.press('ArrowLeft')
    await expect.poll(() => slider.inputValue()).not.toBe(before) // a second press would skip a change
  }
  await expect.poll(states).toEqual(['a Succeeded', 'b Running', 'c Pending'])
  expect(Number(new URL(page.url()).searchParams.get('at'))).toBeGreaterThanOrEqual(0)
  await page.keyboard.press('ArrowRight')
  await expect.poll(async () => (await states())[1]).toBe('b Failed')
  await slider.fill('0')
  await page.getByRole('button', { name: 'Play', exact: true }).click()
  await page.waitForURL((url) => !url.searchParams.has('at'))
  await expect.poll(states).toEqual(['a Succeeded', 'b Failed', 'c Upstream failed'])
  expect(wrong).toEqual([])
  await page.close()
})
