// The fields of a form that gives a role: the role, the namespace, and the end.
import { useMe } from '../../api/me'
import type { RoleRef } from '../../api/types'
import { t } from '../../text/t'
import { daysOn, lacking, useRoles, whereOf } from './data'
import { ExpiryField, NamespaceField } from './parts'

export type Grant = { role: string; namespace: string; days: string }

export const noGrant: Grant = { role: '', namespace: '', days: '' }

/** The role in the form of the API. */
export const refOf = (g: Grant): RoleRef => ({
  role: g.role,
  ...(g.namespace.trim() === '' ? {} : { namespace: g.namespace.trim() }),
  ...daysOn(g.days),
})

export function GrantFields({
  value,
  onChange,
  required,
}: {
  value: Grant
  onChange: (g: Grant) => void
  required?: boolean
}) {
  const me = useMe()
  const roles = useRoles(true)
  const ns = value.namespace.trim() || '*'
  const chosen = roles.data?.items.find((r) => r.name === value.role)
  const lacks = chosen ? lacking(me, chosen, ns) : []
  return (
    <>
      <label className="field">
        <span>{required ? t('Role') : t('Role (optional)')}</span>
        <select
          className="select"
          required={required}
          value={value.role}
          aria-invalid={lacks.length > 0 || undefined}
          onChange={(e) => onChange({ ...value, role: e.target.value })}
        >
          <option value="">{required ? t('choose') : t('none yet')}</option>
          {(roles.data?.items ?? []).map((r) => (
            <option key={r.name} value={r.name}>
              {r.name}
              {lacking(me, r, ns).length > 0 ? ` ${t('(more than your rights)')}` : ''}
            </option>
          ))}
        </select>
        {roles.error ? (
          <small className="error">
            {t('The roles could not be read: {message}', { message: roles.error.message })}
          </small>
        ) : null}
        {lacks.length > 0 ? (
          <small className="error">
            {t('You cannot give this role in {where}: you lack {verbs} there.', {
              where: whereOf(ns),
              verbs: [
                lacks.slice(0, 4).join(', '),
                ...(lacks.length > 4 ? [t('and {n} more', { n: lacks.length - 4 })] : []),
              ].join(' '),
            })}
          </small>
        ) : null}
      </label>
      {value.role === '' ? null : (
        <div className="row">
          <NamespaceField
            value={value.namespace}
            onChange={(namespace) => onChange({ ...value, namespace })}
          />
          <ExpiryField value={value.days} onChange={(days) => onChange({ ...value, days })} />
        </div>
      )}
    </>
  )
}
