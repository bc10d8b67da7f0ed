// Flows on the real program with a fresh data folder.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as harness from './harness'
import { ended } from './harness'

let server: harness.Server
let base: string
let browser: Browser
let wrong: string[] = []

beforeAll(async () => {
  server = await harness.serve()
  base = server.base
  browser = await harness.launch()
})

afterAll(async () => {
  await browser?.close()
  await server?.end()
})

let shared: ReturnType<typeof harness.contextOf> | undefined

/** The context of all flows: its session and its caches make the pages after the first one cheap. */
async function context(): Promise<BrowserContext> {
  shared ??= harness.contextOf(browser, base)
  const opened = await shared
  wrong = opened.wrong
  for (const page of opened.context.pages()) await page.close() // the pages of the previous flow
  return opened.context
}

const open = (c: BrowserContext, path: string): Promise<Page> => harness.open(c, base + path)
const call = (path: string, body: object) => harness.call(base, path, body)
const apply = (name: string, text: string) => harness.apply(base, name, text)

async function failedRun(): Promise<string> {
  const { id } = await call('/runs', { workflow: 'job-center', params: { fail: 't4' } })
  expect(await ended(base, id)).toBe('failed')
  return id
}

test('the first five minutes: find a workflow, start it, see it succeed live, read its log', async () => {
  const c = await context()
  const page = await open(c, '/')
  await harness.palette(page, 'start hello', /^Start hello/)
  await page.getByRole('button', { name: 'Start the run' }).click()
  await page.waitForURL(/\/r\//)
  await page.locator('.facts-line').getByText('Succeeded').waitFor()
  await page.getByRole('table').getByRole('link').first().click()
  await page.locator('.log-lines .line').first().waitFor()
  expect(wrong.splice(0)).toEqual([])
})

test('a failure: Home names it, its page opens on the task that failed, recover asks first', async () => {
  const id = await failedRun()
  const c = await context()
  const page = await open(c, '/')
  await page.locator('.alarms li', { hasText: 'job-center' }).getByRole('link', { name: 'Open' }).click()
  await page.waitForURL(new RegExp(`/r/${id}.*task=t4`))
  await page.locator('.log-lines', { hasText: 'failing, because' }).waitFor()
  const pane = page.getByRole('complementary', { name: 'Task t4' })
  await pane.getByRole('link', { name: 'Input' }).click()
  await page.waitForURL(/tab=input/)
  await pane.getByRole('heading', { name: 'Command' }).waitFor()
  await pane.getByText('FAIL', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Recover', exact: true }).click()
  const plan = page.getByRole('dialog').getByRole('list', { name: 'Tasks that are done again' })
  expect(await plan.getByRole('listitem').first().innerText()).toBe('t4\nFailed')
  // The dialog is in the address: a reload keeps it.
  await page.reload()
  await page.getByRole('dialog').getByText('will be done again').waitFor()
  await page.getByRole('dialog').getByRole('button', { name: 'Recover' }).click()
  await page.getByText('generation 2').waitFor()
  expect(wrong.splice(0)).toEqual([])
})

test('a graph: find the failed task, walk along the edges by keys, open it in the list', async () => {
  const id = await failedRun()
  const c = await context()
  const page = await open(c, `/r/${id}?view=graph`)
  await page.getByRole('complementary', { name: 'Task t4' }).waitFor()
  await page.getByRole('button', { name: 'Close the task' }).click()
  const graph = page.getByRole('application', { name: /Graph of \d+ tasks/ })
  await page.getByRole('searchbox', { name: 'Find tasks' }).fill('state:failed')
  await page.getByRole('status').getByText('1 found').waitFor()
  await expect
    .poll(() => page.getByRole('region', { name: 'Tasks of the graph' }).getByRole('button').allInnerTexts())
    .toEqual(['t4\nFailed'])
  await page.getByRole('region', { name: 'Tasks of the graph' }).getByRole('button').click()
  await page.waitForURL(/task=t4/)
  await graph.focus()
  await page.keyboard.press('ArrowLeft')
  await page.waitForURL((url) => url.searchParams.get('task') !== 't4' && url.searchParams.has('task'))
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('+')
  expect(await graph.getAttribute('data-level')).toBe('boxes')
  expect(wrong.splice(0)).toEqual([])
})

test('the grid leads from a failed cell to its run, whose timeline shows the critical path', async () => {
  const id = await failedRun()
  const c = await context()
  const page = await open(c, '/w/default/job-center?tab=grid&sort=failed')
  const grid = page.getByRole('grid', { name: 'Tasks of job-center by run' })
  await grid.getByRole('gridcell', { name: 'Failed', exact: true }).last().click()
  await page.waitForURL(new RegExp(`task=t4&.*run=${id}`))
  await grid.press('ArrowDown')
  await page.waitForURL((url) => url.searchParams.get('task') !== 't4' && url.searchParams.get('run') === id)
  await grid.press('ArrowUp')
  await page
    .getByRole('complementary', { name: 'Task t4' })
    .getByRole('link', { name: 'Open in its run' })
    .click()
  await page.waitForURL(new RegExp(`/r/${id}`))
  await page.getByRole('link', { name: 'Timeline' }).click()
  const rows = page.getByRole('region', { name: /Tasks by the time/ }).getByRole('button')
  await rows.filter({ hasText: 't4' }).waitFor()
  const all = await rows.count()
  await page.getByRole('button', { name: 'Critical path' }).click()
  await page.getByText('decided how long the run took').waitFor()
  await expect.poll(() => rows.count()).toBeLessThan(all)
  expect(wrong.splice(0)).toEqual([])
})

test('an approval is answered in the inbox', async () => {
  await apply('ask', 'name: ask\ntasks:\n  ok: {approval: {}}\n  go: {needs: ok, run: "true"}\n')
  const { id } = await call('/runs', { workflow: 'ask' })
  const c = await context()
  const page = await open(c, '/approvals')
  const item = page.getByRole('listitem').filter({ hasText: 'ask' }).filter({ hasText: 'ok' })
  await item.getByRole('textbox', { name: 'Comment' }).fill('looks right')
  await item.getByRole('button', { name: 'Approve' }).click()
  await page.getByText('Nothing waits for an answer').waitFor()
  expect(await ended(base, id)).toBe('succeeded')
  expect(wrong.splice(0)).toEqual([])
})

test('the form of an approval is filled in, with each fault at its field', async () => {
  await apply(
    'refund',
    `name: refund
tasks:
  check:
    approval:
      message: Refund this order?
      form:
        amount: {type: number, min: 0, max: 500}
        way: {type: enum, options: [cash, card], default: card}
        code: {pattern: "[A-Z]{3}"}
        note: {type: text, required: false}
        day: date
  go: {needs: check, if: "tasks.check.outputs.amount > 10.0 && tasks.check.outputs.way == 'cash'", run: "true"}
`,
  )
  const { id } = await call('/runs', { workflow: 'refund' })
  const c = await context()
  const page = await open(c, '/approvals')
  const item = page.getByRole('listitem').filter({ hasText: 'refund' }).filter({ hasText: 'check' })
  const form = item.getByRole('group', { name: 'Form of check' })
  await item.getByRole('button', { name: 'Approve' }).click()
  await expect.poll(() => form.getByRole('alert').count()).toBe(3)
  await form.getByRole('textbox', { name: 'amount' }).fill('-1')
  await form.getByRole('textbox', { name: 'code' }).fill('abc')
  await form.getByLabel('day').fill('2026-11-27')
  await form.getByRole('radio', { name: 'cash' }).check()
  wrong.length = 0
  await item.getByRole('button', { name: 'Approve' }).click()
  await form.getByRole('alert').getByText('must be at least 0').waitFor()
  await form.getByRole('alert').getByText('must match').waitFor()
  wrong.length = 0 // the browser has reported the refused call
  await form.getByRole('textbox', { name: 'amount' }).fill('25')
  await form.getByRole('textbox', { name: 'code' }).fill('ABC')
  await item.getByRole('button', { name: 'Approve' }).click()
  await page.getByText('Nothing waits for an answer').waitFor()
  expect(await ended(base, id)).toBe('succeeded')
  const task = await harness.ask(`${base}/api/v1/runs/${id}/tasks/check`)
  expect(await task.json()).toMatchObject({
    outputs: { amount: 25, way: 'cash', code: 'ABC', note: null, day: '2026-11-27' },
  })
  expect(wrong.splice(0)).toEqual([])
})

test('a backfill is counted before it is started', async () => {
  await apply(
    'past',
    'name: past\ntriggers:\n  - name: daily\n    cron: "0 3 * * *"\ntasks:\n  a: {run: "true"}\n',
  )
  const c = await context()
  const page = await open(
    c,
    '/backfills/new?workflow=past&trigger=daily&from=2026-01-01T00:00&to=2026-01-03T23:00',
  )
  await page.getByRole('button', { name: 'Count the instants' }).click()
  await page.getByRole('status').getByText('3 instants').waitFor()
  await page.getByRole('spinbutton', { name: 'Runs at a time' }).fill('2')
  await page.getByRole('button', { name: 'Count the instants' }).click()
  await page.getByRole('button', { name: 'Start 3 runs' }).click()
  await page
    .getByRole('heading', { level: 1, name: /Backfill \d+/ })
    .getByText('Done')
    .waitFor()
  await expect.poll(() => page.getByRole('table').getByText('Succeeded').count()).toBe(3)
  expect(wrong.splice(0)).toEqual([])
})

test('a pause can be undone', async () => {
  const c = await context()
  const page = await open(c, '/w/default/hello')
  await page.getByRole('button', { name: 'Pause', exact: true }).click()
  await page.getByRole('heading', { level: 1 }).getByText('Paused').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByRole('heading', { level: 1 }).getByText('Active').waitFor()
  expect(wrong.splice(0)).toEqual([])
})

test('a queue is paused, a run waits for it with the reason, and the pause is undone', async () => {
  await apply('queued', 'name: queued\nqueue: etl\nlocks: [orders]\ntasks:\n  a: {run: "true"}\n')
  const made = await harness.ask(`${base}/api/v1/queues/etl`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ limit: 1 }),
  })
  expect(made.status, await made.text()).toBeLessThan(300)
  const c = await context()
  const page = await open(c, '/queues')
  const row = page.getByRole('row').filter({ hasText: 'etl' })
  await row.getByRole('button', { name: 'Pause' }).click()
  await row.getByText('Paused').waitFor()
  const { id } = await call('/runs', { workflow: 'queued' })
  const run = await open(c, `/r/${id}`)
  await run.locator('.facts-line').getByText('Waiting').waitFor()
  await run.locator('.strip').getByText('etl').first().waitFor()
  await page.bringToFront()
  await page.getByRole('button', { name: 'Undo' }).click()
  await row.getByText('Active').waitFor()
  expect(await ended(base, id)).toBe('succeeded')
  await run.locator('.facts-line').getByText('Succeeded').waitFor()
  const plan = await harness.ask(`${base}/api/v1/runs/${id}/recovery?from=a`)
  expect(await plan.json()).toMatchObject({ refused: null, again: 1, queue: 'etl', locks: ['orders'] })
  expect(wrong.splice(0)).toEqual([])
})

