// The page in Chinese: the browser or the person chooses it, no English sentence is left, and the texts fit
// into their places.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apply, axe, call, contextOf, ended, faults, goTo, idle, launch, type Server, serve } from './harness'

let server: Server
let browser: Browser
let failed = ''

beforeAll(async () => {
  server = await serve()
  browser = await launch()
  await apply(
    server.base,
    'asks',
    'name: asks\ntriggers: [{name: daily, cron: "0 3 * * *"}]\nalerts: [{on: failed, to: ops}]\ntasks: {ok: {approval: {}}}\n',
  )
  await call(server.base, '/schedules/default/asks/daily:trigger', { reason: 'a test' })
  await call(server.base, '/runs', { workflow: 'asks' })
  const { id } = await call(server.base, '/runs', { workflow: 'job-center', params: { fail: 't4' } })
  expect(await ended(server.base, id)).toBe('failed')
  failed = id
})

afterAll(async () => {
  await browser?.close()
  await server?.end()
})

/**
 * Returns the shown English texts: two words, or one word with a capital letter. English texts of the server
 * or of a person are marked as such or follow a colon, and code does not count.
 */
const english = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const names =
      /^(Skein|Worker|Shell|Python|Spark|MapReduce|Git|Go|English|Mozilla.*|The page of Skein .*|: .*)$/
    const isEnglish = (text: string) =>
      (/[a-z]{2,} [a-z]{2,}/i.test(text) ||
        (/^[A-Z][a-z]{2,}/.test(text) && !/\p{Script=Han}/u.test(text))) &&
      !names.test(text)
    const found = new Set<string>()
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.textContent?.trim() ?? ''
      if (
        isEnglish(text) &&
        !node.parentElement?.closest('[lang=en], code, kbd, pre, .mono, .printed, .log-lines, .cm-editor')
      )
        found.add(text)
    }
    for (const name of ['aria-label', 'title', 'placeholder'])
      for (const el of document.querySelectorAll(`[${name}]:not(.printed)`)) {
        const text = el.getAttribute(name) ?? ''
        // The description of a key names commands and products in its sentence.
        const isDescription = el.closest('.inspector-fields') && /\p{Script=Han}/u.test(text)
        if (isEnglish(text) && !isDescription && !el.closest('[lang=en], .cm-editor, .log-lines'))
          found.add(`${name}: ${text}`)
      }
    return [...found]
  })

const pages = [
  '/',
  '/workflows',
  '/w/default/asks?tab=alerts',
  '/runs',
  '/r/FAILED?task=t4',
  '/r/FAILED?view=about',
  '/schedules/calendar',
  '/t/default/asks/daily',
  '/approvals',
  '/queues',
  '/cluster',
  '/admin/me',
  '/edit/default/job-center?task=t4',
]

test('the main pages are in Chinese, without faults, and fit a small screen', async () => {
  const { context, wrong } = await contextOf(browser, server.base, { locale: 'zh-CN' })
  const page = await context.newPage()
  for (const where of pages) {
    await page.setViewportSize({ width: 1440, height: 900 })
    await goTo(page, server.base + where.replace('FAILED', failed))
    expect.soft(await english(page), where).toEqual([])
    expect.soft(await page.evaluate(() => document.documentElement.lang), where).toBe('zh-CN')
    await page.evaluate(axe)
    expect.soft(await faults(page), where).toEqual([])
    await page.setViewportSize({ width: 320, height: 700 })
    await idle(page)
    expect
      .soft(await page.evaluate(() => document.documentElement.scrollWidth), `${where} at 320 px`)
      .toBe(320)
  }
  expect(wrong).toEqual([])
  await context.close()
})

test('the ledger says why in Chinese, and the editor what a key means', async () => {
  const { context, wrong } = await contextOf(browser, server.base, { locale: 'zh-CN' })
  const page = await context.newPage()
  await goTo(page, `${server.base}/t/default/asks/daily`)
  await page.getByText(/^由 .+ 手动触发：a test$/).waitFor()
  await goTo(page, `${server.base}/edit/default/job-center?task=t4`)
  await page.getByTitle('一次尝试的执行时限；0 取消默认值的限制。').first().waitFor()
  expect(wrong).toEqual([])
  await context.close()
})

test('a failed run is understood and recovered in Chinese, and the language is the one that was chosen', async () => {
  const { context, wrong } = await contextOf(browser, server.base, { locale: 'zh-CN' })
  const page = await context.newPage()
  await goTo(page, `${server.base}/r/${failed}`)
  await page.getByText('运行已结束：失败。').waitFor()
  await page.getByRole('button', { name: '恢复', exact: true }).click()
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^恢复 \d+ 个任务$/ })
    .click()
  await page.getByText('第 2 代').waitFor()
  await page.getByRole('button', { name: '页面设置' }).click()
  await page.getByRole('menuitem', { name: 'English' }).click()
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.getByText('generation 2').waitFor()
  await goTo(page, server.base)
  expect(await page.evaluate(() => document.documentElement.lang)).toBe('en')
  await page.getByRole('button', { name: 'Settings of the page' }).click()
  await page.getByRole('menuitem', { name: '简体中文' }).click()
  await page.getByRole('heading', { name: '当前', exact: true }).waitFor()
  expect(wrong).toEqual([])
  await context.close()
})
