// Edits of the rule of a trigger in a workflow file.
import { isMap, isScalar, isSeq, type Node, type YAMLMap } from 'yaml'
import { nameOf, readFile, valueAt } from './outline'
import { inlineText } from './values'

export type TriggerRef = { name: string; kind: string; expression: string }

/**
 * Replaces a rule in the text of a workflow. All other bytes stay the same. The trigger is found by its name,
 * or by its rule if it has no name. Returns undefined if the rule is not written as one value in this text.
 */
export function withRule(text: string, t: TriggerRef, rule: string): string | undefined {
  const file = readFile(text)
  const list = file.root ? valueAt(file.root, 'triggers') : undefined
  if (!isSeq(list)) return undefined
  for (const item of list.items) {
    if (!isMap(item)) continue
    const map = item as YAMLMap<Node, Node | null>
    const [name, value] = [valueAt(map, 'name'), valueAt(map, t.kind)]
    if (!isScalar(value) || !value.range || (name ? nameOf(name) !== t.name : nameOf(value) !== t.expression))
      continue
    return text.slice(0, value.range[0]) + inlineText(rule) + text.slice(value.range[1])
  }
  return undefined
}