test('a line in the middle of a long log is found by the server, shown in its place, and its link opens there', async () => {
  await apply(
    'long-log',
    'name: long-log\ntasks:\n  a: {run: "seq 1 200000; echo the Needle is here; seq 200002 500000; echo ERROR of line 500001; seq 500002 600000"}\n',
  )
  const { id } = await call('/runs', { workflow: 'long-log' })
  expect(await ended(base, id)).toBe('succeeded')
  const c = await context()
  const page = await open(c, `/r/${id}/log/a`)
  await page.getByLabel('Search in the log').fill('needle')
  await page.getByText(/^1 hit in .*, 600,000 lines/).waitFor()
  await page.getByRole('button', { name: '200,001' }).click()
  const line = page.locator('.line[data-marked]')
  await line.getByText('the Needle is here').waitFor()
  await line.getByRole('button', { name: '200001' }).waitFor()
  await page.waitForURL(/l=200001/)
  const other = await open(c, `/r/${id}/log/a?l=200001`)
  await other.locator('.line[data-marked]').getByText('the Needle is here').waitFor()
  await other.getByRole('button', { name: 'To the end' }).click()
  await other.locator('.log-lines').getByRole('button', { name: '600000' }).waitFor()
  await other.getByText('600,000 lines in all, 1 error, 0 warnings').waitFor()
  await other.getByLabel('Go to a line or a time').fill('300000')
  await other.keyboard.press('Enter')
  await other.locator('.line[data-marked]').getByRole('button', { name: '300000' }).waitFor()
  await other.getByRole('button', { name: 'First error' }).click()
  await other.locator('.line').getByText('ERROR of line 500001').waitFor()
  const errors = await open(c, `/r/${id}/log/a?lv=error`)
  await errors.getByText(/^1 hit in .*, 600,000 lines/).waitFor()
  await errors.getByRole('button', { name: '500,001' }).waitFor()
  const expression = await open(c, `/r/${id}/log/a?q=${encodeURIComponent('^the N.*here$')}&re=1`)
  await expression.getByRole('button', { name: '200,001' }).waitFor()
  await expression.locator('mark').getByText('the Needle is here').waitFor()
  await expression.getByLabel('Where to search').selectOption('1')
  await expression.locator('.line', { hasText: 'a  the Needle is here' }).getByRole('button').click()
  await expression.locator('.line[data-marked]').getByText('the Needle is here').waitFor()
  // Another filter has other hits than the previous filter.
  await errors.getByRole('button', { name: '500,001' }).click()
  await errors.getByText('Hit 1 of 1').waitFor()
  await errors.getByLabel('Lines').selectOption('warning')
  await errors.getByRole('button', { name: '500,001' }).waitFor()
  expect(wrong.splice(0)).toEqual([])
  // The message about an invalid line disappears when the next line is typed.
  await other.getByLabel('Go to a line or a time').fill('700000')
  await other.keyboard.press('Enter')
  await other.getByText('the log has no line').waitFor()
  await other.getByLabel('Go to a line or a time').fill('7')
  await other.keyboard.press('Enter')
  await other.locator('.line[data-marked]').getByRole('button', { name: '7', exact: true }).waitFor()
  await other.getByText('the log has no line').waitFor({ state: 'detached' })
  expect(wrong.splice(0)).toEqual([expect.stringContaining('404')])
})

