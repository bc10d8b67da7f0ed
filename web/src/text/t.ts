// The words of the page. English is written where it is shown: t('Stop {workflow}', { workflow }). A catalogue has the
// text of another language under the English one. It is loaded before any other module of the page asks for a text.
// One English word for two things has its meaning behind ##, which is not shown: 'Open##not answered yet'.
import { createElement, Fragment, isValidElement, type ReactNode } from 'react'
import { preference } from '../app/preferences'

/** The names of the places in a text: 'in {time}' has time. */
type Names<K extends string> = K extends `${string}{${infer N}}${infer Rest}` ? N | Names<Rest> : never
type Values<K extends string, V> = [Names<K>] extends [never] ? [] : [values: Record<Names<K>, V>]
/** What a rule of a trigger is made of: its kind, and its declaration in a short form. */
export type Rule = { kind: string; expression: string }
export type Catalogue = {
  texts: Record<string, string>
  codes: Record<string, string>
  ruleWords: (rule: Rule) => string | undefined
}

/** The languages of the page, each by its own name. */
export const languages = { en: 'English', 'zh-CN': '简体中文' }
type Language = keyof typeof languages

/** Chooses a language: the one that the person asked for, else the first of the browser's that the page has. */
export function choose(asked: string, accepted: readonly string[]): Language {
  if (asked in languages) return asked as Language
  for (const tag of accepted) {
    const found = languageOf(tag)
    if (found) return found
  }
  return 'en'
}

/** Traditional Chinese is another script, whose readers get the next language of their list. */
function languageOf(tag: string): Language | undefined {
  try {
    const { language, script } = new Intl.Locale(tag).maximize()
    if (language === 'zh' && script === 'Hans') return 'zh-CN'
    return language === 'en' ? 'en' : undefined
  } catch {
    return undefined // The browser sent a tag that is none.
  }
}

async function load(asked: Language): Promise<Catalogue | undefined> {
  if (asked !== 'zh-CN') return undefined
  try {
    return (await import('./zh/catalogue')).catalogue
  } catch {
    return undefined // The page is whole in English, too.
  }
}

const catalogue = await load(choose(preference('language'), navigator.languages))

/** The language that the page is in. Another one is shown after the page is loaded again. */
export const language: Language = catalogue ? 'zh-CN' : 'en'
/** How dates and numbers are written. */
export const locale = catalogue ? 'zh-CN' : 'en-GB'

const place = /\{(\w+)\}/g
const numbers = new Intl.NumberFormat(locale)

/** Formats a whole number with separators. */
export const count = (n: number) => numbers.format(n)

/** Finds the text of the language, and of one with a plural, 'one|many', the form for n. */
function textOf(key: string, n: unknown): string {
  const [one = '', many] = (catalogue?.texts[key] ?? key).replace(/##.*/, '').split('|')
  return many === undefined || n === 1 ? one : many
}

/** Gives a text in the language of the page, with the values in its places. The value n is a count. */
export const t = <const K extends string>(key: K, ...[values]: Values<K, string | number>): string =>
  say(key, values ?? {})

/** Does the same for a key that is put together. */
export const say = (key: string, values: Record<string, string | number>): string =>
  textOf(key, values.n).replace(place, (_, name: string) => shown(name, values[name]))

const shown = (name: string, value: unknown) =>
  name === 'n' && typeof value === 'number' ? count(value) : String(value)

/** Gives a text with elements in its places. */
export function rich<const K extends string>(key: K, ...[values]: Values<K, ReactNode>): ReactNode {
  const all: Record<string, ReactNode> = values ?? {}
  // Every second part is the name of a place.
  return textOf(key, all.n)
    .split(place)
    .map((part, i) => {
      if (i % 2 === 0) return part
      const value = all[part]
      return isValidElement(value) ? createElement(Fragment, { key: part }, value) : shown(part, value)
    })
}

/**
 * Gives the text of the page's language for a sentence of the server, by its code: 'reason.queue_full'. undefined: the
 * page is in English, or has no text for the code, or the server did not send a value that the text needs.
 */
export function byCode(code: string, values: Record<string, unknown> = {}): string | undefined {
  const text = catalogue?.codes[code]
  if (!text) return undefined
  let whole = true
  const said = text.replace(place, (_, name: string) => {
    const value = values[name]
    if (value === undefined || value === null || value === '') whole = false
    return String(value)
  })
  return whole ? said : undefined
}

/** Gives the rule of a trigger in words. undefined: the page is in English, or has no words for it. */
export const ruleWords = (rule: Rule): string | undefined => catalogue?.ruleWords(rule)
