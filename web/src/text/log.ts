// A window on a log: bytes from an offset on, cut into lines. It grows at both ends and drops nothing within
// its bound.
export const block = 256 * 1024
export const windowMax = 16 * 1024 * 1024

export class LogWindow {
  /** The offset of the first loaded byte, and the offset after the last one. */
  from = 0
  to = 0
  lines: string[] = []
  /** The number of the first loaded line, counted from 1; undefined if it is not known. */
  first: number | undefined
  private tail = ''
  private decoder = new TextDecoder('utf-8', { fatal: false })

  /**
   * Begins at an offset with these bytes. If the offset is the beginning of a line, the caller can give the
   * number of the line.
   */
  begin(from: number, bytes: Uint8Array, line?: number) {
    this.from = from
    this.first = from === 0 ? 1 : line
    this.to = from
    this.lines = []
    this.tail = ''
    this.decoder = new TextDecoder('utf-8', { fatal: false })
    this.append(bytes)
    // A window that begins within a line does not show the rest of that line.
    if (from > 0 && line === undefined) {
      const end = bytes.indexOf(10)
      if (end >= 0 && this.lines.length > 0) {
        this.lines.shift()
        this.from = from + end + 1
      }
    }
  }

  /** Sets the number of the line that contains the first byte, if the server knows the number. */
  numbered(begun: number, line: number) {
    if (line > 0 && this.from >= begun) this.first = this.from > begun ? line + 1 : line
  }

  append(bytes: Uint8Array) {
    if (bytes.length === 0) return
    this.to += bytes.length
    const parts = (this.tail + this.decoder.decode(bytes, { stream: true })).split('\n')
    this.tail = parts.pop() ?? ''
    for (const line of parts) this.lines.push(line)
  }

  /**
   * Returns the index of the line that begins at an offset. The offset is within the bytes with which the
   * window began.
   */
  placeOf(offset: number, begun: number, bytes: Uint8Array): number {
    let n = 0
    for (let i = this.from - begun; i < offset - begun && i < bytes.length; i++) if (bytes[i] === 10) n++
    return n
  }

  /** Puts the bytes just before the window in front of it. */
  prepend(from: number, bytes: Uint8Array) {
    let start = 0
    if (from > 0) start = bytes.indexOf(10) + 1
    const text = new TextDecoder('utf-8').decode(bytes.subarray(start))
    const parts = text.split('\n')
    parts.pop()
    this.lines = [...parts, ...this.lines]
    this.from = from + start
    if (this.from === 0) this.first = 1
    else if (this.first !== undefined) this.first -= parts.length
  }

  /** The number of lines, including the last line if it has no end yet. */
  get length() {
    return this.lines.length + (this.tail ? 1 : 0)
  }

  line(i: number): string {
    return i < this.lines.length ? (this.lines[i] ?? '') : this.tail
  }
}
