import fc from 'fast-check'
import { expect, test } from 'vitest'
import { every, only, parseSearch, stringifySearch } from '../../src/app/search'

test('a search survives the address', () => {
  const search = fc.dictionary(
    fc.string({ minLength: 1 }).filter((n) => n !== '__proto__'),
    fc.string({ minLength: 1 }),
    {
      noNullPrototype: true,
    },
  )
  fc.assert(
    fc.property(search, (s) => {
      expect(parseSearch(stringifySearch(s))).toEqual(s)
    }),
  )
})

test('an address reads well, and numbers stay text', () => {
  expect(stringifySearch({ workflow: 'shop/load', q: 'a:b', none: undefined, empty: '' })).toBe(
    '?workflow=shop/load&q=a:b',
  )
  expect(parseSearch('?attempt=3&task=true')).toEqual({ attempt: '3', task: 'true' })
})

test('a page keeps the values that it knows', () => {
  expect(only('q', 'state')({ q: 'a', other: 'b', state: '' })).toEqual({ q: 'a' })
  expect(every({ 'p.day': '1', n: 2 })).toEqual({ 'p.day': '1' })
})
