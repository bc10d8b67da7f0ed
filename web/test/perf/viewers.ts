// Open streams of events of a node: what they cost the node at full speed.
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { Worker } from 'node:worker_threads'
import { apply, type Server, tokenOf } from '../e2e/harness'

/** The stream that the page reads. */
const events = '/api/v1/events'
/** A run of this workflow is started and ended by the scheduler alone, because its task is left out. */
const idle = 'name: idle\ntasks:\n  nothing: {run: "true", if: "false"}\n'
const batch = 1000
const connections = 4
/** Starts are counted for this time in each half of a round, in ms. */
const span = 1500
/** A tick of the processor time that Linux reports, in µs. */
const tick = 10_000

/** Starts a batch of runs, and waits for its answer. */
const start = (base: string, agent: Agent, body: string) =>
  new Promise<void>((done, fail) => {
    const headers = {
      Authorization: `Bearer ${tokenOf(base)}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': randomUUID(),
    }
    const asked = request(`${base}/api/v1/runs:batch`, { method: 'POST', agent, headers }, (answer) => {
      answer.resume().on('end', () => {
        if (answer.statusCode === 200) done()
        else fail(new Error(`the node answered a batch with ${answer.statusCode}`))
      })
    })
    asked.on('error', fail)
    asked.end(body)
  })

/** Opens streams, and reads them in a thread of its own until they are closed. close returns the bytes that came. */
export async function watched(base: string, n: number): Promise<() => Promise<number>> {
  const thread = new Worker(new URL('./streams.mjs', import.meta.url), {
    workerData: { url: base + events, token: tokenOf(base), n },
  })
  const said = () =>
    new Promise<number>((done, fail) => {
      thread.once('message', done)
      thread.once('error', fail)
    })
  await said()
  return async () => {
    thread.postMessage('bytes')
    const bytes = await said()
    await thread.terminate()
    return bytes
  }
}

/** The processor time that a process has used, in µs. */
function processorTime(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * tick
}

/** Waits until a process has almost nothing to do, and returns the processor time that it has used. */
async function calm(pid: number): Promise<number> {
  for (let used = processorTime(pid); ; ) {
    await new Promise((done) => setTimeout(done, 100))
    const now = processorTime(pid)
    if (now - used <= tick) return now
    used = now
  }
}

type Half = { perS: number; nodeUS: number }

/** Starts runs at full speed: starts in a second, and the processor time of the node for each, to their ends. */
async function fullSpeed(server: Server): Promise<Half> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const body = JSON.stringify({ runs: Array.from({ length: batch }, () => ({ workflow: 'idle' })) })
  const [cpu, from] = [processorTime(server.pid()), performance.now()]
  let starts = 0
  const work = async () => {
    while (performance.now() < from + span) {
      await start(server.base, agent, body)
      starts += batch
    }
  }
  await Promise.all(Array.from({ length: connections }, work))
  const took = performance.now() - from
  agent.destroy()
  const used = (await calm(server.pid())) - cpu
  return { perS: (starts / took) * 1000, nodeUS: used / starts }
}

const middle = (of: number[]) => [...of].sort((a, b) => a - b)[of.length >> 1] ?? Number.NaN

export type Cost = {
  alone: Half
  watched: Half
  /** By how many percent the rate is less, and the processor time of a start more, than without streams. */
  slower: number
  dearer: number
}

/**
 * Measures starts at full speed in turn without and with open streams. Neighbouring rounds begin with the other half,
 * so a steady change of the machine's speed has no effect. All figures are medians.
 */
export async function cost(server: Server, streams: number, rounds: number): Promise<Cost> {
  await apply(server.base, 'idle', idle)
  const halves: [alone: Half, watched: Half][] = []
  const alone = () => fullSpeed(server)
  const seen = async () => {
    const close = await watched(server.base, streams)
    const half = await fullSpeed(server)
    if ((await close()) === 0) throw new Error('the streams said nothing')
    return half
  }
  await seen() // warms up
  for (let i = 0; i < rounds; i++) {
    if (i % 2 === 0) halves.push([await alone(), await seen()])
    else {
      const first = await seen()
      halves.push([await alone(), first])
    }
  }
  const of = (k: 0 | 1): Half => ({
    perS: middle(halves.map((h) => h[k].perS)),
    nodeUS: middle(halves.map((h) => h[k].nodeUS)),
  })
  return {
    alone: of(0),
    watched: of(1),
    slower: middle(halves.map(([a, w]) => (1 - w.perS / a.perS) * 100)),
    dearer: middle(halves.map(([a, w]) => (w.nodeUS / a.nodeUS - 1) * 100)),
  }
}
