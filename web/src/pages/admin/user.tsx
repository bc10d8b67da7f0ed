// One user or service: its roles, tokens and sessions, and what can be done to it.

import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { path, post, send } from '../../api/client'
import { useCan, useMe } from '../../api/me'
import type { User } from '../../api/types'
import { plainVerb, useVerb } from '../../api/verbs'
import { useQuestion } from '../../app/ask'
import { Dialog, toast } from '../../kit/dialog'
import { plural } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button, State } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { Confirm, type Question, useToastVerb, VerbButton } from '../../kit/verbs'
import { rich, t } from '../../text/t'
import { term } from '../../text/terms'
import { inOrder, passwordMin, providerOf, useSessions, useTokens, useUser } from './data'
import { RolesOf } from './grants'
import { AdminTop, Lacks, Refused } from './parts'
import { NewPasswordField } from './passwordfields'
import { SessionTable } from './sessions'
import { TokenTable } from './tokens'

export function UserPage() {
  const { name } = useParams({ from: '/admin/users/$name' })
  const me = useMe()
  const can = useCan()
  const reads = can('user.read', '*')
  const query = useUser(name, me !== undefined && reads)
  return (
    <>
      <AdminTop
        here="/admin/users"
        title={name}
        actions={
          query.data ? <Verbs user={query.data} isMe={me?.kind === 'user' && me.name === name} /> : null
        }
      />
      {reads ? (
        <Loaded query={query}>{(user) => <Facts user={user} />}</Loaded>
      ) : (
        <Panel>
          <Refused what={t('this user')} verb="user.read" />
        </Panel>
      )}
    </>
  )
}

function Facts({ user }: { user: User }) {
  const can = useCan()
  const provider = providerOf(user)
  return (
    <>
      <p className="row facts-line">
        <State state={user.state} />
        <span>{term(user.kind)}</span>
        {user.kind === 'user' ? (
          <span>
            {provider
              ? t('signs in by {provider}, where the password is changed', { provider })
              : user.has_password
                ? t('has a password')
                : t('has no password')}
          </span>
        ) : null}
        <span className="sub">
          {rich('created {time} by {user}', {
            time: <Ago time={user.created_at} />,
            user: user.created_by,
          })}
        </span>
      </p>
      <Lacks verb="user.write" what={t('change this user')} />
      <RolesOf user={user} />
      <Panel title={t('Tokens')}>
        {can('token.all', '*') ? (
          <TokensOf name={user.name} />
        ) : (
          <Refused what={t('the tokens of others')} verb="token.all" />
        )}
      </Panel>
      {user.kind === 'user' ? (
        <Panel title={t('Sessions')}>
          {can('user.write', '*') ? (
            <SessionsOf name={user.name} />
          ) : (
            <Refused what={t('the sessions of others')} verb="user.write" />
          )}
        </Panel>
      ) : null}
    </>
  )
}

function TokensOf({ name }: { name: string }) {
  const query = useTokens(true)
  const own = (query.data?.items ?? []).filter((token) => token.user === name)
  return (
    <Loaded query={query} isEmpty={() => own.length === 0} empty={t('{name} has no token.', { name })}>
      {() => <TokenTable tokens={own} />}
    </Loaded>
  )
}

function SessionsOf({ name }: { name: string }) {
  const query = useSessions()
  const own = (query.data?.items ?? []).filter((s) => s.user === name)
  return (
    <Loaded query={query} isEmpty={() => own.length === 0} empty={t('{name} is not signed in.', { name })}>
      {() => <SessionTable sessions={inOrder(own)} />}
    </Loaded>
  )
}

/** Counts the objects that end with a user, for the question before the deletion. */
function useEnds(user: User): string[] {
  const can = useCan()
  const tokens = useTokens(can('token.all', '*')).data?.items
  const sessions = useSessions().data?.items
  const roles = user.roles?.length ?? 0
  const valid = tokens?.filter((token) => token.user === user.name && token.state === 'valid').length ?? 0
  const own = can('user.write', '*') ? (sessions?.filter((s) => s.user === user.name).length ?? 0) : 0
  return [
    ...(roles > 0 ? [plural(roles, 'role')] : []),
    ...(valid > 0 ? [plural(valid, 'valid token')] : []),
    ...(own > 0 ? [plural(own, 'session')] : []),
  ]
}

