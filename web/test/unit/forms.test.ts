import { expect, test } from 'vitest'
import { answersOf, formOf, refusalOf, taskOfAction } from '../../src/pages/approvalsdata'
import { backfillCommand, requestOf } from '../../src/pages/backfilldata'
import { choiceOf } from '../../src/pages/bulk'

test('the task that an approval is about', () => {
  expect(taskOfAction({ args: { task: 'sign-off' }, actions: [] })).toBe('sign-off')
  const path = '/api/v1/runs/0190/tasks/sign%20off%2Feu:approve'
  expect(taskOfAction({ args: {}, actions: [{ verb: 'approve', path, label: 'Approve' }] })).toBe(
    'sign off/eu',
  )
  expect(taskOfAction({ args: {}, actions: [] })).toBeUndefined()
})

test('why the caller must not decide about an approval', () => {
  expect(refusalOf({ args: {} })).toBeUndefined()
  const refused = { detail: 'ann started run 1', about: 'four_eyes', args: { starter: 'ann' } }
  expect(refusalOf({ args: { refused } })).toEqual({ text: 'ann started run 1', isTranslated: false })
})

test('a backfill is asked for as the form says, with the usual values left out', () => {
  const from = '2026-01-01T00:00'
  const request = requestOf({
    workflow: 'shop/load',
    trigger: 'daily',
    from,
    parallel: '99999',
    only: 'all',
    order: 'descending',
  })
  expect(request).toEqual({
    workflow: 'shop/load',
    trigger: 'daily',
    from: new Date(from).toISOString(),
    parallel: 10_000,
    order: 'descending',
  })
  expect(requestOf({ to: 'no date', parallel: '0' })).toEqual({ workflow: '', parallel: 1 })
  expect(backfillCommand(request)).toBe(
    `skein backfill create shop/load --trigger daily --from ${request.from} --parallel 10000 --order descending`,
  )
})

test('the form of an approval: fields by their types, answers without the empty ones', () => {
  const form = formOf({
    args: {
      form: [
        { name: 'amount', type: 'number', required: true },
        { name: 'constructor', type: 'text' },
        { name: 'sure', type: 'boolean', default: true },
        { name: 'day', type: 'date' },
      ],
    },
  })
  expect(form.map((f) => [f.type, f.format, f.required])).toEqual([
    ['float', null, true],
    ['string', 'text', false],
    ['bool', null, false],
    ['string', 'date', false],
  ])
  const texts = new Map([
    ['amount', '2.5'],
    ['sure', 'false'],
    ['day', ''],
  ])
  expect(answersOf(form, texts)).toEqual({ amount: 2.5, sure: false })
  expect(formOf({ args: {} })).toEqual([])
})

test('a verb on all matching runs takes every filter of the list, and is not offered without one', () => {
  expect(
    choiceOf({ state: undefined, workflow: undefined, ns: 'shop', tag: 'team=data', backfill: '7', q: 'x' }),
  ).toEqual({ ns: 'shop', tag: ['team=data'], backfill: 7, q: 'x', state: undefined })
  expect(choiceOf({ state: 'failed', tag: undefined })).toEqual({ all: true, state: 'failed' })
  expect(choiceOf({ state: undefined, ns: undefined })).toBeUndefined()
})
