import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Frames, Gathered, waitFor } from '../../src/live/stream'

const text = ': skein\n\nid: 1\nevent: change\ndata: {"a":1}\n\n: \n\nevent: reset\ndata: {}\n\n'

test('frames are the same however the stream is cut', () => {
  const whole = new Frames().push(text)
  expect(whole).toEqual([
    { event: 'change', data: '{"a":1}' },
    { event: 'reset', data: '{}' },
  ])
  fc.assert(
    fc.property(fc.array(fc.nat(text.length)), (cuts) => {
      const frames = new Frames()
      const at = [0, ...cuts.sort((a, b) => a - b), text.length]
      expect(at.slice(1).flatMap((to, i) => frames.push(text.slice(at[i], to)))).toEqual(whole)
    }),
  )
})

test('changes of one run become one', () => {
  const gathered = new Gathered()
  const change = (seq: number, task: string) =>
    JSON.stringify({ run: 'r', workflow: 'w', seq, events: [{ kind: 'ended', task }] })
  gathered.add(change(2, 'a'))
  gathered.add(change(1, 'b'))
  expect(gathered.take()).toEqual([{ run: 'r', workflow: 'w', seq: 2, events: ['ended'], tasks: ['a', 'b'] }])
  expect(gathered.take()).toEqual([])
})

test('the first change after a calm is not kept waiting, and those of a flood are', () => {
  expect(waitFor(Number.NEGATIVE_INFINITY, 200, 5)).toBe(0)
  expect(waitFor(1000, 200, 1300)).toBe(0)
  expect(waitFor(1000, 200, 1050)).toBe(150)
})
