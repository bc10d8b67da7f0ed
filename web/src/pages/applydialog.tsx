// The effects of an apply, shown before it is done: on the text, the tasks and the schedules, and the runs
// that continue with their version.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { Failure, get, newKey, path, post, send } from '../api/client'
import type { Applied, ListRun, Simulation } from '../api/types'
import { useVerb } from '../api/verbs'
import { Dialog, toast } from '../kit/dialog'
import { plural } from '../kit/format'
import { Button } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { TextDiff } from '../text/editor'
import { joined, merge, type Part } from '../text/merge'
import { readFile } from '../text/outline'
import { rich, t } from '../text/t'
import { term } from '../text/terms'
import { applyDraft, type Base, readBase, requestOf, type TaskValues, taskChanges } from './editordata'

const aheadDays = 7

export type ApplyProps = {
  ns: string
  name: string
  base: Base
  text: string
  onClose: () => void
  onMerged: (base: Base, text: string) => void
  onApplied: (base: Base) => void
}

export function ApplyDialog(props: ApplyProps) {
  const workflow = props.ns === 'default' ? props.name : `${props.ns}/${props.name}`
  return (
    <Dialog title={t('Apply {workflow}', { workflow })} isOpen onClose={props.onClose} wide>
      <Plan {...props} workflow={workflow} />
    </Dialog>
  )
}

/** Brings back the version before an apply, unless another one was applied since. */
async function undoApply(ns: string, name: string, done: Applied, before: number) {
  try {
    await send(`${path('workflows', ns, name)}:rollback`, {
      method: 'POST',
      body: { version: before },
      key: newKey(),
      headers: { 'If-Match': `"${done.revision}"` },
    })
    toast(t('New runs get version {version} again.', { version: before }))
  } catch (e) {
    const late = e instanceof Failure && e.kind === 'precondition-failed'
    toast(
      late
        ? t('Nothing was undone: the workflow was changed after version {version}. See its versions.', {
            version: done.version,
          })
        : (e as Error).message,
      { bad: true },
    )
  }
}

type Conflict = { theirs: Base; parts: Part[] }

function Plan({ ns, name, base, text, workflow, ...on }: ApplyProps & { workflow: string }) {
  const [error, setError] = useState<Error>()
  const [merged, setMerged] = useState('')
  const [conflict, setConflict] = useState<Conflict>()
  const navigate = useNavigate()
  const queries = useQueryClient()
  const open = useRef(true)
  useEffect(() => {
    open.current = true
    return () => {
      open.current = false
    }
  }, [])
  const failed = async (e: Error) => {
    if (!(e instanceof Failure) || e.kind !== 'precondition-failed') return setError(e)
    const theirs = await readBase(ns, name)
    // The text may have changed since the dialog was closed, and a merge would replace it.
    if (!open.current) return
    const parts = merge(base.source, text, theirs.source)
    if (parts.some((p) => 'mine' in p)) return setConflict({ theirs, parts })
    finish(theirs, joined(parts, []))
  }
  const { run, isPending } = useVerb((e) => void failed(e).catch(setError))
  const finish = (theirs: Base, result: string) => {
    setConflict(undefined)
    setMerged(
      t(
        'Version {version} was applied after you opened the editor. Your change is merged with it. Check the result, then apply it.',
        { version: theirs.version },
      ),
    )
    on.onMerged(theirs, result)
  }
  const apply = () => {
    setError(undefined)
    run(
      () => applyDraft(ns, name, base, text),
      (done: Applied) => {
        on.onApplied({ ...base, revision: done.revision, version: done.version, source: text })
        const before = base.version
        const restore = () => void undoApply(ns, name, done, before).then(() => queries.invalidateQueries())
        toast(
          [
            t('Version {version} of {workflow} is applied.', { version: done.version, workflow }),
            ...(done.warnings ?? []),
          ].join(' '),
          before > 0 ? { undo: restore } : {},
        )
        if (before === 0) void navigate({ to: '/w/$ns/$name', params: { ns, name }, replace: true })
        else on.onClose()
      },
    )
  }
  if (conflict)
    return (
      <Merge conflict={conflict} onClose={on.onClose} onDone={(result) => finish(conflict.theirs, result)} />
    )
  return (
    <>
      {merged ? (
        <p className="notice" role="status">
          {merged}
        </p>
      ) : null}
      <TaskDiff from={base.source} to={text} />
      <Effects workflow={workflow} base={base} text={text} />
      <TextDiff from={base.source} to={text} label={t('Changes of the text')} />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={on.onClose}>{t('Cancel')}</Button>
        <Button kind="primary" isDisabled={isPending || text === base.source} onPress={apply} autoFocus>
          {t('Apply')}
        </Button>
      </footer>
    </>
  )
}

const valuesOf = (text: string): TaskValues =>
  new Map(
    readFile(text).tasks.map((task) => [
      task.name,
      (task.entry.value?.toJSON() ?? {}) as Record<string, unknown>,
    ]),
  )

