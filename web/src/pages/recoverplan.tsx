// What a recover would do, counted by the server before it is done.
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

const shownMax = 12

/** Tells whether a run has ended in a way that a recover can change. */
export const isRecoverable = (run: Run) => !isActive(run.state) && run.state !== 'skipped'

/** The question before a recover of a run: of what did not succeed, or from a task on. */
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
    title: from ? `Recover ${run.workflow} from ${from}` : `Recover ${run.workflow}`,
    text: plan.error ? (
      <ProblemBox error={plan.error} retry={() => void plan.refetch()} />
    ) : p ? (
      <Plan run={run} plan={p} />
    ) : (
      <Skeleton rows={3} />
    ),
    answer: p && !p.refused && p.again > 0 ? `Recover ${plural(p.again, 'task')}` : 'Recover',
    disabled: !p || p.refused !== null,
    reason: 'optional',
    act: (reason, key) => runVerb(run.id, 'recover', reason ? { ...body, reason } : body, key),
    done: 'Recovery was asked for. To undo it stops the run again; results that it replaced do not come back.',
    undo: () => act(() => runVerb(run.id, 'stop', { reason: 'the recovery was undone' })),
  }
}

function Plan({ run, plan: p }: { run: Run; plan: RecoveryPlan }) {
  if (p.refused) return <p className="notice">{p.refused}.</p>
  const more = p.again - Math.min(p.tasks.length, shownMax)
  const asks = [
    p.queue ? `a slot of the queue ${p.queue}` : '',
    p.locks.length > 0 ? `${p.locks.length === 1 ? 'the lock' : 'the locks'} ${p.locks.join(', ')}` : '',
  ].filter(Boolean)
  return (
    <div className="stack">
      <p>
        {p.again === 0
          ? 'No task is done again: the run gets another end.'
          : `${plural(p.again, 'task')} will be done again; conditions decide anew.`}{' '}
        {plural(p.kept, 'task')} {p.kept === 1 ? 'keeps its result' : 'keep their results'}. This begins
        generation {p.generation}.
      </p>
      {p.tasks.length > 0 ? (
        <ul className="list tall" aria-label="Tasks that are done again">
          {p.tasks.slice(0, shownMax).map((t) => (
            <li key={t.name} className="row spread">
              <Link to="/r/$id" params={{ id: run.id }} search={{ task: t.name }}>
                {t.name}
              </Link>
              <State state={t.state} />
            </li>
          ))}
          {more > 0 ? <li className="sub">and {plural(more, 'more', 'more')}</li> : null}
        </ul>
      ) : null}
      {asks.length > 0 ? (
        <p>First the run asks for {asks.join(' and ')}. It waits if another run has it.</p>
      ) : null}
      {p.queues.length > 0 ? (
        <p>
          Its tasks ask for slots of {p.queues.length === 1 ? 'the queue' : 'the queues'}{' '}
          {p.queues.join(', ')}.
        </p>
      ) : null}
    </div>
  )
}
