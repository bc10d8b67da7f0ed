// Collects the licence texts of the packages that the page contains.
import { existsSync, readdirSync, readFileSync } from 'node:fs'

const modules = new URL('../node_modules/', import.meta.url)

export function licences() {
  const lock = JSON.parse(readFileSync(new URL('../package-lock.json', import.meta.url), 'utf8'))
  const texts = Object.entries(lock.packages)
    .filter(([path, entry]) => path !== '' && !entry.dev && !entry.optional)
    .map(([path, entry]) => {
      const folder = new URL(`${path.slice('node_modules/'.length)}/`, modules)
      const file = existsSync(folder)
        ? readdirSync(folder).find((name) => /^licen[cs]e/i.test(name))
        : undefined
      const text = file ? readFileSync(new URL(file, folder), 'utf8').trim() : ''
      return `${path.replace(/^.*node_modules\//, '')} ${entry.version} (${entry.license ?? 'see its text'})\n\n${text}`
    })
  return `${texts.join('\n\n----\n\n')}\n`
}
