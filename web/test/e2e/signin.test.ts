// Sign-in by the code of an address, by a token, with wrong data, and by a link of another site, and the end
// of a session.
import { execFileSync } from 'node:child_process'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask, axe, contextOf, idle, launch, open, program, type Server, serve } from './harness'

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

const skein = (...args: string[]) =>
  execFileSync(program, [...args, '--data', server.data], { encoding: 'utf8' }).trim()

const form = (page: Page) => page.getByRole('heading', { name: 'Sign in to Skein' })

const refused = (page: Page) => page.locator('.sign-in [role=alert]')

async function byToken(page: Page, token: string) {
  await page.getByRole('button', { name: 'Use a token' }).click()
  await page.getByLabel('Token or code').fill(token)
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

const session = (page: Page) =>
  page.evaluate(() => fetch('/api/v1/session').then(async (r) => (r.ok ? (await r.json()).id : r.status)))

/** Opens an address by a link of another site. The site hides its own address. */
async function byForeignLink(context: BrowserContext, address: string): Promise<Page> {
  const page = await context.newPage()
  const body = `<meta name="referrer" content="no-referrer"><a href="${address}">Skein</a>`
  await page.route('http://other.test/', (route) => route.fulfill({ contentType: 'text/html', body }))
  await page.goto('http://other.test/')
  await page.getByRole('link').click()
  await page.waitForURL(`${server.base}/`)
  return page
}

test('the address of skein open signs in once, and leaves no code behind', async () => {
  const address = skein('open', '--print')
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await open(context, address)
  expect(await page.evaluate(() => fetch('/api/v1/session').then((r) => r.status))).toBe(200)
  expect(page.url()).toBe(`${server.base}/`)
  expect(await form(page).count()).toBe(0)
  await context.close()
  const { context: other } = await contextOf(browser, server.base, { signedIn: false })
  const again = await other.newPage()
  await again.goto(address)
  await form(again).waitFor()
  expect(await refused(again).textContent()).toContain('skein open')
  await other.close()
})

test('a token signs in, and the address and the page stay', async () => {
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await context.newPage()
  await page.goto(`${server.base}/workflows`)
  await form(page).waitFor()
  await page.evaluate(axe)
  const faults = await page.evaluate(async () => {
    const run = (
      window as unknown as { axe: { run: (of: Document) => Promise<{ violations: { id: string }[] }> } }
    ).axe
    return (await run.run(document)).violations.map((v) => v.id)
  })
  expect(faults).toEqual([])
  await byToken(page, 'wrong')
  await refused(page).waitFor()
  await page.getByLabel('Token or code').fill(skein('token', 'local'))
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
  await form(page).waitFor({ state: 'detached' })
  await idle(page)
  expect(page.url()).toBe(`${server.base}/workflows`)
  // The browser loses the session without a sign-out.
  await context.clearCookies()
  await page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())
  await form(page).waitFor()
  await byToken(page, skein('token', 'local'))
  await form(page).waitFor({ state: 'detached' })
  expect(page.url()).toBe(`${server.base}/workflows`)
  await page.getByRole('button', { name: 'Settings of the page' }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await form(page).waitFor()
  await context.close()
})

test('buttons of what the caller may not do are disabled, and say which role they need', async () => {
  const reads = skein(
    'token',
    'create',
    '--name',
    'reader',
    '--verbs',
    'workflow.read,run.read,schedule.read,queue.read',
  )
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await context.newPage()
  await page.goto(`${server.base}/workflows`)
  await form(page).waitFor()
  await byToken(page, reads.split('\n').find((line) => line.startsWith('skein_api_')) ?? reads)
  await form(page).waitFor({ state: 'detached' })
  const create = page.getByRole('button', { name: 'New workflow' })
  await expect.poll(() => create.isDisabled()).toBe(true)
  await create.focus()
  await page.keyboard.press('Shift+Tab')
  await page.keyboard.press('Tab')
  const why = page.getByRole('tooltip', {
    name: 'You need a role with workflow.write in the namespace default.',
  })
  await why.waitFor()
  await page.getByRole('button', { name: 'Settings of the page' }).click()
  await page.getByRole('menuitem', { name: 'Sign out reader' }).waitFor()
  await context.close()
})

test('a link of another site signs nobody in without a press of the button', async () => {
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await byForeignLink(context, skein('open', '--print'))
  await form(page).waitFor()
  expect(await session(page)).toBe(401)
  await page.getByRole('button', { name: 'Sign in with the code of this address' }).click()
  await form(page).waitFor({ state: 'detached' })
  expect(await session(page)).toEqual(expect.any(String))
  await context.close()
})

test('a browser that is signed in keeps its session, and the code of the address is not used', async () => {
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const mine = await session(await open(context, skein('open', '--print')))
  expect(mine).toEqual(expect.any(String))
  const address = skein('open', '--print')
  for (const page of [await byForeignLink(context, address), await open(context, address)]) {
    await page.getByText('You are signed in already. The code of the address was not used.').waitFor()
    expect(await session(page)).toBe(mine)
    expect(page.url()).toBe(`${server.base}/`)
  }
  await context.close()
  const { context: other } = await contextOf(browser, server.base, { signedIn: false })
  expect(await session(await open(other, address))).toEqual(expect.any(String))
  await other.close()
})

test('the page keeps what it shows when a session ends, and nothing after a sign-out', async () => {
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await open(context, skein('open', '--print'))
  const status = await page.evaluate(() =>
    fetch('/api/v1/workflows/default/of-the-first', {
      method: 'PUT',
      headers: { 'Content-Type': 'application/yaml' },
      body: 'name: of-the-first\ntasks:\n  t: {run: "true"}\n',
    }).then(async (r) => `${r.status} ${await r.text()}`),
  )
  expect(status).toMatch(/^20/)
  const kept = () =>
    page.evaluate(() => (window as unknown as { skein: { kept: () => number } }).skein.kept())
  await page.goto(`${server.base}/w/default/of-the-first`)
  await page.getByRole('heading', { name: 'of-the-first' }).waitFor()
  await idle(page)
  await context.clearCookies()
  await page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())
  await form(page).waitFor()
  expect(await page.locator('#root').textContent()).toContain('of-the-first')
  expect(await kept()).toBeGreaterThan(0)
  await byToken(page, skein('token', 'local'))
  await form(page).waitFor({ state: 'detached' })
  await idle(page)
  await page.getByRole('button', { name: 'Settings of the page' }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).click()
  await form(page).waitFor()
  await expect.poll(kept).toBe(0)
  expect(await page.locator('html').textContent()).not.toContain('of-the-first')
  await byToken(page, skein('token', 'local'))
  await page.getByRole('heading', { name: 'of-the-first' }).waitFor()
  await context.close()
})