test('runs and workflows are filtered by their tags, and the filter is in the address', async () => {
  await apply('tagged', 'name: tagged\ntags: {team: data}\ntasks: {a: {run: "true"}}\n')
  const { id } = await call('/runs', { workflow: 'tagged', tags: { order: '17' } })
  const other = await call('/runs', { workflow: 'tagged', tags: { order: '18' } })
  expect([await ended(base, id), await ended(base, other.id)]).toEqual(['succeeded', 'succeeded'])
  const page = await open(await context(), '/workflows?tag=team=data')
  const rows = page.locator('tbody tr')
  await rows.getByRole('link', { name: 'tagged' }).first().waitFor()
  expect(await page.getByRole('link', { name: 'heartbeat' }).count()).toBe(0)
  await page.goto(`${base}/runs?workflow=tagged`)
  await expect.poll(() => rows.count()).toBe(2)
  // The tag of a row leads to the runs that have it.
  await page.getByRole('link', { name: 'order=17' }).click()
  await page.waitForURL(/tag=order/)
  await expect.poll(() => rows.count()).toBe(1)
  expect(await rows.getByRole('link', { name: id.replaceAll('-', '').slice(-8) }).count()).toBe(1)
  await page.reload()
  await expect.poll(() => rows.count()).toBe(1)
  await page.getByRole('searchbox', { name: 'Tag, as team=data' }).fill('order=18')
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: other.id.replaceAll('-', '').slice(-8) }).waitFor()
  expect(wrong.splice(0)).toEqual([])
})

