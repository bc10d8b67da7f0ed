// Users and services: who may call the server, and with which roles.

import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useCan, useMe } from '../../api/me'
import type { User } from '../../api/types'
import { useAsked } from '../../app/ask'
import { Dialog } from '../../kit/dialog'

import { Loaded, Panel } from '../../kit/panel'
import { Ago, Command, State } from '../../kit/parts'
import { VerbButton } from '../../kit/verbs'
import { t } from '../../text/t'
import { term } from '../../text/terms'
import { useRowKeys } from '../rowkeys'
import { roleText, useUsers } from './data'
import { NewUser } from './newuser'
import { AdminTop, Lacks, Refused, Some } from './parts'

export function Users() {
  const { q = '', state = '', kind = '' } = useSearch({ from: '/admin/users' })
  const navigate = useNavigate({ from: '/admin/users' })
  const me = useMe()
  const reads = useCan()('user.read', '*')
  const query = useUsers(me !== undefined && reads)
  const asked = useAsked()
  const shown = useMemo(() => {
    const text = q.toLowerCase()
    return (query.data ?? []).filter(
      (u) =>
        (state === '' || u.state === state) &&
        (kind === '' || u.kind === kind) &&
        (u.name.includes(text) || (u.roles ?? []).some((r) => roleText(r).includes(text))),
    )
  }, [query.data, q, state, kind])
  const keys = useRowKeys(shown.length, (i) => {
    const u = shown[i]
    if (u) void navigate({ to: '/admin/users/$name', params: { name: u.name } })
  })
  const set = (change: Record<string, string | undefined>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  const filtered = q !== '' || state !== '' || kind !== ''
  return (
    <>
      <AdminTop
        here="/admin/users"
        title={t('Users')}
        actions={
          <VerbButton
            verb="user.write"
            namespace="*"
            kind="primary"
            icon="plus"
            onPress={() => asked.open('user')}
          >
            {t('New user')}
          </VerbButton>
        }
      >
        {t('People sign in with a name and a password. Services are programs: they show tokens.')}
      </AdminTop>
      <Lacks verb="user.write" what={t('change users')} />
      {reads ? (
        <>
          <div className="row">
            <input
              data-filter
              className="input"
              type="search"
              placeholder={t('Filter by name or role')}
              aria-label={t('Filter by name or role')}
              value={q}
              onChange={(e) => set({ q: e.target.value || undefined })}
            />
            {(['', 'active', 'disabled'] as const).map((s) => (
              <button
                key={s}
                type="button"
                className="chip"
                aria-pressed={state === s}
                onClick={() => set({ state: s || undefined })}
              >
                {s === '' ? t('All') : <State state={s} />}
              </button>
            ))}
            <select
              className="select"
              aria-label={t('Kind')}
              value={kind}
              onChange={(e) => set({ kind: e.target.value || undefined })}
            >
              <option value="">{t('users and services')}</option>
              <option value="user">{t('users')}</option>
              <option value="service">{t('services')}</option>
            </select>
          </div>
          <Panel title={t('Users and services')} count={query.data ? shown.length : undefined}>
            <Loaded
              query={query}
              rows={8}
              isEmpty={() => shown.length === 0}
              empty={
                filtered ? (
                  <p>{t('No user fits the filter.')}</p>
                ) : (
                  <>
                    <p>
                      {t('There is no user yet. Create the first one here, or on the machine of the server:')}
                    </p>
                    <Command text="skein user create NAME --role cluster" />
                  </>
                )
              }
            >
              {() => (
                <Some of={shown}>
                  {(some) => <Table users={some} at={keys.at} mine={me?.kind === 'user' ? me.name : ''} />}
                </Some>
              )}
            </Loaded>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what={t('the users')} verb="user.read" />
        </Panel>
      )}
      <Dialog title={t('New user')} isOpen={asked.name === 'user'} onClose={asked.close}>
        {asked.name === 'user' ? <NewUser onClose={asked.close} /> : null}
      </Dialog>
    </>
  )
}

function Table({ users, at, mine }: { users: User[]; at: number; mine: string }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('State')}</th>
            <th>{t('Name')}</th>
            <th>{t('Kind')}</th>
            <th>{t('Roles')}</th>
            <th>{t('Created')}</th>
            <th>{t('By')}</th>
          </tr>
        </thead>
        <tbody>
          {users.map((u, i) => (
            <tr key={u.name} data-current={i === at || undefined}>
              <td>
                <State state={u.state} />
              </td>
              <td>
                <Link to="/admin/users/$name" params={{ name: u.name }}>
                  {u.name}
                </Link>
                {u.name === mine ? <span className="sub"> {t('you')}</span> : null}
              </td>
              <td className="sub">{term(u.kind)}</td>
              <td>
                <RolesOf user={u} />
              </td>
              <td className="nowrap sub">
                <Ago time={u.created_at} />
              </td>
              <td className="sub">{u.created_by}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

const rolesMax = 3

function RolesOf({ user }: { user: User }) {
  const roles = user.roles ?? []
  if (roles.length === 0) return <span className="muted">{t('none')}</span>
  const rest = roles.slice(rolesMax)
  return (
    <>
      {roles.slice(0, rolesMax).map(roleText).join(', ')}
      {rest.length > 0 ? (
        <span className="sub" title={rest.map(roleText).join(', ')}>
          {' '}
          {t('and {n} more', { n: rest.length })}
        </span>
      ) : null}
    </>
  )
}
