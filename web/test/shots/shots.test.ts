// Takes the pictures of docs/ui on the real program: make screenshots. SHOTS narrows them by parts of names, with commas.
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Repository, repository } from '../e2e/gitserver'
import * as harness from '../e2e/harness'

const out = process.env.SHOTS_TO ?? join(process.cwd(), '../docs/ui')
const only = (process.env.SHOTS ?? '').split(',')
// Takes every picture in one theme or at one width, so that a person can compare them.
const theme = {
  ...(process.env.SHOTS_THEME ? { colorScheme: process.env.SHOTS_THEME as 'light' | 'dark' } : {}),
  ...(process.env.SHOTS_WIDTH ? { width: Number(process.env.SHOTS_WIDTH) } : {}),
}
const sizeMax = 100 << 10

let server: harness.Server
let repo: Repository
let failed = ''
let loadRun = ''
let alert = ''
let waits = ''
let trained = ''
/** The work outside of its process has ended once this file exists. */
const gate = join(tmpdir(), `skein-shots-${process.pid}`)
let decided = ''

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

const warehouse = `name: load
namespace: warehouse
description: Load what the shops sold
queue: etl
locks: [warehouse]
params: {ok: {type: bool, default: false}}
alerts:
  - {on: [failed, missed], to: [ops, mail], severity: critical, message: "The wiki page Loads has the runbook", escalate: [{after: 30m, to: oncall}, {after: 2h, to: lead}]}
  - {name: morning, deadline: {by: "07:30", timezone: Europe/Berlin}, to: ops}
  - {name: two-hours, deadline: {after: 2h}, to: ops, severity: warning}
  - {on: slow, than: 2x p95, to: ops, severity: warning}
triggers: [{name: nightly, cron: "30 3 * * *", timezone: Europe/Berlin}]
tasks:
  fetch: {run: "echo 88 files"}
  load: {needs: fetch, env: {OK: "\${{ params.ok }}"}, run: 'test "$OK" = true || { echo "ERROR: disk quota exceeded" >&2; exit 28; }'}
`
const wide = (version: number) => `name: regions
description: The same steps for each region
tasks:
  start: {approval: {}}
${['eu', 'us', 'jp', 'br', 'in', 'za']
  .filter((r) => version > 1 || r !== 'za')
  .map(
    (r) =>
      `  fetch_${r}: {needs: start, run: "true"}\n  clean_${r}: {needs: fetch_${r}, run: "${version > 1 && r === 'jp' ? 'exit 0' : 'true'}"}\n  load_${r}: {needs: clean_${r}, run: "true"}\n`,
  )
  .join('')}${version > 1 ? '' : '  archive: {needs: load_eu, run: "true"}\n'}  report:
    needs: [load_eu, load_us, load_jp, load_br, load_in${version > 1 ? ', load_za' : ''}]
    approval: {}
  mail: {needs: report, run: "true"}
`
const holding = `name: holding
namespace: warehouse
queue: etl
locks: [customers]
tasks:
  train: {queue: gpu, run: "sleep 3600"}
  test: {queue: gpu, run: "sleep 3600"}
`

const orders = `name: orders
namespace: shop
params:
  id: {default: none}
triggers:
  - {name: paid, event: {type: order.paid, filter: "event.data.total > 5"}, max_concurrent_runs: 1, params: {id: "\${{ trigger.event.id }}"}}
  - {name: crm, poll: {connection: crm, url: /orders, every: 1s, id: item.id}}
  - {name: rows, query: {connection: warehouse, query: "SELECT id FROM orders WHERE id > :cursor ORDER BY id LIMIT 500", cursor: id}}
tasks:
  check: {run: "true"}
  sent: {needs: check, wait: {event: {type: order.sent, filter: event.data.id == params.id, within: 1h}}}
  bill: {needs: check, sql: {connection: warehouse, query: "UPDATE orders SET billed = true WHERE id = :id", params: {id: "\${{ params.id }}"}}}
  close: {needs: [sent, bill], approval: {message: "Close the order?"}}
`
const train = `name: train
namespace: shop
tasks:
  prepare: {run: "sleep 0.3"}
  train: {needs: prepare, run: "echo job-17 > $SKEIN_HANDLE; echo submitted job-17; sleep 1; exit 1", release: "test -e ${gate}", release_timeout: 1h}
`