test('the page of a node draws the load of its last hour', async () => {
  const page = await open(await context(), '/n/n1')
  await page.getByText('Transactions per second').waitFor()
  await expect.poll(() => page.locator('.node-load path[d^="M"]').count()).toBe(6)
  expect(wrong.splice(0)).toEqual([])
})

test('a queue that tasks fill is on Home; its page says who holds it, and a higher limit lets the next one run', async () => {
  const gate = join(server.data, 'gate')
  const asked = { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body: '{"limit":1}' }
  expect((await harness.ask(`${base}/api/v1/queues/gpu`, asked)).status).toBeLessThan(300)
  const hold = `until [ -e ${gate} ]; do sleep 0.1; done`
  await apply('held', `name: held\ntasks:\n  train: {queue: gpu, run: "${hold}"}\n`)
  const runs = [await call('/runs', { workflow: 'held' }), await call('/runs', { workflow: 'held' })]
  const c = await context()
  const page = await open(c, '/')
  const alarm = page.locator('.alarms li', { hasText: '1 task waits for this queue: 1 of 1 place held' })
  await alarm.getByRole('link', { name: 'Who holds it' }).click()
  await page.waitForURL(/\/q\/gpu$/)
  const rows = page.getByRole('table').getByRole('row')
  await expect.poll(() => rows.count()).toBe(3)
  await page.getByRole('button', { name: 'Change…' }).click()
  await page.waitForURL(/ask=set/)
  await page.getByLabel('Limit').fill('2')
  await page.keyboard.press('Enter')
  await page.getByText('2 of 2').waitFor()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.waitForURL((url) => !url.searchParams.has('ask'))
  writeFileSync(gate, '')
  for (const { id } of runs) expect(await ended(base, id)).toBe('succeeded')
  await page.getByText('No task holds a place').waitFor()
  expect(wrong.splice(0)).toEqual([])
})

