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
          <Refused what="this user" verb="user.read" />
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
        <span>{user.kind}</span>
        {user.kind === 'user' ? (
          <span>
            {provider
              ? `signs in by ${provider}, where the password is changed`
              : user.has_password
                ? 'has a password'
                : 'has no password'}
          </span>
        ) : null}
        <span className="sub">
          created <Ago time={user.created_at} /> by {user.created_by}
        </span>
      </p>
      <Lacks verb="user.write" what="change this user" />
      <RolesOf user={user} />
      <Panel title="Tokens">
        {can('token.all', '*') ? (
          <TokensOf name={user.name} />
        ) : (
          <Refused what="the tokens of others" verb="token.all" />
        )}
      </Panel>
      {user.kind === 'user' ? (
        <Panel title="Sessions">
          {can('user.write', '*') ? (
            <SessionsOf name={user.name} />
          ) : (
            <Refused what="the sessions of others" verb="user.write" />
          )}
        </Panel>
      ) : null}
    </>
  )
}

function TokensOf({ name }: { name: string }) {
  const query = useTokens(true)
  const own = (query.data?.items ?? []).filter((t) => t.user === name)
  return (
    <Loaded query={query} isEmpty={() => own.length === 0} empty={`${name} has no token.`}>
      {() => <TokenTable tokens={own} />}
    </Loaded>
  )
}

function SessionsOf({ name }: { name: string }) {
  const query = useSessions()
  const own = (query.data?.items ?? []).filter((s) => s.user === name)
  return (
    <Loaded query={query} isEmpty={() => own.length === 0} empty={`${name} is not signed in.`}>
      {() => <SessionTable sessions={inOrder(own)} />}
    </Loaded>
  )
}

/** What ends with a user, counted, for the question before it. */
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
    title: `Disable ${user.name}`,
    text: (
      <p>
        {user.name} loses every right within seconds, in all tabs and programs, until you enable it again.
        {isMe ? ' This is you: you lose your rights at once.' : ''}
        {ends.length > 0 ? ` It has ${ends.join(', ')}.` : ''}
      </p>
    ),
    answer: 'Disable',
    danger: true,
    act: () => verb('disable'),
    done: `${user.name} is disabled.`,
    undo: () => again.run(() => verb('enable')),
  })
  const remove = (): Question => ({
    title: `Delete ${user.name}`,
    text: (
      <p>
        It cannot be undone. {ends.length > 0 ? `This ends ${ends.join(', ')}. ` : ''}
        Records of what {user.name} did stay.{' '}
        {user.state === 'active' ? 'To take the rights away for a time, disable it instead.' : ''}
      </p>
    ),
    answer: `Delete ${user.name}`,
    danger: true,
    act: async () => {
      await send(path('users', user.name), { method: 'DELETE' })
      // The page of the user would read it again, and find nothing.
      await navigate({ to: '/admin/users', replace: true })
    },
    done: `${user.name} is deleted.`,
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
          Change the password
        </VerbButton>
      ) : null}
      {user.state === 'active' ? (
        <VerbButton verb="user.write" namespace="*" onPress={() => asked.open('disable')}>
          Disable
        </VerbButton>
      ) : (
        <Enable user={user} />
      )}
      <VerbButton verb="user.write" namespace="*" kind="danger" onPress={() => asked.open('delete')}>
        Delete
      </VerbButton>
      <Dialog title={`Change the password of ${user.name}`} isOpen={changes} onClose={asked.close}>
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
          () => toast(`${user.name} has its rights again.`),
        )
      }
    >
      Enable
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
            toast(`The password of ${user.name} is changed.`)
          },
        )
      }}
    >
      <p>The sessions that {user.name} has opened with the old password end.</p>
      <NewPasswordField value={password} onChange={setPassword} />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || password.length < passwordMin}>
          Change the password
        </Button>
      </footer>
    </form>
  )
}
