import { useState } from 'react'
import { useCan } from '../api/me'
import { useExplain } from '../api/queries'
import type { Run, Task } from '../api/types'
import { taskVerb, useVerb } from '../api/verbs'
import { useKeys } from '../app/keys'
import { toast } from '../kit/dialog'
import { Button } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { messageOf } from './approvalsdata'

/** Lets a person answer a task that waits for a yes or a no; other tasks that wait show nothing here. */
export function Approve({ run, task, keys = true }: { run: Run; task: Task; keys?: boolean }) {
  const explain = useExplain(run.id, task.name)
  const asks = explain.data?.reasons?.find((r) => r.kind === 'approval')
  if (!asks) return null
  const asked = messageOf(asks)
  return (
    <>
      {asked ? <p className="asked">{asked}</p> : null}
      <Answer run={run} task={task.name} keys={keys} />
    </>
  )
}

/** A yes or a no to a task, with a comment. */
export function Answer({ run, task, keys }: { run: Run; task: string; keys: boolean }) {
  const [comment, setComment] = useState('')
  const [error, setError] = useState<Error>()
  const { run: act, isPending } = useVerb(setError)
  const allowed = useCan()('run.approve', run.namespace)
  const answer = (reject: boolean) =>
    act(
      () => taskVerb(run.id, task, 'approve', { reject, ...(comment ? { comment } : {}) }),
      () => toast(reject ? `${task} was rejected.` : `${task} was approved.`),
    )
  useKeys(keys && allowed ? { a: () => !isPending && answer(false) } : {})
  return (
    <div className="approve">
      <label className="field grow">
        <span className="hidden-text">Comment</span>
        <input
          className="input"
          placeholder="Comment (optional)"
          value={comment}
          onChange={(e) => setComment(e.target.value)}
        />
      </label>
      <Button kind="primary" icon="check" isDisabled={!allowed || isPending} onPress={() => answer(false)}>
        Approve
      </Button>
      <Button kind="danger" isDisabled={!allowed || isPending} onPress={() => answer(true)}>
        Reject
      </Button>
      {error ? <ProblemBox error={error} /> : null}
    </div>
  )
}