/**
 * Makes the data that the pages show about other systems: connections, sources, and work outside of an
 * attempt.
 */
async function outside() {
  const { base } = server
  await put('/connections/shop/crm', {
    config: { http: { url: 'http://127.0.0.1:9/api', token: { secret: 'CRM_TOKEN' } } },
  })
  await put('/connections/shop/warehouse', {
    config: {
      postgres: { host: 'db.example.org', user: 'loader', password: { secret: 'PG' }, database: 'orders' },
    },
  })
  await put('/connections/shop/gpu', {
    config: {
      ssh: { host: 'gpu-3', user: 'ci', key: { secret: 'KEY' }, known_hosts: 'gpu-3 ssh-ed25519 AAAA' },
    },
  })
  for (const [name, text] of [
    ['orders', orders],
    ['train', train],
  ] as const) {
    const answer = await harness.ask(`${base}/api/v1/workflows/shop/${name}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/yaml' },
      body: text,
    })
    expect(answer.status, await answer.text()).toBeLessThan(300)
  }
  const events = Array.from({ length: 12 }, (_, i) => ({
    specversion: '1.0',
    id: `o-${1200 + i}`,
    source: 'shop',
    type: 'order.paid',
    data: { id: `o-${1200 + i}`, total: 3 + i },
  }))
  const sent = await harness.ask(`${base}/api/v1/events?namespace=shop`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/cloudevents-batch+json' },
    body: JSON.stringify(events),
  })
  expect(sent.status, await sent.text()).toBe(200)
  trained = (await harness.call(base, '/runs', { workflow: 'shop/train' })).id
  // A run is paused for a moment, and one of its tasks is marked.
  decided = (await harness.call(base, '/runs', { workflow: 'regions' })).id
  const state = async () => {
    const answer = await harness.ask(`${base}/api/v1/runs/${decided}`)
    return ((await answer.json()) as { state: string }).state
  }
  const moment = (ms: number) => new Promise((rest) => setTimeout(rest, ms))
  while ((await state()) !== 'suspended') await moment(100)
  await harness.call(base, `/runs/${decided}/tasks/start:approve`, {})
  await harness.call(base, `/runs/${decided}:pause`, {})
  await moment(800)
  await harness.call(base, `/runs/${decided}:resume`, {})
  await moment(500)
  await harness.call(base, `/runs/${decided}/tasks/report:mark`, {
    state: 'succeeded',
    reason: 'it was read',
  })
  await harness.ended(base, decided)
}

/** Sends a body with PUT. */
const put = async (path: string, body: object) => {
  const answer = await harness.ask(`${server.base}/api/v1${path}`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect(answer.status, await answer.text()).toBeLessThan(300)
}

/** Makes the data that the pages of alerts, queues and locks show. */
async function alarms() {
  const { base } = server
  await put('/channels/warehouse/ops', { config: { log: {} } })
  await put('/channels/warehouse/mail', { config: { email: { to: ['loads@example.org'] } } })
  await put('/channels/warehouse/oncall', {
    config: { pagerduty: { key: { secret: 'PAGERDUTY' } } },
  })
  await put('/channels/warehouse/chat', {
    config: { telegram: { token: { secret: 'BOT' }, chat: '@loads' } },
  })
  await put('/channels/default/slack', { config: { slack: { url: { secret: 'SLACK_OPS' } } } })
  await put('/queues/etl', { limit: 2 })
  await put('/queues/gpu', { limit: 1 })
  for (const [name, text] of [
    ['warehouse/load', warehouse],
    ['warehouse/holding', holding],
    ['default/regions', wide(1)],
    ['default/regions', wide(2)],
  ] as const) {
    const answer = await harness.ask(`${base}/api/v1/workflows/${name}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/yaml' },
      body: text,
    })
    expect(answer.status, await answer.text()).toBeLessThan(300)
  }
  await harness.call(base, '/silences/default', { seconds: 4 * 3600, reason: 'the mail server moves' })
  await harness.call(base, '/silences/*', { seconds: 1800, rule: 'late', reason: 'clocks are set' })
  const broken = await harness.call(base, '/runs', { workflow: 'warehouse/load' })
  await harness.ended(base, broken.id)
  loadRun = broken.id
  const answer = await harness.ask(`${base}/api/v1/alerts`)
  alert = ((await answer.json()) as { items: { id: string }[] }).items[0]?.id ?? ''
  for (let i = 0; i < 3; i++) await harness.call(base, '/runs', { workflow: 'warehouse/holding' })
}

