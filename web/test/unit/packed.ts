// Packs drawings and states as the server does, for tests.
export type Spec = { name: string; needs: number[]; column: number; y: number; kind?: number }

const kinds = ['work', 'wait', 'approval', 'switch', 'call', 'dependent', 'foreach']

function varint(n: number): number[] {
  const out: number[] = []
  while (n >= 128) {
    out.push((n % 128) | 128)
    n = Math.floor(n / 128)
  }
  return [...out, n]
}

const zigzag = (n: number) => varint(n < 0 ? -2 * n - 1 : 2 * n)
const u32 = (n: number) => [n & 255, (n >> 8) & 255, (n >> 16) & 255, n >>> 24]
const text = (s: string) => [...new TextEncoder().encode(s)]

export function packDrawing(tasks: Spec[]): ArrayBuffer {
  const columns = Math.max(0, ...tasks.map((t) => t.column + 1))
  const edges = tasks.reduce((sum, t) => sum + t.needs.length, 0)
  const b = [...text('SKL1'), ...u32(tasks.length), ...u32(edges), ...u32(columns), kinds.length]
  for (const k of kinds) b.push(...text(k), 0)
  let [column, y] = [0, 0]
  for (const t of tasks) {
    b.push(...zigzag(t.column - column), ...zigzag((t.y - y) * 4), t.kind ?? 0)
    column = t.column
    y = t.y
  }
  tasks.forEach((t, i) => {
    b.push(...varint(t.needs.length), ...t.needs.flatMap((p) => zigzag(i - p)))
  })
  let before: number[] = []
  for (const t of tasks) {
    const name = text(t.name)
    let same = 0
    while (same < before.length && same < name.length && before[same] === name[same]) same++
    b.push(...varint(same), ...name.slice(same), 0)
    before = name
  }
  return new Uint8Array(b).buffer
}

export function packStates(
  names: string[],
  states: [string, number][],
  instances: [number, number][] = [],
): ArrayBuffer {
  const tasks = states.reduce((sum, [, n]) => sum + n, 0)
  const b = [...text('SKS1'), ...u32(tasks), names.length]
  for (const n of names) b.push(...text(n), 0)
  for (const [state, n] of states) b.push(names.indexOf(state), ...varint(n))
  for (const [of, n] of instances) b.push(...varint(of), ...varint(n))
  return new Uint8Array(b).buffer
}

export const stateNames = [
  'pending',
  'ready',
  'assigned',
  'running',
  'retry_wait',
  'succeeded',
  'failed',
  'upstream_failed',
  'stopped',
  'skipped',
  'deferred',
]
