// A rule of cron in Chinese, by the grammar of the server: package cron. A rule with H, or with other parts that have no
// words here, is shown as it is written.

const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const monthNames = ['', 'jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const weekdays = ['日', '一', '二', '三', '四', '五', '六', '日']
const macros: Record<string, string> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}

/** The most times of a day, and the most members of a list, that are named one by one. */
const timesMax = 6
const listMax = 12

type Bounds = [low: number, high: number, names?: string[]]
const all = ([low, high]: Bounds) => Array.from({ length: high - low + 1 }, (_, i) => low + i)
const two = (n: number) => String(n).padStart(2, '0')

/** The members of a part of a field, in their order; undefined if it is no number, range or step. */
function membersOf(part: string, bounds: Bounds): number[] | undefined {
  const [low, high, names = []] = bounds
  const [, from = '', to, step] = /^(\*|\?|\w+)(?:-(\w+))?(?:\/(\d+))?$/.exec(part) ?? []
  const number = (word: string) => {
    const n = /^\d+$/.test(word) ? +word : names.indexOf(word)
    return n >= low && n <= high ? n : undefined
  }
  const isAny = from === '*' || from === '?'
  const first = isAny ? low : number(from)
  const last = to !== undefined ? number(to) : isAny || step ? high : first
  if (first === undefined || last === undefined || (isAny && to !== undefined) || step === '0')
    return undefined
  const range = all([low, high])
  const inside =
    first <= last
      ? range.filter((n) => n >= first && n <= last)
      : [...range.filter((n) => n >= first), ...range.filter((n) => n <= last)]
  return inside.filter((_, i) => i % +(step ?? 1) === 0)
}

function setOf(parts: string[], bounds: Bounds): number[] | undefined {
  const found = parts.map((part) => membersOf(part, bounds))
  return found.every((set) => set !== undefined)
    ? [...new Set(found.flat())].sort((a, b) => a - b)
    : undefined
}

/** Lists numbers; from three in a row on by their first and last. */
function listed(set: number[], say: (n: number) => string | number): string | undefined {
  const runs: number[][] = []
  for (const n of set) {
    const last = runs.at(-1)
    if (last?.at(-1) === n - 1) last.push(n)
    else runs.push([n])
  }
  const words = runs.flatMap((run) =>
    run.length > 2 ? [`${say(run[0] ?? 0)}至${say(run.at(-1) ?? 0)}`] : run.map(say),
  )
  return words.length <= listMax ? words.join('、') : undefined
}

/** The step of a set that divides 0 to size into equal parts, and where it begins. */
function evenly(set: number[], size: number): [from: number, step: number] | undefined {
  const [from = 0, step] = [set[0], size / set.length]
  const is = set.length > 1 && Number.isInteger(step) && from < step
  return is && set.every((n, i) => n === from + i * step) ? [from, step] : undefined
}

function minuteWords(minutes: number[]): string | undefined {
  const [from = 0, step] = evenly(minutes, 60) ?? []
  if (step === 1) return '每分钟'
  if (step) return `${from > 0 ? `从第 ${from} 分钟起` : ''}每 ${step} 分钟`
  const list = listed(minutes, (n) => n)
  return list && `第 ${list} 分钟`
}

/** The times of a day; isDaily: they are in every hour, so each day needs no word. */
function timeWords(
  seconds: number[],
  minutes: number[],
  hours: number[],
): [string, isDaily: boolean] | undefined {
  if (seconds.length * minutes.length * hours.length <= timesMax) {
    const plain = seconds.every((s) => s === 0)
    const times = hours.flatMap((h) =>
      minutes.flatMap((m) => seconds.map((s) => `${two(h)}:${two(m)}${plain ? '' : `:${two(s)}`}`)),
    )
    return [times.join('、'), false]
  }
  const isAllDay = hours.length === 24
  if (seconds.length > 1 || seconds[0] !== 0) {
    const [from, step] = evenly(seconds, 60) ?? []
    return from === 0 && step && minutes.length === 60 && isAllDay
      ? [step === 1 ? '每秒' : `每 ${step} 秒`, true]
      : undefined
  }
  const words = minuteWords(minutes)
  if (!words) return undefined
  const isStep = words.startsWith('第') === false
  if (isAllDay) return [isStep ? words : `每小时${words}`, true]
  const [from = 0, step] = evenly(hours, 24) ?? []
  if (step)
    return [`${from > 0 ? `从 ${two(from)}:00 起` : ''}每 ${step} 小时${isStep ? '内' : '的'}${words}`, true]
  const runs: [number, number][] = []
  for (const h of hours) {
    const last = runs.at(-1)
    if (last?.[1] === h - 1) last[1] = h
    else runs.push([h, h])
  }
  if (runs.length > timesMax) return undefined
  const spans = runs.map(([a, b]) => `${two(a)}:00–${two(b)}:${two(minutes.at(-1) ?? 0)}`).join('、')
  return [`${spans} ${isStep ? words : `每小时${words}`}`, false]
}