beforeAll(async () => {
  mkdirSync(out, { recursive: true })
  repo = await repository('pass-word-1')
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
  await alarms()
  await outside()
}, 300_000)

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
  writeFileSync(gate, '')
  await server?.end()
  repo?.end()
  rmSync(gate)
}, 300_000)

type Shot = {
  name: string
  path: () => string
  look?: harness.Look
  ready?: string
  /** The actions before the picture is taken. */
  act?: (page: Page) => Promise<unknown>
}

const shots: Shot[] = [
  { name: 'home', path: () => '/', look: { height: 660 } },
  { name: 'home-chinese', path: () => '/', look: { width: 1100, height: 600, locale: 'zh-CN' } },
  { name: 'home-phone', path: () => '/', look: { width: 390, height: 844 } },
  { name: 'workflows', path: () => '/workflows' },
  {
    name: 'grid',
    path: () => `/w/default/nightly-orders?tab=grid&show=times&task=load_orders&run=${failed}`,
  },
  { name: 'run', path: () => `/r/${failed}?task=load_orders`, look: { width: 1200, height: 600 } },
  {
    name: 'run-chinese',
    path: () => `/r/${failed}?task=load_orders`,
    look: { width: 1200, height: 560, locale: 'zh-CN' },
  },
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
    name: 'calendar-pause',
    path: () => '/schedules/calendar',
    act: async (page) => {
      const at = (hour: number) => {
        const day = new Date(Date.now() + 86_400_000)
        day.setHours(hour, 0, 0, 0)
        return day.toISOString()
      }
      for (const trigger of ['hourly', 'quarter']) {
        const body = { from: at(8), until: at(16), reason: 'the feed moves to another machine' }
        await harness.call(server.base, `/schedules/default/hourly-feed/${trigger}:pause`, body)
      }
      await harness.goTo(page, page.url())
    },
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
  { name: 'alerts', path: () => '/alerts', look: { height: 420 } },
  { name: 'alert', path: () => `/alerts/${alert}`, look: { height: 900 } },
  { name: 'silence-dark', path: () => `/silences?ask=silence`, look: { colorScheme: 'dark', height: 640 } },
  { name: 'rules', path: () => '/w/warehouse/load?tab=alerts', look: { height: 480 } },
  { name: 'channels', path: () => '/admin/channels', look: { height: 520 } },
  {
    name: 'channel-form-dark',
    path: () => '/admin/channels?ask=change:warehouse/chat',
    look: { colorScheme: 'dark', height: 640 },
    ready: '[role=dialog]',
  },
  {
    name: 'recover',
    path: () => `/r/${failed}?task=load_orders&ask=recover`,
    look: { height: 560 },
    ready: '[role=dialog] li',
  },
  {
    name: 'graph-folded',
    path: () => '/w/default/regions?tab=graph&group=on',
    look: { height: 560 },
  },
  {
    name: 'graph-changes-dark',
    path: () => '/w/default/regions?tab=graph&version=2&against=1',
    look: { colorScheme: 'dark' },
  },
  { name: 'connections', path: () => '/admin/connections', look: { height: 460 } },
  {
    name: 'connection-form-dark',
    path: () => '/admin/connections?ask=change:shop/warehouse',
    look: { colorScheme: 'dark', height: 900 },
    ready: '[role=dialog]',
  },
  { name: 'triggers', path: () => '/w/shop/orders?tab=triggers', look: { height: 420 } },
  { name: 'trigger', path: () => '/t/shop/orders/paid' },
  { name: 'source-away-dark', path: () => '/t/shop/orders/crm', look: { colorScheme: 'dark', height: 620 } },
  {
    name: 'seek',
    path: () => '/t/shop/orders/paid?ask=seek',
    look: { height: 560 },
    ready: '[role=dialog]',
  },
  { name: 'outside', path: () => `/r/${trained}?task=train&tab=attempts`, look: { height: 680 } },
  {
    name: 'editor-event',
    path: () => '/edit/shop/orders?task=sent',
    look: { height: 720 },
    ready: '.editor [role=application]',
  },
  { name: 'replay-decisions', path: () => `/r/${decided}?view=replay&at=600`, look: { height: 560 } },
  { name: 'cluster', path: () => '/cluster', look: { height: 520 } },
  { name: 'node', path: () => '/n/n1' },
  { name: 'search', path: () => '/search?q=orders', look: { height: 640 } },
  {
    name: 'views-dark',
    path: () => '/runs?state=failed&since=7d',
    look: { colorScheme: 'dark', height: 520 },
    act: async (page) => {
      for (const name of ['failed this week', 'mine']) {
        await page.getByRole('button', { name: 'Views' }).click()
        await page.getByRole('menuitem', { name: 'Save this view…' }).click()
        await page.getByRole('dialog').getByLabel('Name').fill(name)
        await page.keyboard.press('Enter')
        await page.getByRole('dialog').waitFor({ state: 'detached' })
      }
      await page.getByRole('button', { name: 'Views' }).click()
      await page.getByRole('menu').waitFor()
    },
  },
  { name: 'queues', path: () => '/queues', look: { height: 420 } },
  { name: 'queue-dark', path: () => '/q/gpu', look: { colorScheme: 'dark' } },
  { name: 'locks', path: () => '/locks', look: { height: 360 } },
  { name: 'audit', path: () => '/admin/audit', look: { height: 640 } },
  { name: 'deadlines', path: () => `/r/${loadRun}?view=about`, look: { height: 640 } },
  {
    name: 'git',
    path: () => '/admin/git',
    look: { height: 520 },
    act: async (page) => {
      await sources()
      await harness.goTo(page, `${page.url()}?ask=sync:shop/flows`)
      await page.locator('[data-change=changed]').waitFor()
    },
  },
  {
    name: 'git-form-dark',
    path: () => '/admin/git?ask=change:shop/flows',
    look: { colorScheme: 'dark', height: 720 },
    ready: '[role=dialog]',
  },
  {
    name: 'git-editor',
    path: () => '/edit/shop/invoices',
    look: { height: 700 },
    ready: '.editor [role=application]',
  },
]

