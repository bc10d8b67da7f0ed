// How each state of a run, a task or an attempt is drawn: a tone for the colour, a glyph, and a fill. Two states of
// one tone differ by glyph and fill, so no state is told by colour alone.
export type Tone = 'good' | 'busy' | 'calm' | 'warn' | 'bad' | 'over'
export type Fill = 'solid' | 'outline' | 'hatch' | 'dashed'
export type Look = { tone: Tone; fill: Fill; glyph: string; label: string }

const look = (tone: Tone, fill: Fill, glyph: string, label: string): Look => ({ tone, fill, glyph, label })

export const looks: Record<string, Look> = {
  succeeded: look('good', 'solid', 'check', 'Succeeded'),
  running: look('busy', 'solid', 'play', 'Running'),
  assigned: look('busy', 'outline', 'square', 'Assigned'),
  splitting: look('busy', 'outline', 'square', 'Preparing'),
  finalising: look('busy', 'outline', 'square', 'Finishing'),
  ready: look('calm', 'solid', 'dot', 'Ready'),
  submitted: look('calm', 'solid', 'dot', 'Submitted'),
  pending: look('calm', 'outline', 'dot', 'Pending'),
  waiting: look('calm', 'outline', 'clock', 'Waiting'),
  deferred: look('calm', 'outline', 'clock', 'Waiting'),
  suspended: look('calm', 'outline', 'clock', 'Suspended'),
  retry_wait: look('warn', 'solid', 'retry', 'Retry waits'),
  paused: look('warn', 'hatch', 'pause', 'Paused'),
  failed: look('bad', 'solid', 'cross', 'Failed'),
  lost: look('bad', 'outline', 'bolt', 'Lost'),
  upstream_failed: look('bad', 'hatch', 'barred', 'Upstream failed'),
  stopped: look('over', 'solid', 'stop', 'Stopped'),
  skipped: look('over', 'dashed', 'diamond', 'Skipped'),
  // How a run stands to its deadlines.
  due: look('calm', 'outline', 'clock', 'Due'),
  met: look('good', 'solid', 'check', 'Met'),
  overdue: look('bad', 'solid', 'clock', 'Passed'),
  ahead: look('calm', 'dashed', 'clock', 'Not begun'),
  unknown: look('calm', 'dashed', 'dot', 'Not known yet'),
  // Fires of schedules, nodes, backfills and the like.
  fired: look('good', 'solid', 'check', 'Fired'),
  late: look('warn', 'solid', 'clock', 'Late'),
  slow: look('warn', 'outline', 'clock', 'Slow'),
  // Work outside of the process of an attempt.
  held: look('busy', 'outline', 'square', 'Held'),
  releasing: look('warn', 'solid', 'clock', 'Being ended'),
  orphan: look('bad', 'hatch', 'barred', 'Orphan'),
  away: look('bad', 'outline', 'bolt', 'Away'),
  missed: look('bad', 'outline', 'clock', 'Missed'),
  merged: look('calm', 'solid', 'dot', 'Merged'),
  active: look('good', 'solid', 'check', 'Active'),
  planned: look('calm', 'outline', 'clock', 'Planned'),
  done: look('good', 'solid', 'check', 'Done'),
  cancelled: look('over', 'solid', 'stop', 'Cancelled'),
  ended: look('over', 'solid', 'stop', 'Ended'),
  draining: look('warn', 'hatch', 'pause', 'Draining'),
  drained: look('warn', 'hatch', 'pause', 'Drained'),
  cordoned: look('warn', 'hatch', 'pause', 'Cordoned'),
  leaving: look('warn', 'solid', 'clock', 'Leaving'),
  valid: look('good', 'solid', 'check', 'Valid'),
  disabled: look('over', 'hatch', 'barred', 'Disabled'),
  expired: look('calm', 'outline', 'clock', 'Expired'),
  refused: look('bad', 'outline', 'barred', 'Refused'),
  revoked: look('over', 'solid', 'stop', 'Revoked'),
  // Alerts, and what their channels are told.
  open: look('bad', 'solid', 'bell', 'Open'),
  acknowledged: look('warn', 'outline', 'bell', 'Acknowledged'),
  silent: look('over', 'hatch', 'bell', 'Silenced'),
  resolved: look('good', 'solid', 'check', 'Resolved'),
  passed: look('over', 'dashed', 'diamond', 'Passed'),
  sent: look('good', 'solid', 'check', 'Sent'),
}

export const lookOf = (state: string): Look =>
  looks[state] ?? look('calm', 'outline', 'dot', state.replaceAll('_', ' '))

const unfinished = new Set([
  'submitted',
  'waiting',
  'splitting',
  'running',
  'suspended',
  'paused',
  'finalising',
])

/** Reports whether a run in this state can still change by itself. */
export const isActive = (state: string) => unfinished.has(state)

/** Orders the states of tasks from the one that needs a person most. */
export const taskOrder = [
  'failed',
  'upstream_failed',
  'retry_wait',
  'running',
  'assigned',
  'deferred',
  'ready',
  'pending',
  'stopped',
  'skipped',
  'succeeded',
]
