// The form of a new token. Its secret is shown once, so a stray click or Escape does not close it.

import { useState } from 'react'
import { post } from '../../api/client'
import { useCan, useMe } from '../../api/me'
import type { NewToken as Made } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { Dialog } from '../../kit/dialog'
import { Button, Copy } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { t } from '../../text/t'
import { term } from '../../text/terms'
import { daysOn, isName, useNamespaces, useUsers } from './data'
import { ExpiryField } from './parts'
import { VerbChoice } from './verblist'

const kinds = [
  ['api', t('people and programs: every route')],
  ['worker', t('workers: what they call')],
  ['node', t('nodes of a cluster: what they say to each other')],
] as const

export function NewToken({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const [made, setMade] = useState<Made>()
  const close = () => {
    setMade(undefined)
    onClose()
  }
  return (
    <Dialog
      title={made ? t('The token {name}', { name: made.name }) : t('New token')}
      isOpen={isOpen}
      onClose={close}
      wide
      stays={made !== undefined}
    >
      {made ? (
        <Secret token={made} onClose={close} />
      ) : isOpen ? (
        <Form onMade={setMade} onClose={close} />
      ) : null}
    </Dialog>
  )
}

export function Secret({ token, onClose }: { token: Made; onClose: () => void }) {
  return (
    <>
      <p>
        {t(
          'This is the secret of {name}. It is shown now and never again: keep it where only its holder can read it.',
          { name: token.name },
        )}
      </p>
      <div className="command">
        <code data-secret tabIndex={0}>
          {token.secret}
        </code>
        <Copy text={token.secret} label={t('Copy the secret')} />
      </div>
      <footer>
        <Button kind="primary" onPress={onClose} autoFocus>
          {t('I have kept it')}
        </Button>
      </footer>
    </>
  )
}

function Form({ onMade, onClose }: { onMade: (token: Made) => void; onClose: () => void }) {
  const me = useMe()
  const can = useCan()
  const users = useUsers(can('user.read', '*')).data ?? []
  const namespaces = useNamespaces(me)
  const [name, setName] = useState('')
  const [kind, setKind] = useState<Made['kind']>('api')
  const [owner, setOwner] = useState('')
  const [expires, setExpires] = useState('90')
  const [narrows, setNarrows] = useState(false)
  const [verbs, setVerbs] = useState<ReadonlySet<string>>(new Set())
  const [places, setPlaces] = useState<ReadonlySet<string>>(new Set())
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const mine = [...new Set(Object.values(me?.verbs ?? {}).flatMap((v) => v ?? []))]
  const isAPI = kind === 'api'
  const ready = isName(name) && !(isAPI && narrows && verbs.size === 0)
  const create = () =>
    run(
      () =>
        post<Made>('/tokens', {
          kind,
          name: name.trim(),
          ...(isAPI && owner ? { for: owner } : {}),
          ...(isAPI && narrows ? { verbs: [...verbs] } : {}),
          ...(isAPI && places.size > 0 ? { namespaces: [...places] } : {}),
          ...(isAPI && expires === '' ? { never_expires: true } : daysOn(expires)),
        }),
      onMade,
    )
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (!isPending && ready) create()
      }}
    >
      <label className="field">
        <span>{t('Name')}</span>
        <input
          className="input"
          required
          // biome-ignore lint/a11y/noAutofocus: the dialog was opened to answer this.
          autoFocus
          autoComplete="off"
          maxLength={100}
          value={name}
          onChange={(e) => setName(e.target.value)}
        />
        <small>{t('It tells tokens apart in this list.')}</small>
      </label>
      <div className="row">
        <label className="field grow">
          <span>{t('For##whom')}</span>
          <select className="select" value={kind} onChange={(e) => setKind(e.target.value as Made['kind'])}>
            {kinds.map(([k, what]) => (
              <option key={k} value={k}>
                {what}
              </option>
            ))}
          </select>
        </label>
        <ExpiryField value={expires} onChange={setExpires} />
      </div>
      {isAPI ? (
        <>
          <label className="field">
            <span>{t('Acts as')}</span>
            <select className="select" value={owner} onChange={(e) => setOwner(e.target.value)}>
              <option value="">{t('me')}</option>
              {users
                .filter((u) => u.state === 'active')
                .map((u) => (
                  <option
                    key={u.name}
                    value={u.name}
                    disabled={u.kind === 'user' && !can('user.impersonate', '*')}
                  >
                    {u.name} ({term(u.kind)})
                  </option>
                ))}
            </select>
            <small>{t('The token never has more rights than its user, and than you have now.')}</small>
          </label>
          <fieldset className="field">
            <legend>{t('May')}</legend>
            <label className="row">
              <input type="radio" name="may" checked={!narrows} onChange={() => setNarrows(false)} />
              {t('all that its user may')}
            </label>
            <label className="row">
              <input type="radio" name="may" checked={narrows} onChange={() => setNarrows(true)} />
              {t('only these verbs')}
            </label>
          </fieldset>
          {narrows ? <VerbChoice all={mine} chosen={verbs} onChange={setVerbs} /> : null}
          {namespaces.length > 0 ? (
            <fieldset className="field">
              <legend>{t('Namespaces')}</legend>
              <div className="row">
                {namespaces.map((ns) => (
                  <label key={ns} className="row">
                    <input
                      type="checkbox"
                      checked={places.has(ns)}
                      onChange={(e) => {
                        const to = new Set(places)
                        if (e.target.checked) to.add(ns)
                        else to.delete(ns)
                        setPlaces(to)
                      }}
                    />
                    {ns}
                  </label>
                ))}
              </div>
              <small>{places.size === 0 ? t('None chosen: all namespaces.') : t('Only in these.')}</small>
            </fieldset>
          ) : null}
        </>
      ) : null}
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || !ready}>
          {t('Make the token')}
        </Button>
      </footer>
    </form>
  )
}
