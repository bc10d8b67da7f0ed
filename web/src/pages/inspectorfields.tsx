// Fields of the form of a task. The schema says how a value is entered; a value that no field can hold
// completely is edited in the text.
import { useEffect, useId, useState } from 'react'
import { isMap, isSeq } from 'yaml'
import { Button, Field } from '../kit/parts'
import { choicesOf, fieldKind, formsTaken, keysOf, type Schema } from '../text/schema'
import { t } from '../text/t'
import { plainValue, type Value } from '../text/values'
import type { InspectorProps } from './inspector'

type Found = { range?: [number, number, number]; toJSON?: () => unknown } | undefined

type Props = Pick<InspectorProps, 'file' | 'task' | 'onSet' | 'onUnset' | 'onShow'> & {
  schema: Schema
  path: string[]
  /** Turns one value, which is written in place of a mapping, into that mapping. */
  into?: (key: string, value: Value) => { path: string[]; value: Value }
}

const isPlain = (v: unknown) => v === undefined || v === null || typeof v !== 'object'

/**
 * For some keys, a single value can replace the mapping. This maps such a key to the key of the mapping that
 * has that value.
 */
const short: Record<string, string> = { event: 'type' }

export function SchemaField(props: Props) {
  const { file, task, schema, path, onSet, onUnset, onShow, into } = props
  const { value: body } = task.entry
  const found = isMap(body) ? (body.getIn(path, true) as Found) : undefined
  const value = found?.toJSON?.()
  const label = path.join('.')
  const key = path.at(-1) ?? ''
  const hint = schema.description
  const takes = formsTaken(schema)
  const set = (v: Value) => {
    const as = into?.(key, v)
    onSet(as?.path ?? path, as?.value ?? v)
  }
  const other = <Other label={label} node={found} onShow={onShow} hint={hint} />
  if (isMap(found) || (takes.fields && !takes.text && value === undefined)) {
    if (takes.fields) return <Nested {...props} schema={schema} />
    if (!takes.map) return other
  }
  if (takes.map && !takes.text && (value === undefined || (isMap(found) && isFlatMap(value))))
    return (
      <Pairs
        label={label}
        hint={hint}
        all={Object.entries((value ?? {}) as Record<string, unknown>)}
        onSet={(name, v) => onSet([...path, name], v)}
        onUnset={(name) => onUnset([...path, name])}
      />
    )
  if (takes.list && (isSeq(found) || (!takes.text && value === undefined))) {
    const [from, to] = found?.range ?? [0, 0]
    const list = (value ?? []) as unknown[]
    // A comment between the entries would be lost, and so would an entry that is not a text.
    if (
      !list.every((v) => typeof v === 'string' && !v.includes('\n')) ||
      file.text.slice(from, to).includes('#')
    )
      return other
    const lines = list.join('\n')
    return (
      <Field label={<span title={hint}>{label}</span>}>
        <Text
          label={label}
          value={lines}
          mono
          many
          hint={t('One entry a line')}
          onCommit={(text) => {
            const entries = text.split('\n').filter((l) => l.trim() !== '')
            if (entries.length === 0) onUnset(path)
            else set(entries)
          }}
        />
      </Field>
    )
  }
  if (!isPlain(value) || (!takes.text && !takes.choice && !takes.number)) return other
  const kind = fieldKind(schema)
  const now = value === undefined || value === null ? '' : String(value)
  const commit = (text: string) => {
    if (text === now) return
    if (text === '') onUnset(path)
    else if (kind === 'number' && Number.isFinite(Number(text))) set(Number(text))
    else set(kind === 'choice' && /^(true|false)$/.test(text) ? text === 'true' : text)
  }
  if (kind === 'choice')
    return (
      <Field label={<span title={hint}>{label}</span>}>
        <select className="select" aria-label={label} value={now} onChange={(e) => commit(e.target.value)}>
          <option value="">{t('default')}</option>
          {choicesOf(schema).map((c) => (
            <option key={c}>{c}</option>
          ))}
        </select>
      </Field>
    )
  const many = key === 'run' || key === 'query' || now.includes('\n')
  const text = (
    <Text
      label={label}
      value={now}
      mono={many || key === 'if' || key === 'filter'}
      many={many}
      onCommit={commit}
    />
  )
  return (
    <>
      <Field label={<span title={hint}>{label}</span>}>{text}</Field>
      {/* A script is added as a task of its own kind, so that each command does not offer it. */}
      {takes.fields && key !== 'run' ? <AsFields {...props} now={value as Value | undefined} /> : null}
    </>
  )
}

