// The words of the page. English is written where it is shown: t('Stop {workflow}', { workflow }). A catalogue has the
// text of another language under the English one. It is loaded before any other module of the page asks for a text.
// One English word for two things has its meaning behind ##, which is not shown: 'Open##not answered yet'.
import { createElement, Fragment, isValidElement, type ReactNode } from 'react'
import { preference } from '../app/preferences'

/** The names of the placeholders in a text: 'in {time}' has time. */
type Names<K extends string> = K extends `${string}{${infer N}}${infer Rest}` ? N | Names<Rest> : never
type Values<K extends string, V> = [Names<K>] extends [never] ? [] : [values: Record<Names<K>, V>]
/** The parts of a rule of a trigger: its kind, and its declaration in a short form. */
export type Rule = { kind: string; expression: string }
export type Catalogue = {
  texts: Record<string, string>
  codes: Record<string, string>
  ruleWords: (rule: Rule) => string | undefined
  spanWords: (span: string) => string | undefined
}

/** The languages of the page, each by its own name. */
export const languages = { en: 'English', 'zh-CN': '简体中文' }
type Language = keyof typeof languages

/**
 * Chooses a language: the one that the person chose, or else the first language of the browser that the page
 * has.
 */
export function choose(asked: string, accepted: readonly string[]): Language {
  if (asked in languages) return asked as Language
  for (const tag of accepted) {
    const found = languageOf(tag)
    if (found) return found
  }
  return 'en'
}

/**
 * Returns the language of the page for a language tag. Traditional Chinese is another script, so its readers
 * get the next language of their list.
 */
function languageOf(tag: string): Language | undefined {
  try {
    const { language, script } = new Intl.Locale(tag).maximize()
    if (language === 'zh' && script === 'Hans') return 'zh-CN'
    return language === 'en' ? 'en' : undefined
  } catch {
    return undefined // The browser sent an invalid tag.
  }
}

async function load(asked: Language): Promise<Catalogue | undefined> {
  if (asked !== 'zh-CN') return undefined
  try {
    return (await import('./zh/catalogue')).catalogue
  } catch {
    return undefined // Without the catalogue, the page is complete in English.
  }
}

const catalogue = await load(choose(preference('language'), navigator.languages))

/** The language that the page is in. Another language is shown after the page is loaded again. */
export const language: Language = catalogue ? 'zh-CN' : 'en'
/** The locale in which dates and numbers are written. */
export const locale = catalogue ? 'zh-CN' : 'en-GB'

const place = /\{(\w+)\}/g
const numbers = new Intl.NumberFormat(locale)

/** Formats a whole number with separators. */
export const count = (n: number) => numbers.format(n)

/**
 * Finds the text in the language of the page. If the text has a plural, 'one|many', it returns the form for
 * n.
 */
function textOf(key: string, n: unknown): string {
  const [one = '', many] = (catalogue?.texts[key] ?? key).replace(/##.*/, '').split('|')
  return many === undefined || n === 1 ? one : many
}

/**
 * Returns a text in the language of the page, with the values in its placeholders. The value n is a count.
 */
export const t = <const K extends string>(key: K, ...[values]: Values<K, string | number>): string =>
  say(key, values ?? {})

/** Does the same as t for a key that is composed at run time. */
export const say = (key: string, values: Record<string, string | number>): string =>
  textOf(key, values.n).replace(place, (_, name: string) => shown(name, values[name]))

const shown = (name: string, value: unknown) =>
  name === 'n' && typeof value === 'number' ? count(value) : String(value)

/** Returns a text with elements in its placeholders. */
export function rich<const K extends string>(key: K, ...[values]: Values<K, ReactNode>): ReactNode {
  const all: Record<string, ReactNode> = values ?? {}
  // Every second part is the name of a placeholder.
  return textOf(key, all.n)
    .split(place)
    .map((part, i) => {
      if (i % 2 === 0) return part
      const value = all[part]
      return isValidElement(value) ? createElement(Fragment, { key: part }, value) : shown(part, value)
    })
}

/**
 * Returns the text in the language of the page for a sentence of the server, by its code, such as
 * 'reason.queue_full'. It returns undefined if the page is in English, has no text for the code, or did not
 * get a value that the text needs.
 * A part of the text in brackets is left out if its value is missing.
 */
export function byCode(code: string, values: Record<string, unknown> = {}): string | undefined {
  const text = catalogue?.codes[code]
  if (!text) return undefined
  const isWhole = (part: string) =>
    [...part.matchAll(place)].every(([, name = '']) => (values[name] ?? '') !== '')
  const parts = text.replace(/\[([^\]]*)\]/g, (_, part: string) => (isWhole(part) ? part : ''))
  return isWhole(parts) ? parts.replace(place, (_, name: string) => String(values[name])) : undefined
}

/**
 * Returns the rule of a trigger in words. It returns undefined if the page is in English, or has no words for
 * the rule.
 */
export const ruleWords = (rule: Rule): string | undefined => catalogue?.ruleWords(rule)

/** Returns a span as files write it, such as 1h30m, in the language of the page. */
export const spanWords = (span: string): string => catalogue?.spanWords(span) ?? span

/** Loads the descriptions of keys of a workflow file; none: those of the server are in the language of the page. */
export async function keyWords(): Promise<Record<string, string>> {
  if (!catalogue) return {}
  try {
    // Only the editor needs them. The catalogue cannot load them: it would wait for this module, which waits for it.
    const [{ fileKeys }, { triggerKeys }] = await Promise.all([
      import('./zh/filekeys'),
      import('./zh/triggerkeys'),
    ])
    return { ...fileKeys, ...triggerKeys }
  } catch {
    return {} // The descriptions of the server are as good, in English.
  }
}
