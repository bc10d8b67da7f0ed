// The text of a workflow under another name: its keys name and namespace change, and all other bytes stay.
import type { Node, YAMLMap } from 'yaml'
import { entryOf, type File, lineStart, readFile } from './outline'
import { applied, type Change } from './plan'
import { inlineText } from './values'

type Root = YAMLMap<Node, Node | null>

/** Sets a key of the file, or adds it as a line before the first key. */
function setTop(file: File, root: Root, key: string, value: string): Change {
  const range = entryOf(root, key)?.value?.range
  if (range) return { from: range[0], to: range[1], insert: inlineText(value) }
  if (root.flow) {
    const inside = (root.range?.[0] ?? 0) + 1
    return { from: inside, to: inside, insert: `${key}: ${inlineText(value)}, ` }
  }
  const at = lineStart(file.text, root.range?.[0] ?? 0)
  const end = file.text.includes('\r\n') ? '\r\n' : '\n'
  return { from: at, to: at, insert: `${key}: ${inlineText(value)}${end}` }
}

/** A text that cannot be read stays as it is: the editor shows its problems. */
export function renamedCopy(text: string, ns: string, name: string): string {
  const file = readFile(text)
  if (!file.root) return text
  const isPlaced = ns !== 'default' || entryOf(file.root, 'namespace') !== undefined
  // Of two lines at one place, the later one in this list comes first in the text.
  const changes = [
    ...(isPlaced ? [setTop(file, file.root, 'namespace', ns)] : []),
    setTop(file, file.root, 'name', name),
  ]
  return applied(text, changes)
}

/** Whether a workflow starts runs by itself. */
export function hasTriggers(text: string): boolean {
  const { root } = readFile(text)
  return root !== undefined && entryOf(root, 'triggers') !== undefined
}
