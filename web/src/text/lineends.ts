// Line ends. CodeMirror counts each line end as one character, also CRLF; plans count the characters of the text.

/**
 * The line separator that an editor needs so that it changes no line end. undefined is the editor's own rule, which makes
 * every line end LF: it is right where all are LF already.
 */
export function separatorOf(text: string): string | undefined {
  if (!text.includes('\r')) return undefined
  return /\r(?!\n)|(?<!\r)\n/.test(text) ? '\n' : '\r\n'
}

/** The place in the editor's document of a place in the text. */
export function inDocument(text: string, separator: string | undefined, at: number): number {
  return separator === '\r\n' ? at - (text.slice(0, at).split('\r\n').length - 1) : at
}
