// The form of one task, made from the schema of the workflow file. Each field edits its own range of the text.

import { useEffect, useId, useState } from 'react'
import { isMap } from 'yaml'
import { Button, Field } from '../kit/parts'
import type { File, TaskText } from '../text/outline'
import { below, choicesOf, chosen, fieldKind, keysOf, type Schema } from '../text/schema'
import type { Value } from '../text/values'

export type InspectorProps = {
  file: File
  task: TaskText
  schema: Schema | undefined
  onSet: (path: string[], value: Value) => void
  onUnset: (path: string[]) => void
  onRename: (to: string) => void
  onNeed: (need: string, on: boolean) => void
  onDelete: () => void
  onShow: (from: number, to: number) => void
  onClose: () => void
}

/** Keys that most tasks have, in the order of the form. */
const common = ['description', 'run', 'if', 'timeout', 'retry', 'queue', 'priority']
/** Keys that have a form of their own. */
const special = new Set(['needs'])

export function Inspector(props: InspectorProps) {
  const { file, task, schema } = props
  const keys = new Map(keysOf(below(schema, ['tasks', task.name])))
  const { value } = task.entry
  const set = isMap(value) ? value.items.map((i) => String(i.key)) : []
  // A task does one thing: keys that say what it does are shown only if they are set, and then first.
  const kinds = [...chosen(below(schema, ['tasks', task.name])), 'with']
  const does = kinds.filter((k) => set.includes(k))
  const first = [...new Set([...common.slice(0, 1), ...does, ...common, ...set])]
  const shown = first.filter((k) => keys.has(k) && !special.has(k) && (set.includes(k) || !kinds.includes(k)))
  const more = [...keys.keys()].filter((k) => !shown.includes(k) && !special.has(k) && !kinds.includes(k))
  const field = (key: string) => (
    <SchemaField key={`${task.name} ${key}`} {...props} schema={keys.get(key) ?? {}} path={[key]} />
  )
  const range = task.entry.key.range
  return (
    <section className="inspector" aria-label={`Task ${task.name}`}>
      <header className="row">
        <Text
          label="Name of the task"
          value={task.name}
          mono
          id="inspector-name"
          onCommit={(to) => to && props.onRename(to)}
        />
        <Button kind="quiet" onPress={() => range && props.onShow(range[0], range[1])}>
          Show in the text
        </Button>
        <Button kind="quiet" icon="cross" aria-label="Close the task" onPress={props.onClose} />
      </header>
      <Needs {...props} />
      <dl className="facts inspector-fields">{shown.map(field)}</dl>
      <details>
        <summary>More keys</summary>
        <dl className="facts inspector-fields">{more.map(field)}</dl>
      </details>
      <div className="row">
        <Button kind="danger" onPress={props.onDelete}>
          Delete the task
        </Button>
      </div>
      {file.document.errors.length > 0 ? (
        <p className="sub">The text is not valid YAML, so some values may be missing here.</p>
      ) : null}
    </section>
  )
}

function Needs({ file, task, onNeed }: InspectorProps) {
  const others = file.tasks.filter((t) => t.name !== task.name && !task.needs.includes(t.name))
  return (
    <div className="row inspector-needs">
      <span className="muted">needs</span>
      {task.needs.map((n) => (
        <button
          key={n}
          type="button"
          className="chip"
          aria-label={`No longer need ${n}`}
          onClick={() => onNeed(n, false)}
        >
          {n} ×
        </button>
      ))}
      {others.length > 0 ? (
        <select
          className="select"
          aria-label="Add a task that this one needs"
          value=""
          onChange={(e) => e.target.value && onNeed(e.target.value, true)}
        >
          <option value="">Add…</option>
          {others.map((t) => (
            <option key={t.name}>{t.name}</option>
          ))}
        </select>
      ) : null}
    </div>
  )
}

function SchemaField(props: InspectorProps & { path: string[] }) {
  const { task, schema = {}, path, onSet, onUnset, onShow } = props
  const { value: body } = task.entry
  const found = isMap(body) ? body.getIn(path, true) : undefined
  const node = found as { range?: [number, number, number]; toJSON?: () => unknown } | undefined
  const value = node?.toJSON?.()
  const label = path.join('.')
  const kind = fieldKind(schema)
  const hint = schema.description
  const scalar = value === undefined || value === null || typeof value !== 'object'
  if (kind === 'object' && (scalar || path.length === 1)) {
    const keys = keysOf(schema).filter(([, s]) => ['choice', 'number', 'text'].includes(fieldKind(s)))
    if (scalar && value !== undefined) return <Other label={label} node={node} onShow={onShow} hint={hint} />
    return keys.map(([key, s]) => <SchemaField key={key} {...props} schema={s} path={[...path, key]} />)
  }
  if (kind === 'other' || !scalar) return <Other label={label} node={node} onShow={onShow} hint={hint} />
  const commit = (text: string) => {
    if (text === (value === undefined || value === null ? '' : String(value))) return
    if (text === '') onUnset(path)
    else if (kind === 'number' && Number.isFinite(Number(text))) onSet(path, Number(text))
    else onSet(path, kind === 'choice' && /^(true|false)$/.test(text) ? text === 'true' : text)
  }
  const now = value === undefined || value === null ? '' : String(value)
  if (kind === 'choice')
    return (
      <Field label={<span title={hint}>{label}</span>}>
        <select className="select" aria-label={label} value={now} onChange={(e) => commit(e.target.value)}>
          <option value="">default</option>
          {choicesOf(schema).map((c) => (
            <option key={c}>{c}</option>
          ))}
        </select>
      </Field>
    )
  const many = path[0] === 'run' || now.includes('\n')
  return (
    <Field label={<span title={hint}>{label}</span>}>
      <Text label={label} value={now} mono={many || path[0] === 'if'} many={many} onCommit={commit} />
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
  node: { range?: [number, number, number]; toJSON?: () => unknown } | undefined
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
            Edit in the text
          </Button>
        </span>
      ) : (
        <span className="muted">–</span>
      )}
    </Field>
  )
}

/** A field that is written when it is left, or with Enter. */
function Text({
  label,
  value,
  onCommit,
  mono,
  many,
  id,
}: {
  label: string
  value: string
  onCommit: (text: string) => void
  mono?: boolean
  many?: boolean
  id?: string
}) {
  const own = useId()
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  const props = {
    id: id ?? own,
    className: mono ? 'input mono' : 'input',
    'aria-label': label,
    value: text,
    onChange: (e: { target: { value: string } }) => setText(e.target.value),
    onBlur: () => text !== value && onCommit(text),
  }
  if (many)
    return (
      <textarea {...props} rows={Math.min(12, Math.max(2, text.split('\n').length))} spellCheck={false} />
    )
  return <input {...props} onKeyDown={(e) => e.key === 'Enter' && text !== value && onCommit(text)} />
}
