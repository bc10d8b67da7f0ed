// Parts that the pages of the administration share.
import { Link, Navigate } from '@tanstack/react-router'
import { type ReactNode, useId, useState } from 'react'
import { allows, useMe } from '../../api/me'
import { Button, Tabs } from '../../kit/parts'
import { needs } from '../../kit/verbs'
import { t } from '../../text/t'
import { Head } from '../head'
import { useNamespaces } from './data'

const tabs = [
  ['/admin/me', t('You')],
  ['/admin/users', t('Users')],
  ['/admin/roles', t('Roles')],
  ['/admin/tokens', t('Tokens')],
  ['/admin/namespaces', t('Namespaces')],
  ['/admin/secrets', t('Secrets')],
  ['/admin/connections', t('Connections')],
  ['/admin/channels', t('Channels')],
  ['/admin/git', t('Git')],
  ['/admin/sessions', t('Sessions')],
  ['/admin/audit', t('Audit')],
  ['/admin/about', t('About')],
] as const

export function AdminTop({
  here,
  title,
  actions,
  children,
}: {
  here: (typeof tabs)[number][0]
  title: string
  actions?: ReactNode
  children?: ReactNode
}) {
  return (
    <>
      <Head title={title} label={title} actions={actions}>
        {children ? <p className="sub">{children}</p> : null}
      </Head>
      <Tabs label={t('Pages of the administration')}>
        {tabs.map(([to, label]) => (
          <Link
            key={to}
            to={to}
            activeOptions={{ exact: true }}
            aria-current={to === here ? 'page' : undefined}
          >
            {label}
          </Link>
        ))}
      </Tabs>
    </>
  )
}

/** The first page of the administration that the caller may read. */
export function Admin() {
  const me = useMe()
  if (!me) return <Head title={t('Admin')} label={t('Admin')} />
  return <Navigate to={allows(me, 'user.read', '*') ? '/admin/users' : '/admin/me'} replace />
}

/** Replaces a part of the page that the caller may not read. */
export function Refused({ what, verb, somewhere }: { what: string; verb: string; somewhere?: boolean }) {
  return (
    <div className="empty">
      <p>
        {t('You may not see {what}.', { what })}{' '}
        {somewhere ? t('You need a role with {verb} in a namespace.', { verb }) : needs(verb, '*')}
      </p>
    </div>
  )
}

/** Shows above a list, in words, what the caller may not change in the list. */
export function Lacks({ verb, what }: { verb: string; what: string }) {
  const me = useMe()
  if (allows(me, verb, '*')) return null
  return (
    <p className="sub">
      {t('You may not {what}.', { what })} {needs(verb, '*')}
    </p>
  )
}

/** Shows a long list in steps, so that the page stays quick. */
export function Some<T>({
  of,
  step = 200,
  children,
}: {
  of: T[]
  step?: number
  children: (some: T[]) => ReactNode
}) {
  const [n, setN] = useState(step)
  return (
    <>
      {children(of.slice(0, n))}
      {of.length > n ? (
        <div className="pager">
          <Button onPress={() => setN(n + step)}>
            {t('Show {n} more', { n: Math.min(step, of.length - n) })}
          </Button>
          <span className="sub">
            {t('{shown} of {all} are shown. The filter searches all of them.', { shown: n, all: of.length })}
          </span>
        </div>
      ) : null}
    </>
  )
}

/** Asks for a namespace: one that exists, another one, or all. */
export function NamespaceField({
  value,
  onChange,
  placeholder = t('all namespaces'),
}: {
  value: string
  onChange: (ns: string) => void
  placeholder?: string
}) {
  const names = useNamespaces(useMe())
  const id = useId()
  return (
    <label className="field grow">
      <span>{t('Namespace')}</span>
      <input
        className="input"
        list={id}
        placeholder={placeholder}
        maxLength={63}
        value={value}
        onChange={(e) => onChange(e.target.value)}
      />
      <datalist id={id}>
        {names.map((n) => (
          <option key={n} value={n} />
        ))}
      </datalist>
    </label>
  )
}

/** Says below a field its fault, or else its hint. A fault that the server has found is in English. */
export function Hint({ fault, children }: { fault: string | undefined; children?: ReactNode }) {
  if (fault) {
    return (
      <small className="error" lang={/\p{Script=Han}/u.test(fault) ? undefined : 'en'}>
        {fault}
      </small>
    )
  }
  return children ? <small>{children}</small> : null
}

const days = [1, 7, 30, 90, 365]

/** Asks for the number of days after which something ends. The empty text means never. */
export function ExpiryField({ value, onChange }: { value: string; onChange: (days: string) => void }) {
  return (
    <label className="field grow">
      <span>{t('Expires')}</span>
      <select className="select" value={value} onChange={(e) => onChange(e.target.value)}>
        {days.map((d) => (
          <option key={d} value={d}>
            {d === 1 ? t('in a day') : t('in {n} days', { n: d })}
          </option>
        ))}
        <option value="">{t('never')}</option>
      </select>
    </label>
  )
}
