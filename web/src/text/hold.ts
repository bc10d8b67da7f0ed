// Which tab of this browser edits a workflow. Two tabs that save drafts of one workflow would overwrite each other's, so
// one tab holds a lock of that name, and the others only show the workflow.
import { useCallback, useEffect, useRef, useState } from 'react'
import { draftsWritten } from './drafts'

/** A tab that does not let go within this time is frozen, and loses the lock. */
const answerWithin = 3_000

export type Hold = {
  /** asking: the browser has not answered yet. */
  state: 'asking' | 'held' | 'elsewhere'
  /** Asks the other tab to save its draft and to let go. */
  take: () => void
}

type Events = {
  /** Another tab asks for the draft: it must be saved now. */
  lose: () => void
  /** The draft was another tab's before: it must be read again, and nothing may be typed until it is. */
  taken: () => Promise<unknown>
  state: (state: Hold['state']) => void
}

/** The end of the last lock that this tab held: a page that is opened again waits for it. */
let left: Promise<unknown> = Promise.resolve()

/** Holds the lock of a draft, or waits for it, until it is closed. */
class Holder {
  private channel: BroadcastChannel
  private waiting: AbortController | undefined
  private holding: Promise<unknown> | undefined
  /** The lock that another tab has asked for. */
  private giving: Promise<unknown> | undefined
  private release = () => {}
  private late: ReturnType<typeof setTimeout> | undefined
  private closed = false

  constructor(
    private name: string,
    private on: Events,
  ) {
    this.channel = new BroadcastChannel(name)
    this.channel.onmessage = () => void this.asked()
    void left.then(() => this.request({ ifAvailable: true }, false))
  }

  take() {
    this.channel.postMessage('let go')
    this.late ??= setTimeout(() => {
      this.waiting?.abort()
      void this.request({ steal: true }, true)
    }, answerWithin)
  }

  close() {
    this.closed = true
    this.channel.close()
    this.waiting?.abort()
    clearTimeout(this.late)
    // The page saves its draft while it is taken down, and the lock is kept until that is written.
    if (this.holding)
      left = Promise.resolve()
        .then(draftsWritten)
        .then(() => this.release())
        .then(() => this.holding)
  }

  private wait() {
    this.waiting = new AbortController()
    void this.request({ signal: this.waiting.signal }, true)
  }

  /** Asks for the lock. isLater says that another tab may have changed the draft until it is granted. */
  private async request(o: LockOptions, isLater: boolean) {
    if (this.closed) return
    let granted = false
    const held = navigator.locks.request(this.name, o, (lock) => {
      if (!lock || this.closed) return
      granted = true
      this.holding = held
      clearTimeout(this.late)
      this.late = undefined
      // What is typed before the draft is read again would be lost with the old text.
      const isMine = () => this.holding === held && this.giving !== held
      if (isLater) void this.on.taken().then(() => isMine() && this.on.state('held'))
      else this.on.state('held')
      return new Promise<void>((done) => {
        this.release = done
      })
    })
    try {
      await held
    } catch {
      // Another tab took the lock by force, or this wait for it was given up: then another one goes on.
      if (!granted) return
    }
    this.holding = undefined
    if (this.closed) return
    this.on.state('elsewhere')
    this.wait()
  }

  /** Another tab asks for the draft. A tab that waits, too, lets it go first. */
  private async asked() {
    if (this.holding) {
      this.giving = this.holding
      this.on.lose()
      this.on.state('elsewhere')
      await draftsWritten()
      this.release()
    } else if (this.waiting) {
      this.waiting.abort()
      this.wait()
    }
  }
}

/** Holds the draft of a workflow while the component is shown. */
export function useHold(workflow: string, on: Omit<Events, 'state'>): Hold {
  const [state, setState] = useState<Hold['state']>('locks' in navigator ? 'asking' : 'held')
  const latest = useRef(on)
  latest.current = on
  const holder = useRef<Holder>(undefined)
  useEffect(() => {
    if (!('locks' in navigator)) return
    holder.current = new Holder(`skein draft ${workflow}`, {
      lose: () => latest.current.lose(),
      taken: () => latest.current.taken(),
      state: setState,
    })
    return () => holder.current?.close()
  }, [workflow])
  return { state, take: useCallback(() => holder.current?.take(), []) }
}
