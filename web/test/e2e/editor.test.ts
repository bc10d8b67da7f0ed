// The editor on the real program: by text, by drag and by keys, with an apply and a merge.
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { apply, ask, contextOf, launch, open, type Server, serve } from './harness'

let server: Server
let browser: Browser
let context: BrowserContext
let wrong: string[]

beforeAll(async () => {
  server = await serve()
  browser = await launch()
  const opened = await contextOf(browser, server.base)
  context = opened.context
  wrong = opened.wrong
})

afterAll(async () => {
  await browser?.close()
  await server?.end()
})

async function source(name: string): Promise<string> {
  const answer = await ask(`${server.base}/api/v1/workflows/default/${name}`)
  return ((await answer.json()) as { source: string }).source
}

const edit = (name: string): Promise<Page> => open(context, `${server.base}/edit/default/${name}`)
const textOf = (page: Page) => page.getByRole('textbox', { name: /^Source of/ })
const good = (page: Page) => page.getByText('The server finds no problem').waitFor()
const graph = (page: Page, n: number) =>
  page.getByRole('application', { name: `Graph of the draft, ${n} task` }).waitFor()

async function applyIt(page: Page) {
  await page.getByRole('button', { name: 'Apply…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('The schedules fire as before').waitFor()
  await dialog.getByRole('button', { name: 'Apply', exact: true }).click()
}

test('text: a problem is shown at its place, its fix is one press, and the apply makes a version', async () => {
  // The text is too long to be read as a whole at each key.
  const first = `# Mine.\n${`# ${'-'.repeat(78)}\n`.repeat(250)}name: texted\ntasks:\n  load: {run: "true"} # first\n`
  await apply(server.base, 'texted', first)
  const page = await edit('texted')
  await graph(page, 1)
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('  check: {needs: lod, run: "true"}')
  await page.getByRole('region', { name: 'Problems' }).getByText('which does not exist').waitFor()
  await page.locator('.panel-head', { hasText: 'Graph' }).getByText('2 tasks').waitFor() // the drawing has only one task
  expect(await page.getByRole('button', { name: 'Apply…' }).isDisabled()).toBe(true)
  await page.getByRole('button', { name: 'Change to load' }).click()
  await good(page)
  await graph(page, 2)
  await applyIt(page)
  await page.getByText('Version 2 of texted is applied').waitFor()
  expect(await source('texted')).toBe(`${first}  check: {needs: load, run: "true"}`)
  await page.getByRole('button', { name: 'Undo' }).click()
  await expect.poll(() => source('texted')).toBe(first)
  expect(wrong).toEqual([])
  await page.close()
})

test('graph: tasks are dropped on a task and on an edge, a need is drawn, and the text keeps its bytes', async () => {
  const first =
    'name: drawn\n\n# The tasks.\ntasks:\n  a:   {run: "true"}   # one\n  b: {needs: a, run: "true"}\n'
  await apply(server.base, 'drawn', first)
  const page = await edit('drawn')
  await graph(page, 2)
  const picture = page.getByRole('application')
  const box = await picture.boundingBox()
  const [w, h] = [box?.width ?? 0, box?.height ?? 0]
  // Two columns of 220 px in the middle: the edge is in the middle of the picture.
  const shell = page.getByRole('button', { name: '+ Shell' })
  await shell.dragTo(picture, { targetPosition: { x: w / 2, y: h / 2 } })
  await graph(page, 3)
  await good(page)
  await page.getByRole('region', { name: 'Task task' }).waitFor()
  const between = `${first.replace('a:   {run: "true"}   # one\n', 'a:   {run: "true"}   # one\n  task: {needs: a, run: echo hello}\n').replace('needs: a, run: "true"}', 'needs: task, run: "true"}')}`
  await applyIt(page)
  await page.getByText('Version 2 of drawn is applied').waitFor()
  expect(await source('drawn')).toBe(between)
  // From the port of the first task to the last one: three columns of 220 px, in the middle.
  const scale = Math.min(1, (w - 48) / 608)
  const left = (w - 608 * scale) / 2
  await page.getByRole('button', { name: 'Close the task' }).click()
  await page.getByRole('button', { name: 'Show the whole graph' }).click()
  const whole = await picture.boundingBox()
  const y = (whole?.y ?? 0) + (whole?.height ?? 0) / 2
  await page.mouse.move((whole?.x ?? 0) + left + 162 * scale, y)
  await page.mouse.down()
  await page.mouse.move((whole?.x ?? 0) + left + 300 * scale, y - 60)
  await page.mouse.move((whole?.x ?? 0) + left + 520 * scale, y, { steps: 4 })
  await page.mouse.up()
  await page.getByText('draft of v2').waitFor()
  await good(page)
  await applyIt(page)
  await page.getByText('Version 3 of drawn is applied').waitFor()
  expect(await source('drawn')).toBe(between.replace('needs: task', 'needs: [task, a]'))
  expect(wrong).toEqual([])
  await page.close()
})

test('keys and form: add after, rename, set keys, delete, without a pointer on the graph', async () => {
  await apply(server.base, 'typed', 'name: typed\ntasks:\n  a: {run: "true"}\n')
  const page = await edit('typed')
  await graph(page, 1)
  await page.getByRole('application').focus()
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('a')
  const form = page.getByRole('region', { name: 'Task task', exact: true })
  await form.waitFor()
  await graph(page, 2)
  await page.getByRole('application').focus()
  await page.keyboard.press('F2')
  await page.keyboard.press('Control+a')
  await page.keyboard.type('load')
  await page.keyboard.press('Enter')
  const named = page.getByRole('region', { name: 'Task load' })
  await named.getByRole('textbox', { name: 'timeout' }).fill('5m')
  await named
    .getByRole('spinbutton')
    .or(named.getByRole('textbox', { name: 'retry.max' }))
    .first()
    .fill('3')
  await named.getByRole('textbox', { name: 'description' }).fill('Loads: all of it')
  await named.getByRole('textbox', { name: 'description' }).press('Enter')
  await good(page)
  await applyIt(page)
  await page.getByText('Version 2 of typed is applied').waitFor()
  expect(await source('typed')).toBe(
    'name: typed\ntasks:\n  a: {run: "true"}\n  load: {needs: a, run: echo hello, timeout: 5m, retry: {max: 3}, description: "Loads: all of it"}\n',
  )
  await page.getByRole('application').focus()
  await page.keyboard.press('Delete')
  await graph(page, 1)
  await page.getByText('draft of v2').waitFor()
  expect(wrong).toEqual([])
  await page.close()
})

test('a draft is kept; what was applied meanwhile is merged, or asked about where both changed a line', async () => {
  const first = 'name: shared\ntimeout: 5m\ntasks:\n  a: {run: "true"}\n  b: {run: "true"}\n'
  await apply(server.base, 'shared', first)
  let page = await edit('shared')
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('  mine: {run: "true"}')
  await page.getByText('saved in this browser').waitFor()
  await page.close()
  await apply(server.base, 'shared', first.replace('timeout: 5m', 'timeout: 6m'))
  page = await edit('shared')
  await page.getByText('draft of v1').waitFor()
  await graph(page, 3)
  await applyIt(page)
  await page.getByRole('dialog').getByText('Version 2 was applied after you opened the editor').waitFor()
  expect(await source('shared')).toContain('timeout: 6m')
  await page.getByRole('dialog').getByRole('button', { name: 'Apply', exact: true }).click()
  await page.getByText('Version 3 of shared is applied').waitFor()
  const merged = `${first.replace('5m', '6m')}  mine: {run: "true"}`
  expect(await source('shared')).toBe(merged)
  // Both persons change the same line.
  await textOf(page).click()
  await page.keyboard.press('Control+Home')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('End')
  await page.keyboard.type('0s')
  await apply(server.base, 'shared', merged.replace('6m', '7m'))
  await good(page)
  await applyIt(page)
  const dialog = page.getByRole('dialog')
  await dialog.getByText('it changes the same').waitFor()
  await dialog.getByRole('radio', { name: /^Version 4/ }).check()
  await dialog.getByRole('button', { name: 'Merge' }).click()
  await dialog.getByText('Version 4 was applied after you opened the editor').waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await page.getByText('v4, unchanged').waitFor()
  expect(await source('shared')).toBe(merged.replace('6m', '7m'))
  // The browser reports each refusal (412) that leads to a merge.
  expect(wrong.splice(0).filter((text) => !text.includes('412'))).toEqual([])
  await page.close()
})

test('a workflow keeps its files through an edit, and a new one begins with a template', async () => {
  const page = await edit('job-center')
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('  t10: {needs: t9, run: sh ./step.sh}')
  await graph(page, 10)
  await applyIt(page)
  await page.getByText('Version 2 of job-center is applied').waitFor()
  const answer = await ask(`${server.base}/api/v1/workflows/default/job-center/versions/2?include=files`)
  const { files } = (await answer.json()) as { files: { name: string; data: string }[] }
  expect(files.map((f) => f.name)).toEqual(['step.sh'])
  expect(files[0]?.data.length).toBeGreaterThan(100)
  await page.goto(`${server.base}/workflows`)
  await page.getByRole('button', { name: 'New workflow' }).click()
  await page
    .getByRole('dialog')
    .getByRole('textbox', { name: /^Name Small/ })
    .fill('brand-new')
  await page.getByRole('dialog').getByRole('button', { name: 'Open the editor' }).click()
  await page.getByRole('heading', { name: 'New workflow brand-new' }).waitFor()
  await graph(page, 1)
  await page.getByRole('button', { name: 'Apply…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Apply', exact: true }).click()
  await page.waitForURL(/\/w\/default\/brand-new/)
  expect(await source('brand-new')).toContain('echo hello')
  expect(wrong).toEqual([])
  await page.close()
})

test('a file with CRLF keeps its line ends through edits of the graph and of the text', async () => {
  const first = 'name: windows\r\n# Mine.\r\ntasks:\r\n  a: {run: "true"}\r\n'
  await apply(server.base, 'windows', first)
  const page = await edit('windows')
  await graph(page, 1)
  await page.getByRole('button', { name: '+ Shell' }).click()
  await graph(page, 2)
  await textOf(page).click()
  await page.keyboard.press('Control+Home')
  await page.keyboard.press('End')
  await page.keyboard.press('Enter')
  await page.keyboard.type('timeout: 5m')
  await good(page)
  await applyIt(page)
  await page.getByText('Version 2 of windows is applied').waitFor()
  expect(await source('windows')).toBe(
    `${first.replace('windows\r\n', 'windows\r\ntimeout: 5m\r\n')}  task: {run: echo hello}\r\n`,
  )
  expect(wrong).toEqual([])
  await page.close()
})

test('a draft is saved when the page is left at once, and is gone when all is undone', async () => {
  await apply(server.base, 'left', 'name: left\ntasks:\n  a: {run: "true"}\n')
  const page = await edit('left')
  await graph(page, 1)
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('# x')
  // The test goes back as soon as the other page is there, so that the data of the editor's page is still in
  // the cache.
  await page
    .getByRole('link', { name: 'Runs', exact: true })
    .first()
    .evaluate((link) => {
      const main = document.querySelector('main') ?? document.body
      const watch = new MutationObserver(() => {
        if (document.querySelector('.editor')) return
        watch.disconnect()
        history.back()
      })
      watch.observe(main, { childList: true, subtree: true })
      ;(link as HTMLElement).click()
    })
  await page.getByText('draft of v1').waitFor()
  await textOf(page).getByText('# x').waitFor()
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  for (const _ of '# x') await page.keyboard.press('Backspace')
  await page.getByText('v1, unchanged').waitFor()
  await page.reload()
  await page.getByText('v1, unchanged').waitFor()
  expect(wrong).toEqual([])
  await page.close()
})

test('a page that is left before the browser has written its draft brings back what it showed', async () => {
  await apply(server.base, 'slow', 'name: slow\ntasks:\n  a: {run: "true"}\n')
  const page = await context.newPage()
  // From now on the browser opens no database: each write of this page begins and does not end.
  const stuck = () =>
    page.evaluate(() => {
      IDBFactory.prototype.open = () => ({}) as IDBOpenDBRequest
    })
  const loaded = async () => {
    await graph(page, 1)
    await page.locator('.editor:not([inert])').waitFor()
    await textOf(page).click()
    await page.keyboard.press('Control+End')
  }
  await page.goto(`${server.base}/edit/default/slow`)
  await loaded()
  await page.keyboard.type('# kept')
  await page.getByText('saved in this browser').waitFor()
  await stuck()
  await page.keyboard.type(', too')
  await textOf(page).getByText('# kept, too').waitFor()
  await page.reload()
  await page.getByText('draft of v1').waitFor()
  await textOf(page).getByText('# kept, too').waitFor()
  await loaded()
  await stuck()
  for (const _ of '# kept, too') await page.keyboard.press('Backspace')
  // The draft is not deleted yet, so it could come back if this tab crashed now.
  await page.getByText('v1; the browser deletes the draft').waitFor()
  await page.reload()
  await page.getByText('v1, unchanged').waitFor()
  await loaded()
  expect(await textOf(page).textContent()).not.toContain('kept')
  // The database gets the change that was noted.
  const note = () => page.evaluate(() => localStorage.getItem('skein.draft slow'))
  await expect.poll(note).toBe(null)
  await page.reload()
  await page.getByText('v1, unchanged').waitFor()
  expect(wrong).toEqual([])
  await page.close()
})

test('the answer to an apply that was left does not replace what is typed since', async () => {
  const first = 'name: late\ntasks:\n  a: {run: "true"}\n'
  await apply(server.base, 'late', first)
  const page = await edit('late')
  await graph(page, 1)
  await apply(server.base, 'late', first.replace('name: late\n', 'name: late\ntimeout: 5m\n'))
  let answer = () => {}
  const asked = new Promise<void>((begun) => {
    void page.route('**/api/v1/workflows/default/late', async (route) => {
      if (route.request().method() !== 'PUT') return route.continue()
      begun()
      await new Promise<void>((go) => {
        answer = go
      })
      await route.continue()
    })
  })
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('# one')
  await good(page)
  await applyIt(page)
  await asked
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type(' two')
  const read = page.waitForResponse((r) => r.url().includes('/late/versions/2'))
  answer()
  await read
  await page.getByText('draft of v1').waitFor()
  await textOf(page).getByText('# one two').waitFor()
  expect(wrong.splice(0).filter((text) => !text.includes('412'))).toEqual([])
  await page.close()
})

test('New workflow with the name of an existing one keeps the files of its draft', async () => {
  const page = await edit('job-center')
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('# x')
  await page.getByText('saved in this browser').waitFor()
  await page.goto(`${server.base}/edit/default/job-center?new=yes`)
  await page.getByText(/^draft of v/).waitFor()
  await applyIt(page)
  await page.getByText(/Version \d+ of job-center is applied/).waitFor()
  const at = `${server.base}/api/v1/workflows/default/job-center`
  const { version } = (await (await ask(at)).json()) as { version: number }
  const answer = await ask(`${at}/versions/${version}?include=files`)
  const { files } = (await answer.json()) as { files: { name: string }[] }
  expect(files.map((f) => f.name)).toEqual(['step.sh'])
  expect(wrong).toEqual([])
  await page.close()
})

test('of two tabs only one edits a draft; the other one can take it over with its last text', async () => {
  await apply(server.base, 'two-tabs', 'name: two-tabs\ntasks:\n  a: {run: "true"}\n')
  const [one, two] = [await edit('two-tabs'), await edit('two-tabs')]
  const elsewhere = (page: Page) => page.getByRole('status').getByText('Another tab of this browser edits')
  await elsewhere(two).waitFor()
  expect(await elsewhere(one).count()).toBe(0)
  expect(await two.locator('.editor[inert]').count()).toBe(1)
  const add = async (page: Page, text: string) => {
    await page.bringToFront()
    await textOf(page).click()
    await page.keyboard.press('Control+End')
    await page.keyboard.type(text)
  }
  // The lock is taken at once. The first tab saves its draft before it releases the lock.
  await add(one, '# one')
  let answer = () => {}
  const held = new Promise<void>((go) => {
    answer = go
  })
  const path = '/api/v1/workflows/default/two-tabs'
  await two.route(`**${path}`, (route) => void held.then(() => route.continue()))
  const asked = two.waitForRequest((r) => r.url().endsWith(path))
  await two.getByRole('button', { name: 'Edit in this tab' }).click()
  await elsewhere(one).waitFor()
  await asked
  // Until the draft of the first tab is read, nothing can be typed, because the draft would replace it.
  expect(await two.locator('.editor[inert]').count()).toBe(1)
  answer()
  await elsewhere(two).waitFor({ state: 'detached' })
  await textOf(two).getByText('# one').waitFor()
  await add(two, ' two')
  await one.getByRole('button', { name: 'Edit in this tab' }).click()
  await textOf(one).getByText('# one two').waitFor()
  // A tab that is left also releases the lock.
  await elsewhere(two).waitFor()
  await one.getByRole('link', { name: 'Runs', exact: true }).first().click()
  await one.waitForURL(/\/runs/)
  await elsewhere(two).waitFor({ state: 'detached' })
  await textOf(two).getByText('# one two').waitFor()
  expect(wrong).toEqual([])
  await one.close()
  await two.close()
})

test('an apply is not undone over a version that was applied since', async () => {
  const first = 'name: undone\ntasks:\n  a: {run: "true"}\n'
  await apply(server.base, 'undone', first)
  const page = await edit('undone')
  await textOf(page).click()
  await page.keyboard.press('Control+End')
  await page.keyboard.type('# mine')
  await good(page)
  await applyIt(page)
  const done = page.getByText('Version 2 of undone is applied')
  await done.waitFor()
  const theirs = first.replace('name: undone\n', 'name: undone\ntimeout: 5m\n')
  await apply(server.base, 'undone', theirs)
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('Nothing was undone').waitFor()
  expect(await source('undone')).toBe(theirs)
  expect(wrong.splice(0).filter((text) => !text.includes('412'))).toEqual([])
  await page.close()
})

test('the form has each key: an event with its filter, a statement with its parameters, a list', async () => {
  await apply(server.base, 'formed', 'name: formed\ntasks:\n  a: {run: "true"} # kept\n')
  const page = await edit('formed')
  await graph(page, 1)
  const form = (task: string) => page.getByRole('region', { name: `Task ${task}`, exact: true })
  const write = async (task: string, field: string, text: string) => {
    const box = form(task).getByRole('textbox', { name: field, exact: true })
    await box.fill(text)
    await box.blur()
  }
  await page.getByRole('button', { name: '+ Event' }).click()
  await write('event', 'wait.event.type', 'order.paid')
  await write('event', 'wait.event.filter', 'event.total > 5')
  await page.getByRole('button', { name: '+ SQL' }).click()
  await write('query', 'sql.query', 'SELECT :day, :most')
  const name = form('query').getByRole('textbox', { name: 'New name in sql.params', exact: true })
  await name.fill('day')
  await write('query', 'Value of the new name in sql.params', '007')
  await name.fill('most')
  await write('query', 'Value of the new name in sql.params', '10')
  await page.getByRole('button', { name: '+ Wait' }).click()
  await form('wait').getByRole('button', { name: 'wait by its keys…' }).click()
  await write('wait', 'wait.event', 'order.sent')
  await form('wait').getByRole('button', { name: 'wait.event by its keys…' }).click()
  await write('wait', 'wait.event.within', '1h')
  await good(page)
  await applyIt(page)
  await page.getByText('Version 2 of formed is applied').waitFor()
  const text = await source('formed')
  expect(text).toContain('a: {run: "true"} # kept\n')
  expect(text).toContain('type: order.paid')
  expect(text).toContain('filter: event.total > 5')
  expect(text).toMatch(/params:\s*\{?\s*day: "007",?\s*most: 10/)
  expect(text).toMatch(/type: order.sent,?\s*within: 1h/)
  expect(wrong).toEqual([])
  await page.close()
})
