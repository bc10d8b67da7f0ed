// A plan turns one edit of a task into the smallest change of the text. All other bytes stay the same. A plan that the text
// does not allow is refused with the reason and the place.
import { isAlias, isMap, isScalar, isSeq, type Node, type YAMLMap, type YAMLSeq } from 'yaml'
import {
  columnOf,
  type Entry,
  entryEnd,
  entryOf,
  type File,
  lineEnd,
  lineStart,
  nameOf,
  readFile,
  type TaskText,
} from './outline'
import { t } from './t'
import { blockText, inlineText, type Value } from './values'

export type Change = { from: number; to: number; insert: string }

/** An edit that the text does not allow. at is the place of the reason. */
export class Refused extends Error {
  at: number
  constructor(message: string, at = 0) {
    super(message)
    this.at = at
  }
}

type Map_ = YAMLMap<Node, Node | null>
const asMap = (node: Node | null | undefined) => (isMap(node) ? (node as Map_) : undefined)
const startOf = (node: Node | null | undefined) => node?.range?.[0] ?? 0
const isEmpty = (node: Node | null | undefined) =>
  !node || (isScalar(node) && node.value === null && !node.source)

export function applied(text: string, changes: Change[]): string {
  let out = text
  for (const c of [...changes].sort((a, b) => b.from - a.from || b.to - a.to))
    out = out.slice(0, c.from) + c.insert + out.slice(c.to)
  return out
}

/** Makes one plan of several steps. Each step sees the text after the previous step. */
export function inTurn(text: string, ...steps: ((file: File) => Change[])[]): Change[] {
  let now = text
  for (const step of steps) now = applied(now, step(readFile(now)))
  return difference(text, now)
}

/** Returns the change from one text to another as one range. The texts are equal outside of this range. */
export function difference(from: string, to: string): Change[] {
  if (from === to) return []
  let a = 0
  while (a < from.length && from[a] === to[a]) a++
  let b = 0
  while (b < from.length - a && b < to.length - a && from.at(-1 - b) === to.at(-1 - b)) b++
  return [{ from: a, to: from.length - b, insert: to.slice(a, to.length - b) }]
}

function taskOf(file: File, name: string): TaskText {
  const task = file.tasks.find((t) => t.name === name)
  if (!task) throw new Refused(t('There is no task {name}.', { name }))
  return task
}

/** The mapping of a task; undefined if the task has nothing yet. */
function bodyOf(file: File, task: TaskText): Map_ | undefined {
  const { value } = task.entry
  if (isEmpty(value)) return undefined
  const map = asMap(value)
  if (!map) {
    const line = file.lines.linePos(startOf(value)).line
    throw new Refused(
      isAlias(value)
        ? t('Task {name} comes from {alias}. Edit it in line {line}.', {
            name: task.name,
            alias: `*${value.source}`,
            line,
          })
        : t('Task {name} is not a mapping. Edit it in line {line}.', { name: task.name, line }),
      startOf(value),
    )
  }
  return map
}

const newline = (text: string, at: number) => (at > 0 && text[at - 1] !== '\n' ? '\n' : '')
const eolOf = (text: string) => (text.includes('\r\n') ? '\r\n' : '\n')

/** Removes an entry of a mapping, with the comments directly above it. */
function withoutEntry(file: File, map: Map_, entry: Entry): Change[] {
  const { text } = file
  const i = map.items.indexOf(entry)
  const from = startOf(entry.key)
  if (map.flow) return [withoutItem(text, map, i, from, entryEnd(text, entry))]
  if (
    map.items.length === 1 &&
    columnOf(text, from) > 0 &&
    text.slice(lineStart(text, from), from).trim() !== ''
  )
    return [{ from, to: entryEnd(text, entry), insert: '{}' }]
  return [{ from: aboveWithComments(text, from), to: lineEnd(text, entryEnd(text, entry)), insert: '' }]
}

/**
 * The start of the comment lines that are attached to a line: there is no blank line between, and the
 * indentation is the same.
 */
function aboveWithComments(text: string, at: number): number {
  let start = lineStart(text, at)
  const indent = text.slice(start, at)
  while (start > 0) {
    const above = lineStart(text, start - 1)
    if (!text.slice(above, start).startsWith(`${indent}#`)) break
    start = above
  }
  return start
}

