import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { boxHeight, boxWidth, drawingOf } from '../../src/canvas/drawing'
import { edgeAt } from '../../src/canvas/editgraph'
import { fixOf, taskChanges } from '../../src/pages/editordata'
import { placeOf } from '../../src/text/complete'
import { joined, merge } from '../../src/text/merge'
import {
  below,
  choicesOf,
  chosen,
  described,
  fieldKind,
  formsTaken,
  keysOf,
  type Schema,
} from '../../src/text/schema'
import { plainValue } from '../../src/text/values'

const lines = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 8 }).map((l) => l.join('\n'))

test('a merge of one edit is that edit, and of two equal ones it is either', () => {
  fc.assert(
    fc.property(lines, lines, (base, edit) => {
      expect(joined(merge(base, edit, base), [])).toBe(edit)
      expect(joined(merge(base, base, edit), [])).toBe(edit)
      expect(joined(merge(base, edit, edit), [])).toBe(edit)
    }),
  )
})

test('whatever is chosen, a merge has each side whole: all mine is one of the sides where they differ', () => {
  fc.assert(
    fc.property(lines, lines, lines, (base, mine, theirs) => {
      const parts = merge(base, mine, theirs)
      for (const p of parts) if ('mine' in p) expect(p.mine).not.toEqual(p.theirs)
      const [m, t] = [
        joined(parts, []),
        joined(
          parts,
          parts.map(() => 'theirs'),
        ),
      ]
      expect(merge(base, theirs, mine).filter((p) => 'mine' in p).length).toBe(
        parts.filter((p) => 'mine' in p).length,
      )
      if (parts.every((p) => 'same' in p)) expect(m).toBe(t)
    }),
  )
})

test('edits of different lines join, edits of the same line are asked about', () => {
  const base = 'one\ntwo\nthree\nfour'
  expect(joined(merge(base, 'ONE\ntwo\nthree\nfour', 'one\ntwo\nthree\nfour\nfive'), [])).toBe(
    'ONE\ntwo\nthree\nfour\nfive',
  )
  const parts = merge(base, 'one\nmine\nthree\nfour', 'one\ntheirs\nthree\nfour')
  expect(parts).toEqual([
    { same: ['one'] },
    { base: ['two'], mine: ['mine'], theirs: ['theirs'] },
    { same: ['three', 'four'] },
  ])
  expect(joined(parts, ['theirs'])).toBe('one\ntheirs\nthree\nfour')
})

test('completion knows where it is', () => {
  const at = (text: string) => {
    const { path, key } = placeOf(text.replace('¦', ''), text.indexOf('¦'))
    return `${path.join('.')}${key ? `: ${key}` : ''}`
  }
  expect(at('na¦')).toBe('')
  expect(at('name: w\ntasks:\n  a:\n    ru¦')).toBe('tasks.a')
  expect(at('tasks:\n  a:\n    run: x\n    on_timeout: w¦')).toBe('tasks.a: on_timeout')
  expect(at('tasks:\n  a: {run: x, re¦')).toBe('tasks.a')
  expect(at('tasks:\n  a: {run: x, retry: {ma¦')).toBe('tasks.a.retry')
  expect(at('tasks:\n  a: {needs: b¦')).toBe('tasks.a: needs')
  expect(at('tasks:\n  a: {needs: [b, c¦')).toBe('tasks.a.needs.*')
  expect(at('tasks:\n  a:\n    needs:\n      - b¦')).toBe('tasks.a.needs.*')
  expect(at('triggers:\n  - name: x\n    ov¦')).toBe('triggers.*')
  expect(at('tasks:\n  a:\n    run: |\n      x\n\n# note\nti¦')).toBe('')
})

const schema: Schema = {
  type: 'object',
  anyOf: [{ required: ['tasks'] }],
  properties: {
    tasks: {
      type: 'object',
      additionalProperties: {
        type: 'object',
        properties: {
          retry: { type: 'object', description: 'Again.', properties: { max: { type: 'integer' } } },
          on_lost: { enum: ['fail', 'ask'] },
          wait: {
            anyOf: [{ type: 'string' }, { type: 'object', properties: { until: { type: 'string' } } }],
          },
        },
      },
    },
  },
}

test('the schema is read by path, also where it has alternatives beside its keys', () => {
  expect(keysOf(below(schema, ['tasks', 'a'])).map(([k]) => k)).toEqual(['retry', 'on_lost', 'wait'])
  expect(choicesOf(below(schema, ['tasks', 'a', 'on_lost']))).toEqual(['fail', 'ask'])
  expect(below(schema, ['tasks', 'a', 'retry'])?.description).toBe('Again.')
  expect(fieldKind(below(schema, ['tasks', 'a', 'retry', 'max']) as Schema)).toBe('number')
  expect(fieldKind(below(schema, ['tasks', 'a', 'wait']) as Schema)).toBe('text')
  expect(below(schema, ['none', 'a'])).toBeUndefined()
})

