// Simplified Chinese: the texts of the page under the English ones, and those of the server under their codes.
import type { Catalogue } from '../t'
import { admin } from './admin'
import { base } from './base'
import { codes } from './codes'
import { editor } from './editor'
import { ruleWords, span } from './rules'
import { runs } from './runs'
import { schedules } from './schedules'

/** The texts by area. No text is in two of them. */
export const areas = { base, runs, schedules, editor, admin }

export const catalogue: Catalogue = {
  texts: Object.assign({}, ...Object.values(areas)),
  codes,
  ruleWords,
  spanWords: span,
}
