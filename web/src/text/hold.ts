// Decides which tab of this browser edits a workflow. Two tabs that save drafts of one workflow would
// overwrite each other's drafts, so one tab holds a lock of that name, and the others only show the workflow.
import { useCallback, useEffect, useRef, useState } from 'react'
import { draftsWritten } from './drafts'

/** A tab that does not release the lock within this time, in milliseconds, is frozen, and loses the lock. */
const answerWithin = 3_000

export type Hold = {
  /** asking means that the browser has not answered yet. */
  state: 'asking' | 'held' | 'elsewhere'
  /** Asks the other tab to save its draft and to release the lock. */
  take: () => void
}

type Events = {
  /** Called when another tab asks for the draft, which must be saved now. */
  lose: () => void
  /**
   * Called when this tab gets a draft that another tab had before. The draft must be read again, and nothing
   * may be typed until then.
   */
  taken: () => Promise<unknown>
  state: (state: Hold['state']) => void
}

/**
 * Resolves when the last lock that this tab held was released. A page that is opened again waits for this.
 */
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
    // The page saves its draft while it is removed, and the lock is kept until the draft is written.
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

  /** Asks for the lock. With isLater, another tab may change the draft before the lock is granted. */
  private async request(o: LockOptions, isLater: boolean) {
    if (this.closed) return
    let granted = false
    const held = navigator.locks.request(this.name, o, (lock) => {
      if (!lock || this.closed) return
      granted = true
      this.holding = held
      clearTimeout(this.late)
      this.late = undefined
      // Text that is typed before the draft is read again would be lost with the old draft.
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
      // If another tab took the lock by force, or if this wait was given up, another wait continues.
      if (!granted) return
    }
    this.holding = undefined
    if (this.closed) return
    this.on.state('elsewhere')
    this.wait()
  }

  /** Called when another tab asks for the draft. A tab that also waits for the lock gives way to it. */
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
