// Other systems on the page: connections, sources that are away and their positions, work that an attempt has left
// outside of its process, and the kinds of the cluster.
import { createServer, type Server as Web } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser, BrowserContext } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Repository, repository } from './gitserver'
import { apply, ask, call, contextOf, launch, open, type Server, serve } from './harness'

let server: Server
let browser: Browser
let context: BrowserContext
let wrong: string[]
let other: Web
let repo: Repository
let address = ''
/** The answer of the other system. */
let answers = true

beforeAll(async () => {
  other = createServer((_, answer) => {
    answer.writeHead(answers ? 200 : 503, { 'Content-Type': 'application/json' })
    answer.end(JSON.stringify([{ id: 1 }]))
  })
  await new Promise<void>((up) => other.listen(0, '127.0.0.1', up))
  address = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
  repo = await repository('pass-word-1')
  server = await serve()
  browser = await launch()
  const opened = await contextOf(browser, server.base)
  context = opened.context
  wrong = opened.wrong
})

afterAll(async () => {
  await browser?.close()
  await server?.end()
  other?.close()
  repo?.end()
})

test('a connection is made, tested, changed and deleted', async () => {
  const page = await open(context, `${server.base}/admin/connections`)
  await page.getByText('There is no connection yet').waitFor()
  await page.getByRole('button', { name: 'New connection' }).click()
  const form = page.getByRole('dialog')
  await form.getByPlaceholder('default').fill('default')
  await form.getByPlaceholder('warehouse').fill('crm')
  await form.getByLabel(/^Address/).fill('crm')
  await form.getByRole('button', { name: 'Make the connection' }).click()
  await form.getByText('"crm" is not an http or https address').waitFor()
  expect(await form.getByLabel(/^Address/).getAttribute('aria-invalid')).toBe('true')
  expect(wrong.splice(0)).toEqual([expect.stringContaining('422')]) // the browser notes the refusal
  await form.getByLabel(/^Address/).fill(address)
  expect(await form.getByText('is not an http or https address').count()).toBe(0)
  await form.getByRole('button', { name: 'Make the connection' }).click()
  const row = page.getByRole('row').filter({ hasText: 'crm' })
  await row.getByText(address).waitFor()
  await row.getByRole('button', { name: 'Test' }).click()
  await row.getByText('Works').waitFor()
  answers = false
  await row.getByRole('button', { name: 'Test' }).click()
  await row.getByText('Failed').waitFor()
  answers = true
  const kept = async () =>
    (await (await ask(`${server.base}/api/v1/connections`)).json()).items[0]?.config.http
  const undo = (done: string) =>
    page.locator('.toast').filter({ hasText: done }).getByRole('button', { name: 'Undo' })
  await row.getByRole('button', { name: 'Change' }).click()
  await form.getByLabel('Path of a test').fill('/health')
  await form.getByRole('button', { name: 'Change the connection' }).click()
  await expect.poll(kept).toEqual({ url: address, test: '/health' })
  await undo('is changed').click()
  await expect.poll(kept).toEqual({ url: address })

  await page.getByRole('button', { name: 'New connection' }).click()
  await form.getByPlaceholder('default').fill('default')
  await form.getByPlaceholder('warehouse').fill('crm')
  await form.getByLabel(/^Address/).fill('http://another.example.com')
  await form.getByRole('button', { name: 'Make the connection' }).click()
  await form.getByText('There is a connection of this name.').waitFor()
  await form.getByRole('button', { name: 'Cancel' }).click()
  expect(wrong.splice(0)).toEqual([expect.stringContaining('412')])
  expect(await kept()).toEqual({ url: address })

  const remove = async () => {
    await row.getByRole('button', { name: 'Delete' }).click()
    await form.getByRole('button', { name: 'Delete the connection' }).click()
    await page.getByText('There is no connection yet').waitFor()
  }
  await remove()
  await undo('is deleted').click()
  await row.getByText(address).waitFor()
  // Undo does not overwrite a connection that another person has made meanwhile.
  await remove()
  const other = { config: { http: { url: 'http://another.example.com' } } }
  const made = await ask(`${server.base}/api/v1/connections/default/crm`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(other),
  })
  expect(made.status).toBe(200)
  await undo('is deleted').click()
  await page.locator('.toast').filter({ hasText: 'There is a connection' }).waitFor()
  expect(wrong.splice(0)).toEqual([expect.stringContaining('412')])
  expect(await kept()).toEqual(other.config.http)
  await page.close()
})

