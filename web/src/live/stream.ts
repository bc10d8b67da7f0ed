// Reads the stream of events, gathers changes for a moment, and reports how fresh the page is. It runs in the
// shared worker.
import { type Change, everything, type Freshness } from './protocol'

export const silence = 25_000
/** The tabs are notified of changes at most once in this time. */
export const gather = 200
const backoffMax = 10_000

export type Sink = {
  state: (state: Freshness, asOf: number) => void
  changes: (changes: Change[]) => void
  reset: () => void
}

/**
 * Returns the time to wait before a step that is done at most once in a span. It returns 0 if the last step
 * was longer ago than the span. So the first change after a pause is shown at once, and many changes cost
 * only one step in a span.
 */
export const waitFor = (last: number, span: number, now: number) => Math.max(0, last + span - now)

/** Parses a stream of server-sent events, however it is cut into pieces. */
export class Frames {
  private rest = ''
  push(text: string): { event: string; data: string }[] {
    const blocks = (this.rest + text).split('\n\n')
    this.rest = blocks.pop() ?? ''
    return blocks.flatMap((block) => {
      const frame = { event: '', data: '' }
      for (const line of block.split('\n')) {
        if (line.startsWith('event: ')) frame.event = line.slice(7)
        if (line.startsWith('data: ')) frame.data += line.slice(6)
      }
      return frame.event ? [frame] : []
    })
  }
}

/** Merges changes of one run: the tabs read again once, however much happened. */
export class Gathered {
  private runs = new Map<string, Change>()
  add(data: string) {
    const { run, workflow, seq, events } = JSON.parse(data) as {
      run: string
      workflow: string
      seq: number
      events: { kind: string; task: string | null }[]
    }
    const change = this.runs.get(run) ?? { run, workflow, seq, events: [], tasks: [] }
    change.seq = Math.max(change.seq, seq)
    for (const e of events) {
      if (!change.events.includes(e.kind)) change.events.push(e.kind)
      if (e.task && change.tasks.length < 200 && !change.tasks.includes(e.task)) change.tasks.push(e.task)
    }
    this.runs.set(run, change)
  }
  take(): Change[] {
    const all = [...this.runs.values()]
    this.runs.clear()
    return all
  }
}

/** Keeps one stream open for the watched topics. */
export class Stream {
  private topics = ''
  private abort: AbortController | undefined
  private failures = 0
  private running = false
  private heard = 0
  private gathered = new Gathered()
  private timer: ReturnType<typeof setTimeout> | undefined
  private flushed = Number.NEGATIVE_INFINITY
  private watchdog: ReturnType<typeof setInterval> | undefined
  private wake: (() => void) | undefined
  state: Freshness = 'connecting'
  asOf = Date.now()

  constructor(
    private url: string,
    private sink: Sink,
  ) {}

  /** Watches these topics from now on; none closes the stream. */
  watch(topics: string[]) {
    const wanted = topics.includes(everything)
      ? everything
      : [...new Set(topics)].sort().slice(0, 500).join(',')
    if (wanted === this.topics) return
    this.topics = wanted
    this.abort?.abort()
    this.wake?.()
    if (wanted !== '' && !this.running) void this.run()
  }

  /** Connects again at once, for instance after the machine woke. */
  retry() {
    this.failures = 0
    this.abort?.abort()
    this.wake?.()
  }

  private tell(state: Freshness) {
    this.state = state
    if (state === 'live') this.asOf = Date.now()
    this.sink.state(state, this.asOf)
  }

  private async run() {
    this.running = true
    this.watchdog = setInterval(() => {
      if (this.state === 'live' && Date.now() - this.heard > silence) this.abort?.abort()
    }, 1000)
    while (this.topics !== '') {
      const topics = this.topics
      try {
        await this.read(topics)
      } catch {
        // The reason does not matter to the reader, because in each case the page is no longer live.
      }
      if (this.topics !== topics) continue
      this.failures++
      this.tell(typeof navigator !== 'undefined' && navigator.onLine === false ? 'offline' : 'polling')
      await this.pause(Math.min(backoffMax, 250 * 2 ** this.failures))
    }
    clearInterval(this.watchdog)
    this.running = false
  }

  private pause(ms: number) {
    return new Promise<void>((done) => {
      this.wake = done
      setTimeout(done, ms)
    })
  }

  private async read(topics: string) {
    this.abort = new AbortController()
    const query = topics === everything ? '' : `?topics=${encodeURIComponent(topics).replaceAll('%2C', ',')}`
    const response = await fetch(this.url + query, {
      signal: this.abort.signal,
      headers: { Accept: 'text/event-stream' },
      cache: 'no-store',
    })
    if (!response.ok || !response.body) throw new Error(String(response.status))
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    const frames = new Frames()
    let begun = false
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      this.heard = Date.now()
      if (!begun) {
        begun = true
        this.failures = 0
        this.tell('live')
        // The stream does not contain the changes that were committed before the subscription, so everything
        // is read again.
        this.sink.reset()
      }
      this.asOf = this.heard
      for (const frame of frames.push(value)) {
        if (frame.event === 'reset') this.sink.reset()
        if (frame.event === 'change') this.gathered.add(frame.data)
      }
      this.timer ??= setTimeout(() => this.flush(), waitFor(this.flushed, gather, performance.now()))
    }
  }

  private flush() {
    this.timer = undefined
    this.flushed = performance.now()
    const changes = this.gathered.take()
    if (changes.length > 0) this.sink.changes(changes)
    this.sink.state(this.state, this.asOf)
  }
}
