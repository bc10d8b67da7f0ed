import { readFileSync } from 'node:fs'
import { beforeEach, expect, test, vi } from 'vitest'
import { choose } from '../../src/text/t'
import { areas, catalogue } from '../../src/text/zh/catalogue'
import { read } from './words'

const used = read()
const placesOf = (text: string) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]))].sort()

test('every text has a Chinese one with the same places, and no other text has one', () => {
  expect(used.unclear, 'the key must be a literal').toEqual([])
  const keys = Object.values(areas).flatMap((area) => Object.keys(area))
  expect(
    keys.filter((key, i) => keys.indexOf(key) !== i),
    'texts in two areas',
  ).toEqual([])
  expect([...used.keys.keys()].filter((key) => !(key in catalogue.texts))).toEqual([])
  expect(keys.filter((key) => !used.keys.has(key))).toEqual([])
  for (const key of keys) expect([key, placesOf(catalogue.texts[key] ?? '')]).toEqual([key, placesOf(key)])
})

test('no words between tags or in an attribute are shown without a look into the catalogue', () => {
  expect(used.bare).toEqual([])
})

test('every problem, reason and cause of the server has a Chinese text under its code', () => {
  const page = readFileSync('../docs/errors.md', 'utf8')
  const section = (title: string) => page.split(`## ${title}`)[1]?.split('\n## ')[0] ?? ''
  const codesOf = (title: string) => [...section(title).matchAll(/^\| `(\w+)` \|/gm)].map((m) => m[1])
  const events = readFileSync('../internal/dag/event.go', 'utf8')
  const reported = events.split('func Causes()')[1]?.split('\n}')[0] ?? ''
  const causes = [
    ...[...events.matchAll(/^\tCause\w+ +Cause = "(\w+)"/gm)].map((m) => m[1]),
    ...[...reported.matchAll(/"(\w+)"/g)].map((m) => m[1]),
  ]
  expect(causes.length).toBeGreaterThan(35)
  const wanted = [
    ...[...codesOf('Problems of the REST API'), 'network'].map((code) => `problem.${code}`),
    ...codesOf('Details of problems').map((code) => `detail.${code}`),
    ...codesOf('Reasons of fires').map((code) => `fire.${code}`),
    ...codesOf('Reasons of explain').flatMap((code) => [`reason.${code}`, `remedy.${code}`]),
    ...causes.map((code) => `cause.${code}`),
  ]
  expect(wanted.length).toBeGreaterThan(100)
  expect(Object.keys(catalogue.codes).sort()).toEqual(wanted.sort())
  const rows = /^\| `(\w+)` \| (.*) \|$/gm
  for (const [, code = '', sentence = ''] of section('Reasons of fires').matchAll(rows))
    expect([code, placesOf(catalogue.codes[`fire.${code}`] ?? '')]).toEqual([code, placesOf(sentence)])
  for (const [, code = '', args = ''] of section('Details of problems').matchAll(rows)) {
    const names = [...args.matchAll(/\w+/g)].map((m) => m[0]).sort()
    expect([code, placesOf(catalogue.codes[`detail.${code}`] ?? '')]).toEqual([code, names])
  }
})

test('every kind of trigger has its rule in Chinese words', () => {
  const spec = JSON.parse(readFileSync('../sdk/go/api/v1/openapi.json', 'utf8'))
  const of = Object.entries(spec.paths as Record<string, { get: { parameters: never[] } }>)
  const list = of.find(([path]) => path.endsWith('/schedules'))?.[1].get.parameters ?? []
  const kind = list.find((p: { name: string }) => p.name === 'kind') as unknown as
    | { schema: { items: { enum: string[] } } }
    | undefined
  const kinds = kind?.schema.items.enum ?? []
  expect(kinds.length).toBeGreaterThan(20)
  const example: Record<string, string> = {
    every: '1h30m',
    daily: '02:30',
    monthly: '1 02:30',
    annually: 'jan 1 02:30',
    weekly: 'mon fri 02:30',
    again: '4/h',
    cron: '0 2 * * *',
  }
  for (const each of kinds) {
    const words = catalogue.ruleWords({ kind: each, expression: example[each] ?? 'x' })
    expect([each, words]).not.toEqual([each, `${each} ${example[each] ?? 'x'}`])
    expect([each, /[\u4e00-\u9fff]/.test(words ?? '')]).toEqual([each, true])
  }
})

