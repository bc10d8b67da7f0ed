import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import { path } from '../api/client'
import { useDrawing, useStates } from '../api/columns'
import { useTasks } from '../api/queries'
import type { Run, Task } from '../api/types'
import type { Drawing, States } from '../canvas/drawing'
import { plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Message, Span, State } from '../kit/parts'
import { Rows } from '../kit/rows'
import { taskOrder } from '../kit/states'
import { t } from '../text/t'
import { useRowKeys } from './rowkeys'

const rowHeight = 32
const tableMax = 300

/** For a run with more tasks, only the states are listed, because the attempts would be megabytes. */
const largeAt = 2000

export const isLarge = (run: Run) =>
  Object.values(run.counts as Record<string, number>).reduce((sum, n) => sum + n, 0) > largeAt

/**
 * The tasks of a run. Failed ones come first, then the order of the file. In a long list, tasks that need a
 * person come first.
 */
export function TaskList({ run }: { run: Run }) {
  return isLarge(run) ? <LargeList run={run} /> : <SmallList run={run} />
}

function SmallList({ run }: { run: Run }) {
  const { q = '', state = '', task } = useSearch({ from: '/r/$id' })
  const navigate = useNavigate({ from: '/r/$id' })
  const tasks = useTasks(run.id)
  const shown = useMemo(() => {
    const rows = (tasks.data ?? []).filter(
      (each) => each.name.includes(q) && (state === '' || each.state === state),
    )
    if (rows.length > tableMax)
      rows.sort((a, b) => taskOrder.indexOf(a.state) - taskOrder.indexOf(b.state) || a.id - b.id)
    else rows.sort((a, b) => Number(b.state === 'failed') - Number(a.state === 'failed') || a.id - b.id)
    return rows
  }, [tasks.data, q, state])
  const open = (name: string) => void navigate({ search: (old) => ({ ...old, task: name }), replace: true })
  const keys = useRowKeys(shown.length, (i) => shown[i] && open(shown[i].name))
  return (
    <Panel
      title={t('Tasks')}
      count={tasks.data ? plural(shown.length, 'task') : undefined}
      actions={<Filter q={q} state={state} />}
    >
      <Loaded
        query={tasks}
        rows={8}
        isEmpty={() => shown.length === 0}
        empty={
          <p>
            {tasks.data?.length
              ? t('No task fits the filter.')
              : t('The run has no tasks yet: they are there once it has begun.')}
          </p>
        }
      >
        {() =>
          shown.length > tableMax ? (
            <Rows n={shown.length} row={rowHeight} label={t('Tasks')} className="rows tasks-rows">
              {(i) => {
                const one = shown[i]
                return one ? (
                  <div
                    key={one.id}
                    className="task-row"
                    data-current={one.name === task || undefined}
                    style={{ height: rowHeight }}
                  >
                    <State state={one.state} />
                    <TaskName run={run} name={one.name} />
                    <span className="num sub">
                      <Took task={one} />
                    </span>
                  </div>
                ) : null
              }}
            </Rows>
          ) : (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>{t('State')}</th>
                    <th>{t('Task')}</th>
                    <th className="reason">{t('Reason')}</th>
                    <th className="num">{t('Attempts')}</th>
                    <th className="num">{t('Took')}</th>
                    <th>{t('Started')}</th>
                    <th>{t('Node')}</th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map((own, i) => {
                    const last = own.attempts?.at(-1)
                    return (
                      <tr key={own.id} data-current={own.name === task || keys.at === i || undefined}>
                        <td>
                          <State state={own.state} />
                        </td>
                        <td>
                          <TaskName run={run} name={own.name} />
                        </td>
                        <td className="reason">
                          <span className="sub clip">
                            <Message of={own} />
                          </span>
                        </td>
                        <td className="num">{own.attempts?.length || '–'}</td>
                        <td className="num">
                          <Took task={own} />
                        </td>
                        <td className="nowrap sub">
                          {last?.started_at ? <Ago time={last.started_at} /> : '–'}
                        </td>
                        <td className="nowrap sub">{last?.node || '–'}</td>
                      </tr>
                    )
                  })}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </Panel>
  )
}

function Filter({ q, state }: { q: string; state: string }) {
  const navigate = useNavigate({ from: '/r/$id' })
  const set = (change: object) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <div className="row">
      <input
        data-filter
        className="input"
        type="search"
        placeholder={t('Filter by name')}
        aria-label={t('Filter tasks by name')}
        value={q}
        onChange={(e) => set({ q: e.target.value || undefined })}
      />
      {state ? (
        <button
          type="button"
          className="chip"
          aria-pressed="true"
          onClick={() => set({ state: undefined })}
          aria-label={t('Show all states, not only {state}', { state })}
        >
          <State state={state} /> ×
        </button>
      ) : null}
    </div>
  )
}

function LargeList({ run }: { run: Run }) {
  const { q = '', state = '', task } = useSearch({ from: '/r/$id' })
  const drawing = useDrawing(path('runs', run.id, 'layout'))
  const states = useStates(run.id, drawing.data)
  const shown = useMemo(
    () => ordered(drawing.data, states.data, q, state),
    [drawing.data, states.data, q, state],
  )
  // The packed states do not name the instances of foreach tasks.
  if (states.data?.instances.size) return <SmallList run={run} />
  return (
    <Panel
      title={t('Tasks')}
      count={states.data ? plural(shown.length, 'task') : undefined}
      actions={<Filter q={q} state={state} />}
    >
      <Loaded<Drawing | States>
        query={drawing.isError ? drawing : states}
        rows={8}
        isEmpty={() => shown.length === 0}
        empty={<p>{t('No task fits the filter.')}</p>}
      >
        {() => (
          <Rows n={shown.length} row={rowHeight} label={t('Tasks')} className="rows tasks-rows">
            {(i) => {
              const each = shown[i] ?? 0
              const name = drawing.data?.names[each] ?? ''
              return (
                <div
                  key={each}
                  className="task-row"
                  data-current={name === task || undefined}
                  style={{ height: rowHeight }}
                >
                  <State state={states.data?.names[states.data.of[each] ?? 0] ?? 'pending'} />
                  <TaskName run={run} name={name} />
                </div>
              )
            }}
          </Rows>
        )}
      </Loaded>
    </Panel>
  )
}

/** The tasks that fit a filter, from the state that needs a person most. */
function ordered(d: Drawing | undefined, s: States | undefined, q: string, state: string): number[] {
  if (!d || !s) return []
  const groups = new Map<string, number[]>()
  for (let task = 0; task < d.n; task++) {
    const name = s.names[s.of[task] ?? 0] ?? 'pending'
    if ((state && name !== state) || !d.names[task]?.includes(q)) continue
    const group = groups.get(name)
    if (group) group.push(task)
    else groups.set(name, [task])
  }
  return taskOrder.flatMap((name) => groups.get(name) ?? [])
}

function TaskName({ run, name }: { run: Run; name: string }) {
  return (
    <Link to="/r/$id" params={{ id: run.id }} search={(old) => ({ ...old, task: name })} className="nowrap">
      {name}
    </Link>
  )
}

function Took({ task }: { task: Task }) {
  const last = task.attempts?.at(-1)
  return <Span from={last?.started_at} to={last?.finished_at ?? null} />
}
