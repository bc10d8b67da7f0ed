// Sign-in by an identity provider: a real one, on another site. Groups become roles; sessions are listed and ended.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { contextOf, freePort, idle, launch, open, type Server, serve } from './harness'
import { type Provider, secret, startProvider } from './provider'

let server: Server
let browser: Browser
let provider: Provider
let folder: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'skein-oidc-'))
  const port = await freePort()
  const issuer = `http://localhost:${port}` // another site than the server
  writeFileSync(join(folder, 'secret'), secret, { mode: 0o600 })
  writeFileSync(
    join(folder, 'skein.yaml'),
    `auth:
  oidc:
    - name: corp
      issuer: ${issuer}
      client_id: skein
      client_secret_file: ${join(folder, 'secret')}
      scopes: [profile, groups]
      roles: {readers: [viewer], writers: [editor@default]}
      require_group: staff
`,
  )
  server = await serve(['--config', join(folder, 'skein.yaml')])
  provider = await startProvider(issuer, port, server.base)
  browser = await launch()
})

afterAll(async () => {
  await browser?.close()
  await provider?.end()
  await server?.end()
  rmSync(folder, { recursive: true, force: true })
})

const form = (page: Page) => page.getByRole('heading', { name: 'Sign in to Skein' })

const status = (page: Page) => page.evaluate(() => fetch('/api/v1/session').then((r) => r.status))

/** Signs in by the button, and waits for the page at the address that the person wanted. */
async function byProvider(page: Page) {
  await form(page).waitFor()
  await page.getByRole('link', { name: 'Sign in with corp' }).click()
  await page.waitForURL(`${server.base}/workflows`)
  await form(page).waitFor({ state: 'detached' })
  await idle(page)
}

const create = (page: Page) => page.getByRole('button', { name: 'New workflow' })

/** Opens a separate browser context. The provider recognizes it after it has signed in once. */
async function person(): Promise<{ context: BrowserContext; page: Page }> {
  const { context } = await contextOf(browser, server.base, { signedIn: false })
  const page = await context.newPage()
  await page.goto(`${server.base}/workflows`)
  return { context, page }
}

test('an account of a provider signs in, and its groups give the roles of each sign-in', async () => {
  await provider.account('7', { preferred_username: 'ann', groups: ['staff', 'readers'] })
  const { context, page } = await person()
  await byProvider(page)
  await expect.poll(() => create(page).isDisabled()).toBe(true)
  await page.getByRole('button', { name: 'Settings of the page' }).click()
  await page.getByRole('menuitem', { name: 'Sign out ann' }).click()
  await form(page).waitFor()
  expect(await status(page)).toBe(401)
  // The provider has other groups for the account now.
  await provider.account('7', { preferred_username: 'ann', groups: ['staff', 'writers'] })
  await byProvider(page)
  await expect.poll(() => create(page).isDisabled()).toBe(false)
  const me = await page.evaluate(() => fetch('/api/v1/me').then((r) => r.json()))
  expect(JSON.stringify(me)).toContain('"ann"')
  await context.close()
})

test('the session is listed, and ends when somebody ends it', async () => {
  await provider.account('8', { preferred_username: 'bea', groups: ['staff', 'readers'] })
  const { context, page } = await person()
  await byProvider(page)
  const { context: other } = await contextOf(browser, server.base)
  const admin = await open(other, `${server.base}/admin/sessions`)
  const row = admin.getByRole('row').filter({ hasText: 'bea' })
  await row.getByRole('button').click()
  await admin.getByRole('button', { name: 'End the session', exact: true }).click()
  await row.waitFor({ state: 'detached' })
  await expect.poll(() => status(page)).toBe(401)
  await page.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())
  await form(page).waitFor()
  await other.close()
  await context.close()
})

test('an account outside the group of the server is refused, and the page says why', async () => {
  await provider.account('9', { preferred_username: 'eve', groups: ['readers'] })
  const { context, page } = await person()
  await form(page).waitFor()
  await page.getByRole('link', { name: 'Sign in with corp' }).click()
  await page.getByText('sign_in_outside_group').waitFor()
  const answer = await context.request.get(`${server.base}/api/v1/session`) // the page itself may not make this call
  expect(answer.status()).toBe(401)
  await context.close()
})
