import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { post } from '../../api/client'
import type { Role } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { toast } from '../../kit/dialog'
import { plural } from '../../kit/format'
import { Button } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { t } from '../../text/t'
import { isName } from './data'
import { VerbChoice } from './verblist'

export function NewRole({
  verbs,
  all,
  onClose,
}: {
  /** The initial choice. */
  verbs: string[]
  all: readonly string[]
  onClose: () => void
}) {
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set(verbs))
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (isPending || chosen.size === 0) return
        run(
          () => post<Role>('/roles', { name: name.trim(), verbs: [...chosen] }),
          (r) => {
            toast(t('The role {name} is created.', { name: r.name }))
            void navigate({ to: '/admin/roles', search: { role: r.name }, replace: true })
          },
        )
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
        <small>{t("A role cannot be changed later, so that nobody's rights change with it.")}</small>
      </label>
      <VerbChoice all={all} chosen={chosen} onChange={setChosen} />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <span className="sub grow">{plural(chosen.size, 'verb')}</span>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || chosen.size === 0 || !isName(name)}>
          {t('Create the role')}
        </Button>
      </footer>
    </form>
  )
}
