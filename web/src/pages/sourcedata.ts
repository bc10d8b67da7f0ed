// The state of a source of events: its position, whether it is away, and the positions to which it can move.
import type { Schedule } from '../api/types'
import { plural } from '../kit/format'
import { t } from '../text/t'

/** Kinds of triggers that reach another system, so that they can be away. */
export const sourceKinds = 'poll,query,object'

export const isAway = (s: Pick<Schedule, 'source' | 'state'>): boolean =>
  s.state === 'active' && (s.source?.away_at ?? null) !== null

/** The number of events that wait to be read, in words. */
export function lagText(lag: number | null): string {
  if (lag === null) return t('not known')
  return lag === 0 ? t('none') : plural(lag, 'event')
}

/** The places from which a trigger can continue to read. An instant is possible only in the log of events. */
export type Target = 'beginning' | 'now' | 'time' | 'cursor'

export const targetsOf = (kind: string): Target[] =>
  kind === 'event' ? ['beginning', 'now', 'time', 'cursor'] : ['beginning', 'now', 'cursor']

/** Returns the target in the form of the API. It returns undefined while the person has not typed it. */
export function seekTo(target: Target, text: string): string | undefined {
  if (target === 'beginning' || target === 'now') return target
  const is = text.trim()
  if (is === '') return undefined
  if (target === 'cursor') return is
  const at = new Date(is)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}

/** The consequences of a move to a target, shown before the move. */
export function seekPlan(s: Pick<Schedule, 'kind' | 'source' | 'state'>, target: Target): string[] {
  const { source } = s
  const [from, lag] = [source?.cursor ?? null, source?.lag ?? null]
  const again = t(
    'An event that has started a run, and is still in the ledger, does not start another one. Others start runs.',
  )
  const plan = [
    from === null
      ? source?.from === 'beginning'
        ? t('It has read no event yet, and would begin at the beginning.')
        : t('It has read no event yet, and would begin at the end.')
      : t('It has read all up to {position}.', { position: from }),
  ]
  if (target === 'beginning') plan.push(`${t('It then reads all events that are there.')} ${again}`)
  else if (target === 'now')
    plan.push(
      lag === null
        ? t('Events that it has not read yet start no runs.')
        : lag === 0
          ? t('No event waits, so nothing is left out.')
          : t('{n} event waits now and starts no run.|{n} events wait now and start no runs.', { n: lag }),
    )
  else if (target === 'time')
    plan.push(`${t('It then reads the events that came at this time or later.')} ${again}`)
  else plan.push(`${t('It then reads the events after this position.')} ${again}`)
  if (s.state === 'paused') plan.push(t('The trigger is paused: it reads nothing until you resume it.'))
  return plan
}
