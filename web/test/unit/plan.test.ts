import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { entryEnd, lineEnd, namesByLine, readFile } from '../../src/text/outline'
import {
  addNeed,
  addTask,
  applied,
  type Change,
  deleteTask,
  inTurn,
  Refused,
  removeNeed,
  setKey,
  unsetKey,
} from '../../src/text/plan'
import { renameTask } from '../../src/text/rename'
import type { Value } from '../../src/text/values'

const names = ['a', 'b-1', 'c_2', 'load', 'x9', 'yes', '12']

type Task = Record<string, Value>
type Model = { name: string; tasks: Record<string, Task> | null }

/** A task in one of the ways that people write one. */
function taskText(name: string, needs: string[], style: number, comment: boolean): string {
  const key = /^(yes|12)$/.test(name) ? (style % 2 ? `"${name}"` : `'${name}'`) : name
  const item = (n: string) => (/^(yes|12)$/.test(n) ? `"${n}"` : n)
  const list = `[${needs.map(item).join(', ')}]`
  const flow = needs.length === 1 ? item(needs[0] as string) : list
  const head = comment ? `  # About ${name}.\n` : ''
  if (style === 0)
    return `${head}  ${key}: {${needs.length ? `needs: ${flow}, ` : ''}run: echo ${name}} # ends ${name}\n`
  if (style === 1)
    return `${head}  ${key}:\n    run: "echo ${name}" # says\n${needs.length ? `    needs: ${list}\n` : ''}`
  if (style === 2)
    return `${head}  ${key}:\n${needs.length ? `    needs:\n${needs.map((n) => `      - ${item(n)} # why\n`).join('')}` : ''}    run: |\n      first\n\n      # no comment\n      last\n    retry: {max: 2}\n`
  if (style === 3)
    return `${head}  ${key}:\n${needs.length ? `    needs: ${flow}\n` : ''}    env:\n      WHO: it's\n    run: >-\n      some\n      text\n\n`
  return `${head}  ${key}:\n    description: 'of ${name}'   \n${needs.length ? `    needs: [${needs.map(item).join(' , ')} ]\n` : ''}    retry:\n      max: 3\n      delay: 5s\n    run: ["echo", "${name}"]\n`
}

const files = fc
  .record({
    chosen: fc.uniqueArray(fc.constantFrom(...names), { minLength: 1, maxLength: 6 }),
    styles: fc.array(fc.nat(4), { minLength: 6, maxLength: 6 }),
    edges: fc.array(fc.nat(63), { minLength: 6, maxLength: 6 }),
    comments: fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
    gaps: fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
    tail: fc.constantFrom('', '# the end\n', 'timeout: 5m\n', '\n\n# far\ntimeout: 5m # end'),
    crlf: fc.boolean(),
  })
  .map(({ chosen, styles, edges, comments, gaps, tail, crlf }) => {
    const tasks = chosen.map((name, i) => {
      const needs = chosen.filter((_, j) => j < i && ((edges[i] ?? 0) >> j) % 2 === 1)
      return (gaps[i] ? '\n' : '') + taskText(name, needs, styles[i] ?? 0, comments[i] ?? false)
    })
    const text = `# A file.\nname: w # its name\ntasks:\n${tasks.join('')}${tail}`
    return { text: crlf ? text.replaceAll('\n', '\r\n') : text, chosen }
  })

type Op = { text: string; plan: (text: string) => Change[]; model: (m: Model) => void; touched: string[] }

const tasksOf = (m: Model) => (m.tasks ??= {})
const needsOf = (t: Task): string[] =>
  t.needs === undefined || t.needs === null ? [] : ([t.needs].flat() as Value[]).map(String)
function withNeeds(t: Task, needs: string[]) {
  if (needs.length > 0) t.needs = needs
  else delete t.needs
}

const values = fc.oneof(
  fc.constantFrom<Value>(
    true,
    7,
    1.5,
    'x',
    'a: b',
    '# no',
    'yes',
    '12',
    "it's",
    '"q"',
    'a, b',
    '[1]',
    '*x',
    '- a',
    '',
  ),
  fc.constantFrom<Value>(
    'one\ntwo\n',
    'one\ntwo',
    '\n',
    ' lead\nx',
    'a\n\n\n',
    'tab\there\nx\n',
    'end \nx\n',
  ),
  fc.string({ maxLength: 12, unit: fc.constantFrom(...'ab:#{}[],&*!|>\'"%@` -?0~\n') }),
  fc.constantFrom<Value>(['a', 'b, c'], { A: 'x', B: '1' }, [], {}),
)