test('a hint that names a word becomes an edit of just that word', () => {
  const text = 'name: w\ntasks:\n  a: {needs: bb}\n'
  const p = {
    file: '',
    key: '',
    line: 3,
    column: 14,
    message: 'task "a" needs "bb"',
    hint: 'did you mean b?',
  }
  const at = text.indexOf('bb')
  expect(fixOf(text, p)).toEqual({ from: at, to: at + 2, insert: 'b' })
  expect(fixOf(text, { ...p, hint: 'known keys: a, b' })).toBeUndefined()
  expect(fixOf(text, { ...p, line: 9 })).toBeUndefined()
})

test('the tasks that an edit changes, by key', () => {
  const from = new Map([
    ['a', { run: 'x' }],
    ['b', { run: 'y', needs: 'a' }],
  ])
  const to = new Map<string, Record<string, unknown>>([
    ['b', { run: 'y', needs: ['a', 'c'] }],
    ['c', { run: 'z' }],
  ])
  expect(taskChanges(from, to)).toEqual({
    added: ['c'],
    removed: ['a'],
    changed: [{ name: 'b', keys: ['needs'] }],
  })
})

test('a drawing that came as JSON has its edges, and the one under a point is found', () => {
  const node = (id: number, name: string, x: number, y: number) => ({ id, name, kind: 'work', x, y })
  const d = drawingOf({
    columns: 2,
    column_width: 220,
    row_height: 40,
    nodes: [node(0, 'a', 0, 0), node(1, 'b', 0, 40), node(2, 'c', 220, 20)],
    edges: [
      [0, 2],
      [1, 2],
    ],
  } as never)
  expect([...d.needs.subarray(d.needOff[2], d.needOff[3])]).toEqual([0, 1])
  expect([...d.next]).toEqual([2, 2])
  const camera = { scale: 1, x: 0, y: 0 }
  expect(edgeAt(d, camera, boxWidth + 4, boxHeight / 2)).toEqual([0, 2])
  expect(edgeAt(d, camera, boxWidth + 4, 40 + boxHeight / 2)).toEqual([1, 2])
  expect(edgeAt(d, camera, 10, 200)).toBeUndefined()
})

test('the styles that lazy pages bring are in the layer of pages', () => {
  expect(readFileSync('src/pages/editor.css', 'utf8').startsWith('@layer pages')).toBe(true)
})

test('other descriptions of keys are taken by the longest end of their path', () => {
  const words = { 'retry.max': 'MAX', max: 'any max', 'tasks.*.retry': 'RETRY', constructor: 'no key' }
  const retry = below(described(schema, words), ['tasks', 'a', 'retry'])
  expect(retry?.description).toBe('RETRY')
  expect(below(retry, ['max'])?.description).toBe('MAX')
  expect(described(schema, {})).toEqual(schema)
})

test('the keys that say what a task does are those of which the schema wants one', () => {
  const one: Schema = { oneOf: [{ required: ['run'] }, { required: ['container'] }], properties: { run: {} } }
  expect(chosen(one)).toEqual(['run', 'container'])
  expect(chosen(undefined)).toEqual([])
})

test('the form knows each way in which a value may be written', () => {
  const plain: Schema = { type: ['string', 'number', 'boolean'] }
  const event: Schema = {
    anyOf: [
      plain,
      { type: 'object', properties: { type: { anyOf: [plain, { type: 'array', items: plain }] } } },
    ],
  }
  const of = (s: Schema) =>
    Object.entries(formsTaken(s))
      .filter(([, takes]) => takes)
      .map(([form]) => form)
  expect(of({ anyOf: [plain, { type: 'object', properties: { event } }] })).toEqual(['text', 'fields'])
  expect(of(event)).toEqual(['text', 'fields'])
  expect(of(below(event, ['type']) as Schema)).toEqual(['text', 'list'])
  expect(of({ type: 'object', properties: { query: plain } })).toEqual(['fields'])
  expect(of({ type: 'object', additionalProperties: {} })).toEqual(['map'])
  expect(of({ type: 'object', additionalProperties: plain })).toEqual(['map'])
  expect(of({ type: 'object', additionalProperties: { type: 'array', items: plain } })).toEqual([])
  expect(of({ enum: ['read committed'] })).toEqual(['choice'])
  expect(of({ type: 'boolean' })).toEqual(['choice'])
  expect(of({ type: 'integer' })).toEqual(['number'])
})

test('what is typed is a number only if nothing of it is lost', () => {
  expect(['5', '007', '1e3', '-2.5', 'true', 'True', '', ' 5'].map(plainValue)).toEqual([
    5,
    '007',
    '1e3',
    -2.5,
    true,
    'True',
    '',
    ' 5',
  ])
})
