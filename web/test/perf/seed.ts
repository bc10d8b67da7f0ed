// The data that the page is measured on, made by the real engine.
import { expect } from 'vitest'
import { apply, ask, call, ended } from '../e2e/harness'

export type Sizes = {
  runs: number
  grids: number[]
  graph: number
  log: number
  samples: number
  hours: number
  /** Rounds without and with viewers. */
  rounds: number
}

export const whole: Sizes = {
  runs: 1_000_000,
  grids: [5_000, 100_000],
  graph: 100_000,
  log: 1024,
  samples: 10,
  hours: 7_200,
  rounds: 9,
}
export const short: Sizes = {
  runs: 20_000,
  grids: [5_000],
  graph: 10_000,
  log: 64,
  samples: 3,
  hours: 720,
  rounds: 3,
}

const width = 1000

/**
 * Returns a workflow with layers of tasks that wait a millisecond, and with one task that fails with a text
 * in its log.
 */
export function layered(name: string, tasks: number): string {
  const lines = [`name: ${name}`, 'tasks:']
  for (let i = 0; i < tasks - 1; i++)
    lines.push(`  t${i}: {wait: 1ms${i < width ? '' : `, needs: [t${i - width}]`}}`)
  lines.push(`  load: {needs: [t${(tasks - 2) >> 1}], run: "echo 'ERROR: no such relation' >&2; exit 2"}`)
  return `${lines.join('\n')}\n`
}

const isOver = (state: string) => ['succeeded', 'failed', 'stopped'].includes(state)

export async function layeredRuns(base: string, tasks: number, runs: number): Promise<string> {
  const name = `d${tasks}`
  await apply(base, name, layered(name, tasks))
  let last = ''
  for (let i = 0; i < runs; i++) {
    last = (await call(base, '/runs', { workflow: name })).id
    let state = ''
    while (!isOver(state)) state = await ended(base, last)
    expect(state).toBe('failed')
  }
  return last
}

/** Starts runs of ten workflows in batches and waits for the last of them. One run in 100 fails. */
export async function manyRuns(base: string, runs: number) {
  for (let w = 0; w < 10; w++) {
    const text = `name: feed-${w}\nparams: {at: {type: string}}\ntasks:\n  a: {wait: {until: "\${{ params.at }}"}}\n`
    await apply(base, `feed-${w}`, text)
  }
  const size = 5000
  for (let from = 0; from < runs; from += size) {
    const batch = Array.from({ length: Math.min(size, runs - from) }, (_, i) => ({
      workflow: `feed-${(from + i) % 10}`,
      params: { at: (from + i) % 100 === 0 ? 'never' : '2026-01-01T00:00:00Z' },
      idempotency_key: `bench-${from + i}`,
    }))
    const answer = (await call(base, '/runs:batch', { runs: batch })) as unknown as { accepted: number }
    expect(answer.accepted).toBe(batch.length)
  }
  const open = async () => {
    const answer = await ask(`${base}/api/v1/runs?state=active&count=true&limit=1`)
    return ((await answer.json()) as { total: { n: number } }).total.n
  }
  await expect.poll(open, { timeout: 600_000, interval: 500 }).toBe(0)
}

/** Starts a run whose log has a number of MiB, with one line of an error in the middle. */
export async function bigLog(base: string, mib: number): Promise<string> {
  const half = `yes 'row 4711 of the orders was read, and is as it was yesterday' | head -c ${mib * 512 * 1024}`
  await apply(
    base,
    'log',
    `name: log\ntasks:\n  talk:\n    run: |\n      ${half}\n      echo\n      echo 'ERROR: no such relation'\n      ${half}\n`,
  )
  const { id } = await call(base, '/runs', { workflow: 'log' })
  let state = ''
  while (!isOver(state)) state = await ended(base, id)
  expect(state).toBe('succeeded')
  return id
}
