// The pages of the administration: users, roles, tokens, sessions, and what the caller itself may do.
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask, contextOf, idle, launch, open, type Server, serve } from './harness'

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

const good = 'a long enough pass phrase'

/** Calls the server with the token of its machine, or with another one. */
async function rest(method: string, path: string, body?: object, token?: string) {
  const answer = await (token ? fetch : ask)(`${server.base}/api/v1${path}`, {
    method,
    headers: { 'Content-Type': 'application/json', ...(token ? { Authorization: `Bearer ${token}` } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  })
  const text = await answer.text()
  return { status: answer.status, body: text ? JSON.parse(text) : undefined }
}

async function user(name: string, ...roles: { role: string; namespace?: string }[]) {
  const made = await rest('POST', '/users', { name, password: good, roles })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
}

/** Opens a page for a user who signs in with a password. */
async function as(name: string, path: string, password = good): Promise<[BrowserContext, Page, string[]]> {
  const { context, wrong } = await contextOf(browser, server.base, { signedIn: false })
  const status = await context.request.post(`${server.base}/api/v1/session`, {
    data: { user: name, password },
    headers: { Origin: server.base },
  })
  expect(status.status(), await status.text()).toBe(200)
  return [context, await open(context, server.base + path), wrong]
}

const dialog = (page: Page) => page.getByRole('dialog')

test('a user is created with a made password and a role, signs in, and is disabled and deleted', async () => {
  await user('ada', { role: 'cluster' })
  const [context, page, wrong] = await as('ada', '/admin')
  await page.waitForURL(/\/admin\/users$/)
  await page.getByRole('button', { name: 'New user' }).click()
  await dialog(page).getByLabel('Name').fill('Ben')
  await dialog(page).getByRole('button', { name: 'Make one' }).click()
  const password = await dialog(page).getByLabel('Password (optional)').inputValue()
  await dialog(page).getByLabel('Role (optional)').selectOption('operator')
  await dialog(page).getByLabel('Namespace').fill('shop')
  await dialog(page).getByRole('button', { name: 'Create' }).click()
  await page.waitForURL(/\/admin\/users\/ben$/)
  await page.getByRole('row').filter({ hasText: 'operator' }).getByText('shop').waitFor()

  const [other, seen] = await as('ben', '/admin/me', password)
  await seen.getByRole('heading', { name: /What you may do in shop/ }).waitFor()
  await other.close()

  // A second role is granted and revoked.
  await page.getByRole('button', { name: 'Grant a role' }).click()
  await dialog(page).getByLabel('Role').selectOption('viewer')
  await dialog(page).getByRole('button', { name: 'Grant the role' }).click()
  const viewer = page.getByRole('row').filter({ hasText: 'viewer' })
  await viewer.getByText('all namespaces').waitFor()
  await viewer.getByRole('button', { name: 'Revoke' }).click()
  await dialog(page).getByRole('button', { name: 'Revoke the role' }).click()
  await viewer.waitFor({ state: 'detached' })

  await page.getByRole('button', { name: 'Disable' }).click()
  await dialog(page).getByText('1 role').waitFor()
  await dialog(page).getByRole('button', { name: 'Disable' }).click()
  await page.locator('.facts-line').getByText('Disabled').waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.locator('.facts-line').getByText('Active').waitFor()

  await page.getByRole('button', { name: 'Delete' }).click()
  await dialog(page).getByText('It cannot be undone. This ends 1 role').waitFor()
  await dialog(page).getByRole('button', { name: 'Delete ben' }).click()
  await page.waitForURL(/\/admin\/users$/)
  await page.getByRole('link', { name: 'ada' }).waitFor()
  await page.getByRole('link', { name: 'ben' }).waitFor({ state: 'detached' })
  expect((await rest('GET', '/users/ben')).status).toBe(404)
  expect(wrong).toEqual([])
  await context.close()
})

test('a role like another one is made, granted, and kept until nobody has it', async () => {
  await user('cleo', { role: 'cluster' })
  await user('dan')
  const [context, page, wrong] = await as('cleo', '/admin/roles?role=viewer')
  await page.getByRole('heading', { name: /^The role viewer/ }).waitFor()
  await page.getByRole('button', { name: 'Make one like it' }).click()
  await dialog(page).getByRole('textbox', { name: /^Name/ }).fill('starter')
  await dialog(page)
    .getByRole('checkbox', { name: /run\.start/ })
    .check()
  await dialog(page)
    .getByRole('checkbox', { name: /log\.read/ })
    .uncheck()
  await dialog(page).getByRole('button', { name: 'Create the role' }).click()
  await page.waitForURL(/role=starter/)
  const made = (await rest('GET', '/roles')).body.items.find((r: { name: string }) => r.name === 'starter')
  expect(made.verbs).toContain('run.start')
  expect(made.verbs).not.toContain('log.read')

  await page.getByRole('button', { name: 'Grant it' }).click()
  await dialog(page).getByLabel('User or service').fill('dan')
  await dialog(page).getByLabel('Namespace').fill('shop')
  await dialog(page).getByRole('button', { name: 'Grant the role' }).click()
  const row = page.getByRole('row').filter({ hasText: 'dan' })
  await row.getByText('shop').waitFor()

  await page.getByRole('button', { name: 'Delete' }).click()
  await dialog(page).getByText('It is granted once').waitFor()
  await dialog(page).getByRole('button', { name: 'Delete the role' }).click()
  await dialog(page).getByRole('alert').getByText('revoke it first').waitFor()
  await dialog(page).getByRole('button', { name: 'Cancel' }).click()
  await row.getByRole('button', { name: 'Revoke' }).click()
  await dialog(page).getByRole('button', { name: 'Revoke the role' }).click()
  await row.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Delete' }).click()
  await dialog(page).getByRole('button', { name: 'Delete the role' }).click()
  await page.waitForURL((url) => !url.search.includes('starter'))
  expect(wrong.filter((w) => !w.includes('409'))).toEqual([])
  await context.close()
})

test('a token is narrowed, its secret stays until it is kept, and its revocation counts', async () => {
  await user('eve', { role: 'cluster' })
  expect(
    (
      await rest('POST', '/users', {
        name: 'ci',
        kind: 'service',
        roles: [{ role: 'editor', namespace: 'shop' }],
      })
    ).status,
  ).toBe(201)
  const [context, page, wrong] = await as('eve', '/admin/tokens')
  await page.getByRole('button', { name: 'New token' }).click()
  await dialog(page).getByLabel('Name').fill('deploys')
  await dialog(page).getByLabel('Acts as').selectOption('ci')
  await dialog(page).getByLabel('only these verbs').check()
  await dialog(page)
    .getByRole('checkbox', { name: /workflow\.write/ })
    .check()
  await dialog(page).getByRole('button', { name: 'Make the token' }).click()
  const secret = (await dialog(page).locator('[data-secret]').textContent()) ?? ''
  await page.keyboard.press('Escape')
  await page.mouse.click(5, 5)
  expect(await dialog(page).locator('[data-secret]').textContent()).toBe(secret)
  await dialog(page).getByRole('button', { name: 'I have kept it' }).click()
  await dialog(page).waitFor({ state: 'detached' })
  expect((await rest('GET', '/me', undefined, secret)).body).toMatchObject({
    kind: 'service',
    verbs: { shop: ['workflow.write'] },
  })
  const row = page.getByRole('row').filter({ hasText: 'deploys' })
  await row.getByText('workflow.write').waitFor()
  await row.getByRole('button', { name: 'Revoke' }).click()
  await dialog(page).getByRole('button', { name: 'Revoke the token' }).click()
  await row.getByText('Revoked').waitFor()
  await expect.poll(async () => (await rest('GET', '/me', undefined, secret)).status).toBe(401)
  expect(wrong).toEqual([])
  await context.close()
})

test('sessions: one on another browser is ended there, the filter is in the address', async () => {
  await user('finn', { role: 'cluster' })
  await user('gil', { role: 'viewer' })
  const [context, page, wrong] = await as('finn', '/admin/sessions')
  const [mine] = await as('finn', '/')
  const [other, seen] = await as('gil', '/workflows')
  await page.reload()
  await page.getByRole('row').filter({ hasText: 'this browser' }).getByText('finn').waitFor()
  await page.getByLabel('Filter by user or address').fill('gil')
  await page.waitForURL(/q=gil/)
  await expect.poll(() => page.getByRole('row').filter({ hasText: 'finn' }).count()).toBe(0)
  await page.getByRole('button', { name: 'End the session of gil' }).click()
  await dialog(page).getByRole('button', { name: 'End the session' }).click()
  await page.getByText('No session fits the filter.').waitFor()
  await expect
    .poll(async () => {
      await seen.evaluate(() => (window as unknown as { skein: { again: () => void } }).skein.again())
      return seen.getByRole('heading', { name: 'Sign in to Skein' }).count()
    })
    .toBe(1)
  await page.getByRole('button', { name: 'End my other sessions' }).click()
  await dialog(page).getByText('1 session of yours').waitFor()
  await dialog(page).getByRole('button', { name: 'End them' }).click()
  await page.getByRole('button', { name: 'End my other sessions' }).waitFor({ state: 'detached' })
  expect((await context.request.get(`${server.base}/api/v1/session`)).status()).toBe(200)
  await expect.poll(async () => (await mine.request.get(`${server.base}/api/v1/session`)).status()).toBe(401)
  expect(wrong).toEqual([])
  for (const c of [context, mine, other]) await c.close()
})

test('who may do little is told what lacks, and changes its own password', async () => {
  await user('hal', { role: 'viewer', namespace: 'shop' })
  const [context, page, wrong] = await as('hal', '/admin')
  await page.waitForURL(/\/admin\/me$/)
  await page.getByRole('heading', { name: /What you may do in shop/ }).waitFor()
  for (const [path, lacks] of [
    ['users', 'You need a role with user.read in all namespaces.'],
    ['users/ada', 'You need a role with user.read in all namespaces.'],
    ['roles', 'You need a role with role.read in all namespaces.'],
    ['roles', 'You need a role with member.write in a namespace.'],
    ['tokens', 'You need a role with token.all in all namespaces.'],
    ['secrets', 'You need a role with secret.list in a namespace.'],
    ['sessions', 'To see those of others you need a role with user.write.'],
  ]) {
    await page.goto(`${server.base}/admin/${path}`)
    await page.getByText(lacks as string).waitFor()
    await idle(page)
    expect(await page.getByRole('alert').count(), path).toBe(0)
  }
  await page.goto(`${server.base}/admin/me`)
  await page.getByRole('button', { name: 'Change my password' }).click()
  const change = dialog(page).getByRole('button', { name: 'Change my password' })
  await dialog(page).getByLabel('Present password').fill('not the present one')
  await dialog(page).getByLabel('New password').fill('another long pass phrase')
  await change.click()
  await dialog(page).getByRole('alert').getByText('this is not your current password').waitFor()
  await dialog(page).getByLabel('Present password').fill(good)
  await change.click()
  await page.getByRole('heading', { name: 'Sign in to Skein' }).waitFor()
  const refused = (w: string) => /40[13]/.test(w) // the messages of the browser about the answers above
  expect(wrong.filter((w) => !refused(w))).toEqual([])
  await context.close()
  const [again] = await as('hal', '/', 'another long pass phrase')
  await again.close()
})

test('a secret is set, set again and deleted, and its value is shown nowhere', async () => {
  await user('ida', { role: 'admin', namespace: 'shop' })
  const [context, page, wrong] = await as('ida', '/admin/secrets')
  await page.getByText('There is no secret yet.').waitFor()
  await page.getByRole('button', { name: 'New secret' }).click()
  await dialog(page).getByLabel('Namespace').fill('shop')
  await dialog(page).getByRole('textbox', { name: /^Name/ }).fill('DB_PASSWORD')
  await dialog(page).getByRole('textbox', { name: 'Value', exact: true }).fill('12345')
  await dialog(page).getByText('At least 6 bytes').waitFor()
  expect(await dialog(page).getByRole('button', { name: 'Set the secret' }).isDisabled()).toBe(true)
  await dialog(page).getByRole('textbox', { name: 'Value', exact: true }).fill('the first value')
  await dialog(page).getByRole('button', { name: 'Set the secret' }).click()
  const row = page.getByRole('row').filter({ hasText: 'DB_PASSWORD' })
  await row.getByText('once').waitFor()
  await row.getByRole('button', { name: 'Set' }).click()
  await dialog(page).getByRole('textbox', { name: 'Value', exact: true }).fill('the second value')
  await dialog(page).getByRole('button', { name: 'Set the secret' }).click()
  await row.getByText('2 times').waitFor()
  expect(await page.locator('html').textContent()).not.toMatch(/the (first|second) value/)
  await row.getByRole('button', { name: 'Delete' }).click()
  await dialog(page).getByRole('button', { name: 'Delete the secret' }).click()
  await row.waitFor({ state: 'detached' })
  expect((await rest('GET', '/secrets')).body.items).toEqual([])
  expect(wrong).toEqual([])
  await context.close()
})

test('quotas of a namespace are set, shown with their use, and refused to those who may not set them', async () => {
  await user('nina', { role: 'cluster' })
  const source = 'name: w\nnamespace: billing\ntasks: {a: {approval: {}}}\n'
  expect((await rest('PUT', '/workflows/billing/w', { source })).status).toBe(201)
  const [context, page, wrong] = await as('nina', '/admin/namespaces')
  const row = page.getByRole('row').filter({ hasText: 'billing' })
  const shown = (name: string) => row.locator(`[data-quota=${name}]`)
  await row.getByRole('button', { name: 'Set quotas' }).click()
  await dialog(page).getByLabel('Runs that have not ended').fill('2')
  await dialog(page).getByLabel('Stored bytes').fill('1 Zi')
  expect(await dialog(page).getByRole('button', { name: 'Set the quotas' }).isDisabled()).toBe(true)
  await dialog(page).getByLabel('Stored bytes').fill('64Mi')
  await dialog(page).getByLabel('Least isolation of tasks').selectOption('fence')
  await dialog(page).getByLabel('Paths that tasks may read').fill('/opt/tools  /srv/shop')
  await dialog(page).getByRole('button', { name: 'Set the quotas' }).click()
  await shown('runs').getByText('0 of 2').waitFor()
  expect(await shown('runs').locator('.bar').count()).toBe(1)
  expect(await shown('triggers').locator('.bar').count()).toBe(0)
  for (const status of [202, 202, 429]) {
    expect((await rest('POST', '/runs', { workflow: 'billing/w' })).status).toBe(status)
  }
  await page.reload()
  await shown('runs').getByText('2 of 2').waitFor()
  const [billing] = (await rest('GET', '/namespaces?namespace=billing')).body.items
  expect(billing.quotas).toMatchObject({ runs: 2, stored_bytes: 64 * 1024 ** 2 })
  expect(billing).toMatchObject({ isolation: 'fence', allow_read: ['/opt/tools', '/srv/shop'] })
  await row.locator('[data-rule=isolation]').getByText('fence').waitFor()
  await row.getByRole('button', { name: 'Set quotas' }).click()
  await dialog(page).getByLabel('Runs that have not ended').fill('')
  await dialog(page).getByRole('button', { name: 'Set the quotas' }).click()
  await shown('runs').waitFor({ state: 'detached' })
  expect((await rest('POST', '/runs', { workflow: 'billing/w' })).status).toBe(202)
  expect(wrong).toEqual([])
  await context.close()
  await user('otto', { role: 'viewer', namespace: 'billing' })
  const [less, page2] = await as('otto', '/admin/namespaces')
  await page2.getByText('You may not change quotas.').waitFor()
  const button = page2
    .getByRole('row')
    .filter({ hasText: 'billing' })
    .getByRole('button', { name: 'Set quotas' })
  expect(await button.isDisabled()).toBe(true)
  await less.close()
})

test('the audit log: changes are found by user and verb, and the next page by its address', async () => {
  await user('joe', { role: 'cluster' })
  // The first secret of a node also makes the key, which is a separate change.
  expect((await rest('PUT', '/secrets/default/OTHER', { value: 'a value of it' })).status).toBeLessThan(300)
  const [context, page, wrong] = await as('joe', '/admin/audit')
  const set = async (name: string) => {
    const answer = await context.request.put(`${server.base}/api/v1/secrets/default/${name}`, {
      data: { value: 'a value of it' },
      headers: { Origin: server.base },
    })
    expect(answer.ok(), await answer.text()).toBe(true)
  }
  await set('FIRST')
  await Promise.all(Array.from({ length: 100 }, (_, i) => set(`A${i}`)))
  const rows = page.getByRole('row').filter({ hasText: 'set-secret' })
  await page.getByLabel('User').fill('joe')
  await page.getByLabel('User').press('Enter')
  await page.getByLabel('Verb').selectOption('secret.write')
  await expect.poll(() => rows.count()).toBe(100)
  expect(await rows.filter({ hasText: 'FIRST' }).count()).toBe(0)
  await page.getByRole('button', { name: 'Older' }).click()
  await rows.getByText('FIRST').waitFor()
  expect(await rows.count()).toBe(1)
  await page.reload()
  await rows.getByText('FIRST').waitFor()
  await page.getByLabel('User').fill('nobody')
  await page.getByLabel('User').press('Enter')
  await page.getByText('No call fits the filter').waitFor()
  const { searchParams } = new URL(page.url())
  expect([searchParams.get('principal'), searchParams.get('verb')]).toEqual(['nobody', 'secret.write'])
  expect(searchParams.has('cursor')).toBe(false)
  await user('kim', { role: 'viewer' })
  const [less, page2] = await as('kim', '/admin/audit')
  await page2.getByText('You need a role with audit.read').waitFor()
  await less.close()
  expect(wrong).toEqual([])
  await context.close()
})
