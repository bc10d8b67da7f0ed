import { expect, test } from 'vitest'
import { Failure } from '../../src/api/client'
import type { GitSource } from '../../src/api/types'
import {
  byEffect,
  changedBy,
  type Draft,
  draftOf,
  emptyDraft,
  faultsOf,
  fileLink,
  isReady,
  localFaults,
  reachOf,
  requestOf,
} from '../../src/pages/admin/gitdata'
import { hasTriggers, renamedCopy } from '../../src/text/copy'

const draft = (more: Partial<Draft>): Draft => ({ ...emptyDraft('shop'), name: 'flows', ...more })

test('the address of a repository says how a node reaches it', () => {
  expect(
    [
      'https://git.example.com/a.git',
      'ssh://git@host/a',
      'git@host:a/b.git',
      'file:///srv/a.git',
      'https://',
      'host:a',
    ].map(reachOf),
  ).toEqual(['web', 'ssh', 'ssh', 'file', undefined, undefined])
})

test('the request of a draft has the credentials of its address only', () => {
  const of = { login: 'git', password: 'TOKEN', key: 'KEY', hosts: 'h ssh-rsa A\n', hook: 'HOOK' }
  const web = draft({
    ...of,
    url: ' https://h/a.git ',
    kind: 'tag',
    ref: 'v1',
    folder: 'flows/',
    adopt: true,
  })
  expect(requestOf(web)).toEqual({
    url: 'https://h/a.git',
    tag: 'v1',
    folder: 'flows',
    login: 'git',
    password_secret: 'TOKEN',
    hook_secret: 'HOOK',
    adopt: true,
  })
  const shell = draft({ ...of, url: 'git@h:a.git', removed: 'keep' })
  expect(requestOf(shell)).toEqual({
    url: 'git@h:a.git',
    key_secret: 'KEY',
    known_hosts: 'h ssh-rsa A\n',
    hook_secret: 'HOOK',
    removed: 'keep',
  })
  const stored = { ...requestOf(shell), namespace: 'shop', name: 'flows' } as GitSource
  expect(requestOf(draftOf(stored))).toEqual(requestOf(shell))
})

test('a draft is ready with its credentials, and its faults are at their fields', () => {
  expect([isReady(draft({ url: 'https://h/a' })), isReady(draft({ url: 'git@h:a' }))]).toEqual([true, false])
  expect(isReady(draft({ url: 'git@h:a', key: 'K', hosts: 'h' }))).toBe(true)
  expect(Object.keys(localFaults(draft({ name: 'Flows', url: 'https://u:p@h/a' }), true, []))).toEqual([
    'name',
    'url',
  ])
  expect(Object.keys(localFaults(draft({}), true, ['shop/flows']))).toEqual(['name'])
  expect(localFaults(draft({}), false, ['shop/flows'])).toEqual({})
})

test('the server names the field of a fault; an answer about anything else has no field', () => {
  const answer = (errors: { key: string; message: string }[]) =>
    new Failure({
      type: '',
      code: 'invalid',
      title: '',
      status: 422,
      detail: '',
      errors: errors.map((e) => ({ file: '', line: 1, column: 1, hint: '', snippet: '', ...e })),
    })
  expect(faultsOf(answer([{ key: 'tag', message: 'tag: no such thing' }]))).toEqual({ ref: 'no such thing' })
  expect(faultsOf(answer([{ key: 'colour', message: 'x' }]))).toBeUndefined()
  expect(faultsOf(answer([]))).toBeUndefined()
})

test('the changes of a sync come by their effect, what is lost first', () => {
  const sync = {
    changes: (['unchanged', 'created', 'deleted', 'created'] as const).map((change, i) => ({
      workflow: `shop/${i}`,
      file: null,
      change,
    })),
  }
  expect(byEffect(sync).map(({ effect, of }) => [effect.change, of.length])).toEqual([
    ['deleted', 1],
    ['created', 2],
    ['unchanged', 1],
  ])
  expect(changedBy(sync)).toBe(3)
})

test('a file has an address in the page of a server that is known', () => {
  const at = (more: Partial<GitSource>) => fileLink({ url: '', ...more } as GitSource, 'a b.yaml')
  expect(at({ url: 'https://github.com/o/r.git' })).toBe('https://github.com/o/r/blob/main/a%20b.yaml')
  expect(at({ url: 'git@gitlab.example.com:g/s/r.git', folder: 'flows', branch: 'dev' })).toBe(
    'https://gitlab.example.com/g/s/r/-/blob/dev/flows/a%20b.yaml',
  )
  expect(at({ url: 'ssh://git@codeberg.org:22/o/r', tag: 'v1' })).toBe(
    'https://codeberg.org/o/r/src/tag/v1/a%20b.yaml',
  )
  expect(at({ url: 'https://git.example.com/r.git' })).toBeUndefined()
  expect(at({ url: 'file:///srv/github.com/r' })).toBeUndefined()
})

test('a copy has another name and namespace, and all other bytes of the text', () => {
  expect(renamedCopy('# a\nname: one # the name\ntasks: {a: {run: x}}\n', 'default', 'two')).toBe(
    '# a\nname: two # the name\ntasks: {a: {run: x}}\n',
  )
  expect(renamedCopy('# a\r\nname: "one"\r\ntasks:\r\n', 'shop', 'two')).toBe(
    '# a\r\nnamespace: shop\r\nname: two\r\ntasks:\r\n',
  )
  expect(renamedCopy('namespace: shop\ntasks: {}\n', 'default', 'two')).toBe(
    'name: two\nnamespace: default\ntasks: {}\n',
  )
  expect(renamedCopy('{tasks: {a: {run: x}}}', 'shop', 'two')).toBe(
    '{name: two, namespace: shop, tasks: {a: {run: x}}}',
  )
  expect(renamedCopy('- no\n- workflow\n', 'shop', 'two')).toBe('- no\n- workflow\n')
  expect([hasTriggers('triggers: [{every: 1h}]\n'), hasTriggers('tasks: {triggers: {run: x}}\n')]).toEqual([
    true,
    false,
  ])
})