test('rules in Chinese words; one that is too special stays as it is written', () => {
  const say = (kind: string, expression: string) => catalogue.ruleWords({ kind, expression })
  expect(say('every', '1h30m')).toBe('每 1 小时 30 分钟')
  const rules: [rule: string, words: string][] = [
    ['30 2 * * *', '每天 02:30'],
    ['0 9,17 * * mon-fri', '每周一至五 09:00、17:00'],
    ['0 0 1,15 * *', '每月 1、15 日 00:00'],
    ['*/5 * * * *', '每 5 分钟'],
    ['5/10 * * * *', '从第 5 分钟起每 10 分钟'],
    ['*/25 * * * *', '每小时第 0、25、50 分钟'],
    ['0 */2 * * *', '每 2 小时的第 0 分钟'],
    ['*/15 9-17 * * mon-fri', '每周一至五 09:00–17:45 每 15 分钟'],
    ['0 8-18 * * sat,sun', '每周六、日 08:00–18:00 每小时第 0 分钟'],
    ['0 0 13 * fri', '每月 13 日或每周五 00:00'],
    ['0 0 L * *', '每月最后一天 00:00'],
    ['0 0 L-2,15W * ?', '每月倒数第 3 天、离 15 日最近的工作日 00:00'],
    ['0 6 * * fri#2', '每月第 2 个周五 06:00'],
    ['0 6 ? 11-2 5L', '每年 1、2、11、12 月最后一个周五 06:00'],
    ['0 0 1 1 *', '每年 1 月 1 日 00:00'],
    ['0 3 * 6 mon', '每年 6 月的每周一 03:00'],
    ['30 0 12 * * *', '每天 12:00:30'],
    ['0 0 12 1 1 ? 2027,2028', '2027、2028 年，每年 1 月 1 日 12:00'],
    ['*/10 * * * * *', '每 10 秒'],
    ['CRON_TZ=Europe/Berlin 0 9 * * *', '每天 09:00（Europe/Berlin）'],
    ['0 22-2 * * 7', '每周日 00:00、01:00、02:00、22:00、23:00'],
    ['@hourly', '每小时第 0 分钟'],
    ['@weekly', '每周日 00:00'],
  ]
  for (const [rule, words] of rules) expect([rule, say('cron', rule)]).toEqual([rule, words])
  // A hash and the days that two fields restrict together have no words.
  for (const rule of ['H 2 * * *', '0 0 */2 * 1', '0 0 * * L', '60 0 * * *', '*/0 * * * *', '0 0 * *', 'x'])
    expect([rule, say('cron', rule)]).toEqual([rule, `cron ${rule}`])
  expect(say('weekly', 'mon fri 02:30')).toBe('每周一、五 02:30')
  expect(say('monthly', '1 -1 02:30 14:00')).toBe('每月 1、倒数第 1 日 02:30、14:00')
  expect(say('annually', 'jan 1 02:30')).toBe('每年 1 月 1 日 02:30')
  expect(say('webhook', '')).toBe('收到签名调用时')
  expect(say('absent', '/in/*.csv by 1h')).toBe('未按时出现时：/in/*.csv（期限 1 小时）')
  expect(say('absent', 'load by 06:00')).toBe('未按时出现时：load（期限 06:00）')
})

test('the language is the one that was asked for, else the first of the browser that there is', () => {
  expect(choose('zh-CN', ['en-US'])).toBe('zh-CN')
  expect(choose('en', ['zh-CN'])).toBe('en')
  expect(choose('browser', ['fr', 'zh', 'en'])).toBe('zh-CN')
  expect(choose('browser', ['zh-TW', 'en-US', 'zh-CN'])).toBe('en')
  expect(choose('browser', ['zh-Hans-SG'])).toBe('zh-CN')
  expect(choose('klingon', ['not a tag', 'de'])).toBe('en')
})

beforeEach(() => {
  vi.resetModules()
  localStorage.clear()
})

