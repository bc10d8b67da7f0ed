// One stream for all tabs of a browser: a browser opens only six connections to a server that speaks HTTP/1.1.
import type { ToTab, ToWorker } from './protocol'
import { Stream } from './stream'

const ports = new Map<MessagePort, string[]>()
const url = new URL(self.location.href).searchParams.get('events') ?? '/api/v1/events'
const tell = (message: ToTab) => {
  for (const port of ports.keys()) port.postMessage(message)
}
const stream = new Stream(url, {
  state: (state, asOf) => tell({ kind: 'state', state, asOf }),
  changes: (changes) => tell({ kind: 'changes', changes }),
  reset: () => tell({ kind: 'reset' }),
})
const watch = () => stream.watch([...ports.values()].flat())

function connected(port: MessagePort) {
  ports.set(port, [])
  port.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    if (data.kind === 'watch') ports.set(port, data.topics)
    if (data.kind === 'bye') ports.delete(port)
    if (data.kind === 'retry') stream.retry()
    watch()
  }
  port.postMessage({ kind: 'state', state: stream.state, asOf: stream.asOf } satisfies ToTab)
}

self.addEventListener('connect', (event) => {
  const port = (event as MessageEvent).ports[0]
  if (port) connected(port)
})