/** The days of a month; '' for all. */
function monthDayWords(field: string): string | undefined {
  const special: string[] = []
  const plain: string[] = []
  for (const part of field.split(',')) {
    const [, before] = /^l-(\d+)$/.exec(part) ?? []
    const [, near] = /^(\d+)w$/.exec(part) ?? []
    if (part === 'l') special.push('最后一天')
    else if (part === 'lw') special.push('最后一个工作日')
    else if (before) special.push(`倒数第 ${+before + 1} 天`)
    else if (near) special.push(`离 ${near} 日最近的工作日`)
    else plain.push(part)
  }
  const set = setOf(plain, [1, 31])
  if (!set || (special.length === 0 && set.length === 31)) return set && ''
  const list = listed(set, (n) => n)
  if (list === undefined) return undefined
  return [...(list ? [` ${list} 日`] : []), ...special].join('、')
}

/** The days of a week, each week or in a month; '' for all. */
function weekDayWords(field: string): { weekly: string; monthly: string } | undefined {
  const monthly: string[] = []
  const plain: string[] = []
  for (const part of field.split(',')) {
    const [, day = '', nth] = /^(\w+?)(?:l|#(\d))$/.exec(part) ?? []
    const found = /^[0-7]$/.test(day) ? +day : dayNames.indexOf(day)
    if (!day || found < 0) plain.push(part)
    else monthly.push(`${nth ? `第 ${nth} 个` : '最后一个'}周${weekdays[found]}`)
  }
  const set = setOf(plain, [0, 7, dayNames])
  if (!set) return undefined
  // Sunday is the last day of a week.
  const days = [...new Set(set.map((d) => d || 7))].sort()
  if (days.length === 7) return monthly.length === 0 ? { weekly: '', monthly: '' } : undefined
  return { weekly: listed(days, (d) => weekdays[d] ?? '') ?? '', monthly: monthly.join('、') }
}

function dayWords(day: string, month: string, weekday: string): string | undefined {
  const months = setOf(month.split(','), [1, 12, monthNames])
  const inMonth = monthDayWords(day)
  const inWeek = weekDayWords(weekday)
  if (!months || inMonth === undefined || !inWeek) return undefined
  const isAll = months.length === 12
  const each = isAll ? '每月' : `每年 ${listed(months, (n) => n)} 月`
  const byMonth = [inMonth, inWeek.monthly].filter(Boolean).map((d) => `${each}${d}`)
  const byWeek = inWeek.weekly ? [`${isAll ? '' : `${each}的`}每周${inWeek.weekly}`] : []
  if (inMonth && (inWeek.weekly || inWeek.monthly)) {
    // A field that begins with * or ? restricts the days of the other one. Else one of the two is enough.
    if (/^[*?]/.test(day) || /^[*?]/.test(weekday)) return undefined
  }
  const words = [...byMonth, ...byWeek].join('或')
  return words || (isAll ? '每天' : `${each}的每天`)
}

/** A rule of cron in words; undefined if it has none here. */
export function cronWords(rule: string): string | undefined {
  const [, zone, text = ''] = /^(?:CRON_TZ=(\S+)\s+)?(.*)$/.exec(rule.trim()) ?? []
  const fields = (macros[text.toLowerCase()] ?? text.toLowerCase()).split(/\s+/)
  if (fields.length === 5) fields.unshift('0')
  const [second = '', minute = '', hour = '', day = '', month = '', weekday = '', year = '*'] = fields
  if (fields.length < 6 || fields.length > 7 || !/^(\*|\d{4}(,\d{4})*)$/.test(year)) return undefined
  const [seconds, minutes] = [second, minute].map((field) => setOf(field.split(','), [0, 59]))
  const hours = setOf(hour.split(','), [0, 23])
  const days = dayWords(day, month, weekday)
  if (!seconds || !minutes || !hours || !days) return undefined
  const [times, isDaily] = timeWords(seconds, minutes, hours) ?? []
  if (!times) return undefined
  const years = year === '*' ? '' : `${year.split(',').join('、')} 年，`
  const when = isDaily && days === '每天' ? times : `${days} ${times}`
  return `${years}${when}${zone ? `（${zone}）` : ''}`
}