const good = 'a long enough pass phrase'

/** Calls the server with the token of its machine. */
async function rest(path: string, body?: object) {
  const answer = await ask(`${server.base}/api/v1${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    ...(body ? { body: JSON.stringify(body) } : {}),
  })
  expect(answer.status, await answer.text()).toBeLessThan(300)
}

const person = (name: string) => rest('/users', { name, password: good, roles: [{ role: 'editor' }] })

async function byPassword(page: Page, user: string, password = good) {
  const asks = page.locator('.sign-in')
  await asks.getByLabel('Name').fill(user)
  await asks.getByLabel('Password').fill(password)
  await asks.getByRole('button', { name: 'Sign in', exact: true }).click()
}

const again = (page: Page) =>
  page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())

test('a name and its password sign in; a wrong one, an old one and that of a disabled user do not', async () => {
  await person('ann')
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await context.newPage()
  await page.goto(`${server.base}/workflows`)
  await form(page).waitFor()
  await byPassword(page, 'ann', 'this is not her password')
  const wrong = (await refused(page).textContent()) ?? ''
  expect(wrong).not.toBe('')
  await byPassword(page, 'nobody', good)
  await expect.poll(() => refused(page).textContent()).toBe(wrong) // the refusal does not reveal which names exist
  await byPassword(page, 'ann')
  await form(page).waitFor({ state: 'detached' })
  expect(page.url()).toBe(`${server.base}/workflows`)
  expect(await session(page)).toEqual(expect.any(String))
  // The password is changed elsewhere. The session ends, and the old password is no longer valid.
  await rest('/users/ann:password', { password: 'another long pass phrase' })
  await expect.poll(() => session(page)).toBe(401)
  await again(page)
  await form(page).waitFor()
  await byPassword(page, 'ann')
  await refused(page).waitFor()
  await byPassword(page, 'ann', 'another long pass phrase')
  await form(page).waitFor({ state: 'detached' })
  await rest('/users/ann:disable')
  await expect.poll(() => session(page)).toBe(401)
  await again(page)
  await form(page).waitFor()
  await byPassword(page, 'ann', 'another long pass phrase')
  await refused(page).waitFor()
  expect(await session(page)).toBe(401)
  await context.close()
})

const source = (page: Page) => page.getByRole('textbox', { name: /^Source of/ })

/** The drafts that the browser keeps. */
const drafts = (page: Page) =>
  page.evaluate(
    () =>
      new Promise<number>((done) => {
        const open = indexedDB.open('skein')
        open.onupgradeneeded = () => open.transaction?.abort()
        open.onerror = () => done(0)
        open.onsuccess = () => {
          const count = open.result.transaction('drafts').objectStore('drafts').count()
          count.onsuccess = () => {
            open.result.close()
            done(count.result)
          }
        }
      }),
  )

/** Opens a new workflow in the editor and types, so that the browser keeps a draft. */
async function draft(page: Page, name: string) {
  await page.goto(`${server.base}/edit/default/${name}?new=yes`)
  await source(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('# words of ada')
}

test('a sign-out asks for the drafts, deletes them, and empties the other tabs', async () => {
  await person('ada')
  await person('ben')
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await context.newPage()
  await page.goto(`${server.base}/workflows`)
  await byPassword(page, 'ada')
  await form(page).waitFor({ state: 'detached' })
  await draft(page, 'of-ada')
  await expect.poll(() => drafts(page)).toBe(1)
  const other = await open(context, `${server.base}/workflows`)
  await other.getByRole('button', { name: 'Settings of the page' }).click()
  await other.getByRole('menuitem', { name: 'Sign out ada' }).click()
  await other.getByRole('dialog').getByText('of-ada').waitFor()
  await other.getByRole('button', { name: 'Delete the drafts and sign out' }).click()
  for (const tab of [other, page]) {
    await form(tab).waitFor()
    await expect.poll(() => tab.locator('html').textContent()).not.toContain('of-ada')
  }
  await expect.poll(() => drafts(page)).toBe(0)
  // Another person signs in in one tab. The other tab follows, and shows nothing of ada.
  await byPassword(other, 'ben')
  for (const tab of [other, page]) await form(tab).waitFor({ state: 'detached' })
  await source(page).waitFor()
  expect(await source(page).textContent()).not.toContain('words of ada')
  expect(await drafts(page)).toBe(0)
  await context.close()
})

test('who signs in after the session of another person has ended finds no draft of that person', async () => {
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await context.newPage()
  await page.goto(`${server.base}/workflows`)
  await byPassword(page, 'ada')
  await form(page).waitFor({ state: 'detached' })
  await draft(page, 'mine')
  await expect.poll(() => drafts(page)).toBe(1)
  await context.clearCookies()
  await again(page)
  await form(page).waitFor()
  // If the same person signs in again, the draft is still there.
  await byPassword(page, 'ada')
  await form(page).waitFor({ state: 'detached' })
  expect(await source(page).textContent()).toContain('words of ada')
  await context.clearCookies()
  await again(page)
  await form(page).waitFor()
  await byPassword(page, 'ben')
  await form(page).waitFor({ state: 'detached' })
  await source(page).waitFor()
  await expect.poll(() => drafts(page)).toBe(0)
  await expect.poll(() => source(page).textContent()).not.toContain('words of ada')
  await context.close()
})

test('a code of the page signs in somewhere else, once, and ends with the session of the page', async () => {
  const { context } = await contextOf(browser, server.base)
  const page = await open(context, `${server.base}/admin/me`)
  await page.getByRole('button', { name: 'Sign in at a terminal' }).click()
  await page.getByRole('dialog').getByText(`skein login ${server.base} --code`).waitFor()
  await page.getByRole('button', { name: 'Make a code' }).click()
  const code = (await page.locator('[data-secret]').textContent()) ?? ''
  expect(code).toMatch(/^skein_code_/)
  await page.getByRole('button', { name: 'Close' }).click()
  await page.locator('[data-secret]').waitFor({ state: 'detached' })
  const { context: other } = await contextOf(browser, server.base, { signedIn: false })
  const there = await open(other, server.base)
  await byToken(there, code)
  await expect.poll(() => session(there)).not.toBe(401)
  const { context: late } = await contextOf(browser, server.base, { signedIn: false })
  const again = await open(late, server.base)
  await byToken(again, code)
  await refused(again).waitFor()
  await late.close()
  await page.evaluate(() => fetch('/api/v1/session', { method: 'DELETE' }))
  await expect.poll(() => session(there)).toBe(401)
  await other.close()
  await context.close()
})
