import { expect, test } from 'vitest'
import { commandText, kindText } from '../../src/pages/inputdata'

test('a shell task is shown as it is written, a program as a shell takes it', () => {
  expect(commandText(['sh', '-c', "echo 'a'\nexit 3"])).toBe("echo 'a'\nexit 3")
  expect(commandText(['/bin/load', '--day=2026-11-26', 'a b', "it's", ''])).toBe(
    "/bin/load --day=2026-11-26 'a b' 'it'\\''s' ''",
  )
})

test('each kind is said in words, also one that the page does not know', () => {
  expect(kindText({ kind: 'http', function: null })).toBe('a request')
  expect(kindText({ kind: 'kind', function: 'vm.create' })).toBe('the function vm.create of a worker')
  expect(kindText({ kind: 'new', function: null } as never)).toBe('new')
})
