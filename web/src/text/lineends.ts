// Line ends. CodeMirror counts each line end as one character, even CRLF. Plans count the characters of the
// text.

/**
 * The line separator that an editor needs so that it changes no line end. undefined stands for the editor's
 * own rule, which makes every line end LF. This is right if all line ends are LF already.
 */
export function separatorOf(text: string): string | undefined {
  if (!text.includes('\r')) return undefined
  return /\r(?!\n)|(?<!\r)\n/.test(text) ? '\n' : '\r\n'
}

/** Converts a place in the text to the place in the editor's document. */
export function inDocument(text: string, separator: string | undefined, at: number): number {
  return separator === '\r\n' ? at - (text.slice(0, at).split('\r\n').length - 1) : at
}
