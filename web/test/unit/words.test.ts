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

test('every problem and every reason of the server has a Chinese text under its code', () => {
  const page = readFileSync('../docs/errors.md', 'utf8')
  const codesOf = (title: string) =>
    [...(page.split(`## ${title}`)[1]?.split('\n## ')[0] ?? '').matchAll(/^\| `(\w+)` \|/gm)].map((m) => m[1])
  const wanted = [
    ...[...codesOf('Problems of the REST API'), 'network'].map((code) => `problem.${code}`),
    ...codesOf('Reasons of explain').flatMap((code) => [`reason.${code}`, `remedy.${code}`]),
  ]
  expect(wanted.length).toBeGreaterThan(100)
  expect(Object.keys(catalogue.codes).sort()).toEqual(wanted.sort())
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
  const { byCode, rich, t } = await import('../../src/text/t')
  const { plural } = await import('../../src/kit/format')
  expect([plural(1, 'run'), plural(1200, 'run')]).toEqual(['1 run', '1,200 runs'])
  expect(t('Start {workflow}', { workflow: '{n}' })).toBe('Start {n}')
  expect(t('Open##not answered')).toBe('Open')
  expect(rich('as of {time}', { time: 'noon' })).toEqual(['as of ', 'noon', ''])
  expect(byCode('reason.queue_full', { queue: 'q', held: 1, limit: 1 })).toBeUndefined()
})

test('Chinese: the texts of the page, and those of the server unless a value is missing', async () => {
  localStorage.setItem('skein.language', 'zh-CN')
  const { byCode, language, t } = await import('../../src/text/t')
  const { duration, plural } = await import('../../src/kit/format')
  expect(language).toBe('zh-CN')
  expect([t('Home'), plural(1, 'run'), plural(1200, 'run')]).toEqual(['首页', '1 个运行', '1,200 个运行'])
  expect(duration(3_725_000)).toBe('1 小时 2 分钟')
  expect(byCode('reason.queue_full', { queue: 'q', held: 2, limit: 2 })).toBe(
    '队列 q 的名额已全部占用（2/2）。',
  )
  expect(byCode('reason.queue_full', { queue: 'q' })).toBeUndefined()
  expect(byCode('reason.of_tomorrow')).toBeUndefined()
})
