// Secrets: values that tasks use by name. The server gives no value, so the page shows names only.
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { path, send } from '../../api/client'
import { hasSomewhere, useMe } from '../../api/me'
import { all, slow } from '../../api/queries'
import type { Secret } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { type Asked, useAsked, useQuestion } from '../../app/ask'
import { useNamespace, within } from '../../app/namespace'
import { Dialog, toast } from '../../kit/dialog'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button, Command, Copy } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { Confirm, type Question, VerbButton } from '../../kit/verbs'
import { t } from '../../text/t'
import { AdminTop, NamespaceField, Refused, Some } from './parts'

const named = /^[A-Za-z_][A-Za-z0-9_]{0,99}$/
const placed = /^[a-z0-9][a-z0-9-]{0,62}$/
// The server counts bytes. Shorter values cannot be masked in logs.
const [valueMin, valueMax] = [6, 64 << 10]

/** Returns what is wrong with the value of a secret, or undefined. */
export function faultOf(value: string): string | undefined {
  const n = new TextEncoder().encode(value).length
  if (n < valueMin) return t('At least {n} bytes, or logs could not be masked.', { n: valueMin })
  if (n > valueMax) return t('At most 64 KiB: put a larger one into a file, and its key into a secret.')
  return undefined
}

type Target = { namespace: string; name: string; isNew: boolean }

export function Secrets() {
  const { q = '' } = useSearch({ from: '/admin/secrets' })
  const navigate = useNavigate({ from: '/admin/secrets' })
  const [ns] = useNamespace()
  const me = useMe()
  const reads = hasSomewhere(me, 'secret.list')
  const query = useQuery({
    queryKey: ['secrets'],
    queryFn: ({ signal }) => all<Secret>('/secrets', {}, signal),
    refetchInterval: slow,
    enabled: me !== undefined && reads,
  })
  const asked = useAsked()
  const target = targetOf(asked, query.data, ns)
  const text = q.toLowerCase()
  const shown = (query.data ?? []).filter(
    (s) => within(ns, s.namespace) && `${s.namespace}/${s.name}`.toLowerCase().includes(text),
  )
  const writes = hasSomewhere(me, 'secret.write')
  return (
    <>
      <AdminTop
        here="/admin/secrets"
        title={t('Secrets')}
        actions={
          writes ? (
            <Button kind="primary" icon="plus" onPress={() => asked.open('secret')}>
              {t('New secret')}
            </Button>
          ) : null
        }
      >
        {t('Tasks of a namespace use its secrets by name. Nobody can read a value again, not even here.')}
        {me && !writes ? ` ${t('To set one you need a role with secret.write in a namespace.')}` : ''}
      </AdminTop>
      {reads ? (
        <>
          <div className="row">
            <input
              data-filter
              className="input"
              type="search"
              placeholder={t('Filter by name')}
              aria-label={t('Filter by name')}
              value={q}
              onChange={(e) =>
                void navigate({
                  search: (old) => ({ ...old, q: e.target.value || undefined }),
                  replace: true,
                })
              }
            />
          </div>
          <Panel title={t('Secrets')} count={query.data ? shown.length : undefined}>
            <Loaded
              query={query}
              isEmpty={() => shown.length === 0}
              empty={
                q || ns ? (
                  <p>{t('No secret fits the filter.')}</p>
                ) : (
                  <>
                    <p>
                      {t('There is no secret yet. Set one here, or in a terminal, which asks for the value:')}
                    </p>
                    <Command text="skein secret set default/DB_PASSWORD" />
                  </>
                )
              }
            >
              {() => <Some of={shown}>{(some) => <Table secrets={some} />}</Some>}
            </Loaded>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what={t('the secrets')} verb="secret.list" somewhere />
        </Panel>
      )}
      <Dialog
        title={
          target?.isNew === false
            ? t('Set {name}', { name: `${target.namespace}/${target.name}` })
            : t('New secret')
        }
        isOpen={target !== undefined}
        onClose={asked.close}
      >
        {target ? <Form target={target} onClose={asked.close} /> : null}
      </Dialog>
    </>
  )
}

const fullName = (s: Secret) => `${s.namespace}/${s.name}`