/** Removes an item of a flow collection, with one comma. */
function withoutItem(text: string, all: { items: unknown[] }, i: number, from: number, to: number): Change {
  const nextAt = i + 1 < all.items.length ? itemStart(all.items[i + 1]) : undefined
  if (nextAt !== undefined) return { from, to: nextAt, insert: '' }
  if (i === 0) {
    const comma = /^\s*,/.exec(text.slice(to))
    return { from, to: comma ? to + comma[0].length : to, insert: '' }
  }
  const before = text.lastIndexOf(',', from)
  return { from: before, to, insert: '' }
}

const itemStart = (item: unknown): number =>
  (item as { key?: Node }).key ? startOf((item as Entry).key) : startOf(item as Node)

/** Adds an entry at the end of a mapping, or at its beginning. */
function withEntry(file: File, map: Map_, key: string, value: Value, first = false): Change[] {
  const { text } = file
  const eol = eolOf(text)
  if (map.flow) {
    const entry = `${inlineText(key)}: ${inlineText(value)}`
    const open = startOf(map) + 1
    if (map.items.length === 0) return [{ from: open, to: open, insert: entry }]
    if (first) {
      const at = itemStart(map.items[0])
      return [{ from: at, to: at, insert: `${entry}, ` }]
    }
    const at = entryEnd(text, map.items.at(-1) as Entry)
    return [{ from: at, to: at, insert: `, ${entry}` }]
  }
  const at = startOf((map.items[0] as Entry).key)
  const indent = ' '.repeat(columnOf(text, at))
  const entry = `${inlineText(key)}:${blockText(value, indent, eol)}`
  if (first) return [{ from: at, to: at, insert: `${entry}${eol}${indent}` }]
  const end = lineEnd(text, entryEnd(text, map.items.at(-1) as Entry))
  return [{ from: end, to: end, insert: `${newline(text, end) && eol}${indent}${entry}${eol}` }]
}

/** Adds the first key to an empty task. */
function firstEntry(file: File, task: TaskText, key: string, value: Value): Change[] {
  const eol = eolOf(file.text)
  const at = entryEnd(file.text, task.entry)
  if (file.tasksMap?.flow)
    return [{ from: at, to: at, insert: ` {${inlineText(key)}: ${inlineText(value)}}` }]
  const indent = `${' '.repeat(columnOf(file.text, startOf(task.entry.key)))}  `
  return [{ from: at, to: at, insert: `${eol}${indent}${inlineText(key)}:${blockText(value, indent, eol)}` }]
}

/** Sets a key of a task, or a key below it, such as retry.max. */
export function setKey(file: File, name: string, path: string[], value: Value): Change[] {
  const task = taskOf(file, name)
  const body = bodyOf(file, task)
  const [key = '', ...rest] = path
  const wrapped = rest.reduceRight<Value>((inner, k) => ({ [k]: inner }), value)
  if (!body) return firstEntry(file, task, key, wrapped)
  return setIn(file, body, [key, ...rest], value)
}

function setIn(file: File, map: Map_, [key = '', ...rest]: string[], value: Value): Change[] {
  const entry = entryOf(map, key)
  const wrapped = rest.reduceRight<Value>((inner, k) => ({ [k]: inner }), value)
  if (!entry) {
    if (map.items.length === 0 && !map.flow)
      throw new Refused(t('This mapping cannot be edited here.'), startOf(map))
    return withEntry(file, map, key, wrapped)
  }
  refuseAlias(file, entry, key)
  const inner = asMap(entry.value)
  if (rest.length > 0 && inner) return setIn(file, inner, rest, value)
  return replaced(file, map, entry, wrapped)
}

function refuseAlias(file: File, entry: Entry, key: string) {
  if (!isAlias(entry.value)) return
  const at = startOf(entry.value)
  const line = file.lines.linePos(at).line
  throw new Refused(
    t('{key} comes from {alias}. Edit it in line {line}.', { key, alias: `*${entry.value.source}`, line }),
    at,
  )
}

