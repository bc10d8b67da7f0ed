// Times and amounts as people read them.
const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

/** Formats a span of milliseconds with its unit, in at most two parts. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return '–'
  if (ms < second) return `${Math.round(ms)} ms`
  if (ms < 10 * second) return `${(ms / second).toFixed(1)} s`
  if (ms < minute) return `${Math.floor(ms / second)} s`
  if (ms < hour) return parts(ms, minute, 'm', second, 's')
  if (ms < day) return parts(ms, hour, 'h', minute, 'm')
  return parts(ms, day, 'd', hour, 'h')
}

function parts(ms: number, big: number, bigUnit: string, small: number, smallUnit: string) {
  const rest = Math.floor((ms % big) / small)
  return `${Math.floor(ms / big)} ${bigUnit}${rest > 0 ? ` ${rest} ${smallUnit}` : ''}`
}

/** Tells how long ago an instant was, or how far ahead it is. */
export function ago(time: string, now: number): string {
  const ms = now - Date.parse(time)
  if (Math.abs(ms) < 5 * second) return 'now'
  const text = coarse(Math.abs(ms))
  return ms > 0 ? `${text} ago` : `in ${text}`
}

function coarse(ms: number) {
  if (ms < minute) return `${Math.floor(ms / second)} s`
  if (ms < hour) return `${Math.floor(ms / minute)} m`
  if (ms < 2 * day) return `${Math.floor(ms / hour)} h`
  return `${Math.floor(ms / day)} d`
}

const today = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const thisYear = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
})
const other = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
const dayName = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' })
const hourMinute = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })

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
  const local = new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long' }).format(at)
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

const numbers = new Intl.NumberFormat('en-GB')

/** Formats a whole number with separators. */
export const count = (n: number) => numbers.format(n)

/** Writes a number with its noun: 1 run, 2 runs. */
export const plural = (n: number, one: string, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`

/** Shortens the id of a run to the part that tells it apart. */
export const shortID = (id: string) => id.replaceAll('-', '').slice(-8)