test('a channel is deleted, and is back by Undo', async () => {
  const page = await open(context, `${server.base}/admin/channels`)
  await page.getByRole('button', { name: 'New channel' }).click()
  const form = page.getByRole('dialog')
  await form.getByPlaceholder('default').fill('default')
  await form.getByPlaceholder('ops').fill('ops')
  await form.getByLabel(/^Kind/).selectOption('ntfy')
  await form.getByLabel(/^Topic/).fill('a b')
  await form.getByRole('button', { name: 'Make the channel' }).click()
  await form.getByText('must be 1 to 64 letters').waitFor()
  expect(await form.getByLabel(/^Topic/).getAttribute('aria-invalid')).toBe('true')
  expect(wrong.splice(0)).toEqual([expect.stringContaining('422')])
  await form.getByLabel(/^Topic/).fill('secret:TOPIC')
  await form.getByRole('button', { name: 'Make the channel' }).click()
  const row = page.getByRole('row').filter({ hasText: 'ntfy' })
  await row.getByText('secret TOPIC').waitFor()
  await row.getByRole('button', { name: 'Delete' }).click()
  await form.getByRole('button', { name: 'Delete the channel' }).click()
  await page.getByText('There is no channel yet').waitFor()
  await page.locator('.toast').filter({ hasText: 'is deleted' }).getByRole('button', { name: 'Undo' }).click()
  await row.getByText('secret TOPIC').waitFor()
  expect(wrong).toEqual([])
  await page.close()
})

