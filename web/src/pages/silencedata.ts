// Small rules about silences.
import type { Silence, SilenceRequest } from '../api/types'
import { t } from '../text/t'

/** The longest duration of a silence, and the durations that the form offers, in seconds. */
export const secondsMax = 90 * 86_400
export const spans: [seconds: number, label: string][] = [
  [1800, t('30 minutes')],
  [3600, t('1 hour')],
  [2 * 3600, t('2 hours')],
  [4 * 3600, t('4 hours')],
  [8 * 3600, t('8 hours')],
  [86_400, t('1 day')],
  [3 * 86_400, t('3 days')],
  [7 * 86_400, t('7 days')],
  [30 * 86_400, t('30 days')],
]

export type Draft = {
  namespace: string
  workflow: string
  rule: string
  /** A number of seconds, or an end in local time in the form of a field for date and time. */
  length: string
  reason: string
}

/** Returns the duration of a draft from now on, in seconds. It returns NaN if its end is not a valid time. */
export function secondsOf(length: string, now: number): number {
  if (/^\d+$/.test(length)) return Number(length)
  return Math.ceil((new Date(length).getTime() - now) / 1000)
}

/** Returns the reason why a draft cannot be sent, or undefined. */
export function faultOf(d: Draft, now: number): string | undefined {
  const seconds = secondsOf(d.length, now)
  if (d.namespace !== '*' && !/^[a-z0-9][a-z0-9-]{0,62}$/.test(d.namespace)) return t('Name a namespace.')
  if (d.namespace === '*' && d.workflow) return t('A silence about one workflow is made in its namespace.')
  if (!(seconds >= 1)) return t('Choose an end in the future.')
  if (seconds > secondsMax) return t('A silence lasts up to 90 days.')
  if (d.reason.trim() === '') return t('Say why, for the people who look for the messages.')
  return undefined
}

export const requestOf = (d: Draft, now: number): SilenceRequest => ({
  ...(d.workflow ? { workflow: d.workflow } : {}),
  ...(d.rule ? { rule: d.rule } : {}),
  seconds: secondsOf(d.length, now),
  reason: d.reason.trim(),
})

/** Describes which alerts a silence covers. */
export function scopeOf(s: Pick<Silence, 'namespace' | 'workflow' | 'rule'>): string {
  const where =
    s.namespace === '*'
      ? t('everything')
      : s.workflow
        ? s.namespace === 'default'
          ? s.workflow
          : `${s.namespace}/${s.workflow}`
        : t('the namespace {namespace}', { namespace: s.namespace })
  return s.rule ? t('{where}, rule {rule}', { where, rule: s.rule }) : where
}

/** A draft about one workflow, by its full name. */
export function aboutOf(name: string): Partial<Draft> {
  const [ns, own] = name.split('/')
  return own === undefined ? { namespace: 'default', workflow: name } : { namespace: ns, workflow: own }
}
