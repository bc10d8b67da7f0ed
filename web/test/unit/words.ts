// The texts that the sources of the page ask for, and those that they show without asking.
import { readdirSync, readFileSync } from 'node:fs'
import { parseSync } from 'vite'

type Tree = { type: string; start: number; [name: string]: unknown }

const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((f) => /\.tsx?$/.test(f) && !f.startsWith('text/zh/') && f !== 'text/t.ts' && f !== 'api/types.ts')
  .sort()

const isTree = (v: unknown): v is Tree => typeof (v as Tree | null)?.type === 'string'

function walk(node: unknown, visit: (n: Tree, parents: Tree[]) => void, parents: Tree[] = []) {
  if (Array.isArray(node)) for (const n of node) walk(n, visit, parents)
  else if (isTree(node)) {
    visit(node, parents)
    for (const v of Object.values(node)) if (v && typeof v === 'object') walk(v, visit, [...parents, node])
  }
}

/** The string literals that an argument can be; undefined if the argument can be something else. */
function literals(n: unknown): string[] | undefined {
  if (!isTree(n)) return undefined
  if (n.type === 'Literal' && typeof n.value === 'string') return [n.value]
  if (n.type === 'ConditionalExpression') {
    const [a, b] = [literals(n.consequent), literals(n.alternate)]
    return a && b ? [...a, ...b] : undefined
  }
  return undefined
}

const shownBy = new Set([
  'aria-label',
  'title',
  'label',
  'placeholder',
  'hint',
  'alt',
  'empty',
  'answer',
  'head',
])
const asTyped = new Set(['code', 'kbd', 'svg'])
/** Names, such as CPU and Skein, are the same in every language. */
const hasWords = (text: string) => /[a-z]{2}/i.test(text) && !/^([A-Z]+|Skein|Go)$/.test(text.trim())

function nameOf(n: unknown): string {
  const is = n as { name?: unknown; openingElement?: unknown }
  return typeof is.name === 'string' ? is.name : is.name ? nameOf(is.name) : nameOf(is.openingElement)
}

/**
 * Reads the keys of t, rich and plural; the places whose key is not a literal; and bare words between tags
 * and in attributes.
 */
export function read() {
  const keys = new Map<string, string>()
  const unclear: string[] = []
  const bare: string[] = []
  for (const file of files) {
    const text = readFileSync(`src/${file}`, 'utf8')
    const at = (n: Tree) => `${file}:${text.slice(0, n.start).split('\n').length}`
    walk(parseSync(file, text).program, (n, parents) => {
      if (n.type === 'CallExpression' && isTree(n.callee) && n.callee.type === 'Identifier') {
        const args = n.arguments as unknown[]
        const name = nameOf(n.callee)
        if (name !== 't' && name !== 'rich' && name !== 'plural') return
        const ones = literals(args[name === 'plural' ? 1 : 0])
        const manys = args[2] && name === 'plural' ? literals(args[2]) : ones?.map((one) => `${one}s`)
        if (!ones || !manys) return void unclear.push(at(n))
        for (const [i, one] of ones.entries())
          keys.set(name === 'plural' ? `{n} ${one}|{n} ${manys[i]}` : one, at(n))
      } else if (n.type === 'JSXText' && hasWords(String(n.value))) {
        const tags = parents.filter((p) => p.type === 'JSXElement').map(nameOf)
        if (!tags.some((tag) => asTyped.has(tag)) && String(n.value).trim() !== 'Skein')
          bare.push(`${at(n)} ${String(n.value).trim()}`)
      } else if (n.type === 'JSXAttribute' && isTree(n.value) && n.value.type === 'Literal') {
        const said = String(n.value.value)
        // A placeholder with an example of an input needs no translation, because it is the same in every
        // language.
        if (shownBy.has(nameOf(n)) && hasWords(said) && !(nameOf(n) === 'placeholder' && !/ /.test(said)))
          bare.push(`${at(n)} ${said}`)
      }
    })
  }
  return { keys, unclear, bare }
}
