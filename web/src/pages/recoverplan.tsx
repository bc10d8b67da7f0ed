// The effect of a recover, which the server counts before it is done.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { get, path } from '../api/client'
import type { RecoveryPlan, Run } from '../api/types'
import { runVerb } from '../api/verbs'
import { plural } from '../kit/format'
import { Skeleton } from '../kit/panel'
import { State } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { isActive } from '../kit/states'
import { type Question, useToastVerb } from '../kit/verbs'
import { t } from '../text/t'

const shownMax = 12

/** Tells whether a run has ended in a way that a recover can change. */
export const isRecoverable = (run: Run) => !isActive(run.state) && run.state !== 'skipped'

/** The question before a recover of a run: of the tasks that did not succeed, or from one task on. */
export function useRecoverQuestion(run: Run, from: string, wanted: boolean): Question {
  const plan = useQuery({
    queryKey: ['recovery', run.id, run.generation, run.state, from],
    queryFn: ({ signal }) => get<RecoveryPlan>(path('runs', run.id, 'recovery'), { from }, signal),
    enabled: wanted,
    gcTime: 0,
    retry: false,
  })
  const { run: act } = useToastVerb()
  const p = plan.data
  const body = from ? { from } : {}
  return {
    title: from
      ? t('Recover {workflow} from {from}', { workflow: run.workflow, from })
      : t('Recover {workflow}', { workflow: run.workflow }),
    text: plan.error ? (
      <ProblemBox error={plan.error} retry={() => void plan.refetch()} />
    ) : p ? (
      <Plan run={run} plan={p} />
    ) : (
      <Skeleton rows={3} />
    ),
    answer:
      p && !p.refused && p.again > 0
        ? t('Recover {tasks}', { tasks: plural(p.again, 'task') })
        : t('Recover'),
    disabled: !p || p.refused !== null,
    reason: 'optional',
    act: (reason, key) => runVerb(run.id, 'recover', reason ? { ...body, reason } : body, key),
    done: t(
      'Recovery was asked for. To undo it stops the run again; results that it replaced do not come back.',
    ),
    undo: () => act(() => runVerb(run.id, 'stop', { reason: 'the recovery was undone' })),
  }
}

function Plan({ run, plan: p }: { run: Run; plan: RecoveryPlan }) {
  if (p.refused)
    return (
      <p className="notice" lang="en">
        {p.refused}.
      </p>
    )

  const more = p.again - Math.min(p.tasks.length, shownMax)
  const asks = [
    p.queue ? t('a slot of the queue {queue}', { queue: p.queue }) : '',
    p.locks.length > 0
      ? t(p.locks.length === 1 ? 'the lock {locks}' : 'the locks {locks}', { locks: p.locks.join(', ') })
      : '',
  ].filter(Boolean)
  return (
    <div className="stack">
      <p>
        {p.again === 0
          ? t('No task is done again: the run gets another end.')
          : t('{tasks} will be done again; conditions decide anew.', { tasks: plural(p.again, 'task') })}{' '}
        {t('{n} task keeps its result.|{n} tasks keep their results.', { n: p.kept })}{' '}
        {t('This begins generation {generation}.', { generation: p.generation })}
      </p>
      {p.tasks.length > 0 ? (
        <ul className="list tall" aria-label={t('Tasks that are done again')}>
          {p.tasks.slice(0, shownMax).map((task) => (
            <li key={task.name} className="row spread">
              <Link to="/r/$id" params={{ id: run.id }} search={{ task: task.name }}>
                {task.name}
              </Link>
              <State state={task.state} />
            </li>
          ))}
          {more > 0 ? <li className="sub">{t('and {n} more', { n: more })}</li> : null}
        </ul>
      ) : null}
      {asks.length > 0 ? (
        <p>
          {t('First the run asks for {asks}. It waits if another run has it.', {
            asks: asks.join(` ${t('and')} `),
          })}
        </p>
      ) : null}
      {p.queues.length > 0 ? (
        <p>
          {t(
            p.queues.length === 1
              ? 'Its tasks ask for slots of the queue {queues}.'
              : 'Its tasks ask for slots of the queues {queues}.',
            { queues: p.queues.join(', ') },
          )}
        </p>
      ) : null}
    </div>
  )
}
