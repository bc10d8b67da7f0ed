// Roles: which verbs each of them has, and who has which role where.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import { path, send } from '../../api/client'
import { hasSomewhere, useCan, useMe } from '../../api/me'
import type { Binding, Role } from '../../api/types'
import { useAsked, useQuestion } from '../../app/ask'
import { Dialog } from '../../kit/dialog'
import { plural } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button, Clock } from '../../kit/parts'
import { Confirm, type Question, VerbButton } from '../../kit/verbs'
import { rich, t } from '../../text/t'
import { useBindings, useRoles, whereOf } from './data'
import { GrantRole, revokeQuestion } from './grants'
import { NewRole } from './newrole'
import { AdminTop, Lacks, Refused, Some } from './parts'
import { VerbList } from './verblist'

const about: Record<string, string> = {
  viewer: t('sees workflows, runs, logs, artifacts, parameters and outputs'),
  operator: t('also starts, stops and repeats runs, approves, runs backfills, pauses schedules'),
  editor: t('also writes and deletes workflows, and queues'),
  admin: t('also grants and revokes roles in the namespace'),
  cluster: t('everything, the nodes, users and tokens too'),
  auditor: t('sees workflows, runs, and who has which role; no values, no logs'),
}

export function Roles() {
  const { role } = useSearch({ from: '/admin/roles' })
  const me = useMe()
  const can = useCan()
  const reads = can('role.read', '*')
  const members = hasSomewhere(me, 'member.write')
  const roles = useRoles(me !== undefined && reads)
  const bindings = useBindings({}, me !== undefined && members)
  const asked = useAsked()
  const chosen = roles.data?.items.find((r) => r.name === role)
  return (
    <>
      <AdminTop
        here="/admin/roles"
        title={t('Roles')}
        actions={
          <VerbButton
            verb="role.write"
            namespace="*"
            kind="primary"
            icon="plus"
            onPress={() => asked.open('role')}
          >
            {t('New role')}
          </VerbButton>
        }
      >
        {t('A role is a set of verbs. It counts for a user in one namespace, or in all of them.')}
      </AdminTop>
      <Lacks verb="role.write" what={t('create or delete roles')} />
      {reads ? (
        <Panel title={t('Roles')} count={roles.data?.items.length}>
          <Loaded query={roles} rows={7}>
            {({ items }) => <Table roles={items} chosen={role} bindings={bindings.data} />}
          </Loaded>
        </Panel>
      ) : (
        <Panel title={t('Roles')}>
          <Refused what={t('the roles')} verb="role.read" />
        </Panel>
      )}
      {chosen ? (
        <OneRole role={chosen} bindings={bindings.data} onCopy={() => asked.open('role', chosen.name)} />
      ) : null}
      {role && roles.data && !chosen ? (
        <p className="notice">{t('There is no role {role}.', { role })}</p>
      ) : null}
      {members ? (
        <Members query={bindings} role={role} />
      ) : (
        <Panel title={t('Who has which role')}>
          <Refused what={t('who has which role')} verb="member.write" somewhere />
        </Panel>
      )}
      <Dialog title={t('New role')} isOpen={asked.name === 'role'} onClose={asked.close} wide>
        {asked.name === 'role' && roles.data ? (
          <NewRole
            verbs={roles.data.items.find((r) => r.name === asked.of)?.verbs ?? []}
            all={roles.data.items.find((r) => r.name === 'cluster')?.verbs ?? []}
            onClose={asked.close}
          />
        ) : null}
      </Dialog>
    </>
  )
}

