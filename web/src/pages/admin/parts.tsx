// Parts that the pages of the administration share.
import { Link, Navigate } from '@tanstack/react-router'
import { type ReactNode, useId, useState } from 'react'
import { allows, useMe } from '../../api/me'
import { Button } from '../../kit/parts'
import { needs } from '../../kit/verbs'
import { Head } from '../head'
import { useNamespaces } from './data'

const tabs = [
  ['/admin/me', 'You'],
  ['/admin/users', 'Users'],
  ['/admin/roles', 'Roles'],
  ['/admin/tokens', 'Tokens'],
  ['/admin/secrets', 'Secrets'],
  ['/admin/connections', 'Connections'],
  ['/admin/channels', 'Channels'],
  ['/admin/sessions', 'Sessions'],
  ['/admin/audit', 'Audit'],
  ['/admin/about', 'About'],
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
      <nav className="tabs" aria-label="Pages of the administration">
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
      </nav>
    </>
  )
}

/** The first page of the administration that the caller may read. */
export function Admin() {
  const me = useMe()
  if (!me) return <Head title="Admin" label="Admin" />
  return <Navigate to={allows(me, 'user.read', '*') ? '/admin/users' : '/admin/me'} replace />
}

/** Stands where a part of the page would be that the caller may not read. */
export function Refused({ what, verb, somewhere }: { what: string; verb: string; somewhere?: boolean }) {
  return (
    <div className="empty">
      <p>
        You may not see {what}.{' '}
        {somewhere ? `You need a role with ${verb} in a namespace.` : needs(verb, '*')}
      </p>
    </div>
  )
}

/** Says above a list, in words, what the caller may not change in it. */
export function Lacks({ verb, what }: { verb: string; what: string }) {
  const me = useMe()
  if (allows(me, verb, '*')) return null
  return (
    <p className="sub">
      You may not {what}. {needs(verb, '*')}
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
          <Button onPress={() => setN(n + step)}>Show {Math.min(step, of.length - n)} more</Button>
          <span className="sub">
            {n} of {of.length} are shown. The filter searches all of them.
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
  placeholder = 'all namespaces',
}: {
  value: string
  onChange: (ns: string) => void
  placeholder?: string
}) {
  const names = useNamespaces(useMe())
  const id = useId()
  return (
    <label className="field grow">
      <span>Namespace</span>
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

const days = [1, 7, 30, 90, 365]

/** Asks in how many days something ends; the empty text is never. */
export function ExpiryField({ value, onChange }: { value: string; onChange: (days: string) => void }) {
  return (
    <label className="field grow">
      <span>Expires</span>
      <select className="select" value={value} onChange={(e) => onChange(e.target.value)}>
        {days.map((d) => (
          <option key={d} value={d}>
            {d === 1 ? 'in a day' : `in ${d} days`}
          </option>
        ))}
        <option value="">never</option>
      </select>
    </label>
  )
}
