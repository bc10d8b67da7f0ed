// Buttons of verbs. A button that is not allowed is shown as disabled, with the role that would allow it.
import { type ReactNode, useState } from 'react'
import { Focusable, Tooltip, TooltipTrigger } from 'react-aria-components'
import { newKey } from '../api/client'
import { useCan } from '../api/me'
import { plainVerb, useVerb } from '../api/verbs'
import { t } from '../text/t'
import { Dialog, toast } from './dialog'
import { Icon } from './icons'
import { Button, type Kind } from './parts'
import { ProblemBox } from './problem'

/** Says which role would allow a verb. The namespace '' or '*' means all namespaces. */
export const needs = (verb: string, namespace: string) =>
  namespace === '' || namespace === '*'
    ? t('You need a role with {verb} in all namespaces.', { verb })
    : t('You need a role with {verb} in the namespace {namespace}.', { verb, namespace })

/** Runs verbs and says in a toast what went wrong. */
export const useToastVerb = () => useVerb((e) => toast(e.message, { bad: true }))

export function VerbButton({
  verb,
  namespace,
  kind,
  icon,
  children,
  onPress,
  isDisabled,
}: {
  verb: string
  namespace: string
  kind?: Kind
  icon?: string
  children: ReactNode
  onPress: () => void
  isDisabled?: boolean
}) {
  const allowed = useCan()(verb, namespace)
  if (!allowed) {
    return (
      <NotAllowed {...(kind ? { kind } : {})} {...(icon ? { icon } : {})} hint={needs(verb, namespace)}>
        {children}
      </NotAllowed>
    )
  }
  return (
    <Button
      {...(kind ? { kind } : {})}
      {...(icon ? { icon } : {})}
      isDisabled={isDisabled ?? false}
      onPress={onPress}
    >
      {children}
    </Button>
  )
}

/** A verb of a queue or a node, with its inverse in the toast. */
export function Toggle({
  verb,
  where,
  does,
  undoes,
  label,
  done,
}: {
  verb: string
  where: string
  does: string
  undoes: string
  label: string
  done: string
}) {
  const { run: act, isPending } = useToastVerb()
  const send = (name: string) => plainVerb(`${where}:${name}`, undefined, false)
  return (
    <VerbButton
      verb={verb}
      namespace=""
      isDisabled={isPending}
      onPress={() =>
        act(
          () => send(does),
          () => toast(done, { undo: () => act(() => send(undoes)) }),
        )
      }
    >
      {label}
    </VerbButton>
  )
}

/**
 * A button that only shows why it is disabled. It takes the focus, so that the reason can also be read with
 * the keyboard.
 */
function NotAllowed({
  kind = 'plain',
  icon,
  hint,
  children,
}: {
  kind?: Kind
  icon?: string
  hint: string
  children: ReactNode
}) {
  return (
    <TooltipTrigger delay={200}>
      <Focusable>
        <button type="button" className="button" data-kind={kind} aria-disabled="true" data-disabled>
          {icon ? <Icon name={icon} /> : null}
          {children}
        </button>
      </Focusable>
      <Tooltip className="tooltip" offset={6}>
        {hint}
      </Tooltip>
    </TooltipTrigger>
  )
}

export type Question = {
  title: string
  /** The consequences. */
  text?: ReactNode
  /** The word on the button. */
  answer: string
  danger?: boolean
  /** Whether the question cannot be answered now. */
  disabled?: boolean
  reason?: 'optional' | 'required'
  act: (reason: string, key: string) => Promise<unknown>
  done?: string
  undo?: () => void
}

/** Asks before a verb that cannot be undone. Ctrl-Enter, or Enter in the field of the reason, confirms it. */
export function Confirm({ question, onClose }: { question: Question | undefined; onClose: () => void }) {
  return (
    <Dialog title={question?.title ?? ''} isOpen={question !== undefined} onClose={onClose}>
      {question ? <Ask question={question} onClose={onClose} /> : null}
    </Dialog>
  )
}

function Ask({ question: q, onClose }: { question: Question; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const [key] = useState(newKey)
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const missing = q.disabled || (q.reason === 'required' && reason.trim() === '')
  const act = () =>
    run(
      () => q.act(reason.trim(), key),
      () => {
        onClose()
        if (q.done) toast(q.done, q.undo ? { undo: q.undo } : {})
      },
    )
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (!missing && !isPending) act()
      }}
    >
      {q.text ? <div>{q.text}</div> : null}
      {q.reason ? (
        <label className="field">
          <span>{q.reason === 'optional' ? t('Reason (optional)') : t('Reason')}</span>
          <input
            className="input"
            value={reason}
            onChange={(e) => setReason(e.target.value)}
            maxLength={500}
            // biome-ignore lint/a11y/noAutofocus: the dialog was opened to answer this.
            autoFocus
          />
        </label>
      ) : null}
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button
          kind={q.danger ? 'danger' : 'primary'}
          type="submit"
          isDisabled={missing || isPending}
          // Without a reason to write, the focus is on the answer.
          autoFocus={!q.reason}
        >
          {q.answer}
        </Button>
      </footer>
    </form>
  )
}