const ops = (chosen: string[]): fc.Arbitrary<Op> => {
  const some = fc.constantFrom(...chosen)
  const add = fc.record({ name: fc.constantFrom('new', 'no', 'n-1'), need: fc.option(some), value: values })
  return fc.oneof(
    add.map(({ name, need, value }) => ({
      text: `add ${name} after ${need}`,
      plan: (text: string) =>
        addTask(readFile(text), { name, needs: need === null ? [] : [need], body: { run: value } }),
      model: (m: Model) => {
        tasksOf(m)[name] = { ...(need === null ? {} : { needs: [need] }), run: value }
      },
      touched: [name],
    })),
    some.map((name) => ({
      text: `delete ${name}`,
      plan: (text: string) => deleteTask(readFile(text), name),
      model: (m: Model) => {
        delete tasksOf(m)[name]
        for (const t of Object.values(tasksOf(m)))
          withNeeds(
            t,
            needsOf(t).filter((n) => n !== name),
          )
      },
      touched: [name, '*needs'],
    })),
    fc.tuple(some, fc.constantFrom('to', 'null', '3')).map(([name, to]) => ({
      text: `rename ${name} to ${to}`,
      plan: (text: string) => renameTask(readFile(text), name, to),
      model: (m: Model) => {
        m.tasks = Object.fromEntries(Object.entries(tasksOf(m)).map(([n, t]) => [n === name ? to : n, t]))
        for (const t of Object.values(m.tasks))
          withNeeds(
            t,
            needsOf(t).map((n) => (n === name ? to : n)),
          )
      },
      touched: [name, to, '*needs'],
    })),
    fc.tuple(some, some).map(([name, need]) => ({
      text: `${name} needs ${need}`,
      plan: (text: string) => addNeed(readFile(text), name, need),
      model: (m: Model) => {
        const t = tasksOf(m)[name] as Task
        if (!needsOf(t).includes(need)) withNeeds(t, [...needsOf(t), need])
      },
      touched: [name],
    })),
    fc.tuple(some, some).map(([name, need]) => ({
      text: `${name} no longer needs ${need}`,
      plan: (text: string) => removeNeed(readFile(text), name, need),
      model: (m: Model) => {
        const t = tasksOf(m)[name] as Task
        withNeeds(
          t,
          needsOf(t).filter((n) => n !== need),
        )
      },
      touched: [name],
    })),
    fc
      .tuple(some, fc.constantFrom('run', 'timeout', 'env', 'description'), values)
      .map(([name, key, value]) => ({
        text: `set ${name}.${key} to ${JSON.stringify(value)}`,
        plan: (text: string) => setKey(readFile(text), name, [key], value),
        model: (m: Model) => {
          ;(tasksOf(m)[name] as Task)[key] = value
        },
        touched: [name],
      })),
    fc.tuple(some, fc.constantFrom('max', 'backoff'), fc.nat(9)).map(([name, key, value]) => ({
      text: `set ${name}.retry.${key} to ${value}`,
      plan: (text: string) => setKey(readFile(text), name, ['retry', key], value),
      model: (m: Model) => {
        const t = tasksOf(m)[name] as Task
        t.retry = { ...(t.retry as object), [key]: value }
      },
      touched: [name],
    })),
    fc.tuple(some, fc.constantFrom<string[]>(['retry'], ['retry', 'max'], ['env'])).map(([name, path]) => ({
      text: `unset ${name}.${path.join('.')}`,
      plan: (text: string) => unsetKey(readFile(text), name, path),
      model: (m: Model) => {
        const t = tasksOf(m)[name] as Task
        const inner = t.retry as Record<string, Value> | undefined
        if (path.length === 1) delete t[path[0] as string]
        else if (inner && 'max' in inner && Object.keys(inner).length === 1) delete t.retry
        else if (inner) delete inner.max
      },
      touched: [name],
    })),
  )
}

const normal = (m: Model): Model => ({
  ...m,
  tasks: Object.fromEntries(
    Object.entries(m.tasks ?? {}).map(([name, t]) => {
      const copy = { ...t }
      withNeeds(copy, needsOf(copy))
      return [name, copy]
    }),
  ),
})

/** The lines of each task, with the comments behind its values. */
const sources = (text: string) =>
  new Map(
    readFile(text).tasks.map((t) => {
      const from = t.entry.key.range?.[0] ?? 0
      return [t.name, text.slice(from, lineEnd(text, entryEnd(text, t.entry)))] as const
    }),
  )

