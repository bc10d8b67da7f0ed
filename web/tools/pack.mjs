// Compresses the built files, lists the licences, checks the sizes and writes the stamp. The program embeds the result.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { licences } from './licences.mjs'
import { stamp } from './stamp.mjs'

const app = new URL('../ui/static/app/', import.meta.url)
const kib = 1024
const limits = { first: 230 * kib, css: 14 * kib, all: 700 * kib }

writeFileSync(new URL('-/licences.txt', app), licences())
const index = readFileSync(new URL('index.html', app), 'utf8')
const sizes = { first: 0, css: 0, all: 0 }
for (const entry of readdirSync(new URL('-/', app), { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue
  const path = `${entry.parentPath}/${entry.name}`
  const packed = gzipSync(readFileSync(path), { level: 9 })
  writeFileSync(`${path}.gz`, packed)
  rmSync(path)
  sizes.all += packed.length
  if (index.includes(entry.name)) sizes[entry.name.endsWith('.css') ? 'css' : 'first'] += packed.length
}
writeFileSync(new URL('build.json', app), `${JSON.stringify({ sources: stamp() })}\n`)

const text = Object.entries(sizes).map(
  ([name, bytes]) => `${name} ${(bytes / kib).toFixed(1)} of ${limits[name] / kib} KiB`,
)
console.log(`page: ${text.join(', ')} (compressed)`)
const over = Object.keys(sizes).filter((name) => sizes[name] > limits[name])
if (over.length > 0) {
  console.error(`page: too large: ${over.join(', ')}`)
  process.exit(1)
}
