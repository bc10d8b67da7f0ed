import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { LiveStore, liveKey } from '../../src/live/live'
import type { ToTab } from '../../src/live/protocol'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const change: ToTab = {
  kind: 'changes',
  changes: [{ run: 'r', workflow: 'w', seq: 1, events: [], tasks: [] }],
}

/** Shows one live query. Each read takes this time, and answers with what was committed when it began. */
function shown(takes: number) {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false, networkMode: 'always' } } })
  const live = new LiveStore(queries)
  let tell = (_: ToTab) => {}
  const stop = live.start((hear) => {
    tell = hear
    return { watch: () => {}, retry: () => {}, bye: () => {} }
  })
  let committed = 0
  let reads = 0
  const seen: number[] = []
  const read = (): Promise<number> => {
    const is = committed
    reads++
    return new Promise((done) => Number.isFinite(takes) && setTimeout(() => done(is), takes))
  }
  const observer = new QueryObserver(queries, { queryKey: liveKey(['runs'], 'list'), queryFn: read })
  const unsubscribe = observer.subscribe(({ data }) => {
    if (data !== undefined && seen.at(-1) !== data) seen.push(data)
  })
  return {
    seen,
    reads: () => reads,
    answers: (after: number) => {
      takes = after
    },
    commit: (message: ToTab) => {
      committed++
      tell(message)
    },
    end: () => {
      unsubscribe()
      stop()
      queries.clear()
    },
  }
}

for (const [name, message] of [
  ['changes', change],
  ['resets', { kind: 'reset' } satisfies ToTab],
] as const) {
  test(`a query whose answer takes longer than the time between two ${name} is shown`, async () => {
    const page = shown(1_500)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(page.seen).toEqual([0])
    for (let i = 0; i < 50; i++) {
      page.commit(message)
      await vi.advanceTimersByTimeAsync(200)
    }
    // It is read one answer after the other: six in ten seconds, and no more than that.
    expect(page.seen.length).toBeGreaterThanOrEqual(5)
    expect(page.reads()).toBeLessThanOrEqual(8)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(page.seen.at(-1)).toBe(50)
    page.end()
  })
}

test('a change during the first read of a query is not lost', async () => {
  const page = shown(1_000)
  await vi.advanceTimersByTimeAsync(500)
  page.commit(change)
  await vi.advanceTimersByTimeAsync(5_000)
  expect(page.seen).toEqual([0, 1])
  expect(page.reads()).toBe(2)
  page.end()
})

test('a read that never ends is given up, and the query is read again', async () => {
  const page = shown(Number.POSITIVE_INFINITY)
  page.commit(change)
  await vi.advanceTimersByTimeAsync(5_000)
  page.answers(1_000)
  await vi.advanceTimersByTimeAsync(20_000)
  expect(page.seen).toEqual([])
  await vi.advanceTimersByTimeAsync(15_000)
  expect(page.seen).toEqual([1])
  expect(page.reads()).toBeLessThanOrEqual(3)
  page.end()
})

test('a flood of resets costs one read in each span', async () => {
  const page = shown(0)
  await vi.advanceTimersByTimeAsync(1_000)
  for (let i = 0; i < 100; i++) {
    page.commit({ kind: 'reset' })
    await vi.advanceTimersByTimeAsync(10)
  }
  await vi.advanceTimersByTimeAsync(1_000)
  expect(page.seen.at(-1)).toBe(100)
  expect(page.reads()).toBeLessThanOrEqual(5)
  page.end()
})
