// The messages between the shared worker and the tabs of one browser.

/**
 * How fresh the page is. polling means that the stream is broken, and that the page reads again every few
 * seconds.
 */
export type Freshness = 'connecting' | 'live' | 'polling' | 'offline'

export type ToWorker = { kind: 'watch'; topics: string[] } | { kind: 'bye' } | { kind: 'retry' }

export type ToTab =
  | { kind: 'state'; state: Freshness; asOf: number }
  | { kind: 'changes'; changes: Change[] }
  | { kind: 'reset' }

/** One run that changed, with the tasks and the kinds of the events of the change. */
export type Change = { run: string; workflow: string; seq: number; events: string[]; tasks: string[] }

/** The topic of everything. Other topics are run:ID and workflow:NAME. */
export const everything = '*'