const isFlatMap = (v: unknown) => Object.values(v as object).every(isPlain)

/** The keys of a mapping. A key that is not set and has no field is edited in the text. */
function Nested({ into, ...props }: Props) {
  const { schema, path } = props
  return keysOf(schema).map(([key, s]) => (
    <SchemaField key={key} {...props} {...(into ? { into } : {})} schema={s} path={[...path, key]} />
  ))
}

/** Offers the keys of a mapping if the text has one value or nothing in its place. Its first key makes the mapping. */
function AsFields({ now, ...props }: Props & { now: Value | undefined }) {
  const { path, into: outer } = props
  const [open, setOpen] = useState(false)
  const label = path.join('.')
  if (!open)
    return (
      <Field label="">
        <Button kind="quiet" onPress={() => setOpen(true)}>
          {t('{label} by its keys…', { label })}
        </Button>
      </Field>
    )
  const own = path.at(-1) ?? ''
  const into = (key: string, value: Value) => {
    const kept = short[own]
    const map = { ...(kept && now !== undefined && now !== null ? { [kept]: now } : {}), [key]: value }
    return outer ? outer(own, map) : { path, value: map }
  }
  return <Nested {...props} into={into} />
}

/** A mapping of names to values, one in each row. */
function Pairs({
  label,
  hint,
  all,
  onSet,
  onUnset,
}: {
  label: string
  hint: string | undefined
  all: [string, unknown][]
  onSet: (name: string, value: Value) => void
  onUnset: (name: string) => void
}) {
  const [name, setName] = useState('')
  return (
    <Field label={<span title={hint}>{label}</span>}>
      <div className="stack pairs">
        {all.map(([n, v]) => (
          <div key={n} className="row">
            <code>{n}</code>
            <Text
              label={`${label}.${n}`}
              value={v === null || v === undefined ? '' : String(v)}
              mono
              onCommit={(text) => onSet(n, plainValue(text))}
            />
            <Button
              kind="quiet"
              icon="cross"
              aria-label={t('Remove {label}', { label: `${label}.${n}` })}
              onPress={() => onUnset(n)}
            />
          </div>
        ))}
        <div className="row">
          <input
            className="input mono pair-name"
            aria-label={t('New name in {label}', { label })}
            placeholder={t('name')}
            value={name}
            onChange={(e) => setName(e.target.value)}
          />
          <Text
            label={t('Value of the new name in {label}', { label })}
            value=""
            mono
            onCommit={(text) => {
              const is = name.trim()
              if (is === '' || text === '' || all.some(([n]) => n === is)) return
              onSet(is, plainValue(text))
              setName('')
            }}
          />
        </div>
      </div>
    </Field>
  )
}

/** A value that is edited in the text. */
function Other({
  label,
  node,
  onShow,
  hint,
}: {
  label: string
  node: Found
  onShow: (from: number, to: number) => void
  hint: string | undefined
}) {
  const range = node?.range
  return (
    <Field label={<span title={hint}>{label}</span>}>
      {range ? (
        <span className="row">
          <code className="clip inspector-value">{JSON.stringify(node?.toJSON?.())}</code>
          <Button kind="quiet" onPress={() => onShow(range[0], range[1])}>
            {t('Edit in the text')}
          </Button>
        </span>
      ) : (
        <span className="muted">–</span>
      )}
    </Field>
  )
}

/** A field whose value is written when the focus leaves it, or with Enter. */
export function Text({
  label,
  value,
  onCommit,
  mono,
  many,
  id,
  hint,
}: {
  label: string
  value: string
  onCommit: (text: string) => void
  mono?: boolean
  many?: boolean
  id?: string
  hint?: string
}) {
  const own = useId()
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  const props = {
    id: id ?? own,
    className: mono ? 'input mono' : 'input',
    'aria-label': label,
    value: text,
    ...(hint ? { placeholder: hint } : {}),
    onChange: (e: { target: { value: string } }) => setText(e.target.value),
    onBlur: () => text !== value && onCommit(text),
  }
  if (many)
    return (
      <textarea {...props} rows={Math.min(12, Math.max(2, text.split('\n').length))} spellCheck={false} />
    )
  return <input {...props} onKeyDown={(e) => e.key === 'Enter' && text !== value && onCommit(text)} />
}
