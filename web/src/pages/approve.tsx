import { useRef, useState } from 'react'
import { useCan } from '../api/me'
import { useExplain } from '../api/queries'
import type { Run, Task } from '../api/types'
import { taskVerb, useVerb } from '../api/verbs'
import { useKeys } from '../app/keys'
import { toast } from '../kit/dialog'
import { Button } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { t } from '../text/t'
import { answersOf, faultsOf, formOf, messageOf, refusalOf } from './approvalsdata'
import { fault } from './startdata'
import { type Asked, ValueField } from './valuefield'

/** Lets a person answer a task that waits for an approval. For other waiting tasks it shows nothing. */
export function Approve({ run, task, keys = true }: { run: Run; task: Task; keys?: boolean }) {
  const explain = useExplain(run.id, task.name)
  const asks = explain.data?.reasons?.find((r) => r.kind === 'approval')
  if (!asks) return null
  const asked = messageOf(asks)
  return (
    <>
      {asked ? <p className="asked">{asked}</p> : null}
      <Answer run={run} task={task.name} form={formOf(asks)} refusal={refusalOf(asks)} keys={keys} />
    </>
  )
}

/**
 * The answer to an approval task, with the fields of its form and a comment. refusal says why the caller must not
 * answer.
 */
export function Answer({
  run,
  task,
  form,
  refusal,
  keys,
}: {
  run: Run
  task: string
  form: Asked[]
  refusal: ReturnType<typeof refusalOf>
  keys: boolean
}) {
  const [comment, setComment] = useState('')
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(new Map())
  const [tried, setTried] = useState(false)
  const [error, setError] = useState<Error>()
  const { run: act, isPending } = useVerb(setError)
  const fields = useRef<HTMLFieldSetElement>(null)
  const allowed = useCan()('run.approve', run.namespace) && !refusal
  const refused = faultsOf(error)
  const wrong = (f: Asked) => {
    const text = texts.get(f.name)
    return (tried || text ? fault(f, text) : undefined) ?? refused.get(f.name)
  }
  const answer = (reject: boolean) => {
    setTried(!reject)
    if (!reject && form.some((f) => fault(f, texts.get(f.name)))) return
    act(
      () =>
        taskVerb(run.id, task, 'approve', {
          reject,
          ...(comment ? { comment } : {}),
          ...(reject || form.length === 0 ? {} : { answers: answersOf(form, texts) }),
        }),
      () => toast(reject ? t('{task} was rejected.', { task }) : t('{task} was approved.', { task })),
    )
  }
  const first = () => fields.current?.querySelector<HTMLElement>('input, select, textarea')?.focus()
  useKeys(keys && allowed ? { a: () => (form.length > 0 ? first() : !isPending && answer(false)) } : {})
  return (
    <div className="approve">
      {form.length > 0 ? (
        <fieldset
          className="form"
          aria-label={t('Form of {task}', { task })}
          ref={fields}
          disabled={!allowed}
        >
          {form.map((f) => (
            <ValueField
              key={f.name}
              p={f}
              value={texts.get(f.name) ?? ''}
              fault={wrong(f)}
              set={(v) => {
                setTexts((old) => new Map(old).set(f.name, v))
                setError(undefined)
              }}
            />
          ))}
        </fieldset>
      ) : null}
      <label className="field grow">
        <span className="hidden-text">{t('Comment')}</span>
        <input
          className="input"
          placeholder={t('Comment (optional)')}
          value={comment}
          onChange={(e) => setComment(e.target.value)}
        />
      </label>
      <Button kind="primary" icon="check" isDisabled={!allowed || isPending} onPress={() => answer(false)}>
        {t('Approve')}
      </Button>
      <Button kind="danger" isDisabled={!allowed || isPending} onPress={() => answer(true)}>
        {t('Reject')}
      </Button>
      {refusal ? (
        <p className="sub" role="note">
          {t('You cannot decide here:')}{' '}
          <span lang={refusal.isTranslated ? undefined : 'en'}>{refusal.text}</span>
        </p>
      ) : null}
      {error && refused.size === 0 ? <ProblemBox error={error} /> : null}
    </div>
  )
}