test('English: plurals, places, and a meaning that is not shown', async () => {
  const { byCode, keyWords, rich, t } = await import('../../src/text/t')
  const { plural } = await import('../../src/kit/format')
  expect([plural(1, 'run'), plural(1200, 'run')]).toEqual(['1 run', '1,200 runs'])
  expect(t('Start {workflow}', { workflow: '{n}' })).toBe('Start {n}')
  expect(t('Open##not answered')).toBe('Open')
  expect(rich('as of {time}', { time: 'noon' })).toEqual(['as of ', 'noon', ''])
  expect(byCode('reason.queue_full', { queue: 'q', held: 1, limit: 1 })).toBeUndefined()
  expect(await keyWords()).toEqual({})
})

test('Chinese: the texts of the page, and those of the server unless a value is missing', async () => {
  localStorage.setItem('skein.language', 'zh-CN')
  const { byCode, keyWords, language, t } = await import('../../src/text/t')
  const { duration, plural } = await import('../../src/kit/format')
  expect(language).toBe('zh-CN')
  expect([t('Home'), plural(1, 'run'), plural(1200, 'run')]).toEqual(['首页', '1 个运行', '1,200 个运行'])
  expect(duration(3_725_000)).toBe('1 小时 2 分钟')
  expect(byCode('reason.queue_full', { queue: 'q', held: 2, limit: 2 })).toBe(
    '队列 q 的名额已全部占用（2/2）。',
  )
  expect(byCode('reason.queue_full', { queue: 'q' })).toBeUndefined()
  expect(byCode('fire.by_hand', { actor: 'ada' })).toBe('由 ada 手动触发')
  expect(byCode('fire.by_hand', { actor: 'ada', reason: '[x]' })).toBe('由 ada 手动触发：[x]')
  expect(byCode('fire.by_hand', { reason: 'x' })).toBeUndefined()
  expect(byCode('reason.of_tomorrow')).toBeUndefined()
  expect((await keyWords())['retry.max']).toBe('首次尝试之后的重试次数。')
})

test('Chinese: why something ended, why a fire has its outcome, and what a problem is about', async () => {
  localStorage.setItem('skein.language', 'zh-CN')
  const { renderToStaticMarkup } = await import('react-dom/server')
  const { createElement } = await import('react')
  const { Message } = await import('../../src/kit/parts')
  const { FireWhy, fireWords } = await import('../../src/pages/reasons')
  const { Failure } = await import('../../src/api/client')
  const shown = (of: Parameters<typeof Message>[0]['of']) =>
    renderToStaticMarkup(createElement(Message, { of })).replace(/<[^>]*>/g, '')
  expect(shown({ cause: 'exit', message: 'exited with 3', exit_code: 3 })).toBe(
    '退出码不为 0：3 (exited with 3)',
  )
  expect(shown({ cause: 'task_failed', message: 'task a failed', failed_tasks: ['a', 'b'] })).toBe(
    '任务失败：a、b (task a failed)',
  )
  expect(shown({ cause: 'ask', message: 'its handler is gone' })).toBe('失联，等待人工决定')
  expect(shown({ cause: 'of_tomorrow', message: 'it rained' })).toBe('it rained')
  const problem = { type: '/problems/conflict', code: 'conflict', title: 'It rained', status: 409 }
  const ended = {
    ...problem,
    detail: 'run 1 has ended',
    about: 'run_ended',
    args: { run: '1', state: 'failed' },
  }
  expect(new Failure(ended).words).toBe('运行 1 已结束：失败。')
  expect(new Failure({ ...problem, detail: 'it rained' }).message).toBe('当前状态不允许此操作: it rained')
  const late = { code: 'late', args: { late: '1h30m' } }
  const ran = { code: 'run_of', args: { workflow: 'load', state: 'succeeded' } }
  expect(fireWords({ reasons: [ran, late] })).toBe(
    'load 的运行结束：成功；没有服务器运行，延迟 1 小时 30 分钟启动',
  )
  expect(fireWords({ reasons: [late, { code: 'of_tomorrow', args: {} }] })).toBeUndefined()
  expect(renderToStaticMarkup(createElement(FireWhy, { f: { reason: 'it rained', reasons: [] } }))).toBe(
    '<span lang="en">it rained</span>',
  )
})
