import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { post } from '../../api/client'
import type { User } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { toast } from '../../kit/dialog'
import { Button } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { t } from '../../text/t'
import { isName, passwordMin } from './data'
import { GrantFields, noGrant, refOf } from './grantfields'
import { NewPasswordField } from './passwordfields'

export function NewUser({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const [kind, setKind] = useState<'user' | 'service'>('user')
  const [password, setPassword] = useState('')
  const [grant, setGrant] = useState(noGrant)
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const short = password !== '' && password.length < passwordMin
  const create = () =>
    run(
      () =>
        post<User>('/users', {
          name: name.trim(),
          kind,
          ...(kind === 'user' && password ? { password } : {}),
          ...(grant.role ? { roles: [refOf(grant)] } : {}),
        }),
      (u) => {
        toast(
          u.kind === 'service'
            ? t('The service {name} is created.', { name: u.name })
            : t('The user {name} is created.', { name: u.name }),
        )
        void navigate({ to: '/admin/users/$name', params: { name: u.name }, replace: true })
      },
    )
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (!isPending) create()
      }}
    >
      <label className="field">
        <span>{t('Name')}</span>
        <input
          className="input"
          required
          // biome-ignore lint/a11y/noAutofocus: the dialog was opened to answer this.
          autoFocus
          autoComplete="off"
          maxLength={100}
          value={name}
          onChange={(e) => setName(e.target.value)}
        />
        <small>{t('It is kept in small letters, and cannot be changed.')}</small>
      </label>
      <label className="field">
        <span>{t('Kind')}</span>
        <select
          className="select"
          value={kind}
          onChange={(e) => setKind(e.target.value === 'service' ? 'service' : 'user')}
        >
          <option value="user">{t('user: a person, who signs in')}</option>
          <option value="service">{t('service: a program, with tokens and no password')}</option>
        </select>
      </label>
      {kind === 'user' ? <NewPasswordField value={password} onChange={setPassword} optional /> : null}
      <GrantFields value={grant} onChange={setGrant} />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || short || !isName(name)}>
          {t('Create')}
        </Button>
      </footer>
    </form>
  )
}
