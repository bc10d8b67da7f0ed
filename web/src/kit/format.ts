// Times and amounts as people read them.
import { locale, say, t } from '../text/t'

export { count } from '../text/t'

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** Formats a span of milliseconds with its unit, in at most two parts. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return '–'
  if (ms < second) return t('{ms} ms', { ms: Math.round(ms) })
  if (ms < 10 * second) return t('{s} s', { s: (ms / second).toFixed(1) })
  if (ms < minute) return t('{s} s', { s: Math.floor(ms / second) })
  if (ms < hour) return parts(ms, minute, second)
  if (ms < day) return parts(ms, hour, minute)
  return parts(ms, day, hour)
}

function parts(ms: number, big: number, small: number) {
  const rest = Math.floor((ms % big) / small)
  const first = inUnit(Math.floor(ms / big), big)
  return rest > 0 ? `${first} ${inUnit(rest, small)}` : first
}

function inUnit(n: number, unit: number) {
  if (unit === second) return t('{s} s', { s: n })
  if (unit === minute) return t('{m} m', { m: n })
  return unit === hour ? t('{h} h', { h: n }) : t('{d} d', { d: n })
}

/** Tells how long ago an instant was, or how far ahead it is. */
export function ago(time: string, now: number): string {
  const ms = now - Date.parse(time)
  if (Math.abs(ms) < 5 * second) return t('now')
  const text = coarse(Math.abs(ms))
  return ms > 0 ? t('{time} ago', { time: text }) : t('in {time}', { time: text })
}

function coarse(ms: number) {
  const unit = ms < minute ? second : ms < hour ? minute : ms < 2 * day ? hour : day
  return inUnit(Math.floor(ms / unit), unit)
}

const today = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const thisYear = new Intl.DateTimeFormat(locale, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
})
const other = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' })
const dayName = new Intl.DateTimeFormat(locale, { weekday: 'short', day: 'numeric', month: 'short' })
const hourMinute = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit' })

/** Formats an instant in the viewer's zone: the time of today, else with the date. */
export function clock(time: string | number, now = Date.now()): string {
  const at = new Date(time)
  const is = new Date(now)
  if (at.toDateString() === is.toDateString()) return today.format(at)
  return (at.getFullYear() === is.getFullYear() ? thisYear : other).format(at)
}

export const dayOf = (time: string | number) => dayName.format(new Date(time))
export const timeOf = (time: string | number) => hourMinute.format(new Date(time))

/** Formats an instant in full, for a tooltip: the viewer's zone and UTC. */
export function full(time: string): string {
  const at = new Date(time)
  const local = new Intl.DateTimeFormat(locale, { dateStyle: 'full', timeStyle: 'long' }).format(at)
  return `${local} · ${time.replace(/\.?0*Z$/, 'Z')}`
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

export function bytes(n: number): string {
  let i = 0
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024
    i++
  }
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`
}

/** Writes a number with its noun: 1 run, 2 runs. */
export const plural = (n: number, one: string, many = `${one}s`) => say(`{n} ${one}|{n} ${many}`, { n })

/** Shortens the id of a run to the part that tells it apart. */
export const shortID = (id: string) => id.replaceAll('-', '').slice(-8)
