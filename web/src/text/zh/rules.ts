// The rules of triggers in words. The server says them in English.
import type { Rule } from '../t'
import { cronWords } from './cron'

/** By kind of trigger, the words around the part that the rule names. Without a part, the words stand alone. */
const texts: Record<string, [withPart: string, alone?: string]> = {
  cron: ['{part}'],
  every: ['每 {part}'],
  at: ['在 {part}'],
  daily: ['每天 {part}'],
  weekly: ['每周{part}'],
  monthly: ['每月 {part}'],
  annually: ['每年 {part}'],
  start: ['调度器每次启动时', '调度器每次启动时'],
  webhook: ['收到满足 {part} 的签名调用时', '收到签名调用时'],
  file: ['文件 {part} 到达时'],
  run_of: ['{part} 的运行结束时'],
  again: ['上一次运行结束后再次启动，每小时最多 {part} 次'],
  absent: ['未按时出现时：{part}'],
  event: ['收到类型为 {part} 的事件时', '收到事件时'],
  poll: ['HTTP 文档 {part} 有新条目时'],
  query: ['查询 {part} 返回新行时'],
  object: ['{part} 中出现新对象时'],
  kafka: ['Kafka 有新记录时：{part}'],
  nats: ['NATS 有新消息时：{part}'],
  redis: ['Redis 有新消息时：{part}'],
  mqtt: ['MQTT 有新消息时：{part}'],
  sqs: ['SQS 有新消息时：{part}'],
  amqp: ['AMQP 有新消息时：{part}'],
  source: ['扩展的事件源有新事件时：{part}'],
}

/** Lists the members of a language's own list, such as 一、二. */
const list = (all: string[]) => all.join('、')

const weekdays = ['日', '一', '二', '三', '四', '五', '六']
const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const isTime = (word: string) => /^\d{1,2}:\d{2}(:\d{2})?$/.test(word)

/** A span as files write it, such as 1h30m, in words. */
export function span(text: string): string | undefined {
  const units: Record<string, string> = { d: '天', h: '小时', m: '分钟', s: '秒', ms: '毫秒' }
  const parts = [...text.matchAll(/(\d+)(ms|[dhms])/g)]
  if (parts.length === 0 || parts.map((p) => p[0]).join('') !== text) return undefined
  return parts.map(([, n, unit]) => `${n} ${units[unit ?? '']}`).join(' ')
}

const days = (words: string[]) =>
  list(words.filter((w) => /^-?\d+$/.test(w)).map((w) => (w.startsWith('-') ? `倒数第 ${w.slice(1)}` : w)))

/** The part of a rule by kind that its text names. If it is undefined, the rule is shown as it is written. */
function partOf({ kind, expression }: Rule): string | undefined {
  const words = expression.split(' ')
  const at = list(words.filter(isTime))
  switch (kind) {
    case 'cron':
      return cronWords(expression)
    case 'every':
      return span(expression)
    case 'daily':
      return at
    case 'weekly':
      return `${list(words.filter((w) => dayNames.includes(w)).map((w) => weekdays[dayNames.indexOf(w)] ?? ''))} ${at}`
    case 'monthly':
      return `${days(words)} 日 ${at}`
    case 'annually':
      return `${list(words.filter((w) => monthNames.includes(w)).map((w) => `${monthNames.indexOf(w) + 1} 月`))} ${days(words)} 日 ${at}`
    case 'again':
      return /^(\d+)\/h$/.exec(expression)?.[1]
    case 'absent': {
      const [, what, by = ''] = /^(.+) by (\S+)$/.exec(expression) ?? []
      return what ? `${what}（期限 ${span(by) ?? by}）` : expression
    }
    default:
      return expression || undefined
  }
}

/** The rule of a trigger in words; a rule without words of its own is shown as it is written. */
export function ruleWords(rule: Rule): string | undefined {
  const [text, alone] = texts[rule.kind] ?? []
  const part = partOf(rule)
  if (text && part) return text.replace('{part}', () => part)
  return rule.expression ? `${rule.kind} ${rule.expression}` : alone
}
