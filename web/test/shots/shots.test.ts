// Takes the pictures of docs/ui on the real program: make screenshots. SHOTS narrows them by name.
import { mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as harness from '../e2e/harness'

const out = process.env.SHOTS_TO ?? join(process.cwd(), '../docs/ui')
const only = process.env.SHOTS ?? ''
const sizeMax = 100 << 10

let server: harness.Server
let failed = ''
let waits = ''

const nightly = `name: nightly-orders
description: Load the orders of the day into the warehouse
params:
  fail: {type: bool, default: false}
triggers:
  - {name: nightly, cron: "15 2 * * *", timezone: Europe/Berlin}
tasks:
  extract_orders: {run: "echo 'reading 1,204 orders'; sleep 0.3"}
  extract_users: {run: "echo 'reading 310 users'; sleep 0.2"}
  extract_prices: {run: "echo 'reading 88 prices'; sleep 0.1"}
  validate: {needs: [extract_orders, extract_users], run: "echo all rows are valid; sleep 0.2"}
  transform: {needs: validate, foreach: [a, b, c, d, e, f, g, h], run: "sleep 0.1"}
  load_orders:
    needs: [transform, extract_prices]
    env: {FAIL: "\${{ params.fail }}"}
    run: |
      echo connecting to the warehouse
      echo COPY 1204
      if [ "$FAIL" = true ]; then
        echo 'ERROR: relation "orders" does not exist' >&2
        exit 2
      fi
      sleep 0.4
  load_users: {needs: transform, run: "sleep 0.2"}
  check: {needs: [load_orders, load_users], run: "true"}
  publish: {needs: check, run: "true"}
`
const hourly = `name: hourly-feed
triggers:
  - {name: hourly, cron: "0 * * * *"}
  - {name: quarter, cron: "*/15 6-20 * * 1-5"}
tasks:
  fetch: {run: "sleep 0.1"}
  store: {needs: fetch, run: "true"}
`
const pulse = `name: pulse
triggers: [{name: beat, every: 5m}]
tasks: {beat: {run: "true"}}
`

beforeAll(async () => {
  mkdirSync(out, { recursive: true })
  server = await harness.serve()
  const { base } = server
  await harness.apply(base, 'nightly-orders', nightly)
  await harness.apply(base, 'hourly-feed', hourly)
  await harness.apply(base, 'pulse', pulse)
  await harness.apply(
    base,
    'release',
    'name: release\ntasks:\n  build: {run: "true"}\n  ok: {needs: build, approval: {message: "Release 4.2 to all customers?"}}\n  ship: {needs: ok, run: "true"}\n',
  )
  for (let i = 0; i < 8; i++) {
    const { id } = await harness.call(base, '/runs', {
      workflow: 'nightly-orders',
      params: { fail: i === 3 || i === 7 },
    })
    await harness.ended(base, id)
    failed = id
  }
  waits = (await harness.call(base, '/runs', { workflow: 'release' })).id
  await harness.call(base, '/runs', { workflow: 'job-center' })
  for (const person of people) await harness.call(base, '/users', person)
  await harness.call(base, '/roles', { name: 'starter', verbs: ['workflow.read', 'run.read', 'run.start'] })
  await harness.call(base, '/users/finn:disable', {})
  await harness.call(base, '/tokens', {
    kind: 'api',
    name: 'deploys',
    for: 'ci',
    verbs: ['workflow.read', 'workflow.source', 'workflow.write'],
    namespaces: ['shop'],
    expires_at: new Date(Date.now() + 90 * 86_400_000).toISOString(),
  })
  await harness.call(base, '/tokens', { kind: 'worker', name: 'w1' })
})

const person = (name: string, ...roles: [role: string, namespace?: string][]) => ({
  name,
  roles: roles.map(([role, namespace]) => ({ role, ...(namespace ? { namespace } : {}) })),
})
const people = [
  person('ada', ['cluster']),
  person('ben', ['operator', 'shop'], ['viewer']),
  person('cleo', ['admin', 'warehouse'], ['editor', 'shop']),
  person('dora', ['auditor']),
  person('finn', ['viewer']),
  { ...person('ci', ['editor', 'shop']), kind: 'service' },
]

afterAll(async () => {
  await server?.end()
})

type Shot = { name: string; path: () => string; look?: harness.Look; ready?: string }

const shots: Shot[] = [
  { name: 'home', path: () => '/' },
  { name: 'home-phone', path: () => '/', look: { width: 390, height: 844 } },
  { name: 'workflows', path: () => '/workflows' },
  {
    name: 'grid',
    path: () => `/w/default/nightly-orders?tab=grid&show=times&task=load_orders&run=${failed}`,
  },
  { name: 'run', path: () => `/r/${failed}?task=load_orders`, look: { width: 1200, height: 600 } },
  {
    name: 'graph-dark',
    path: () => `/r/${failed}?view=graph&task=load_orders`,
    look: { colorScheme: 'dark' },
  },
  { name: 'timeline', path: () => `/r/${failed}?view=timeline` },
  { name: 'calendar', path: () => '/schedules/calendar' },
  {
    name: 'calendar-month-dark',
    path: () => '/schedules/calendar?view=month',
    look: { colorScheme: 'dark' },
  },
  {
    name: 'editor',
    path: () => '/edit/default/nightly-orders?task=load_orders',
    look: { width: 1100, height: 560 },
    ready: '.editor [role=application]',
  },
  { name: 'replay', path: () => `/r/${failed}?view=replay&at=700` },
  { name: 'approval', path: () => `/r/${waits}?task=ok` },
  { name: 'users', path: () => '/admin/users', look: { height: 520 } },
  { name: 'roles-dark', path: () => '/admin/roles?role=starter', look: { colorScheme: 'dark' } },
  { name: 'tokens', path: () => '/admin/tokens', look: { height: 420 } },
]

test('pictures of the pages', async () => {
  const browser = await harness.launch()
  for (const shot of shots.filter((s) => s.name.includes(only))) {
    const { context, wrong } = await harness.contextOf(browser, server.base, {
      width: 1280,
      height: 760,
      ...shot.look,
    })
    const page = await harness.open(context, server.base + shot.path())
    if (shot.ready) await page.locator(shot.ready).first().waitFor()
    await harness.idle(page)
    const file = join(out, `${shot.name}.png`)
    await page.screenshot({ path: file, animations: 'disabled' })
    expect.soft(statSync(file).size, `${file} is too large`).toBeLessThanOrEqual(sizeMax)
    expect(wrong, shot.name).toEqual([])
    await context.close()
  }
  await browser.close()
})
