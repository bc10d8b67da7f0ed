// Terminal colours of logs. All other control sequences for a terminal are left out.
export type Piece = { text: string; colour?: string | undefined; bold?: boolean | undefined }

const colours = ['calm', 'bad', 'good', 'warn', 'busy', 'busy', 'good', 'over']
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with a control character
const sequence = /\u001b\[([0-9;?]*)([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is taken out
const control = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g

/**
 * Splits a line into pieces, each of which has one look. A carriage return overwrites the line, as a progress
 * bar does.
 */
export function pieces(line: string): Piece[] {
  const last = line.replace(/\r+$/, '').split('\r').pop() ?? ''
  const out: Piece[] = []
  let colour: string | undefined
  let bold = false
  let from = 0
  const add = (text: string) => {
    const clean = text.replace(control, '')
    if (clean) out.push({ text: clean, colour, bold: bold || undefined })
  }
  for (const m of last.matchAll(sequence)) {
    add(last.slice(from, m.index))
    from = m.index + m[0].length
    if (m[2] !== 'm') continue
    for (const code of (m[1] || '0').split(';').map(Number)) {
      if (code === 0) [colour, bold] = [undefined, false]
      else if (code === 1) bold = true
      else if (code === 22) bold = false
      else if (code === 39) colour = undefined
      else if (code >= 30 && code <= 37) colour = colours[code - 30]
      else if (code >= 90 && code <= 97) colour = colours[code - 90]
    }
  }
  add(last.slice(from))
  return out
}

/** The text of a line without colours and control sequences. */
export const plain = (line: string) =>
  pieces(line)
    .map((p) => p.text)
    .join('')

const wrong = /\b(error|errors|fatal|panic|exception|traceback|failed|failure|critical)\b/i
const notWrong = /\b(0|no) (errors?|failures?|failed)\b|\berrors?[=:] ?0\b/i
const doubtful = /\b(warn|warning)\b/i

/** Guesses from the words of a line whether it reports an error or a warning. */
export function level(line: string): 'error' | 'warning' | undefined {
  if (wrong.test(line) && !notWrong.test(line)) return 'error'
  return doubtful.test(line) ? 'warning' : undefined
}
