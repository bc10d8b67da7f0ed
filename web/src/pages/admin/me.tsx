// The caller: its name at the server, its verbs in each namespace, and its own password.
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { path, post } from '../../api/client'
import { allows, useMe } from '../../api/me'
import type { Me } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { useAsked } from '../../app/ask'
import { Dialog, toast } from '../../kit/dialog'
import { plural } from '../../kit/format'
import { Panel, Skeleton } from '../../kit/panel'
import { Button } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { t } from '../../text/t'
import { inOrder, passwordMin, providerOf, useSessions, useUser, whereOf } from './data'
import { LoginCode } from './logincode'
import { AdminTop } from './parts'
import { NewPasswordField } from './passwordfields'
import { SessionTable } from './sessions'
import { VerbList } from './verblist'

const kinds: Record<Me['kind'], string> = {
  user: t('You are signed in as a user.'),
  service: t('You are signed in with the token of a service.'),
  local: t('You call from the machine of the server, so you may do everything.'),
}

export function MePage() {
  const me = useMe()
  const user = useOwnUser(me)
  const provider = user.data && providerOf(user.data)
  const sessions = useSessions()
  const current = sessions.data?.items.find((s) => s.current)
  const own = (sessions.data?.items ?? []).filter((s) => s.user === current?.user)
  const asked = useAsked()
  const changes = asked.name === 'password'
  return (
    <>
      <AdminTop
        here="/admin/me"
        title={me ? me.name : t('You')}
        actions={
          <>
            <Button onPress={() => asked.open('login-code')}>{t('Sign in at a terminal')}</Button>
            {me?.kind === 'user' && !user.isLoading && !provider ? (
              <Button onPress={() => asked.open('password')}>{t('Change my password')}</Button>
            ) : null}
          </>
        }
      >
        {me ? kinds[me.kind] : ''}
        {provider ? ` ${t('You sign in by {provider}: change your password there.', { provider })}` : ''}
      </AdminTop>
      {me ? (
        <Rights me={me} />
      ) : (
        <Panel title={t('What you may do')}>
          <Skeleton rows={6} />
        </Panel>
      )}
      {current ? (
        <Panel title={t('Where you are signed in')} count={own.length}>
          <SessionTable sessions={inOrder(own)} />
        </Panel>
      ) : null}
      <LoginCode isOpen={asked.name === 'login-code'} onClose={asked.close} />
      <Dialog title={t('Change my password')} isOpen={changes} onClose={asked.close}>
        {changes && me ? (
          <OwnPassword name={me.name} isLocal={user.data !== undefined} onClose={asked.close} />
        ) : null}
      </Dialog>
    </>
  )
}

/** Reads the caller as a user. Without the verb user.read, the page does not know how the caller signs in. */
const useOwnUser = (me: Me | undefined) =>
  useUser(me?.name ?? '', me?.kind === 'user' && allows(me, 'user.read', '*'))

function Rights({ me }: { me: Me }) {
  const everywhere = new Set(me.verbs['*'] ?? [])
  // A verb that is valid in all namespaces is not shown again for a single one.
  const places = Object.entries(me.verbs)
    .map(([ns, verbs]): [string, string[]] => [
      ns,
      (verbs ?? []).filter((v) => ns === '*' || !everywhere.has(v)),
    ])
    .filter(([, verbs]) => verbs.length > 0)
    .sort(([a], [b]) => a.localeCompare(b))
  if (places.length === 0)
    return (
      <Panel title={t('What you may do')}>
        <div className="empty">
          <p>{t('You have no role, so you may do nothing yet. Ask somebody who may grant roles.')}</p>
        </div>
      </Panel>
    )
  return places.map(([ns, verbs]) => (
    <Panel
      key={ns}
      title={t('What you may do in {where}', { where: whereOf(ns) })}
      count={plural(verbs.length, 'verb')}
    >
      <VerbList verbs={verbs} />
      {ns === '*' ? null : (
        <p className="sub pad">
          <Link to="/workflows" search={{ ns }}>
            {t('Workflows in {namespace}', { namespace: ns })}
          </Link>
        </p>
      )}
    </Panel>
  ))
}

function OwnPassword({
  name,
  isLocal,
  onClose,
}: {
  name: string
  /** True if the page knows that the server has the password. */
  isLocal: boolean
  onClose: () => void
}) {
  const [old, setOld] = useState('')
  const [password, setPassword] = useState('')
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (isPending) return
        setError(undefined)
        run(
          () => post(`${path('users', name)}:password`, { old, password }),
          () => {
            onClose()
            toast(t('Your password is changed. Sign in with it.'))
          },
        )
      }}
    >
      <p>{t('All your sessions end, this one too. Then you sign in with the new password.')}</p>
      {isLocal ? null : (
        <p>{t('If you sign in by an identity provider, change your password there instead.')}</p>
      )}
      <input type="text" autoComplete="username" value={name} readOnly hidden />
      <label className="field">
        <span>{t('Present password')}</span>
        <input
          className="input"
          type="password"
          autoComplete="current-password"
          required
          // biome-ignore lint/a11y/noAutofocus: the dialog was opened to answer this.
          autoFocus
          value={old}
          onChange={(e) => setOld(e.target.value)}
        />
      </label>
      <NewPasswordField value={password} onChange={setPassword} />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button
          kind="primary"
          type="submit"
          isDisabled={isPending || old === '' || password.length < passwordMin}
        >
          {t('Change my password')}
        </Button>
      </footer>
    </form>
  )
}
