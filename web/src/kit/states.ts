import { t } from '../text/t'
// How each state of a run, a task or an attempt is drawn: a tone for the colour, a glyph, and a fill. Two
// states of one tone differ by glyph and fill, so no state is recognized by its colour alone.
export type Tone = 'good' | 'busy' | 'calm' | 'warn' | 'bad' | 'over'
export type Fill = 'solid' | 'outline' | 'hatch' | 'dashed'
export type Look = { tone: Tone; fill: Fill; glyph: string; label: string }

const look = (tone: Tone, fill: Fill, glyph: string, label: string): Look => ({ tone, fill, glyph, label })

export const looks: Record<string, Look> = {
  succeeded: look('good', 'solid', 'check', t('Succeeded')),
  running: look('busy', 'solid', 'play', t('Running')),
  assigned: look('busy', 'outline', 'square', t('Assigned')),
  splitting: look('busy', 'outline', 'square', t('Preparing')),
  finalising: look('busy', 'outline', 'square', t('Finishing')),
  ready: look('calm', 'solid', 'dot', t('Ready')),
  submitted: look('calm', 'solid', 'dot', t('Submitted')),
  pending: look('calm', 'outline', 'dot', t('Pending')),
  waiting: look('calm', 'outline', 'clock', t('Waiting')),
  deferred: look('calm', 'outline', 'clock', t('Waiting')),
  suspended: look('calm', 'outline', 'clock', t('Suspended')),
  retry_wait: look('warn', 'solid', 'retry', t('Retry waits')),
  paused: look('warn', 'hatch', 'pause', t('Paused')),
  failed: look('bad', 'solid', 'cross', t('Failed')),
  lost: look('bad', 'outline', 'bolt', t('Lost')),
  upstream_failed: look('bad', 'hatch', 'barred', t('Upstream failed')),
  stopped: look('over', 'solid', 'stop', t('Stopped')),
  skipped: look('over', 'dashed', 'diamond', t('Skipped')),
  // The states of a run with regard to its deadlines.
  due: look('calm', 'outline', 'clock', t('Due')),
  met: look('good', 'solid', 'check', t('Met')),
  overdue: look('bad', 'solid', 'clock', t('Passed')),
  ahead: look('calm', 'dashed', 'clock', t('Not begun')),
  unknown: look('calm', 'dashed', 'dot', t('Not known yet')),
  // The states of fires, nodes, backfills and other objects.
  fired: look('good', 'solid', 'check', t('Fired')),
  late: look('warn', 'solid', 'clock', t('Late')),
  slow: look('warn', 'outline', 'clock', t('Slow')),
  // The states of work outside of the process of an attempt.
  held: look('busy', 'outline', 'square', t('Held')),
  releasing: look('warn', 'solid', 'clock', t('Being ended')),
  orphan: look('bad', 'hatch', 'barred', t('Orphan')),
  away: look('bad', 'outline', 'bolt', t('Away')),
  missed: look('bad', 'outline', 'clock', t('Missed')),
  merged: look('calm', 'solid', 'dot', t('Merged')),
  active: look('good', 'solid', 'check', t('Active')),
  planned: look('calm', 'outline', 'clock', t('Planned')),
  done: look('good', 'solid', 'check', t('Done')),
  cancelled: look('over', 'solid', 'stop', t('Cancelled')),
  ended: look('over', 'solid', 'stop', t('Ended')),
  draining: look('warn', 'hatch', 'pause', t('Draining')),
  drained: look('warn', 'hatch', 'pause', t('Drained')),
  cordoned: look('warn', 'hatch', 'pause', t('Cordoned')),
  leaving: look('warn', 'solid', 'clock', t('Leaving')),
  valid: look('good', 'solid', 'check', t('Valid')),
  disabled: look('over', 'hatch', 'barred', t('Disabled')),
  expired: look('calm', 'outline', 'clock', t('Expired')),
  read: look('calm', 'outline', 'dot', t('Read##the outcome of a call')),
  refused: look('bad', 'outline', 'barred', t('Refused')),
  revoked: look('over', 'solid', 'stop', t('Revoked')),
  // The states of alerts and of their messages.
  open: look('bad', 'solid', 'bell', t('Open##not answered')),
  acknowledged: look('warn', 'outline', 'bell', t('Acknowledged')),
  silent: look('over', 'hatch', 'bell', t('Silenced')),
  resolved: look('good', 'solid', 'check', t('Resolved')),
  passed: look('over', 'dashed', 'diamond', t('Passed##gone by')),
  sent: look('good', 'solid', 'check', t('Sent')),
}

/** The label within a sentence. */
export const labelIn = (state: string): string => lookOf(state).label.toLowerCase()

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