test('an edit of the text is the same edit of what it means, and all else stays byte for byte', () => {
  const cases = files.chain((f) =>
    fc.tuple(fc.constant(f), fc.array(ops(f.chosen), { minLength: 1, maxLength: 4 })),
  )
  fc.assert(
    fc.property(cases, ([{ text }, list]) => {
      let now = text
      for (const op of list) {
        const model = parse(now) as Model
        let changes: Change[]
        try {
          changes = op.plan(now)
          op.model(model)
        } catch (e) {
          if (e instanceof Refused || e instanceof TypeError) continue // such as a task that an earlier edit deleted
          throw e
        }
        const after = applied(now, changes)
        const context = `${op.text}\n--- before\n${now}\n--- after\n${after}`
        expect(readFile(after).document.errors, context).toEqual([])
        expect(normal(parse(after) as Model), context).toEqual(normal(model))
        const [before, is] = [sources(now), sources(after)]
        for (const [name, source] of before) {
          const others =
            op.touched.includes('*needs') &&
            readFile(now)
              .tasks.find((t) => t.name === name)
              ?.needs.includes(op.touched[0] as string)
          if (op.touched.includes(name) || others) continue
          expect(is.get(name)?.trimEnd(), `${name}: ${context}`).toBe(source.trimEnd())
        }
        for (const comment of now.match(/# (?:says|why|ends|the end|far|A file|its name)[^\r\n]*/g) ?? []) {
          const gone = changes.some((c) => now.slice(c.from, c.to).includes(comment))
          if (!gone) expect(after, context).toContain(comment)
        }
        now = after
      }
    }),
    { numRuns: 300 },
  )
})

const file = `name: w
defaults: &base {timeout: 5s}
tasks:
  a: {run: echo}
  b:
    # about needs
    needs: [a]  # only a
    run: |
      echo \${{ tasks.a.outputs.x }} tasks.a
    if: tasks.a.state == "succeeded" && tasks["a"].outputs.x > tasks.ab.outputs.y
    inputs: {in: a/file.txt, other: "a/x"}
    env: {X: "\${{ tasks[\\"a\\"].outputs.x }}"}
  c:
    switch:
      - {if: params.x, then: a}
      - else: b
  d: *base
`

test('a rename follows needs, expressions, inputs and branches, and no other text', () => {
  const after = applied(file, renameTask(readFile(file), 'a', 'z-1'))
  expect(after).toBe(
    file
      .replace('  a: {run', '  z-1: {run')
      .replace('needs: [a]', 'needs: [z-1]')
      .replace('${{ tasks.a.outputs', '${{ tasks["z-1"].outputs')
      .replace('if: tasks.a.state', 'if: tasks["z-1"].state')
      .replace('tasks["a"].outputs.x > tasks.ab', 'tasks["z-1"].outputs.x > tasks.ab')
      .replace('in: a/file', 'in: z-1/file')
      .replace('"a/x"', '"z-1/x"')
      .replace('tasks[\\"a\\"]', 'tasks[\\"z-1\\"]')
      .replace('then: a}', 'then: z-1}'),
  )
})

test('what comes from an alias is refused with its place', () => {
  expect(() => addNeed(readFile(file), 'd', 'a')).toThrow('Task d comes from *base. Edit it in line 17.')
  expect(() => addNeed(readFile(file), 'a', 'b')).toThrow('cycle')
})

test('steps in turn are one change, and a file without tasks gets its first', () => {
  const text = 'name: w\n'
  const plan = inTurn(
    text,
    (f) => addTask(f, { name: 'a', body: { run: 'echo hello' } }),
    (f) => addTask(f, { name: 'b', needs: ['a'], body: { run: 'one\ntwo\n' } }),
  )
  expect(plan.length).toBe(1)
  expect(applied(text, plan)).toBe(
    'name: w\ntasks:\n  a:\n    run: echo hello\n  b:\n    needs: a\n    run: |\n      one\n      two\n',
  )
  expect(stringify(parse(applied(text, plan)))).toContain('needs: a')
})

test('a value that other places name, or whose first line holds a comment, is not replaced', () => {
  const file = readFile(
    'tasks:\n  a:\n    run: &cmd echo a\n    description: | # why\n      text\n  b: {run: *cmd}\n',
  )
  expect(() => setKey(file, 'a', ['run'], 'echo b')).toThrow('anchor &cmd. Edit it in line 3')
  expect(() => setKey(file, 'a', ['description'], 'new')).toThrow('begins with a comment. Edit it in line 4')
})

test('names by line are those of the file, also while a line is being written', () => {
  fc.assert(
    fc.property(files, ({ text, chosen }) => {
      expect(namesByLine(text)).toEqual(chosen)
      expect(readFile(text).tasks.map((t) => t.name)).toEqual(chosen)
    }),
  )
  expect(
    namesByLine(
      'tasks:\n\n  # first\n    a: {run: x}\n    b:\n      run: |\n        c: d\n      needs: [a, "\n',
    ),
  ).toEqual(['a', 'b'])
  expect(namesByLine('name: w\ntasks:\n  a: {run: x}\n  new:\n    needs: [\nparams:\n  p: 1\n')).toEqual([
    'a',
    'new',
  ])
  expect(namesByLine('"tasks" : # of the day\n  a:\n---\ntasks:\n  b:\n')).toEqual(['a'])
  expect(namesByLine('name: w\ntasks:\n')).toEqual([])
  for (const text of ['', 'name: w\n', 'tasks: {a: {run: x}}\n', '  tasks:\n    a:\n'])
    expect(namesByLine(text)).toBeUndefined()
})