/** Returns the secret for which the form is open. */
function targetOf(asked: Asked, secrets: Secret[] | undefined, ns: string): Target | undefined {
  if (asked.name === 'secret') return { namespace: ns, name: '', isNew: true }
  const s = asked.name === 'set' ? secrets?.find((i) => fullName(i) === asked.of) : undefined
  return s && { namespace: s.namespace, name: s.name, isNew: false }
}

function Table({ secrets }: { secrets: Secret[] }) {
  const remove = (s: Secret): Question => ({
    title: t('Delete {name}', { name: `${s.namespace}/${s.name}` }),
    text: t('Its value cannot be brought back. Tasks that use it fail to start.'),
    answer: t('Delete the secret'),
    danger: true,
    act: () => send(path('secrets', s.namespace, s.name), { method: 'DELETE' }),
    done: t('The secret {name} is deleted.', { name: `${s.namespace}/${s.name}` }),
  })
  const { question, asked } = useQuestion({
    delete: (of) => {
      const s = secrets.find((i) => fullName(i) === of)
      return s && remove(s)
    },
  })
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Namespace')}</th>
            <th>{t('Name')}</th>
            <th>{t('In a workflow')}</th>
            <th className="num">{t('Set')}</th>
            <th>{t('Last set')}</th>
            <th>{t('By')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {secrets.map((s) => (
            <tr key={`${s.namespace}/${s.name}`}>
              <td className="sub">{s.namespace}</td>
              <td className="mono">{s.name}</td>
              <td className="nowrap">
                <code className="sub">{useOf(s.name)}</code> <Copy text={useOf(s.name)} />
              </td>
              <td className="num">{t('once|{n} times', { n: s.version })}</td>
              <td className="nowrap sub">
                <Ago time={s.modified_at} />
              </td>
              <td className="sub">{s.user}</td>
              <td className="num nowrap">
                <VerbButton
                  verb="secret.write"
                  namespace={s.namespace}
                  kind="quiet"
                  onPress={() => asked.open('set', fullName(s))}
                >
                  {t('Set')}
                </VerbButton>
                <VerbButton
                  verb="secret.write"
                  namespace={s.namespace}
                  kind="quiet"
                  onPress={() => asked.open('delete', fullName(s))}
                >
                  {t('Delete')}
                </VerbButton>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm question={question} onClose={asked.close} />
    </div>
  )
}

/** How a workflow names a secret. */
const useOf = (name: string) => `\${{ secrets.${name} }}`

function Form({ target, onClose }: { target: Target; onClose: () => void }) {
  const [namespace, setNamespace] = useState(target.namespace)
  const [name, setName] = useState(target.name)
  const [value, setValue] = useState('')
  const [shown, setShown] = useState(false)
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const fault = value === '' ? undefined : faultOf(value)
  const ready = placed.test(namespace) && named.test(name) && value !== '' && !fault
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (isPending || !ready) return
        run(
          () => send(path('secrets', namespace, name), { method: 'PUT', body: { value } }),
          () => {
            onClose()
            toast(
              t('The secret {name} is set. Attempts that begin later get it.', {
                name: `${namespace}/${name}`,
              }),
            )
          },
        )
      }}
    >
      {target.isNew ? (
        <>
          <NamespaceField value={namespace} onChange={setNamespace} placeholder="default" />
          <label className="field">
            <span>{t('Name')}</span>
            <input
              className="input mono"
              required
              autoComplete="off"
              maxLength={100}
              placeholder="DB_PASSWORD"
              value={name}
              onChange={(e) => setName(e.target.value)}
            />
            <small>
              {t('Letters, digits and _, with no digit first. A name that exists gets the new value.')}
            </small>
          </label>
        </>
      ) : (
        <p>{t('Attempts that begin later get the new value. The present one cannot be brought back.')}</p>
      )}
      <div className="field">
        <label className="field">
          <span>{t('Value')}</span>
          <textarea
            className="input mono"
            data-masked={!shown || undefined}
            required
            rows={4}
            spellCheck={false}
            autoComplete="off"
            autoCapitalize="off"
            aria-invalid={fault !== undefined || undefined}
            value={value}
            onChange={(e) => setValue(e.target.value)}
          />
        </label>
        {fault ? <small className="error">{fault}</small> : null}
        <div className="row">
          <Button kind="quiet" onPress={() => setShown(!shown)}>
            {shown ? t('Hide it') : t('Show it')}
          </Button>
        </div>
      </div>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || !ready}>
          {t('Set the secret')}
        </Button>
      </footer>
    </form>
  )
}
