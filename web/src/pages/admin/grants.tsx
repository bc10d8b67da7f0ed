// Who has which role where: the roles of a user, and how to grant and revoke one.
import { useState } from 'react'
import { path, post, send } from '../../api/client'
import { hasSomewhere, useMe } from '../../api/me'
import type { Binding, User } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { useQuestion } from '../../app/ask'
import { Dialog, toast } from '../../kit/dialog'
import { Panel } from '../../kit/panel'
import { Ago, Button, Clock } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { Confirm, type Question, VerbButton } from '../../kit/verbs'
import { t } from '../../text/t'
import { roleText, useBindings, useRoles, whereOf } from './data'
import { GrantFields, noGrant, refOf } from './grantfields'

/** The roles of a user. Only callers who may give roles see who gave them. */
export function RolesOf({ user }: { user: User }) {
  const me = useMe()
  const bindings = useBindings({ user: user.name }, hasSomewhere(me, 'member.write'))
  const roles = user.roles ?? []
  const { question, asked } = useQuestion({
    'revoke-role': (of) => {
      const r = roles.find((i) => keyOf(i) === of)
      return r && revokeQuestion(user.name, { role: r.role, namespace: r.namespace || '*' })
    },
  })
  const known = new Map((bindings.data ?? []).map((b): [string, Binding] => [`${b.role} ${b.namespace}`, b]))
  const may = hasSomewhere(me, 'member.write')
  return (
    <Panel
      title={t('Roles')}
      count={roles.length}
      actions={
        may ? (
          <Button icon="plus" onPress={() => asked.open('grant')}>
            {t('Grant a role')}
          </Button>
        ) : (
          <span className="sub">{t('To grant roles you need a role with member.write.')}</span>
        )
      }
    >
      {roles.length === 0 ? (
        <div className="empty">{t('{name} has no role, so it may do nothing.', { name: user.name })}</div>
      ) : (
        <div className="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>{t('Role')}</th>
                <th>{t('Where')}</th>
                <th>{t('Expires')}</th>
                <th>{t('Granted')}</th>
                <th>{t('By')}</th>
                <th>
                  <span className="hidden-text">{t('Verbs')}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {roles.map((r) => {
                const ns = r.namespace || '*'
                const b = known.get(`${r.role} ${ns}`)
                return (
                  <tr key={`${r.role} ${ns}`}>
                    <td>{r.role}</td>
                    <td>{whereOf(ns)}</td>
                    <td className="nowrap">
                      {r.expires_at ? (
                        <Clock time={r.expires_at} />
                      ) : (
                        <span className="muted">{t('never')}</span>
                      )}
                    </td>
                    <td className="nowrap sub">
                      <Ago time={b?.created_at} />
                    </td>
                    <td className="sub">{b?.created_by ?? '–'}</td>
                    <td className="num">
                      <VerbButton
                        verb="member.write"
                        namespace={ns}
                        kind="quiet"
                        onPress={() => asked.open('revoke-role', keyOf(r))}
                      >
                        {t('Revoke')}
                      </VerbButton>
                    </td>
                  </tr>
                )
              })}
            </tbody>
          </table>
        </div>
      )}
      <Dialog
        title={t('Grant a role to {name}', { name: user.name })}
        isOpen={asked.name === 'grant'}
        onClose={asked.close}
      >
        {asked.name === 'grant' ? <GrantRole user={user.name} onClose={asked.close} /> : null}
      </Dialog>
      <Confirm question={question} onClose={asked.close} />
    </Panel>
  )
}

const keyOf = (r: { role: string; namespace?: string | null }) => `${r.role}@${r.namespace || '*'}`

export const revokeQuestion = (user: string, of: { role: string; namespace: string }): Question => ({
  title: t('Revoke a role of {user}', { user }),
  text: (
    <p>
      {t('{user} is no longer {role}. Every node knows it within seconds. You can grant the role again.', {
        user,
        role: roleText(of),
      })}
    </p>
  ),
  answer: t('Revoke the role'),
  danger: true,
  act: () => send(path('bindings', user, of.role, of.namespace), { method: 'DELETE' }),
  done: t('{user} is no longer {role}.', { user, role: roleText(of) }),
})

/** Grants a role to the given user, or to a user whose name is typed into the form. */
export function GrantRole({ user, role, onClose }: { user?: string; role?: string; onClose: () => void }) {
  const [grant, setGrant] = useState({ ...noGrant, role: role ?? '' })
  const [name, setName] = useState(user ?? '')
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const ready = useRoles(true).data?.items.some((r) => r.name === grant.role) && name.trim() !== ''
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (isPending || !ready) return
        run(
          () => post<Binding>('/bindings', { user: name.trim(), ...refOf(grant) }),
          (b) => {
            onClose()
            toast(
              t('{user} is {role} now.', {
                user: b.user,
                role: roleText({ role: b.role, namespace: b.namespace }),
              }),
            )
          },
        )
      }}
    >
      {user ? null : (
        <label className="field">
          <span>{t('User or service')}</span>
          <input
            className="input"
            required
            maxLength={100}
            autoComplete="off"
            value={name}
            onChange={(e) => setName(e.target.value)}
          />
        </label>
      )}
      <GrantFields value={grant} onChange={setGrant} required />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || !ready}>
          {t('Grant the role')}
        </Button>
      </footer>
    </form>
  )
}
