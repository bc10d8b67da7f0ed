// A cluster of two nodes on a PostgreSQL of its own, and an address in front of them that stays the same.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort, program, remember } from './harness'

const versions = '/usr/lib/postgresql'
const newest = () => Math.max(...readdirSync(versions).map(Number).filter(Number.isFinite))
const nobody = { uid: 65534, gid: 65534 }

export type Cluster = {
  /** The address at which browsers reach the cluster. */
  base: string
  nodes: string[]
  /** Kills a node; the address in front of the cluster then leads to the others. */
  kill: (i: number) => Promise<void>
}

/** Runs a program of PostgreSQL. It refuses to run as root. */
function postgres(folder: string, name: string, ...args: string[]) {
  const options = { cwd: folder, stdio: 'ignore' as const, ...(process.getuid?.() === 0 ? nobody : {}) }
  execFileSync(join(versions, String(newest()), 'bin', name), args, options)
}

/** Starts a cluster. `stops`, called last first, stop what it has started, also if it fails on the way. */
export async function cluster(stops: (() => unknown)[]): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), 'skein-cluster-'))
  stops.push(() => rmSync(folder, { recursive: true, force: true }))
  const rows = join(folder, 'pg')
  chmodSync(folder, 0o755)
  mkdirSync(rows)
  if (process.getuid?.() === 0) chownSync(rows, nobody.uid, nobody.gid)
  postgres(rows, 'initdb', '-D', rows, '-U', 'skein', '--auth=trust', '--no-instructions', '--no-sync')
  const port = await freePort()
  const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=${rows} -c fsync=off`
  postgres(rows, 'pg_ctl', '-D', rows, '-w', '-l', join(rows, 'log'), '-o', settings, 'start')
  stops.push(() => postgres(rows, 'pg_ctl', '-D', rows, '-m', 'immediate', '-w', 'stop'))
  const children: ChildProcess[] = []
  const stop = async (child: ChildProcess) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((done) => child.once('exit', done))
    child.kill('SIGKILL')
    await ended
  }
  const nodes: string[] = []
  for (const name of ['n1', 'n2']) {
    const listen = `127.0.0.1:${await freePort()}`
    const data = join(folder, name)
    const db = `postgres://skein@127.0.0.1:${port}/postgres`
    // A busy machine may stop a node for seconds. A lag that is too short would then make it a dead one.
    const times = ['--heartbeat', '500ms', '--lag', '8s']
    const args = ['server', '--db', db, '--name', name, '--data', data, '--listen', listen, ...times]
    const child = spawn(program, args, {
      stdio: 'ignore',
      env: { ...process.env, XDG_STATE_HOME: join(folder, 'state') },
    })
    children.push(child)
    stops.push(() => stop(child))
    nodes.push(`http://${listen}`)
    await ready(`http://${listen}`, child)
  }
  const gone = new Set<number>()
  const open = new Set<Socket>()
  const front = createServer((from) => {
    const to = nodes.findIndex((_, i) => !gone.has(i))
    const node = connect(Number(new URL(nodes[to] ?? '').port), '127.0.0.1')
    for (const [one, other] of [
      [from, node],
      [node, from],
    ] as const) {
      open.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        open.delete(one)
        other.destroy()
      })
    }
  })
  stops.push(() => {
    for (const socket of open) socket.destroy()
    front.close()
  })
  const at = await freePort()
  await new Promise<void>((done) => front.listen(at, '127.0.0.1', done))
  const base = `http://127.0.0.1:${at}`
  await remember(base, nodes[0] as string, join(folder, 'n1'))
  for (const node of nodes) await remember(node, base)
  return {
    base,
    nodes,
    kill: async (i) => {
      await stop(children[i] as ChildProcess)
      gone.add(i)
    },
  }
}

/** Waits until a node takes calls. */
async function ready(base: string, child: ChildProcess) {
  while (child.exitCode === null && child.signalCode === null) {
    const answer = await fetch(`${base}/readyz`).catch(() => undefined)
    if (answer?.ok) return
    await new Promise((done) => setTimeout(done, 50))
  }
  throw new Error(`the node ended with ${child.exitCode ?? child.signalCode}`)
}
