// Starts the real program with a fresh data folder, and pages of a browser on it. bin/skein must have been built with the page.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'

export const program = join(process.cwd(), '../bin/skein')
const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync)
export const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export type Server = {
  base: string
  data: string
  /** The process that runs now. */
  pid: () => number
  kill: () => Promise<void>
  start: () => Promise<void>
  end: () => Promise<void>
}

/**
 * Finds a free port below those that the kernel gives to outgoing connections. Such a connection could take the
 * port before its server listens, or while its server is killed.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 18_000)
    const isFree = await new Promise<boolean>((found) => {
      const probe = createServer()
      probe.once('error', () => found(false))
      probe.listen(port, '127.0.0.1', () => probe.close(() => found(true)))
    })
    if (isFree) return port
  }
}

/**
 * The token of each node by its address. It stays valid after a kill of the node, unlike the node's own
 * token.
 */
const tokens = new Map<string, string>()

/** Makes a token with the one that the node has made for the programs of its user. */
async function makeToken(base: string, data: string): Promise<string> {
  const own = readFileSync(join(data, 'access', 'local.token'), 'utf8').trim()
  const answer = await fetch(`${base}/api/v1/tokens`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${own}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ kind: 'api', name: 'page' }),
  })
  return ((await answer.json()) as { secret: string }).secret
}

/**
 * Makes calls of an address present a token: a token that is made with the token of a node, or the token of
 * another address.
 */
export async function remember(address: string, node: string, data?: string) {
  const token = data === undefined ? tokens.get(node) : await makeToken(node, data)
  tokens.set(address, token as string)
}

export const tokenOf = (base: string): string => tokens.get(base) as string

/** Calls a node that was started here, with its token. */
export function ask(address: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers)
  headers.set('Authorization', `Bearer ${tokens.get(new URL(address).origin)}`)
  return fetch(address, { ...init, headers })
}

/**
 * Starts a node, with more arguments if they are given. It keeps its port and its data folder when it is
 * killed and started again.
 */
export async function serve(more: string[] = []): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), 'skein-page-'))
  const listen = `127.0.0.1:${await freePort()}`
  let node: ChildProcess | undefined
  const start = async () => {
    const child = spawn(program, ['dev', '--data', folder, '--listen', listen, '--name', 'n1', ...more], {
      cwd: join(process.cwd(), '..'),
      env: { ...process.env, XDG_STATE_HOME: join(folder, 'state') },
    })
    node = child
    await new Promise<void>((found, fail) => {
      let text = ''
      child.stdout?.on('data', (chunk) => {
        text += chunk
        if (text.includes('Try, in another')) found()
      })
      child.on('exit', (code) => fail(new Error(`the node ended with ${code}: ${text}`)))
    })
  }
  const stop = async (signal: 'SIGINT' | 'SIGKILL') => {
    if (!node || node.exitCode !== null || node.signalCode !== null) return
    const ended = new Promise((done) => node?.once('exit', done))
    node.kill(signal)
    await ended
  }
  await start()
  const base = `http://${listen}`
  tokens.set(base, await makeToken(base, folder))
  return {
    base,
    data: folder,
    pid: () => node?.pid as number,
    start,
    kill: () => stop('SIGKILL'),
    end: async () => {
      await stop('SIGINT')
      // A process of a task can still write while the folder is removed.
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
    },
  }
}

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: chromiumPath as string, args: ['--no-sandbox'] })

export type Look = {
  colorScheme?: 'light' | 'dark'
  width?: number
  height?: number
  signedIn?: boolean
  locale?: string
}

/**
 * Opens a context that is signed in, unless that is not wanted. It collects everything that must not happen:
 * errors on the console, and forbidden or foreign requests.
 */