test('the start form: each type has its field, the address fills it, faults are at the field', async () => {
  await apply(
    'typed-start',
    'name: typed-start\nparams:\n  day: {type: string, format: date}\n  n: {type: int, default: 3}\n  mode: {type: string, enum: [fast, safe], default: safe}\n  rest: {type: json}\n  dry: {type: bool, default: false}\ntasks:\n  a: {run: "true"}\n',
  )
  const c = await context()
  const page = await open(c, '/w/default/typed-start/start?p.n=x&p.day=2026-11-02')
  await page.getByRole('alert').getByText('not a number of the type int').waitFor()
  await page.getByRole('button', { name: 'Start the run' }).click()
  expect(page.url()).toContain('/start')
  await page.getByRole('textbox', { name: /^n\b/ }).fill('7')
  await page.getByRole('radio', { name: 'fast' }).check()
  await page.getByRole('radio', { name: 'true' }).check()
  await page.getByRole('textbox', { name: /^rest/ }).fill('{"a": [1]}')
  await page.waitForURL((url) => url.searchParams.get('p.rest') === '{"a": [1]}')
  await page.getByText(`skein run typed-start -p day=2026-11-02 -p n=7 -p mode=fast`).waitFor()
  await page.getByRole('button', { name: 'Start the run' }).click()
  await page.waitForURL(/\/r\//)
  const id = page.url().split('/r/')[1]?.split('?')[0] ?? ''
  const run = (await (await harness.ask(`${base}/api/v1/runs/${id}`)).json()) as { params: unknown }
  expect(run.params).toEqual({ day: '2026-11-02', n: 7, mode: 'fast', rest: { a: [1] }, dry: true })
  await page.goto(`${base}/w/default/typed-start/start`)
  await page.getByRole('button', { name: 'Values of the last run' }).click()
  await page.waitForURL(
    (url) => url.searchParams.get('p.n') === '7' && url.searchParams.get('p.mode') === 'fast',
  )
  expect(wrong.splice(0)).toEqual([])
})

test('a failed run is compared with the last good one: parameters, tasks, and the file', async () => {
  const file = (mode: string) =>
    `name: compared\nparams:\n  code: {type: int, default: 0}\ntasks:\n  a: {run: "true"}\n  b: {needs: a, run: 'exit $CODE', env: {CODE: "\${{ params.code }}", MODE: ${mode}}}\n`
  await apply('compared', file('one'))
  const good = await call('/runs', { workflow: 'compared' })
  expect(await ended(base, good.id)).toBe('succeeded')
  await apply('compared', file('two'))
  const bad = await call('/runs', { workflow: 'compared', params: { code: 3 } })
  expect(await ended(base, bad.id)).toBe('failed')
  const c = await context()
  const page = await open(c, `/r/${bad.id}`)
  await page.getByRole('button', { name: 'More verbs' }).click()
  await page.getByRole('menuitem', { name: 'Compare with the last good run' }).click()
  await page.waitForURL(new RegExp(`/compare\\?a=${good.id}&b=${bad.id}`))
  const params = page.getByRole('row').filter({ hasText: 'code' })
  await expect.poll(() => params.getByRole('cell').allInnerTexts()).toEqual(['code', '0', '3'])
  const first = page.getByRole('table').last().getByRole('row').nth(1)
  await first.getByText('Failed').waitFor()
  expect(await first.getByRole('cell').first().innerText()).toBe('b')
  await page.getByRole('heading', { name: 'Workflow file, version 1 to 2' }).waitFor()
  await page.locator('.text-diff').getByText('MODE: two').waitFor()
  // The graphs of the versions are compared, and the graph of the run with a version.
  await page.goto(`${base}/w/default/compared?tab=versions`)
  await page.getByRole('link', { name: 'changes since v1' }).click()
  await page.getByRole('button', { name: '1 changed' }).click()
  await page.getByRole('status').getByText('1 found').waitFor()
  await page.goto(`${base}/r/${bad.id}?view=graph&against=1&task=a`)
  await page.getByRole('application', { name: /Graph of 2 tasks/ }).waitFor()
  await page.getByRole('button', { name: '1 changed' }).waitFor()
  await page.getByRole('combobox', { name: 'Compare with a version' }).selectOption('v2 alone')
  await page.getByRole('button', { name: '1 changed' }).waitFor({ state: 'detached' })
  // A chain is folded into one box, which opens.
  await apply(
    'folded',
    'name: folded\ntasks:\n  a: {run: "true"}\n  b: {needs: a, run: "true"}\n  c: {needs: b, run: "true"}\n  d: {needs: c, run: "true"}\n',
  )
  await page.goto(`${base}/w/default/folded?tab=graph`)
  await page.getByRole('button', { name: 'Fold', exact: true }).click()
  const list = page.getByRole('region', { name: 'Tasks of the graph' })
  await list.getByRole('button', { name: 'a → … → d' }).click()
  await page.waitForURL(/open=chain:a/)
  await expect.poll(() => list.getByRole('button').count()).toBe(4)
  expect(wrong.splice(0)).toEqual([])
})

test('an alert: its channel is made and tested, Home shows it, it is acknowledged, and a success resolves it', async () => {
  const c = await context()
  const page = await open(c, '/admin/channels')
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'New channel' }).click()
  await dialog.getByLabel('Namespace').fill('default')
  await dialog.getByRole('textbox', { name: /^Name\b/ }).fill('ops')
  await dialog.getByLabel('Kind').selectOption('log')
  await dialog.getByRole('button', { name: 'Make the channel' }).click()
  const channel = page.getByRole('row').filter({ hasText: 'ops' })
  await channel.getByRole('button', { name: 'Send a test' }).click()
  await channel.getByText('Sent', { exact: true }).waitFor()
  await apply(
    'watched',
    `name: watched\nparams: {ok: {type: bool, default: true}}\nalerts: [{on: failed, to: [ops, nowhere], message: Ask Ann, escalate: {after: 2h, to: lead}}, {name: begun, deadline: {after: 1h}, to: ops}]\ntasks:\n  a: {run: "[ $OK = true ]", env: {OK: "\${{ params.ok }}"}}\n`,
  )
  const bad = await call('/runs', { workflow: 'watched', params: { ok: false } })
  expect(await ended(base, bad.id)).toBe('failed')
  await page.goto(`${base}/`)
  const alarm = page.locator('.alarms li', { hasText: 'watched' })
  await alarm.getByRole('link', { name: 'Alert open' }).click()
  await page.waitForURL(/\/alerts\/[0-9a-f-]{36}$/)
  await page.getByText('Ask Ann').waitFor()
  const told = (channel: string) => page.getByRole('row').filter({ hasText: channel })
  await told('nowhere').getByText('Pending').waitFor()
  await told('ops').getByText('Sent').waitFor()
  await told('lead').getByText('To come').waitFor()
  // A silence about the rule of the alert is made, found in the list, and ended.
  await page.getByRole('button', { name: 'Silence…' }).click()
  await page.waitForURL(/ask=silence/)
  await page.reload()
  await dialog.getByLabel('Reason').fill('the warehouse moves')
  await page.keyboard.press('Enter')
  await page.getByText(/^Silence about watched, rule failed until/).waitFor()
  const alertPage = page.url()
  await page.goto(`${base}/silences`)
  const silence = page.getByRole('row').filter({ hasText: 'the warehouse moves' })
  await silence.getByRole('button', { name: 'End…' }).click()
  await dialog.getByRole('button', { name: 'End the silence' }).click()
  await page.getByText('No silence is active').waitFor()
  await page.goto(`${base}/r/${bad.id}?view=about`)
  await page.getByRole('row').filter({ hasText: 'begun' }).getByText('Due').waitFor()
  await page.goto(`${base}/w/default/watched?tab=alerts`)
  await page.getByText('late unless it has succeeded within 1 h of its instant').waitFor()
  await page.goto(alertPage)
  await page.getByRole('button', { name: 'Acknowledge…' }).click()
  await dialog.getByLabel('Reason').fill('on it')
  await page.keyboard.press('Enter')
  await page.locator('.facts-line').getByText('Acknowledged').waitFor()
  await page.locator('.facts').getByText('on it').waitFor()
  await page.getByRole('link', { name: 'Alert', exact: true }).click()
  await page.getByRole('button', { name: 'Acknowledged' }).click()
  await page.waitForURL(/state=acknowledged/)
  const row = page.getByRole('row').filter({ hasText: 'watched' })
  await row.waitFor()
  await page.getByRole('button', { name: 'Views' }).click()
  await page.getByRole('menuitem', { name: 'Save this view…' }).click()
  await dialog.getByLabel('Name').fill('taken care of')
  await page.keyboard.press('Enter')
  await page.getByText('The view taken care of is saved').waitFor()
  // A run is found by a part of its id, and the view by its name.
  await page.keyboard.press('Control+k')
  await page.locator('.palette input:focus').waitFor()
  await page.keyboard.type(bad.id.slice(0, 18))
  await page.getByRole('option', { name: /^Search for/ }).click()
  await page.waitForURL(/\/search\?q=/)
  await page.locator('main').getByRole('link', { name: 'watched' }).waitFor()
  await harness.palette(page, 'taken', /^taken care of/)
  await page.waitForURL(/\/alerts\?state=acknowledged/)
  await row.waitFor()
  const good = await call('/runs', { workflow: 'watched' })
  expect(await ended(base, good.id)).toBe('succeeded')
  await page.getByText('No alert fits the filter').waitFor()
  await page.getByRole('button', { name: 'Resolved' }).click()
  await row.getByText('by a success').waitFor()
  expect(wrong.splice(0)).toEqual([])
})