/**
 * Refuses to replace a value that has an anchor for other places, or a comment in its first line, because
 * both would be lost.
 */
function refuseMarked(file: File, { value }: Entry) {
  if (!value) return
  const at = startOf(value)
  const block = isScalar(value) && (value.type === 'BLOCK_LITERAL' || value.type === 'BLOCK_FOLDED')
  const { line } = file.lines.linePos(at)
  if (value.anchor)
    throw new Refused(
      t('The value has the anchor {anchor}. Edit it in line {line}.', { anchor: `&${value.anchor}`, line }),
      at,
    )
  if (block && file.text.slice(at, lineEnd(file.text, at)).includes('#'))
    throw new Refused(t('The value begins with a comment. Edit it in line {line}.', { line }), at)
}

/** Replaces the value of an entry. */
function replaced(file: File, map: Map_, entry: Entry, value: Value): Change[] {
  refuseMarked(file, entry)
  const { text } = file
  const eol = eolOf(text)
  const keyEnd = entry.key.range?.[1] ?? 0
  const end = entryEnd(text, entry)
  const colon = isEmpty(entry.value) ? end : text.indexOf(':', keyEnd) + 1
  const indent = ' '.repeat(columnOf(text, startOf(entry.key)))
  const tail = end > colon && text[end - 1] === '\n' ? eol : ''
  if (map.flow) return [{ from: colon, to: Math.max(colon, end), insert: ` ${inlineText(value)}` }]
  const insert = blockText(value, indent, eol)
  const [head, ...more] = insert.split(eol)
  if (more.length === 0 || tail) return [{ from: colon, to: Math.max(colon, end), insert: insert + tail }]
  // A comment after the old value stays in its line, which is now the first of several lines.
  const stop = lineEnd(text, end)
  const behind = text.slice(end, stop).trim()
  const insertAll = [behind ? `${head} ${behind}` : head, ...more].join(eol)
  return [{ from: colon, to: stop, insert: insertAll + (text[stop - 1] === '\n' ? eol : '') }]
}

/** Removes a key of a task, or a key below it. A mapping that becomes empty is removed with its last key. */
export function unsetKey(file: File, name: string, path: string[]): Change[] {
  let map = bodyOf(file, taskOf(file, name))
  let last: { map: Map_; entry: Entry } | undefined
  for (const key of path) {
    const entry = map && entryOf(map, key)
    if (!map || !entry) return []
    if (!last || map.items.length > 1) last = { map, entry }
    map = asMap(entry.value)
  }
  return last ? withoutEntry(file, last.map, last.entry) : []
}

export type NewTask = { name: string; needs?: string[]; body: Record<string, Value> }

/** Adds a task after the last one that it needs, or at the end, in the style of the file. */
export function addTask(file: File, { name, needs = [], body }: NewTask): Change[] {
  if (file.tasks.some((t) => t.name === name))
    throw new Refused(t('There is a task {name} already.', { name }))
  const { text, root, tasksMap: map } = file
  const eol = eolOf(text)
  const value: Record<string, Value> = {
    ...(needs.length > 0 ? { needs: needs.length === 1 ? (needs[0] as string) : needs } : {}),
    ...body,
  }
  if (!map) {
    const tasks = root && entryOf(root, 'tasks')
    if (tasks && !isEmpty(tasks.value))
      throw new Refused(t('The key tasks is not a mapping.'), startOf(tasks.value))
    if (text.trim() !== '' && (!root || root.flow)) throw new Refused(t('The file is not a mapping of keys.'))
    const entry = `  ${inlineText(name)}:${blockText(value, '  ', eol)}${eol}`
    if (!tasks)
      return [
        { from: text.length, to: text.length, insert: `${newline(text, text.length)}tasks:${eol}${entry}` },
      ]
    const at = lineEnd(text, entryEnd(text, tasks))
    return [{ from: at, to: at, insert: `${newline(text, at) && eol}${entry}` }]
  }
  if (map.flow) return withEntry(file, map, name, value)
  const last = map.items.findLastIndex((item) => needs.includes(nameOf((item as Entry).key) ?? ''))
  const after = map.items[last < 0 ? map.items.length - 1 : last] as Entry
  const at = lineEnd(text, entryEnd(text, after))
  const key = startOf((map.items[0] as Entry).key)
  const indent = ' '.repeat(columnOf(text, key))
  const compact = asMap(after.value)?.flow === true
  const gap = aboveWithComments(text, startOf(after.key))
  const spaced = map.items.indexOf(after) > 0 && text.slice(0, gap).endsWith(`${eol}${eol}`)
  const entry = `${indent}${inlineText(name)}:${compact ? ` ${inlineText(value)}` : blockText(value, indent, eol)}${eol}`
  return [{ from: at, to: at, insert: `${newline(text, at) && eol}${spaced ? eol : ''}${entry}` }]
}

