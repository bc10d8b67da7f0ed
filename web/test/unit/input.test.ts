import { expect, test } from 'vitest'
import { causeText } from '../../src/pages/attemptdata'
import { commandText, kindText } from '../../src/pages/inputdata'

test('a shell task is shown as it is written, a program as a shell takes it', () => {
  expect(commandText(['sh', '-c', "echo 'a'\nexit 3"])).toBe("echo 'a'\nexit 3")
  expect(commandText(['/bin/load', '--day=2026-11-26', 'a b', "it's", ''])).toBe(
    "/bin/load --day=2026-11-26 'a b' 'it'\\''s' ''",
  )
})

test('each kind is said in words, also one that the page does not know', () => {
  expect(kindText({ kind: 'http', function: null })).toBe('a request')
  expect(kindText({ kind: 'kind', function: 'vm.create' })).toBe(
    'the kind vm.create, which a worker or an extension brings',
  )
  expect(kindText({ kind: 'container', function: null })).toBe('a command in a container')
  expect(kindText({ kind: 'ssh', function: null })).toBe('a command on another machine')
  expect(kindText({ kind: 'new', function: null } as never)).toBe('new')
})

test('a cause is said in words if the exit code alone does not say it', () => {
  expect(causeText('away')).toBe('the other system could not be reached')
  expect(causeText('permanent')).toBe('not retried, because a retry cannot help')
  expect(causeText('exit')).toBe('')
  expect(causeText(null)).toBe('')
})