/** A git source with three workflows, and a commit that is not in force yet. */
async function sources() {
  const flow = (name: string, ...tasks: string[]) =>
    `name: ${name}\ntriggers:\n  - {cron: "30 5 * * *"}\ntasks:\n${tasks
      .map((task, i) => `  ${task}: {${i > 0 ? `needs: ${tasks[i - 1]}, ` : ''}run: "bin/${task}"}\n`)
      .join('')}`
  repo.commit({
    'invoices.yaml': flow('invoices', 'collect', 'check', 'send'),
    'returns.yaml': flow('returns', 'collect', 'refund'),
    'stock.yaml': flow('stock', 'count', 'reorder'),
  })
  await put('/secrets/shop/GIT_TOKEN', { value: 'pass-word-1' })
  await put('/git-sources/shop/flows', {
    url: repo.url,
    login: 'git',
    password_secret: 'GIT_TOKEN',
    every: '1h',
  })
  // The next look of the node is due in an hour, so the later commit waits for a sync.
  const applied = async () => {
    const answer = await harness.ask(`${server.base}/api/v1/git-sources?namespace=shop`)
    return ((await answer.json()) as { items: { state: { applied: string | null } }[] }).items[0]?.state
      .applied
  }
  await expect.poll(applied, { timeout: 30_000 }).toBeTruthy()
  repo.commit({
    'invoices.yaml': flow('invoices', 'collect', 'check', 'archive', 'send'),
    'returns.yaml': '',
    'prices.yaml': flow('prices', 'fetch', 'publish'),
  })
}

test('pictures of the pages', async () => {
  const browser = await harness.launch()
  for (const shot of shots.filter((s) => only.some((part) => s.name.includes(part)))) {
    const look = { width: 1280, height: 760, ...shot.look, ...theme }
    const { context, wrong } = await harness.contextOf(browser, server.base, look)
    const page = await harness.open(context, server.base + shot.path())
    if (shot.ready) await page.locator(shot.ready).first().waitFor()
    await shot.act?.(page)
    await harness.idle(page)
    const file = join(out, `${shot.name}.png`)
    await page.screenshot({ path: file, animations: 'disabled' })
    expect.soft(statSync(file).size, `${file} is too large`).toBeLessThanOrEqual(sizeMax)
    expect(wrong, shot.name).toEqual([])
    await context.close()
  }
  await browser.close()
})
