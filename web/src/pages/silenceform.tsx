// The form of a new silence, and the question before one ends.
import { useState } from 'react'
import { path, post } from '../api/client'
import { allows, useMe } from '../api/me'
import type { Silence } from '../api/types'
import { useVerb } from '../api/verbs'
import { useAsked } from '../app/ask'
import { useNamespace } from '../app/namespace'
import { Dialog, toast } from '../kit/dialog'
import { clock } from '../kit/format'
import { Button } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { type Question, useToastVerb, VerbButton } from '../kit/verbs'
import { t } from '../text/t'
import { NamespaceField } from './admin/parts'
import { type Draft, faultOf, requestOf, scopeOf, spans } from './silencedata'

export const silencesKey = ['silences']

const end = (s: Silence) => post<Silence>(`${path('silences', s.namespace, s.id)}:end`)

export const endOf = (s: Silence): Question => ({
  title: t('End the silence about {what}', { what: scopeOf(s) }),
  text: t(
    'The channels of alerts that opened in it, and that nobody has acknowledged, are notified within a minute.',
  ),
  answer: t('End the silence'),
  act: () => end(s),
  done: t('The silence about {what} is over.', { what: scopeOf(s) }),
})

/** The dialog with the name silence. At first it has the subject of the page. */
export function NewSilence({ about }: { about: Partial<Draft> }) {
  const asked = useAsked()
  return (
    <Dialog title={t('New silence')} isOpen={asked.name === 'silence'} onClose={asked.close}>
      {asked.name === 'silence' ? <Form about={about} onClose={asked.close} /> : null}
    </Dialog>
  )
}

/** Opens that dialog. It is shown to callers who may make a silence in some namespace. */
export function NewSilenceButton({ quiet }: { quiet?: boolean }) {
  const asked = useAsked()
  const me = useMe()
  const [ns] = useNamespace()
  const somewhere = Object.keys(me?.verbs ?? {}).find((n) => allows(me, 'alert.operate', n))
  return (
    <VerbButton
      verb="alert.operate"
      namespace={somewhere ?? ns}
      kind={quiet ? 'plain' : 'primary'}
      {...(quiet ? {} : { icon: 'plus' })}
      onPress={() => asked.open('silence')}
    >
      {quiet ? t('Silence…') : t('New silence')}
    </VerbButton>
  )
}

const custom = 'until'

/** An instant of the viewer's clocks, in the form of a field for date and time. */
function inHours(hours: number): string {
  const d = new Date(Date.now() + hours * 3_600_000)
  return new Date(d.getTime() - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

function Form({ about, onClose }: { about: Partial<Draft>; onClose: () => void }) {
  const [draft, setDraft] = useState<Draft>({
    namespace: 'default',
    workflow: '',
    rule: '',
    length: '7200',
    reason: '',
    ...about,
  })
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const { run: undo } = useToastVerb()
  const fault = faultOf(draft, Date.now())
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change })
  const everywhere = draft.namespace === '*'
  const isSpan = /^\d+$/.test(draft.length)
  const save = () =>
    run(
      () => post<Silence>(path('silences', draft.namespace), requestOf(draft, Date.now())),
      (made) => {
        onClose()
        toast(t('Silence about {what} until {time}.', { what: scopeOf(made), time: clock(made.until) }), {
          undo: () => undo(() => end(made)),
        })
      },
    )
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (!isPending && !fault) save()
      }}
    >
      <p>
        {t(
          'New alerts are recorded and shown, and no channel is notified. Those that are open stay as they are.',
        )}
      </p>
      <label className="row">
        <input
          type="checkbox"
          checked={everywhere}
          onChange={(e) => set({ namespace: e.target.checked ? '*' : 'default', workflow: '' })}
        />
        {t('Everything, in all namespaces')}
      </label>
      {everywhere ? null : (
        <div className="row">
          <NamespaceField
            value={draft.namespace}
            onChange={(namespace) => set({ namespace })}
            placeholder="default"
          />
          <label className="field grow">
            <span>{t('Workflow (optional)')}</span>
            <input
              className="input"
              maxLength={200}
              placeholder={t('all of the namespace')}
              value={draft.workflow}
              onChange={(e) => set({ workflow: e.target.value.trim() })}
            />
          </label>
        </div>
      )}
      <div className="row">
        <label className="field grow">
          <span>{t('Rule (optional)')}</span>
          <input
            className="input"
            maxLength={200}
            placeholder={t('all rules')}
            value={draft.rule}
            onChange={(e) => set({ rule: e.target.value.trim() })}
          />
        </label>
        <label className="field grow">
          <span>{t('For##how long')}</span>
          <select
            className="select"
            value={isSpan ? draft.length : custom}
            onChange={(e) => set({ length: e.target.value === custom ? inHours(12) : e.target.value })}
          >
            {spans.map(([seconds, label]) => (
              <option key={seconds} value={seconds}>
                {label}
              </option>
            ))}
            <option value={custom}>{t('until a time…')}</option>
          </select>
        </label>
      </div>
      {isSpan ? null : (
        <label className="field">
          <span>{t('Until, by your clock')}</span>
          <input
            className="input"
            type="datetime-local"
            value={draft.length}
            onChange={(e) => set({ length: e.target.value || ' ' })}
          />
        </label>
      )}
      <label className="field">
        <span>{t('Reason')}</span>
        <input
          className="input"
          required
          // biome-ignore lint/a11y/noAutofocus: the dialog was opened to answer this.
          autoFocus
          maxLength={1000}
          value={draft.reason}
          onChange={(e) => set({ reason: e.target.value })}
        />
        <small className={fault && draft.reason ? 'error' : undefined}>
          {fault && draft.reason ? fault : t('For the people who look for the messages.')}
        </small>
      </label>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || fault !== undefined}>
          {t('Make the silence')}
        </Button>
      </footer>
    </form>
  )
}
