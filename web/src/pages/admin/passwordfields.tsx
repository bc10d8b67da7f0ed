import { useState } from 'react'
import { Button, Copy } from '../../kit/parts'
import { t } from '../../text/t'
import { newPassword, passwordMin } from './data'

/** Asks for a new password, or makes one, which is shown so that it can be handed over. */
export function NewPasswordField({
  value,
  onChange,
  optional,
}: {
  value: string
  onChange: (password: string) => void
  optional?: boolean
}) {
  const [shown, setShown] = useState(false)
  return (
    <div className="field">
      <label className="field">
        <span>{optional ? t('Password (optional)') : t('New password')}</span>
        <input
          className="input"
          type={shown ? 'text' : 'password'}
          autoComplete="new-password"
          required={!optional}
          minLength={passwordMin}
          maxLength={1000}
          value={value}
          onChange={(e) => onChange(e.target.value)}
        />
        <small>
          {t('At least {n} characters, and none of the frequent ones.', { n: passwordMin })}
          {optional ? ` ${t('Without a password the user cannot sign in yet.')}` : ''}
        </small>
      </label>
      <div className="row">
        <Button
          onPress={() => {
            setShown(true)
            onChange(newPassword())
          }}
        >
          {t('Make one')}
        </Button>
        <Button kind="quiet" onPress={() => setShown(!shown)}>
          {shown ? t('Hide it') : t('Show it')}
        </Button>
        {shown && value !== '' ? <Copy text={value} label={t('Copy the password')} /> : null}
      </div>
    </div>
  )
}
