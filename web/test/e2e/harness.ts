// Starts the real program with a fresh data folder, and pages of a browser on it. bin/skein must have been built with the page.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'

const program = join(process.cwd(), '../bin/skein')
const chromiumPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync)
export const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export type Server = {
  base: string
  kill: () => Promise<void>
  start: () => Promise<void>
  end: () => Promise<void>
}

async function freePort(): Promise<number> {
  return new Promise((found) => {
    const probe = createServer()
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => found(port))
    })
  })
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
  return {
    base: `http://${listen}`,
    start,
    kill: () => stop('SIGKILL'),
    end: async () => {
      await stop('SIGINT')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: chromiumPath as string, args: ['--no-sandbox'] })

export type Look = { colorScheme?: 'light' | 'dark'; width?: number; height?: number }

/** Opens a context that gathers what must not happen: errors on the console, forbidden and foreign requests. */
export async function contextOf(
  browser: Browser,
  base: string,
  { colorScheme = 'light', width = 1440, height = 900 }: Look = {},
): Promise<{ context: BrowserContext; wrong: string[] }> {
  const wrong: string[] = []
  const context = await browser.newContext({ viewport: { width, height }, colorScheme })
  await context.addInitScript(() =>
    document.addEventListener('securitypolicyviolation', (e) =>
      console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`),
    ),
  )
  context.on('console', (m) => m.type() === 'error' && wrong.push(m.text()))
  context.on('weberror', (e) => wrong.push(e.error().message))
  context.on(
    'request',
    (r) =>
      !r.url().startsWith(base) && !r.url().startsWith('data:') && wrong.push(`foreign request: ${r.url()}`),
  )
  return { context, wrong }
}

export async function open(context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(url)
  await page.locator('h1').first().waitFor()
  await idle(page)
  return page
}

/** Waits until the page reads nothing. */
export const idle = (page: Page) =>
  page.waitForFunction(() => (window as unknown as { skein?: { idle: () => boolean } }).skein?.idle())

export async function call(base: string, path: string, body: object): Promise<{ id: string }> {
  const response = await fetch(`${base}/api/v1${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  return (await response.json()) as { id: string }
}

export async function apply(base: string, name: string, text: string) {
  const answer = await fetch(`${base}/api/v1/workflows/default/${name}`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/yaml' },
    body: text,
  })
  expect(answer.status, await answer.text()).toBeLessThan(300)
}

/** Waits for the end of a run and gives its state. */
export async function ended(base: string, id: string): Promise<string> {
  const answer = await fetch(`${base}/api/v1/runs/${id}`, { headers: { Prefer: 'wait=60' } })
  return ((await answer.json()) as { state: string }).state
}
