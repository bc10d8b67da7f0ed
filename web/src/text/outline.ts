// The tasks of a workflow file, with the ranges of the text that describe them. Only the text is changed by
// edits: these values are never written back as a whole.
import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type YAMLMap,
} from 'yaml'

export type Entry = Pair<Node, Node | null>

export type TaskText = {
  name: string
  entry: Entry
  /** The tasks that the task needs, without those that are written behind an alias. */
  needs: string[]
}

export type File = {
  text: string
  document: Document.Parsed
  lines: LineCounter
  root: YAMLMap<Node, Node | null> | undefined
  tasks: TaskText[]
  /** The mapping of the tasks; undefined if the file has none yet. */
  tasksMap: YAMLMap<Node, Node | null> | undefined
}

/** Reads a file, as far as it can be read. A fault in one place does not prevent the reading of the rest. */
export function readFile(text: string): File {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, keepSourceTokens: false, merge: false })
  const root = isMap(document.contents) ? (document.contents as YAMLMap<Node, Node | null>) : undefined
  const tasksNode = root ? valueAt(root, 'tasks') : undefined
  const tasksMap = isMap(tasksNode) ? (tasksNode as YAMLMap<Node, Node | null>) : undefined
  const tasks = (tasksMap?.items ?? []).flatMap((item) => {
    const entry = item as Entry
    const name = nameOf(entry.key)
    return name === undefined ? [] : [{ name, entry, needs: needsOf(entry.value) }]
  })
  return { text, document, lines, root, tasks, tasksMap }
}

const tasksLine = /^(["']?)tasks\1[ \t]*:[ \t]*(?:#.*)?\r?$/m

/**
 * The names of the tasks by the indentation of their lines. This takes milliseconds for a file for which
 * readFile takes seconds, and also works for a text that is being typed. It returns undefined if the tasks do
 * not stand one below the other.
 */
export function namesByLine(text: string): string[] | undefined {
  const head = tasksLine.exec(text)
  if (!head) return undefined
  const first = /^( +)[^\s#]/m.exec(text.slice(head.index + head[0].length))
  const key = new RegExp(`^(?:${first?.[1] ?? ' '}(["']?)([\\w.-]+)\\1[ \\t]*:(?=\\s|$)|([^\\s#]))`, 'gm')
  key.lastIndex = head.index + head[0].length
  const names: string[] = []
  for (let m = key.exec(text); m && m[3] === undefined; m = key.exec(text)) names.push(m[2] as string)
  return names
}

export const nameOf = (key: unknown): string | undefined =>
  isScalar(key) ? (typeof key.source === 'string' ? key.source : String(key.value)) : undefined

export function entryOf(map: YAMLMap<Node, Node | null>, key: string): Entry | undefined {
  return map.items.find((item) => isPair(item) && nameOf(item.key) === key) as Entry | undefined
}

export const valueAt = (map: YAMLMap<Node, Node | null>, key: string): Node | null | undefined =>
  entryOf(map, key)?.value

function needsOf(task: Node | null | undefined): string[] {
  if (!isMap(task)) return []
  const needs = valueAt(task as YAMLMap<Node, Node | null>, 'needs')
  if (isScalar(needs) && needs.value !== null) return [nameOf(needs) ?? '']
  if (isSeq(needs)) return needs.items.flatMap((item) => (isScalar(item) ? [nameOf(item) ?? ''] : []))
  return []
}

/** The end of the content of a node: after its last character, before the comment that follows. */
export function contentEnd(node: Node | null | undefined, otherwise: number): number {
  if (!node?.range) return otherwise
  if (isCollection(node) && !node.flow) {
    const last = node.items.at(-1)
    if (isPair(last)) {
      const { key, value } = last as Entry
      return contentEnd(value, key.range?.[1] ?? otherwise)
    }
    return contentEnd(last as Node, node.range[1])
  }
  // An empty value has a range without a length, after blanks and comments. In this case the key ends the
  // entry.
  return node.range[1] > node.range[0] || isAlias(node) ? node.range[1] : otherwise
}

/** The end of an entry, with the colon of an empty one. */
export function entryEnd(text: string, entry: Entry): number {
  const key = entry.key.range?.[1] ?? 0
  const end = contentEnd(entry.value, key)
  if (end > key) return end
  const colon = text.indexOf(':', key)
  return colon < 0 ? key : colon + 1
}

export const lineStart = (text: string, at: number) => text.lastIndexOf('\n', at - 1) + 1

/** The start of the line after a place; a block scalar ends there already. */
export function lineEnd(text: string, at: number): number {
  if (at > 0 && text[at - 1] === '\n') return at
  const end = text.indexOf('\n', at)
  return end < 0 ? text.length : end + 1
}

/** The column of a place, counted from 0. */
export const columnOf = (text: string, at: number) => at - lineStart(text, at)