function Verbs({ user, isMe }: { user: User; isMe: boolean }) {
  const navigate = useNavigate()
  const again = useToastVerb()
  const ends = useEnds(user)
  const verb = (name: string) => plainVerb(`${path('users', user.name)}:${name}`, undefined, false)
  const disable = (): Question => ({
    title: t('Disable {name}', { name: user.name }),
    text: (
      <p>
        {t('{name} loses every right within seconds, in all tabs and programs, until you enable it again.', {
          name: user.name,
        })}
        {isMe ? ` ${t('This is you: you lose your rights at once.')}` : ''}
        {ends.length > 0 ? ` ${t('It has {ends}.', { ends: ends.join(', ') })}` : ''}
      </p>
    ),
    answer: t('Disable'),
    danger: true,
    act: () => verb('disable'),
    done: t('{name} is disabled.', { name: user.name }),
    undo: () => again.run(() => verb('enable')),
  })
  const remove = (): Question => ({
    title: t('Delete {name}', { name: user.name }),
    text: (
      <p>
        {t('It cannot be undone.')}{' '}
        {ends.length > 0 ? `${t('This ends {ends}.', { ends: ends.join(', ') })} ` : ''}
        {t('Records of what {name} did stay.', { name: user.name })}{' '}
        {user.state === 'active' ? t('To take the rights away for a time, disable it instead.') : ''}
      </p>
    ),
    answer: t('Delete {name}', { name: user.name }),
    danger: true,
    act: async () => {
      await send(path('users', user.name), { method: 'DELETE' })
      // The page of the user would read the deleted user again, and find nothing.
      await navigate({ to: '/admin/users', replace: true })
    },
    done: t('{name} is deleted.', { name: user.name }),
  })
  const { question, asked } = useQuestion({
    disable: () => (user.state === 'active' ? disable() : undefined),
    delete: remove,
  })
  const changes = asked.name === 'password'
  return (
    <>
      {user.kind === 'user' && !isMe && !providerOf(user) ? (
        <VerbButton verb="user.write" namespace="*" onPress={() => asked.open('password')}>
          {t('Change the password')}
        </VerbButton>
      ) : null}
      {user.state === 'active' ? (
        <VerbButton verb="user.write" namespace="*" onPress={() => asked.open('disable')}>
          {t('Disable')}
        </VerbButton>
      ) : (
        <Enable user={user} />
      )}
      <VerbButton verb="user.write" namespace="*" kind="danger" onPress={() => asked.open('delete')}>
        {t('Delete')}
      </VerbButton>
      <Dialog
        title={t('Change the password of {name}', { name: user.name })}
        isOpen={changes}
        onClose={asked.close}
      >
        {changes ? <SetPassword user={user} onClose={asked.close} /> : null}
      </Dialog>
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

function Enable({ user }: { user: User }) {
  const { run, isPending } = useToastVerb()
  return (
    <VerbButton
      verb="user.write"
      namespace="*"
      isDisabled={isPending}
      onPress={() =>
        run(
          () => plainVerb(`${path('users', user.name)}:enable`, undefined, false),
          () => toast(t('{name} has its rights again.', { name: user.name })),
        )
      }
    >
      {t('Enable')}
    </VerbButton>
  )
}

function SetPassword({ user, onClose }: { user: User; onClose: () => void }) {
  const [password, setPassword] = useState('')
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (isPending) return
        run(
          () => post(`${path('users', user.name)}:password`, { password }),
          () => {
            onClose()
            toast(t('The password of {name} is changed.', { name: user.name }))
          },
        )
      }}
    >
      <p>{t('The sessions that {name} has opened with the old password end.', { name: user.name })}</p>
      <NewPasswordField value={password} onChange={setPassword} />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || password.length < passwordMin}>
          {t('Change the password')}
        </Button>
      </footer>
    </form>
  )
}