function Table({
  roles,
  chosen,
  bindings,
}: {
  roles: Role[]
  chosen: string | undefined
  bindings: Binding[] | undefined
}) {
  const given = useMemo(() => {
    const by = new Map<string, number>()
    for (const b of bindings ?? []) by.set(b.role, (by.get(b.role) ?? 0) + 1)
    return by
  }, [bindings])
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Role')}</th>
            <th>{t('May')}</th>
            <th className="num">{t('Verbs')}</th>
            <th className="num">{t('Granted')}</th>
            <th>{t('Created')}</th>
          </tr>
        </thead>
        <tbody>
          {roles.map((r) => (
            <tr key={r.name} aria-selected={r.name === chosen || undefined}>
              <td className="nowrap">
                <Link
                  to="/admin/roles"
                  search={(old) => ({ ...old, role: r.name === chosen ? undefined : r.name })}
                  replace
                >
                  {r.name}
                </Link>
              </td>
              <td>{about[r.name] ?? <span className="clip narrow">{(r.verbs ?? []).join(', ')}</span>}</td>
              <td className="num">{r.verbs?.length ?? 0}</td>
              <td className="num">{bindings ? (given.get(r.name) ?? 0) : '–'}</td>
              <td className="nowrap sub">
                {r.builtin
                  ? t('built in')
                  : rich('{time} by {user}', {
                      time: <Ago time={r.created_at} />,
                      user: r.created_by,
                    })}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function OneRole({
  role,
  bindings,
  onCopy,
}: {
  role: Role
  bindings: Binding[] | undefined
  onCopy: () => void
}) {
  const navigate = useNavigate({ from: '/admin/roles' })
  const me = useMe()
  const has = (bindings ?? []).filter((b) => b.role === role.name).length
  const remove = (): Question => ({
    title: t('Delete the role {name}', { name: role.name }),
    text: (
      <p>
        {has > 0
          ? t(
              'It is granted once: revoke it first, or the server refuses.|It is granted {n} times: revoke it first, or the server refuses.',
              { n: has },
            )
          : t('Nobody has it. It cannot be brought back, but you can create one like it.')}
      </p>
    ),
    answer: t('Delete the role'),
    danger: true,
    act: async () => {
      await send(path('roles', role.name), { method: 'DELETE' })
      await navigate({ search: (old) => ({ ...old, role: undefined, ask: undefined }), replace: true })
    },
    done: t('The role {name} is deleted.', { name: role.name }),
  })
  const { question, asked } = useQuestion({ 'delete-role': () => (role.builtin ? undefined : remove()) })
  const gives = asked.name === 'grant' && asked.of === role.name
  return (
    <Panel
      title={t('The role {name}', { name: role.name })}
      count={plural(role.verbs?.length ?? 0, 'verb')}
      actions={
        <div className="row">
          {hasSomewhere(me, 'member.write') ? (
            <Button onPress={() => asked.open('grant', role.name)}>{t('Grant it')}</Button>
          ) : null}
          <VerbButton verb="role.write" namespace="*" onPress={onCopy}>
            {t('Make one like it')}
          </VerbButton>
          {role.builtin ? null : (
            <VerbButton
              verb="role.write"
              namespace="*"
              kind="danger"
              onPress={() => asked.open('delete-role')}
            >
              {t('Delete')}
            </VerbButton>
          )}
        </div>
      }
    >
      <VerbList verbs={role.verbs ?? []} />
      <Dialog title={t('Grant the role {name}', { name: role.name })} isOpen={gives} onClose={asked.close}>
        {gives ? <GrantRole role={role.name} onClose={asked.close} /> : null}
      </Dialog>
      <Confirm question={question} onClose={asked.close} />
    </Panel>
  )
}

function Members({ query, role }: { query: ReturnType<typeof useBindings>; role: string | undefined }) {
  const { q = '', where = '' } = useSearch({ from: '/admin/roles' })
  const navigate = useNavigate({ from: '/admin/roles' })
  const keyOf = (b: Binding) => `${b.user} ${b.role} ${b.namespace}`
  const { question, asked } = useQuestion({
    'revoke-role': (of) => {
      const b = query.data?.find((i) => keyOf(i) === of)
      return b && revokeQuestion(b.user, b)
    },
  })
  const gives = asked.name === 'grant' && asked.of === ''
  const set = (change: Record<string, string | undefined>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  const places = [...new Set((query.data ?? []).map((b) => b.namespace))].sort()
  const shown = (query.data ?? []).filter(
    (b) =>
      (!role || b.role === role) &&
      (where === '' || b.namespace === where) &&
      b.user.includes(q.toLowerCase()),
  )
  return (
    <Panel
      title={role ? t('Who has the role {role}', { role }) : t('Who has which role')}
      count={query.data ? shown.length : undefined}
      actions={
        <div className="row">
          <input
            data-filter
            className="input"
            type="search"
            placeholder={t('Filter by user')}
            aria-label={t('Filter by user')}
            value={q}
            onChange={(e) => set({ q: e.target.value || undefined })}
          />
          <select
            className="select"
            aria-label={t('Namespace of the roles')}
            value={where}
            onChange={(e) => set({ where: e.target.value || undefined })}
          >
            <option value="">{t('wherever')}</option>
            {places.map((p) => (
              <option key={p} value={p}>
                {p === '*' ? t('all namespaces') : p}
              </option>
            ))}
          </select>
          <Button icon="plus" onPress={() => asked.open('grant')}>
            {t('Grant a role')}
          </Button>
        </div>
      }
    >
      <Loaded
        query={query}
        isEmpty={() => shown.length === 0}
        empty={
          q || where
            ? t('Nobody fits the filter.')
            : role
              ? t('Nobody has this role yet.')
              : t('Nobody has a role yet.')
        }
      >
        {() => (
          <Some of={shown}>
            {(some) => (
              <div className="scroll" tabIndex={0}>
                <table>
                  <thead>
                    <tr>
                      <th>{t('User')}</th>
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
                    {some.map((b) => (
                      <tr key={keyOf(b)}>
                        <td>
                          <Link to="/admin/users/$name" params={{ name: b.user }}>
                            {b.user}
                          </Link>
                        </td>
                        <td>{b.role}</td>
                        <td>{whereOf(b.namespace)}</td>
                        <td className="nowrap">
                          {b.expires_at ? (
                            <Clock time={b.expires_at} />
                          ) : (
                            <span className="muted">{t('never')}</span>
                          )}
                        </td>
                        <td className="nowrap sub">
                          <Ago time={b.created_at} />
                        </td>
                        <td className="sub">{b.created_by}</td>
                        <td className="num">
                          <VerbButton
                            verb="member.write"
                            namespace={b.namespace}
                            kind="quiet"
                            onPress={() => asked.open('revoke-role', keyOf(b))}
                          >
                            {t('Revoke')}
                          </VerbButton>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </Some>
        )}
      </Loaded>
      <Dialog title={t('Grant a role')} isOpen={gives} onClose={asked.close}>
        {gives ? <GrantRole {...(role ? { role } : {})} onClose={asked.close} /> : null}
      </Dialog>
      <Confirm question={question} onClose={asked.close} />
    </Panel>
  )
}