export async function contextOf(
  browser: Browser,
  base: string,
  { colorScheme = 'light', width = 1440, height = 900, signedIn = true, locale = 'en-US' }: Look = {},
): Promise<{ context: BrowserContext; wrong: string[] }> {
  const wrong: string[] = []
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme,
    locale,
    timezoneId: 'UTC', // the zone of the schedules in the flows
  })
  // A bound for a machine that is busy, as in vite.config.ts.
  context.setDefaultTimeout(60_000)
  // A toast stays for ten seconds. A busy machine may need more until a flow presses its Undo.
  await context.addInitScript((life) => {
    const later = window.setTimeout
    const held = (f: TimerHandler, ms?: number, ...rest: unknown[]) =>
      later(f, ms === life ? 60 * life : ms, ...rest)
    window.setTimeout = held as typeof setTimeout
  }, 10_000)
  if (signedIn) {
    const answer = await context.request.post(`${base}/api/v1/session`, { data: { token: tokens.get(base) } })
    expect(answer.status()).toBe(200)
  }
  await context.addInitScript(() =>
    document.addEventListener('securitypolicyviolation', (e) =>
      console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`),
    ),
  )
  const at = (page: Page | null) => (page ? ` on ${page.url()}` : '')
  context.on('console', (m) => m.type() === 'error' && wrong.push(m.text() + at(m.page())))
  context.on('weberror', (e) => wrong.push(e.error().message + at(e.page())))
  context.on(
    'request',
    (r) =>
      !r.url().startsWith(base) && !r.url().startsWith('data:') && wrong.push(`foreign request: ${r.url()}`),
  )
  return { context, wrong }
}

type Axe = {
  run: (
    of: Document,
    options: object,
  ) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }>
}

/** The accessibility faults of a page that has axe, without the parts of a report that are not shown here. */
export function faults(page: Page, rules?: string[]): Promise<string[]> {
  return page.evaluate(async (only) => {
    const run = (window as unknown as { axe: Axe }).axe.run
    const quick = { resultTypes: ['violations'], selectors: false, preload: false, iframes: false }
    const { violations } = await run(document, only ? { ...quick, runOnly: only } : quick)
    return violations.map(
      (v) =>
        `${v.id}: ${v.nodes
          .slice(0, 3)
          .map((n) => `${n.html.slice(0, 140)} ${n.failureSummary.slice(0, 160)}`)
          .join(' | ')}`,
    )
  }, rules)
}

export const open = async (context: BrowserContext, url: string): Promise<Page> =>
  goTo(await context.newPage(), url)

/**
 * Opens an address in an existing tab. With the browser's caches, that takes a third of the time of a new
 * context. The page reads all again when its stream begins, so goTo waits for that too: later, only a change or a
 * timer makes the page read.
 */
export async function goTo(page: Page, url: string): Promise<Page> {
  await page.goto(url)
  await page.locator('h1').first().waitFor()
  // A person who may read no runs gets no stream. Without a session there is the form.
  const state = '.fresh:is([data-state="live"], [data-state="polling"]), .sign-in'
  await page.locator(state).first().waitFor({ state: 'attached' })
  await idle(page)
  return page
}

/** Waits until the page reads nothing and knows of no change that it will read. */
export const idle = (page: Page) =>
  page.waitForFunction(() => (window as unknown as { skein?: { idle: () => boolean } }).skein?.idle())

/** Types into the palette, and takes the entry when it is the first one. */
export async function palette(page: Page, text: string, entry: RegExp) {
  await page.keyboard.press('Control+k')
  await page.locator('.palette input:focus').waitFor()
  await page.keyboard.type(text)
  await page.getByRole('option', { name: entry, selected: true }).waitFor()
  await page.keyboard.press('Enter')
}

/**
 * Presses keys until they have had their effect. A part of a page takes its keys a moment after it is shown, and
 * two keys of a chord must follow within a second.
 */
export async function pressUntil(page: Page, keys: string[], isDone: () => Promise<boolean> | boolean) {
  await expect
    .poll(
      async () => {
        if (await isDone()) return true
        for (const key of keys) await page.keyboard.press(key)
        return isDone()
      },
      { interval: 1_000 },
    )
    .toBe(true)
}

export async function call(base: string, path: string, body: object): Promise<{ id: string }> {
  const response = await ask(`${base}/api/v1${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  return (await response.json()) as { id: string }
}

export async function apply(base: string, name: string, text: string) {
  const answer = await ask(`${base}/api/v1/workflows/default/${name}`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/yaml' },
    body: text,
  })
  expect(answer.status, await answer.text()).toBeLessThan(300)
}

/** Waits for the end of a run and returns its state. */
export async function ended(base: string, id: string): Promise<string> {
  const answer = await ask(`${base}/api/v1/runs/${id}`, { headers: { Prefer: 'wait=60' } })
  return ((await answer.json()) as { state: string }).state
}
