// Writes src/api/types.ts from the OpenAPI document of the server.
import { readFileSync, writeFileSync } from 'node:fs'

const root = new URL('../../', import.meta.url)
const document = JSON.parse(readFileSync(new URL('sdk/go/api/v1/openapi.json', root), 'utf8'))

const nameOf = (ref) => ref.split('/').pop()
const literal = (value) => JSON.stringify(value)
const names = { string: 'string', integer: 'number', number: 'number', boolean: 'boolean', null: 'null' }

function typeOf(schema) {
  if (!schema || schema === true) return 'unknown'
  if (schema.$ref) return nameOf(schema.$ref)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices) return choices.map(typeOf).join(' | ')
  if (schema.enum) return schema.enum.map(literal).join(' | ')
  const types = Array.isArray(schema.type) ? schema.type : [schema.type]
  return types.map((type) => single(type, schema)).join(' | ')
}

function single(type, schema) {
  if (type === 'array') return `(${typeOf(schema.items)})[]`
  if (type !== 'object') return names[type] ?? 'unknown'
  if (schema.properties) return `{ ${fields(schema)} }`
  const values = schema.additionalProperties
  return values && typeof values === 'object'
    ? `Record<string, ${typeOf(values)}>`
    : 'Record<string, unknown>'
}

function fields(schema) {
  const required = new Set(schema.required ?? [])
  return Object.entries(schema.properties)
    .map(([name, value]) => `${literal(name)}${required.has(name) ? '' : '?'}: ${typeOf(value)}`)
    .join('; ')
}

const lines = ['// Made by tools/api.mjs from sdk/go/api/v1/openapi.json. Do not edit.']
for (const [name, schema] of Object.entries(document.components.schemas)) {
  lines.push(`export type ${name} = ${typeOf(schema)}`)
}
writeFileSync(new URL('web/src/api/types.ts', root), `${lines.join('\n')}\n`)
