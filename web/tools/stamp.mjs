// Prints the SHA-256 of the files that the page is built from. TestWebStamp computes the same.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'

const root = new URL('../../', import.meta.url)
const single = [
  'sdk/go/api/v1/openapi.json',
  'web/index.html',
  'web/package-lock.json',
  'web/tsconfig.json',
  'web/vite.config.ts',
]
const generated = new Set(['web/src/api/types.ts'])

export function sources() {
  const found = ['web/src', 'web/tools'].flatMap((folder) =>
    readdirSync(new URL(folder, root), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`.slice(root.pathname.length)),
  )
  return [...single, ...found].filter((path) => !generated.has(path)).sort()
}

export function stamp() {
  const hash = createHash('sha256')
  for (const path of sources()) {
    hash
      .update(`${path}\0`)
      .update(readFileSync(new URL(path, root)))
      .update('\0')
  }
  return hash.digest('hex')
}

if (import.meta.url === `file://${process.argv[1]}`) console.log(stamp())