test('a git source is made after its plan, changed, synced, removed, and back by Undo', async () => {
  const flow = (name: string, says: string) => `name: ${name}\ntasks: {a: {run: 'echo ${says}'}}\n`
  repo.commit({ 'one.yaml': flow('one', '1'), 'two.yaml': flow('two', '1') })
  const secret = (name: string, value: string) =>
    ask(`${server.base}/api/v1/secrets/default/${name}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ value }),
    })
  expect((await secret('GIT_TOKEN', 'pass-word-1')).status).toBeLessThan(300)
  const page = await open(context, `${server.base}/admin/git`)
  await page.getByText('There is no git source yet').waitFor()
  await page.getByRole('button', { name: 'New git source' }).click()
  const form = page.getByRole('dialog')
  await form.getByLabel('Name', { exact: true }).fill('flows')
  await form.getByLabel(/^Repository/).fill(repo.url)
  await form.getByLabel(/^Branch/).fill('no..such')
  const look = form.getByRole('button', { name: 'Show what it changes' })
  await look.click()
  await form.getByText('is not the name of a branch or tag').waitFor()
  expect(await form.getByLabel(/^Branch/).getAttribute('aria-invalid')).toBe('true')
  expect(wrong.splice(0)).toEqual([expect.stringContaining('422')]) // the browser notes the refusal
  await form.getByLabel(/^Branch/).fill('')
  await look.click()
  await form.getByText('away', { exact: true }).waitFor() // the repository wants a password
  await form.getByRole('button', { name: 'Back' }).click()
  await form.getByText('More settings').click()
  await form.getByLabel(/^Look every/).fill('1h')
  await form.getByLabel(/^User at the server/).fill('git')
  await form.getByLabel(/^Secret with the password/).selectOption('GIT_TOKEN')
  await look.click()
  await form.locator('[data-change=created]').getByText('two.yaml').waitFor()
  expect((await ask(`${server.base}/api/v1/workflows/default/one`)).status).toBe(404)
  await form.getByRole('button', { name: 'Make the git source' }).click()
  const row = page.getByRole('row').filter({ hasText: repo.url })
  await row.waitFor()
  const stored = async () => (await (await ask(`${server.base}/api/v1/git-sources`)).json()).items
  // The look of a node itself: a later one is due in an hour, so it does not come between the next steps.
  const looked = async () => {
    await expect.poll(async () => (await stored())[0]?.state.applied).toBeTruthy()
    await page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())
    await row.getByText('in force').waitFor()
  }
  await looked()

  repo.commit({ 'one.yaml': flow('one', '2'), 'two.yaml': '' })
  await row.getByRole('button', { name: 'Sync…' }).click()
  await form.locator('[data-change=paused]').getByText('two').waitFor()
  await form.locator('[data-change=changed]').getByText('one.yaml').waitFor()
  await form.getByRole('button', { name: 'Sync now' }).click()
  await page.getByText('2 workflows were changed.').waitFor()

  await row.getByRole('button', { name: 'Change' }).click()
  await form.getByLabel(/^Look every/).fill('2h')
  await look.click()
  await form.getByRole('button', { name: 'Change the git source' }).click()
  await expect.poll(async () => (await stored())[0]?.every).toBe('2h')
  await page.getByRole('button', { name: 'Undo' }).click()
  await expect.poll(async () => (await stored())[0]?.every).toBe('1h')

  await row.getByRole('button', { name: 'Remove' }).click()
  await form.getByText('Its workflows stay').waitFor()
  await form.getByRole('button', { name: 'Remove the git source' }).click()
  await page.getByText('There is no git source yet').waitFor()
  const [again] = await Promise.all([
    page.waitForRequest((r) => r.method() === 'PUT'),
    page.locator('.toast').filter({ hasText: 'is removed' }).getByRole('button', { name: 'Undo' }).click(),
  ])
  expect(again.headers()['if-none-match']).toBe('*') // it does not overwrite the source of another person
  await row.waitFor()
  await looked()
  expect((await stored())[0]).toMatchObject({ url: repo.url, login: 'git', password_secret: 'GIT_TOKEN' })
  expect(wrong).toEqual([])
  await page.close()
})

test('a workflow from git is read only in the editor, and can be saved as a copy', async () => {
  const page = await open(context, `${server.base}/edit/default/one`)
  await page.getByText('This workflow comes from git: one.yaml of flows').waitFor()
  expect(await page.getByRole('button', { name: 'Apply…' }).count()).toBe(0)
  const text = page.locator('.cm-content')
  await text.click()
  await page.keyboard.type('nonsense')
  expect(await text.textContent()).not.toContain('nonsense')
  await page.getByRole('button', { name: 'Save as a copy…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('textbox', { name: /^Name / }).fill('one')
  await dialog.getByText('There is a workflow of this name').waitFor()
  await dialog.getByRole('textbox', { name: /^Name / }).fill('mine')
  await dialog.getByRole('button', { name: 'Open the copy' }).click()
  await page.getByRole('heading', { name: 'New workflow mine' }).waitFor()
  await page.getByText('The server finds no problem.').waitFor()
  expect(await text.textContent()).toContain('name: mine')
  await page.getByRole('button', { name: 'Apply…' }).click()
  await dialog.getByRole('button', { name: 'Apply', exact: true }).click()
  await page.getByRole('heading', { name: /^mine/ }).waitFor()
  const made = await (await ask(`${server.base}/api/v1/workflows/default/mine`)).json()
  expect([made.version, made.git]).toEqual([1, undefined])
  expect(wrong).toEqual([])
  await page.close()
})

test('a source that is away is on Home and on its trigger, and is back by itself', async () => {
  answers = false
  await apply(
    server.base,
    'poller',
    `name: poller\ntriggers: [{name: shop, poll: {url: "${address}/orders", every: 1s, id: item.id}}]\ntasks: {a: {run: "true"}}\n`,
  )
  const page = await open(context, `${server.base}/`)
  const line = page.getByRole('listitem').filter({ hasText: 'The source is away' })
  await expect
    .poll(async () => {
      await page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())
      return line.count()
    })
    .toBe(1)
  await line.getByRole('link', { name: 'shop' }).click()
  await page.getByText('Away since').waitFor()
  const said = await (await ask(`${server.base}/api/v1/workflows/default/poller/explain`)).json()
  expect(said).toMatchObject({ reasons: [{ code: 'source_away', args: { trigger: 'shop' } }] })
  const flow = await open(context, `${server.base}/w/default/poller`)
  await flow.getByRole('region', { name: 'Why it does not start' }).getByText('does not reach').waitFor()
  await flow.close()
  answers = true
  await expect
    .poll(async () => {
      await page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())
      return page.getByText('Away since').count()
    })
    .toBe(0)
  expect(wrong).toEqual([])
  await page.close()
})

test('events: a trigger shows how many wait, and is moved after its plan, and back by Undo', async () => {
  await apply(
    server.base,
    'orders',
    'name: orders\ntriggers: [{name: created, event: {type: order.created}, overlap: wait, max_concurrent_runs: 1}]\ntasks: {ok: {approval: {}}}\n',
  )
  for (const id of ['1', '2', '3']) {
    const sent = await ask(`${server.base}/api/v1/events`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/cloudevents+json' },
      body: JSON.stringify({ specversion: '1.0', id, source: 'shop', type: 'order.created' }),
    })
    expect(sent.status).toBe(200)
  }
  const page = await open(context, `${server.base}/w/default/orders?tab=triggers`)
  await expect
    .poll(async () => {
      await page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())
      return page.getByText('2 events to read').count()
    })
    .toBe(1)
  await page.getByRole('link', { name: 'created' }).click()
  const events = page.locator('.panel').filter({ has: page.getByRole('heading', { name: 'Events' }) })
  await events.getByText('2 events').waitFor()
  const position = await events.locator('code').textContent()
  await page.getByRole('button', { name: 'Read on elsewhere…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('2 events wait now and start no runs').waitFor()
  await dialog.getByRole('button', { name: 'Read on there' }).click()
  await events.getByText('none', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await events.getByText('2 events').waitFor()
  expect(await events.locator('code').textContent()).toBe(position)
  await page.getByRole('button', { name: 'Pause…' }).click()
  await dialog.getByLabel('Reason').fill('the shop moves')
  await page.keyboard.press('Enter')
  await page.getByText('the shop moves').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByRole('button', { name: 'Pause…' }).waitFor()
  expect(wrong).toEqual([])
  await page.close()
})

test('an attempt shows what it has left outside of its process, and the run that ends it', async () => {
  await apply(
    server.base,
    'outside',
    'name: outside\ntasks: {train: {run: "echo job-17 > $SKEIN_HANDLE; sleep 1; exit 1", release: "exit 1", release_timeout: 1h}}\n',
  )
  const { id } = await call(server.base, '/runs', { workflow: 'outside' })
  const page = await open(context, `${server.base}/r/${id}?task=train&tab=attempts`)
  const attempt = page.locator('.attempts li').first()
  await attempt.getByText('job-17').waitFor()
  await attempt.getByText('Being ended').waitFor()
  await attempt.getByRole('link', { name: 'the run that ends it' }).click()
  await page.getByRole('heading', { level: 1 }).getByText('system/release').waitFor()
  await call(server.base, `/runs/${id}:kill`, {}).catch(() => {}) // the answer has no body
  expect(wrong).toEqual([])
  await page.close()
})

test('the kinds of the cluster are listed with who has them', async () => {
  const page = await open(context, `${server.base}/cluster`)
  const sql = page.getByRole('row').filter({ has: page.getByRole('cell', { name: 'sql', exact: true }) })
  await sql.getByText('part of Skein').waitFor()
  await sql.getByRole('link', { name: 'n1' }).waitFor()
  expect(wrong).toEqual([])
  await page.close()
})