/** Deletes a task with its attached comments, and takes it out of the needs of others. */
export function deleteTask(file: File, name: string): Change[] {
  const task = taskOf(file, name)
  const map = file.tasksMap as Map_
  const needed = file.tasks.filter((t) => t.name !== name && t.needs.includes(name))
  return [...needed.flatMap((t) => removeNeed(file, t.name, name)), ...withoutEntry(file, map, task.entry)]
}

/** Makes a task need another one. */
export function addNeed(file: File, name: string, need: string): Change[] {
  const task = taskOf(file, name)
  taskOf(file, need)
  if (task.needs.includes(need)) return []
  if (name === need || dependsOn(file, need, name))
    throw new Refused(
      t('{need} depends on {name} already: that would be a cycle.', { need, name }),
      startOf(task.entry.key),
    )
  const body = bodyOf(file, task)
  if (!body) return firstEntry(file, task, 'needs', need)
  const entry = entryOf(body, 'needs')
  if (!entry) return withEntry(file, body, 'needs', need, true)
  refuseAlias(file, entry, 'needs')
  const { value } = entry
  const { text } = file
  if (isSeq(value)) return [withListItem(text, value as YAMLSeq<Node>, need)]
  if (isEmpty(value)) return replaced(file, body, entry, need)
  const [from, to] = value?.range ?? [0, 0]
  return [{ from, to, insert: `[${text.slice(from, to)}, ${inlineText(need)}]` }]
}

function withListItem(text: string, list: YAMLSeq<Node>, item: string): Change {
  const last = list.items.at(-1)
  const end = last?.range?.[1] ?? startOf(list) + 1
  if (list.flow) return { from: end, to: end, insert: `${last ? ', ' : ''}${inlineText(item)}` }
  const dash = text.lastIndexOf('-', startOf(last))
  const at = lineEnd(text, end)
  const eol = eolOf(text)
  const indent = ' '.repeat(columnOf(text, dash))
  return { from: at, to: at, insert: `${newline(text, at) && eol}${indent}- ${inlineText(item)}${eol}` }
}

/** Makes a task no longer need another one. */
export function removeNeed(file: File, name: string, need: string): Change[] {
  const task = taskOf(file, name)
  const body = bodyOf(file, task)
  const entry = body && entryOf(body, 'needs')
  if (!body || !entry) return []
  refuseAlias(file, entry, 'needs')
  const { value } = entry
  if (!isSeq(value)) return nameOf(value) === need ? withoutEntry(file, body, entry) : []
  const list = value as YAMLSeq<Node>
  const i = list.items.findIndex((item) => nameOf(item) === need)
  if (i < 0) return []
  if (list.items.length === 1) return withoutEntry(file, body, entry)
  const item = list.items[i] as Node
  const [from, to] = item.range ?? [0, 0]
  if (list.flow) return [withoutItem(file.text, list, i, from, to)]
  return [{ from: lineStart(file.text, from), to: lineEnd(file.text, to), insert: '' }]
}

/** Reports whether one task depends on another, directly or through other tasks. */
export function dependsOn(file: File, name: string, on: string): boolean {
  const needs = new Map(file.tasks.map((t) => [t.name, t.needs]))
  const seen = new Set<string>()
  const left = [name]
  for (let t = left.pop(); t !== undefined; t = left.pop()) {
    if (t === on) return true
    if (seen.has(t)) continue
    seen.add(t)
    left.push(...(needs.get(t) ?? []))
  }
  return false
}
