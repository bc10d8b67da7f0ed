// A merge of two edits of one text, line by line.

export type Part = { same: string[] } | { base: string[]; mine: string[]; theirs: string[] }

const cellsMax = 4_000_000

/** Returns for each line of a the line of b with which it is paired, or -1 if there is none. */
function pairs(a: string[], b: string[]): Int32Array {
  const out = new Int32Array(a.length).fill(-1)
  let head = 0
  while (head < a.length && head < b.length && a[head] === b[head]) {
    out[head] = head
    head++
  }
  let [endA, endB] = [a.length, b.length]
  while (endA > head && endB > head && a[endA - 1] === b[endB - 1]) {
    endA--
    endB--
    out[endA] = endB
  }
  const [n, m] = [endA - head, endB - head]
  if (n === 0 || m === 0 || n * m > cellsMax) return out
  // The longest common subsequence of the remaining lines.
  const width = m + 1
  const best = new Uint32Array((n + 1) * width)
  for (let i = n - 1; i >= 0; i--)
    for (let j = m - 1; j >= 0; j--)
      best[i * width + j] =
        a[head + i] === b[head + j]
          ? (best[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(best[(i + 1) * width + j] ?? 0, best[i * width + j + 1] ?? 0)
  for (let i = 0, j = 0; i < n && j < m; ) {
    if (a[head + i] === b[head + j]) out[head + i++] = head + j++
    else if ((best[(i + 1) * width + j] ?? 0) >= (best[i * width + j + 1] ?? 0)) i++
    else j++
  }
  return out
}

const equal = (a: string[], b: string[]) => a.length === b.length && a.every((line, i) => line === b[i])

/**
 * Merges two edits of base. If both changed the same lines in different ways, the part has all three texts.
 */
export function merge(base: string, mine: string, theirs: string): Part[] {
  const [o, a, b] = [base, mine, theirs].map((t) => t.split('\n')) as [string[], string[], string[]]
  const [toA, toB] = [pairs(o, a), pairs(o, b)]
  const parts: Part[] = []
  const same = (lines: string[]) => {
    const last = parts.at(-1)
    if (lines.length === 0) return
    if (last && 'same' in last) last.same.push(...lines)
    else parts.push({ same: [...lines] })
  }
  let [i, j, k] = [0, 0, 0]
  while (i <= o.length) {
    // The next line that all three have.
    let n = i
    while (n < o.length && !((toA[n] ?? -1) >= j && (toB[n] ?? -1) >= k)) n++
    const [endA, endB] = n < o.length ? [toA[n] as number, toB[n] as number] : [a.length, b.length]
    const [was, own, other] = [o.slice(i, n), a.slice(j, endA), b.slice(k, endB)]
    if (equal(own, other) || equal(was, other)) same(own)
    else if (equal(was, own)) same(other)
    else parts.push({ base: was, mine: own, theirs: other })
    if (n >= o.length) break
    same([o[n] as string])
    ;[i, j, k] = [n + 1, endA + 1, endB + 1]
  }
  return parts
}

/** Joins the parts. For each part that both edits changed, in order, there is a choice. */
export function joined(parts: Part[], choices: ('mine' | 'theirs')[]): string {
  let at = 0
  return parts.flatMap((p) => ('same' in p ? p.same : p[choices[at++] ?? 'mine'])).join('\n')
}
