// Reads the JSON Schema of a workflow file: the values that are possible at a path, for the inspector and for
// completion.

export type Schema = {
  type?: string | string[]
  description?: string
  enum?: unknown[]
  const?: unknown
  pattern?: string
  minimum?: number
  maximum?: number
  properties?: Record<string, Schema>
  additionalProperties?: Schema | boolean
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
}

/** All forms of a schema: those of its alternatives, and the schema itself if it has keys or items. */
export function forms(schema: Schema | undefined): Schema[] {
  if (!schema) return []
  if (!schema.anyOf) return [schema]
  const { anyOf, ...own } = schema
  return [...(own.properties || own.items ? [own] : []), ...anyOf.flatMap(forms)]
}

/** The schema of the values below a key; * stands for the items of a list. */
export function below(schema: Schema | undefined, path: string[]): Schema | undefined {
  let found = forms(schema)
  for (const key of path) {
    found = found.flatMap((s) => {
      if (key === '*') return forms(s.items)
      const own = s.properties?.[key]
      if (own) return forms(own).map((f) => ({ description: own.description, ...f }) as Schema)
      return typeof s.additionalProperties === 'object' ? forms(s.additionalProperties) : []
    })
  }
  return found.length > 1
    ? { ...(found[0]?.description ? { description: found[0].description } : {}), anyOf: found }
    : found[0]
}

export const keysOf = (schema: Schema | undefined): [string, Schema][] =>
  forms(schema).flatMap((s) => Object.entries(s.properties ?? {}))

/** The keys of which a mapping has exactly one. */
export const chosen = (schema: Schema | undefined): string[] =>
  forms(schema).flatMap((s) => (s.oneOf ?? []).flatMap((one) => one.required ?? []))

export const choicesOf = (schema: Schema | undefined): string[] =>
  forms(schema).flatMap((s) => (s.enum ?? (s.type === 'boolean' ? [true, false] : [])).map(String))

const scalarTypes = new Set(['string', 'number', 'integer', 'boolean'])
const typesOf = (s: Schema) => (Array.isArray(s.type) ? s.type : s.type ? [s.type] : [])

export type FieldKind = 'choice' | 'number' | 'text' | 'object' | 'other'

/** The kind of field for a value, which follows from the simplest form of the value. */
export function fieldKind(schema: Schema): FieldKind {
  const all = forms(schema)
  if (all.some((s) => s.enum)) return 'choice'
  const scalars = all.filter((s) => typesOf(s).some((t) => scalarTypes.has(t)))
  if (scalars.length > 0) {
    const types = scalars.flatMap(typesOf)
    return types.includes('string') ? 'text' : types.includes('boolean') ? 'choice' : 'number'
  }
  return all.some((s) => s.properties) ? 'object' : 'other'
}

/** The forms in which a value may be written. */
export function formsTaken(
  schema: Schema,
): Record<'text' | 'number' | 'choice' | 'fields' | 'map' | 'list', boolean> {
  const all = forms(schema)
  const kind = fieldKind(schema)
  return {
    text: kind === 'text',
    number: kind === 'number',
    choice: kind === 'choice',
    fields: all.some((s) => s.properties !== undefined),
    map: all.some((s) => s.properties === undefined && isMapOfPlain(s)),
    list: all.some((s) => s.items !== undefined && typesOf(s.items).includes('string')),
  }
}

/** A mapping of any names to values that are no lists or mappings, or to any values. */
function isMapOfPlain({ additionalProperties: values }: Schema): boolean {
  if (typeof values !== 'object') return false
  const all = forms(values)
  return (
    all.length === 0 || all.some((s) => typesOf(s).length === 0 || typesOf(s).some((t) => scalarTypes.has(t)))
  )
}

/**
 * Gives a schema with other descriptions of its keys. words has them under ends of paths, such as retry.max; the longest
 * end that fits is taken. A key without one keeps its own description.
 */
export function described(schema: Schema, words: Record<string, string>, path: string[] = []): Schema {
  const within = (s: Schema, ...more: string[]) => described(s, words, [...path, ...more])
  const { properties, additionalProperties: values, items, anyOf } = schema
  return {
    ...schema,
    ...(properties
      ? { properties: mapped(properties, (key, s) => own(within(s, key), words, [...path, key])) }
      : {}),
    ...(typeof values === 'object' ? { additionalProperties: within(values, '*') } : {}),
    ...(items ? { items: within(items, '*') } : {}),
    ...(anyOf ? { anyOf: anyOf.map((s) => within(s)) } : {}),
  }
}

const mapped = <V>(of: Record<string, V>, f: (key: string, value: V) => V) =>
  Object.fromEntries(Object.entries(of).map(([key, value]) => [key, f(key, value)]))

function own(schema: Schema, words: Record<string, string>, path: string[]): Schema {
  const ends = path.map((_, i) => path.slice(i).join('.'))
  const description = words[ends.find((end) => Object.hasOwn(words, end)) ?? '']
  return description ? { ...schema, description } : schema
}
