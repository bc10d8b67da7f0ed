// The sentences of the server about the reasons of a state: finds the commands in them, and leaves out what
// the page already shows.

export type Part = {
  text: string
  isCommand: boolean /** Whether it can be run as it is. */
  isWhole: boolean
}

const id = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
const flags = '(?: --[a-z-]+ [^\\s,;]*[^\\s,;.])*'
const command = new RegExp(
  [
    `skein explain ${id}`,
    `skein (?:run|task) [a-z]+(?: ${id}(?:/[\\w.-]*\\w)?)?${flags}`,
    `skein queue [a-z]+ [^\\s,;:]*[^\\s,;:.]${flags}`,
    `skein (?:server|worker)${flags}`,
  ].join('|'),
  'g',
)
const whole = new RegExp(`${id}|^skein (?:queue|server|worker)|--`)

/** Splits a sentence into words and commands. */
export function partsOf(text: string): Part[] {
  const parts: Part[] = []
  let end = 0
  const words = (to: number) => {
    if (to > end) parts.push({ text: text.slice(end, to), isCommand: false, isWhole: false })
  }
  for (const found of text.matchAll(command)) {
    words(found.index)
    parts.push({ text: found[0], isCommand: true, isWhole: whole.test(found[0]) })
    end = found.index + found[0].length
  }
  words(text.length)
  return parts
}

/** The reason of an end, without the state, which the page shows next to it. */
export const withoutState = (text: string): string => /^it has ended: \w+ \((.+)\)$/s.exec(text)?.[1] ?? text
