import { useState } from 'react'
import { Button, Copy } from '../../kit/parts'
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
        <span>{optional ? 'Password (optional)' : 'New password'}</span>
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
          At least {passwordMin} characters, and none of the frequent ones.
          {optional ? ' Without a password the user cannot sign in yet.' : ''}
        </small>
      </label>
      <div className="row">
        <Button
          onPress={() => {
            setShown(true)
            onChange(newPassword())
          }}
        >
          Make one
        </Button>
        <Button kind="quiet" onPress={() => setShown(!shown)}>
          {shown ? 'Hide it' : 'Show it'}
        </Button>
        {shown && value !== '' ? <Copy text={value} label="Copy the password" /> : null}
      </div>
    </div>
  )
}
