// The rename of a task: its key, the needs of others, and each expression, input and branch that names it.
import { isAlias, isMap, isPair, isScalar, isSeq, type Node } from 'yaml'
import type { Entry, File } from './outline'
import { nameOf } from './outline'
import { type Change, Refused } from './plan'
import { t } from './t'
import { inlineText } from './values'

/** The keys whose whole text is an expression. */
const expressions = new Set(['if', 'condition', 'foreach', 'tasks'])

export function renameTask(file: File, name: string, to: string): Change[] {
  if (name === to) return []
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(to))
    throw new Refused(t('A task name has letters, digits, _ and -, at most 100.'))
  if (file.tasks.some((t) => t.name === to))
    throw new Refused(t('There is a task {name} already.', { name: to }))
  const task = file.tasks.find((t) => t.name === name)
  if (!task) throw new Refused(t('There is no task {name}.', { name }))
  const changes: Change[] = [renamed(file.text, task.entry.key, to)]
  for (const t of file.tasks) visit(file, t.entry.value, [], name, to, changes)
  return changes
}

function visit(file: File, node: Node | null, path: string[], name: string, to: string, out: Change[]) {
  if (!node || isAlias(node)) return
  if (isMap(node)) {
    for (const item of node.items)
      if (isPair(item)) {
        const { key, value } = item as Entry
        visit(file, value, [...path, nameOf(key) ?? ''], name, to, out)
      }
    return
  }
  if (isSeq(node)) {
    for (const item of node.items) visit(file, item as Node, path, name, to, out)
    return
  }
  if (!isScalar(node) || !node.range) return
  const [top = '', last = ''] = [path[0], path.at(-1)]
  const whole =
    (path.length === 1 && top === 'needs') || (top === 'switch' && (last === 'then' || last === 'else'))
  if (whole) {
    if (nameOf(node) === name) out.push(renamed(file.text, node, to))
    return
  }
  const [from, end] = node.range
  const source = file.text.slice(from, end)
  if (top === 'inputs') {
    const at = source.indexOf(`${name}/`)
    if (at === 0 || (at === 1 && /["']/.test(source[0] ?? '')))
      out.push({ from: from + at, to: from + at + name.length, insert: to })
    return
  }
  out.push(
    ...inExpressions(source, expressions.has(last), name, to).map((c) => ({
      ...c,
      from: c.from + from,
      to: c.to + from,
    })),
  )
}

function inExpressions(source: string, whole: boolean, name: string, to: string): Change[] {
  const spans: [number, number][] = whole
    ? [[0, source.length]]
    : [...source.matchAll(/\$\{\{.*?\}\}/gs)].map((m) => [m.index, m.index + m[0].length])
  const out: Change[] = []
  const plain = /^[A-Za-z_]\w*$/.test(to)
  // tasks.NAME, tasks["NAME"] and tasks['NAME'], in a scalar that may escape its quotes.
  const pattern = new RegExp(`\\btasks(?:\\.(${name})(?![\\w-])|\\[(\\\\?["']|'')(${name})\\2\\])`, 'g')
  for (const [start, end] of spans) {
    for (const m of source.slice(start, end).matchAll(pattern)) {
      const at = start + m.index + 'tasks'.length
      const quote = source.startsWith('"') ? "'" : '"'
      const insert =
        m[1] === undefined ? `[${m[2]}${to}${m[2]}]` : plain ? `.${to}` : `[${quote}${to}${quote}]`
      out.push({ from: at, to: start + m.index + m[0].length, insert })
    }
  }
  return out
}

/** Replaces a name and keeps its quotes. */
function renamed(text: string, node: Node, to: string): Change {
  const [from, end] = node.range ?? [0, 0]
  const quote = /["']/.test(text[from] ?? '') ? (text[from] as string) : ''
  return { from, to: end, insert: quote ? `${quote}${to}${quote}` : inlineText(to) }
}
