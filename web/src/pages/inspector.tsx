// The form of one task, made from the schema of the workflow file. Each field edits its own range of the text.

import { isMap } from 'yaml'
import { Button } from '../kit/parts'
import type { File, TaskText } from '../text/outline'
import { below, chosen, keysOf, type Schema } from '../text/schema'
import { t } from '../text/t'
import type { Value } from '../text/values'
import { SchemaField, Text } from './inspectorfields'

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
  // A task has one action. The keys of actions are shown only if they are set, and then first.
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
    <section className="inspector" aria-label={t('Task {name}', { name: task.name })}>
      <header className="row">
        <Text
          label={t('Name of the task')}
          value={task.name}
          mono
          id="inspector-name"
          onCommit={(to) => to && props.onRename(to)}
        />
        <Button kind="quiet" onPress={() => range && props.onShow(range[0], range[1])}>
          {t('Show in the text')}
        </Button>
        <Button kind="quiet" icon="cross" aria-label={t('Close the task')} onPress={props.onClose} />
      </header>
      <Needs {...props} />
      <dl className="facts inspector-fields">{shown.map(field)}</dl>
      <details>
        <summary>{t('More keys')}</summary>
        <dl className="facts inspector-fields">{more.map(field)}</dl>
      </details>
      <div className="row">
        <Button kind="danger" onPress={props.onDelete}>
          {t('Delete the task')}
        </Button>
      </div>
      {file.document.errors.length > 0 ? (
        <p className="sub">{t('The text is not valid YAML, so some values may be missing here.')}</p>
      ) : null}
    </section>
  )
}

function Needs({ file, task, onNeed }: InspectorProps) {
  const others = file.tasks.filter((row) => row.name !== task.name && !task.needs.includes(row.name))
  return (
    <div className="row inspector-needs">
      <span className="muted">{t('needs')}</span>
      {task.needs.map((n) => (
        <button
          key={n}
          type="button"
          className="chip"
          aria-label={t('No longer need {name}', { name: n })}
          onClick={() => onNeed(n, false)}
        >
          {n} ×
        </button>
      ))}
      {others.length > 0 ? (
        <select
          className="select"
          aria-label={t('Add a task that this one needs')}
          value=""
          onChange={(e) => e.target.value && onNeed(e.target.value, true)}
        >
          <option value="">{t('Add…')}</option>
          {others.map((each) => (
            <option key={each.name}>{each.name}</option>
          ))}
        </select>
      ) : null}
    </div>
  )
}
