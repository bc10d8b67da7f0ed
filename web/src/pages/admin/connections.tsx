// Connections: how tasks and sources reach other systems. Each can be tested.
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { path, post, send } from '../../api/client'
import { hasSomewhere, useMe } from '../../api/me'
import { all, slow } from '../../api/queries'
import type { Connection, ConnectionTest } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { type Asked, useAsked, useQuestion } from '../../app/ask'
import { useNamespace, within } from '../../app/namespace'
import { Dialog } from '../../kit/dialog'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button, Command, State } from '../../kit/parts'
import { Confirm, type Question, useToastVerb, VerbButton } from '../../kit/verbs'
import { t } from '../../text/t'
import { ConfigForm, restore } from './configform'
import { sideOf, types } from './connectiondata'
import { AdminTop, Refused, Some } from './parts'

const subject = {
  noun: t('connection'),
  at: 'connections',
  kinds: types,
  kind: t('Type'),
  placeholder: 'warehouse',
  naming: (name: string) => t('Tasks and sources name it: {how}.', { how: `connection: ${name}` }),
}

const fullName = (c: Connection) => `${c.namespace}/${c.name}`

export function Connections() {
  const { q = '', type = '' } = useSearch({ from: '/admin/connections' })
  const navigate = useNavigate({ from: '/admin/connections' })
  const [ns] = useNamespace()
  const me = useMe()
  const reads = hasSomewhere(me, 'connection.read')
  const query = useQuery({
    queryKey: ['connections'],
    queryFn: ({ signal }) => all<Connection>('/connections', {}, signal),
    refetchInterval: slow,
    enabled: me !== undefined && reads,
  })
  const asked = useAsked()
  const target = targetFor(asked, query.data, ns)
  const shown = (query.data ?? []).filter(
    (c) =>
      within(ns, c.namespace) &&
      `${fullName(c)} ${sideOf(c)}`.toLowerCase().includes(q.toLowerCase()) &&
      (type === '' || c.type === type),
  )
  const set = (change: { q?: string | undefined; type?: string | undefined }) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <>
      <AdminTop
        here="/admin/connections"
        title={t('Connections')}
        actions={
          hasSomewhere(me, 'connection.write') ? (
            <Button kind="primary" icon="plus" onPress={() => asked.open('connection')}>
              {t('New connection')}
            </Button>
          ) : null
        }
      >
        {t(
          'The address of another system, and the secrets that give access. Tasks and sources of its namespace name it.',
        )}
      </AdminTop>
      {reads ? (
        <>
          <div className="row">
            <input
              data-filter
              className="input"
              type="search"
              placeholder={t('Filter by name or address')}
              aria-label={t('Filter by name or address')}
              value={q}
              onChange={(e) => set({ q: e.target.value || undefined })}
            />
            <select
              className="select"
              aria-label={t('Type')}
              value={type}
              onChange={(e) => set({ type: e.target.value || undefined })}
            >
              <option value="">{t('any type')}</option>
              {Object.keys(types).map((type) => (
                <option key={type}>{type}</option>
              ))}
            </select>
          </div>
          <Panel title={t('Connections')} count={query.data ? shown.length : undefined}>
            <Loaded
              query={query}
              isEmpty={() => shown.length === 0}
              empty={
                q || type || ns ? (
                  <p>{t('No connection fits the filter.')}</p>
                ) : (
                  <>
                    <p>{t('There is no connection yet. Make one here, or in a terminal:')}</p>
                    <Command text="skein connection set default/crm http --url https://crm.example.com/api --token-secret CRM_TOKEN" />
                  </>
                )
              }
            >
              {() => <Some of={shown}>{(some) => <Table connections={some} />}</Some>}
            </Loaded>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what={t('the connections')} verb="connection.read" somewhere />
        </Panel>
      )}
      <Dialog
        title={
          target?.one
            ? t('Change {name}', { name: `${target.namespace}/${target.one.name}` })
            : t('New connection')
        }
        isOpen={target !== undefined}
        onClose={asked.close}
      >
        {target ? (
          <ConfigForm subject={subject} namespace={target.namespace} one={target.one} onClose={asked.close} />
        ) : null}
      </Dialog>
    </>
  )
}

/** The connection for which the form is open. */
function targetFor(asked: Asked, connections: Connection[] | undefined, ns: string) {
  if (asked.name === 'connection') return { namespace: ns, one: undefined }
  const one = asked.name === 'change' ? connections?.find((c) => fullName(c) === asked.of) : undefined
  return one && { namespace: one.namespace, one }
}

function Table({ connections }: { connections: Connection[] }) {
  const { run } = useToastVerb()
  const remove = (c: Connection): Question => ({
    title: t('Delete {name}', { name: fullName(c) }),
    text: t('Tasks that use it fail to start, and sources that use it stop reading.'),
    answer: t('Delete the connection'),
    danger: true,
    act: () => send(path('connections', c.namespace, c.name), { method: 'DELETE' }),
    done: t('The connection {name} is deleted.', { name: fullName(c) }),
    undo: () => run(() => restore(subject, c)),
  })
  const { question, asked } = useQuestion({
    delete: (of) => {
      const c = connections.find((i) => fullName(i) === of)
      return c && remove(c)
    },
  })
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Namespace')}</th>
            <th>{t('Name')}</th>
            <th>{t('Type')}</th>
            <th>{t('Leads to')}</th>
            <th>{t('Changed')}</th>
            <th>{t('By')}</th>
            <th>{t('Test')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {connections.map((c) => (
            <tr key={fullName(c)}>
              <td className="sub">{c.namespace}</td>
              <td className="mono">{c.name}</td>
              <td>{c.type}</td>
              <td className="sub target">{sideOf(c)}</td>
              <td className="nowrap sub">
                <Ago time={c.modified_at} />
              </td>
              <td className="sub">{c.user}</td>
              <td className="what">
                <Test of={c} />
              </td>
              <td className="num nowrap">
                {[
                  ['change', t('Change')],
                  ['delete', t('Delete')],
                ].map(([verb = '', label]) => (
                  <VerbButton
                    key={verb}
                    verb="connection.write"
                    namespace={c.namespace}
                    kind="quiet"
                    onPress={() => asked.open(verb, fullName(c))}
                  >
                    {label}
                  </VerbButton>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm question={question} onClose={asked.close} />
    </div>
  )
}

/** Tests a connection, and shows the answer of the other system. */
function Test({ of: c }: { of: Connection }) {
  const [answer, setAnswer] = useState<Partial<ConnectionTest>>()
  const { run, isPending } = useVerb((e) => setAnswer({ ok: false, error: e.message }))
  const test = () => {
    setAnswer(undefined)
    run(() => post<ConnectionTest>(`${path('connections', c.namespace, c.name)}:test`), setAnswer)
  }
  return (
    <div className="row" role="status">
      <VerbButton verb="connection.read" namespace={c.namespace} isDisabled={isPending} onPress={test}>
        {isPending ? t('Testing…') : t('Test')}
      </VerbButton>
      {answer ? (
        <span className="grow">
          <State state={answer.ok ? 'succeeded' : 'failed'}>{answer.ok ? t('Works') : t('Failed')}</State>{' '}
          {answer.found ?? answer.error}
        </span>
      ) : null}
    </div>
  )
}
