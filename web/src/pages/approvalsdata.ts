import { Failure } from '../api/client'
import type { Reason } from '../api/types'
import { byCode } from '../text/t'
import { typed } from './startdata'
import type { Asked } from './valuefield'

/** Finds the task that a reason is about in the address of its actions: …/tasks/NAME:approve. */
export function taskOfAction(reason: Pick<Reason, 'actions' | 'args'>): string | undefined {
  const named = (reason.args as Record<string, unknown> | undefined)?.task
  if (typeof named === 'string') return named
  for (const action of reason.actions ?? []) {
    const m = action.path.match(/\/tasks\/(.+):\w+$/)
    if (m?.[1]) return decodeURIComponent(m[1])
  }
  return undefined
}

/** The question of an approval, in the words of its workflow. */
export function messageOf(reason: Pick<Reason, 'args'>): string | undefined {
  const text = (reason.args as Record<string, unknown> | undefined)?.message
  return typeof text === 'string' && text !== '' ? text : undefined
}

/** Why the caller must not decide about an approval, in the language of the page. */
export function refusalOf(reason: Pick<Reason, 'args'>): { text: string; isTranslated: boolean } | undefined {
  const refused = (reason.args as Record<string, unknown> | undefined)?.refused as
    | { detail: string; about?: string; args?: Record<string, string> }
    | undefined
  if (!refused) return undefined
  const words = byCode(`detail.${refused.about}`, refused.args)
  return { text: words ?? refused.detail, isTranslated: words !== undefined }
}

type FormField = {
  name: string
  type: 'string' | 'text' | 'integer' | 'number' | 'boolean' | 'enum' | 'date'
  description?: string
  required?: boolean
  default?: unknown
  options?: string[]
}

const types: Partial<Record<FormField['type'], Asked['type']>> = {
  integer: 'int',
  number: 'float',
  boolean: 'bool',
}
const formats: Partial<Record<FormField['type'], string>> = { date: 'date', text: 'text' }

/** The fields that a person fills in to approve. */
export function formOf(reason: Pick<Reason, 'args'>): Asked[] {
  const form = (reason.args as Record<string, unknown> | undefined)?.form
  if (!Array.isArray(form)) return []
  return (form as FormField[]).map((f) => ({
    name: f.name,
    type: types[f.type] ?? 'string',
    format: (formats[f.type] ?? null) as Asked['format'],
    description: f.description ?? null,
    required: f.required ?? false,
    default: f.default ?? null,
    enum: f.options ?? null,
  }))
}

/** The answers in the form of the API. An empty field is left out, because it stands for the default. */
export const answersOf = (form: Asked[], texts: ReadonlyMap<string, string>) =>
  Object.fromEntries(
    form.flatMap((f) => (texts.get(f.name) ? [[f.name, typed(f, texts.get(f.name) ?? '')]] : [])),
  )

/** The faults that the server found, by the names of their fields. */
export const faultsOf = (error: Error | undefined) =>
  new Map(
    (error instanceof Failure ? (error.problem.errors ?? []) : []).flatMap((e) =>
      e.key?.startsWith('answers.') ? [[e.key.slice('answers.'.length), e.message] as const] : [],
    ),
  )