function TaskDiff({ from, to }: { from: string; to: string }) {
  const { added, removed, changed } = taskChanges(valuesOf(from), valuesOf(to))
  if (added.length + removed.length + changed.length === 0) return <p>{t('No task changes.')}</p>
  return (
    <ul className="task-diff" aria-label={t('Changes of the tasks')}>
      {added.map((n) => (
        <li key={n} data-tone="good">
          + {n}
        </li>
      ))}
      {removed.map((n) => (
        <li key={n} data-tone="bad">
          − {n}
        </li>
      ))}
      {changed.map(({ name, keys }) => (
        <li key={name} data-tone="warn">
          ~ {name} <span className="sub">{keys.join(', ')}</span>
        </li>
      ))}
    </ul>
  )
}

/** The changes of the schedules, and the runs that keep their version. */
function Effects({ workflow, base, text }: { workflow: string; base: Base; text: string }) {
  const simulation = useQuery({
    queryKey: ['simulate', workflow, text],
    queryFn: () =>
      post<Simulation>('/schedules:simulate', {
        to: new Date(Date.now() + aheadDays * 86_400_000).toISOString(),
        // The server does not know the name of a new workflow.
        ...(base.revision > 0 ? { workflow } : {}),
        with: requestOf(base, text),
      }),
    gcTime: 0,
    retry: false,
  })
  const active = useQuery({
    queryKey: ['active', workflow],
    queryFn: ({ signal }) => get<ListRun>('/runs', { workflow, state: 'active', limit: 100 }, signal),
    enabled: base.revision > 0,
  })
  const changes = (simulation.data?.changes ?? []).filter((c) => c.change !== 'unchanged')
  const running = active.data?.items.length ?? 0
  return (
    <ul className="list" aria-label={t('Effects')}>
      {simulation.error ? (
        <li className="sub">
          {t('The schedules could not be simulated: {message}', { message: simulation.error.message })}
        </li>
      ) : null}
      {simulation.isPending ? (
        <li className="sub">{t('The server works out what the schedules will do…')}</li>
      ) : null}
      {simulation.data && changes.length === 0 ? (
        <li>{t('The schedules fire as before in the next {days} days.', { days: aheadDays })}</li>
      ) : null}
      {changes.map((c) => (
        <li key={c.trigger}>
          {rich(
            'Trigger {trigger} {change}: {before} → {after}. Next {days} days: {fires} more, {fewer} fewer.',
            {
              trigger: <b>{c.trigger}</b>,
              change: term(c.change),
              before: c.before ?? t('none'),
              after: c.after ?? t('none'),
              days: aheadDays,
              fires: plural(c.gained.length, 'fire'),
              fewer: c.lost.length,
            },
          )}
        </li>
      ))}
      {(simulation.data?.limits ?? []).slice(0, 3).map((l) => (
        <li key={l.what}>
          {t('{what}: the limit of {limit} is reached {times}.', {
            what: l.what,
            limit: l.limit,
            times: plural(l.hits, 'time'),
          })}
        </li>
      ))}
      {running > 0 ? (
        <li>
          {active.data?.next
            ? t('at least {n} runs keep the version that they began with.', { n: running })
            : t(
                '{n} run keeps the version that it began with.|{n} runs keep the version that they began with.',
                { n: running },
              )}
        </li>
      ) : null}
    </ul>
  )
}

/** Lets a person choose where two people changed the same lines. */
function Merge({
  conflict,
  onClose,
  onDone,
}: {
  conflict: Conflict
  onClose: () => void
  onDone: (text: string) => void
}) {
  const both = conflict.parts.flatMap((p) => ('mine' in p ? [p] : []))
  const [choices, setChoices] = useState<('mine' | 'theirs')[]>(() => both.map(() => 'mine'))
  return (
    <>
      <p className="notice" role="status">
        {t(
          'Version {version} was applied after you opened the editor, and it changes the same lines. Choose for each of these {n} places. Nothing is applied yet.',
          { version: conflict.theirs.version, n: both.length },
        )}
      </p>
      {both.map((p, i) => (
        <fieldset key={i} className="conflict">
          <legend>{t('Place {number}', { number: i + 1 })}</legend>
          {(['mine', 'theirs'] as const).map((side) => (
            <label key={side}>
              <input
                type="radio"
                name={`conflict-${i}`}
                checked={choices[i] === side}
                onChange={() => setChoices(choices.map((c, j) => (j === i ? side : c)))}
              />
              {side === 'mine' ? t('Yours') : t('Version {version}', { version: conflict.theirs.version })}
              <pre>{p[side].join('\n') || t('(removed)')}</pre>
            </label>
          ))}
        </fieldset>
      ))}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" onPress={() => onDone(joined(conflict.parts, choices))}>
          {t('Merge')}
        </Button>
      </footer>
    </>
  )
}
