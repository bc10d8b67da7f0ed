import { expect, test } from 'vitest'
import type { Param } from '../../src/api/types'
import { command, fault, request, requestOf, shownOf, textOf, typed } from '../../src/pages/startdata'

const param = (name: string, type: Param['type'], more: Partial<Param> = {}): Param => ({
  name,
  type,
  default: null,
  description: null,
  enum: null,
  format: null,
  required: false,
  ...more,
})

test('what is typed becomes a value of the type, or is refused at its field', () => {
  expect(typed(param('n', 'int'), '12')).toBe(12)
  expect(typed(param('b', 'bool'), 'false')).toBe(false)
  expect(typed(param('j', 'json'), '{"a": [1]}')).toEqual({ a: [1] })
  expect(fault(param('n', 'int'), '1.5')).toContain('not a number of the type int')
  expect(fault(param('n', 'float'), ' ')).toContain('not a number')
  expect(fault(param('j', 'json'), '{')).toBe('that is not JSON.')
  expect(fault(param('s', 'string', { required: true }), '')).toBe('A value is required.')
  expect(fault(param('s', 'string'), '')).toBeUndefined()
  expect(fault(param('e', 'int', { enum: [1, 2] }), '3')).toBe('The value must be one of 1, 2.')
  expect(fault(param('e', 'int', { enum: [1, 2] }), '2')).toBeUndefined()
})

test('the last values, the command and the request say the same', () => {
  const params = [param('day', 'string'), param('n', 'int'), param('rest', 'json')]
  const texts = { day: "it's", n: '3', rest: textOf([1]) }
  const o = { priority: 'high', version: '2', key: '' }
  expect(command('shop/load', texts, o)).toBe(
    "skein run shop/load -p 'day=it'\\''s' -p n=3 -p 'rest=[1]' --priority high --version 2",
  )
  const body = requestOf('shop/load', params, texts, o)
  expect(body).toEqual({
    workflow: 'shop/load',
    params: { day: "it's", n: 3, rest: [1] },
    priority: 'high',
    version: 2,
  })
  expect(request(body, 'k')).toContain(`it'\\''s`)
  expect(requestOf('w', params, { day: '' }, {})).toEqual({ workflow: 'w', params: {} })
})

test('a value of the type secret is in no text that is shown', () => {
  const params = [param('token', 'secret'), param('day', 'string')]
  const shown = { token: 'SECRET', day: 'x', none: '' }
  expect(shownOf(params, { token: 'hunter2', day: 'x', none: '' })).toEqual(shown)
})
