// The tab's side of the stream: how fresh the page is, and which queries are read again after a change.
import type { Query, QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import { basePath } from '../api/client'
import { type Change, everything, type Freshness, type ToTab } from './protocol'
import { Stream, waitFor } from './stream'
import workerURL from './worker?sharedworker&url'

export type Live = { state: Freshness; asOf: number }

type Port = { watch: (topics: string[]) => void; retry: () => void; bye: () => void }

const pollEvery = 5_000
/** A query is read again at most once in this time, however much changes. */
const again = 400
/** A read that has not ended so long after a change is given up. The server bounds its own reads by less. */
const readMax = 30_000

/** Holds the state of the stream for one tab. */
export class LiveStore {
  private now: Live = { state: 'connecting', asOf: Date.now() }
  private listeners = new Set<() => void>()
  private watched = new Map<symbol, string[]>()
  private port: Port | undefined
  private dirty = new Set<string>()
  /** Queries whose read was under way when they changed. */
  private overtaken = new Set<Query>()
  /** The reads of which another one follows. */
  private followed = new WeakSet<Promise<unknown>>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private read = Number.NEGATIVE_INFINITY
  /** Counts the messages that were handled, for tests that wait for one. */
  seen = 0

  constructor(private queries: QueryClient) {}

  start(open: (tell: (message: ToTab) => void) => Port) {
    this.port = open((message) => this.take(message))
    this.send()
    const poll = setInterval(() => {
      if (this.now.state === 'polling') this.mark(everything)
    }, pollEvery)
    const wake = () =>
      document.visibilityState === 'visible' && this.now.state !== 'live' && this.port?.retry()
    const leave = () => this.port?.bye()
    const online = () => this.port?.retry()
    document.addEventListener('visibilitychange', wake)
    window.addEventListener('online', online)
    window.addEventListener('pagehide', leave)
    return () => {
      clearInterval(poll)
      document.removeEventListener('visibilitychange', wake)
      window.removeEventListener('online', online)
      window.removeEventListener('pagehide', leave)
      leave()
    }
  }

  /** Watches topics until the returned function is called. */
  watch(topics: string[]): () => void {
    const id = Symbol('watch')
    this.watched.set(id, topics)
    this.send()
    return () => {
      this.watched.delete(id)
      this.send()
    }
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  get = () => this.now

  /** Reports whether a change waits to be read. */
  get due(): boolean {
    return this.timer !== undefined
  }

  private send() {
    const topics = [...this.watched.values()].flat()
    // A page without topics of its own watches everything, because it still shows the counts of the top bar.
    this.port?.watch(topics.length > 0 ? topics : [everything])
  }

  private take(message: ToTab) {
    this.seen++
    if (message.kind === 'state') {
      this.now = { state: message.state, asOf: message.asOf }
      for (const listener of this.listeners) listener()
    } else if (message.kind === 'reset') {
      this.mark(everything)
    } else {
      this.changed(message.changes)
    }
  }

  private changed(changes: Change[]) {
    this.mark('runs', ...changes.flatMap((c) => [`run ${c.run}`, `workflow ${c.workflow}`]))
  }

  /** Notes what has changed, and reads it again soon. everything stands for all queries. */
  private mark(...topics: string[]) {
    for (const topic of topics) this.dirty.add(topic)
    this.timer ??= setTimeout(() => this.refresh(), waitFor(this.read, again, performance.now()))
  }

  private refresh() {
    this.timer = undefined
    this.read = performance.now()
    const { dirty, overtaken } = this
    this.dirty = new Set()
    this.overtaken = new Set()
    // A key begins with its topics: ['live', [topic…], …].
    const predicate = (query: Query) =>
      overtaken.has(query) ||
      dirty.has(everything) ||
      (query.queryKey[0] === 'live' && (query.queryKey[1] as string[]).some((topic) => dirty.has(topic)))
    const underWay = this.queries.getQueryCache().findAll({ fetchStatus: 'fetching', predicate })
    // A read that is under way may lack the change. It continues, because otherwise an answer that takes longer
    // than the time between two changes would never be shown. Another read follows it.
    void this.queries.invalidateQueries({ refetchType: 'active', predicate }, { cancelRefetch: false })
    for (const query of underWay) this.follow(query)
  }

  /** Reads a query again after the read that is under way. A read on a connection that is dead never ends. */
  private follow(query: Query) {
    const { promise } = query
    if (!promise || this.followed.has(promise)) return
    this.followed.add(promise)
    const dead = setTimeout(() => query.promise === promise && void query.cancel({ revert: true }), readMax)
    void promise
      .catch(() => {})
      .then(() => {
        clearTimeout(dead)
        this.overtaken.add(query)
        this.mark()
      })
  }
}

/** Makes the key of a query that is read again when one of the topics changes: runs, run ID, workflow NAME. */
export const liveKey = (topics: string[], ...rest: unknown[]) => ['live', topics, ...rest]

/** Opens the shared worker; a browser without one reads the stream in the tab. */
export function openWorker(tell: (message: ToTab) => void): Port {
  const events = `${basePath}/api/v1/events`
  if (typeof SharedWorker === 'undefined') {
    const stream = new Stream(events, {
      state: (state, asOf) => tell({ kind: 'state', state, asOf }),
      changes: (changes) => tell({ kind: 'changes', changes }),
      reset: () => tell({ kind: 'reset' }),
    })
    return {
      watch: (topics) => stream.watch(topics),
      retry: () => stream.retry(),
      bye: () => stream.watch([]),
    }
  }
  const where = new URL(workerURL, import.meta.url)
  where.searchParams.set('events', events)
  const worker = new SharedWorker(trusted(where.href), { type: 'module', name: 'skein' })
  worker.port.onmessage = ({ data }: MessageEvent<ToTab>) => tell(data)
  return {
    watch: (topics) => worker.port.postMessage({ kind: 'watch', topics: [...topics] }),
    retry: () => worker.port.postMessage({ kind: 'retry' }),
    bye: () => worker.port.postMessage({ kind: 'bye' }),
  }
}

type Policy = { createScriptURL: (url: string) => string }
type Factory = { createPolicy: (name: string, rules: Policy) => Policy }
let policy: Policy | undefined

/** Accepts the address of the shared worker of this page, and no other address. */
function trusted(url: string): string {
  const factory = (window as unknown as { trustedTypes?: Factory }).trustedTypes
  if (!factory) return url
  policy ??= factory.createPolicy('skein', {
    createScriptURL: (text) => {
      if (new URL(text).origin !== location.origin) throw new TypeError('a worker of another origin')
      return text
    },
  })
  return policy.createScriptURL(url)
}

let store: LiveStore | undefined
export const setLive = (s: LiveStore) => {
  store = s
}

export function useLive(): Live {
  if (!store) throw new Error('the live store is not set')
  return useSyncExternalStore(store.subscribe, store.get)
}

/** Watches a topic while the component is shown; without one it watches everything. */
export function useWatch(topic: string = everything) {
  useEffect(() => store?.watch([topic]), [topic])
}
