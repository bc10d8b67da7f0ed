// Tests saved views: their owner, their storage, and the search for them.
import { beforeEach, expect, test } from 'vitest'
import { deleteView, dropOthers, saveView, viewsMax, viewsOf } from '../../src/app/views'
import { found, foundMax } from '../../src/pages/searchdata'

beforeEach(() => localStorage.clear())

test('views are kept by name, replaced, and deleted', () => {
  expect(viewsOf('ann')).toEqual([])
  expect(saveView('ann', 'night', '/runs?state=failed')).toBe(true)
  saveView('ann', 'mine', '/runs?user=ann')
  saveView('ann', 'night', '/runs?state=failed&since=24h')
  expect(viewsOf('ann')).toEqual([
    { name: 'mine', to: '/runs?user=ann' },
    { name: 'night', to: '/runs?state=failed&since=24h' },
  ])
  deleteView('ann', 'mine')
  deleteView('ann', 'night')
  expect(viewsOf('ann')).toEqual([])
  expect(localStorage.length).toBe(0)
})

test('another person finds no view, and the first one finds theirs no more', () => {
  saveView('ann', 'night', '/runs')
  expect(viewsOf('ben')).toEqual([])
  expect(viewsOf(undefined)).toEqual([])
  expect(viewsOf('ann')).toHaveLength(1)
  dropOthers('ben')
  expect([viewsOf('ann'), viewsOf('ben'), localStorage.length]).toEqual([[], [], 0])
})

test('the number of views is bounded, and one that exists can still be replaced', () => {
  for (let i = 0; i < viewsMax; i++) expect(saveView('ann', `v${i}`, '/runs')).toBe(true)
  expect(saveView('ann', 'one more', '/runs')).toBe(false)
  expect(saveView('ann', 'v7', '/workflows')).toBe(true)
  expect(viewsOf('ann')).toHaveLength(viewsMax)
})

test.each([
  ['', 0],
  ['{', 0],
  ['null', 0],
  ['{"user":"ann","views":{}}', 0],
  [
    '{"user":"ann","views":[null,{"name":"x"},{"name":"x","to":"//evil.example"},{"name":"y","to":"/runs"}]}',
    1,
  ],
])('what the browser has kept is not trusted: %s', (text, n) => {
  localStorage.setItem('skein.views', text)
  expect(viewsOf('ann')).toHaveLength(n)
})

test('a search finds what has the text, the beginning of a word first, and says how many there are', () => {
  const names = ['shop/unloaded', 'shop/load', 'loads', 'other']
  expect(found(names, 'LOAD ', (n) => n)).toEqual({ items: ['loads', 'shop/load', 'shop/unloaded'], of: 3 })
  expect(found(names, ' ', (n) => n)).toEqual({ items: [], of: 0 })
  expect(found(undefined, 'x', String)).toEqual({ items: [], of: 0 })
  const many = Array.from({ length: 30 }, (_, i) => `n${i}`)
  const { items, of } = found(many, 'n', (n) => n)
  expect([items.length, of]).toEqual([foundMax, 30])
})
