// The form of a git source. Before a source is made or changed, the form shows what its first look would change.
import { useQuery } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { ifVersion, path, post, send } from '../../api/client'
import { allows, useMe } from '../../api/me'
import { all } from '../../api/queries'
import type { GitSource, GitSync, Secret } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { toast } from '../../kit/dialog'
import { Button } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { useToastVerb } from '../../kit/verbs'
import { t } from '../../text/t'
import {
  type Draft,
  draftOf,
  emptyDraft,
  type Faults,
  faultsOf,
  fullName,
  isReady,
  localFaults,
  reachOf,
  requestOf,
} from './gitdata'
import { Changes } from './gitplan'
import { Hint, NamespaceField } from './parts'

/** Makes a source, or changes the version of it that is named. Another change in between is refused. */
const put = (d: Draft, version?: number): Promise<GitSource> =>
  send(path('git-sources', d.namespace, d.name), {
    method: 'PUT',
    body: requestOf(d),
    headers: ifVersion(version),
  }).then((r) => r.json())

/** Makes a removed source again. */
export const restore = (g: GitSource) => put(draftOf(g))

export function GitForm({
  namespace,
  one,
  taken,
  onClose,
}: {
  namespace: string
  /** The source that is changed; absent: a new one is made. */
  one: GitSource | undefined
  /** The full names of the sources that exist. */
  taken: readonly string[]
  onClose: () => void
}) {
  const [begun] = useState(one)
  const [draft, setDraft] = useState<Draft>(() => (begun ? draftOf(begun) : emptyDraft(namespace)))
  const [faults, setFaults] = useState<Faults>({})
  const [plan, setPlan] = useState<GitSync>()
  const [error, setError] = useState<Error>()
  const failed = (e: Error) => {
    const named = faultsOf(e)
    setFaults(named ?? {})
    setError(named ? undefined : e)
    if (named) setPlan(undefined)
  }
  const { run, isPending } = useVerb(failed)
  const { run: undo } = useToastVerb()
  const set = (change: Partial<Draft>) => {
    setDraft({ ...draft, ...change })
    // What the server said of a field is not about its new value.
    setFaults(Object.fromEntries(Object.entries(faults).filter(([field]) => !(field in change))))
  }
  const name = fullName(draft)
  const look = () => {
    setError(undefined)
    run(
      () => post<GitSync>(`${path('git-sources', draft.namespace, draft.name)}:plan`, requestOf(draft)),
      setPlan,
    )
  }
  const save = () => {
    setError(undefined)
    run(
      () => put(draft, begun?.version),
      (is) => {
        onClose()
        if (!begun) return toast(t('The git source {name} is made. A node looks at it soon.', { name }))
        toast(t('The git source {name} is changed. A node looks at it soon.', { name }), {
          undo: () => undo(() => put(draftOf(begun), is.version)),
        })
      },
    )
  }
  if (plan) {
    return (
      <>
        <Changes of={plan} />
        {plan.source.state.failing ? (
          <p>
            {t(
              'You can save the source nevertheless. A node looks again, and changes nothing until a look succeeds.',
            )}
          </p>
        ) : null}
        {error ? <ProblemBox error={error} /> : null}
        <footer>
          <Button isDisabled={isPending} onPress={() => setPlan(undefined)}>
            {t('Back')}
          </Button>
          <Button
            kind={plan.changes.some((c) => c.change === 'deleted') ? 'danger' : 'primary'}
            isDisabled={isPending}
            onPress={save}
            autoFocus
          >
            {begun ? t('Change the git source') : t('Make the git source')}
          </Button>
        </footer>
      </>
    )
  }
  const here = { ...localFaults(draft, !begun, taken), ...faults }
  const ready = isReady(draft) && Object.keys(here).length === 0
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (!isPending && ready) look()
      }}
    >
      <Fields draft={draft} faults={here} isNew={!begun} set={set} />
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || !ready}>
          {isPending ? t('A node reads the repository…') : t('Show what it changes')}
        </Button>
      </footer>
    </form>
  )
}

type Shared = { draft: Draft; faults: Faults; set: (change: Partial<Draft>) => void }

function Fields({ isNew, ...on }: Shared & { isNew: boolean }) {
  const { draft, faults, set } = on
  return (
    <>
      {isNew ? (
        <div className="row-start">
          <NamespaceField
            value={draft.namespace}
            onChange={(ns) => set({ namespace: ns, password: '', key: '', hook: '' })}
            placeholder="default"
          />
          <TextField {...on} of="name" label={t('Name')} placeholder="flows" required />
        </div>
      ) : null}
      {faults.namespace ? <small className="error">{faults.namespace}</small> : null}
      <TextField
        {...on}
        of="url"
        label={t('Repository')}
        placeholder="https://git.example.com/shop/flows.git"
        required
        hint={t('An address with https, http or ssh, or USER@HOST:PATH.')}
      />
      <div className="row-start">
        <label className="field">
          <span>{t('Follow##a branch or a tag')}</span>
          <select
            className="select"
            value={draft.kind}
            onChange={(e) => set({ kind: e.target.value as Draft['kind'] })}
          >
            <option value="branch">{t('a branch')}</option>
            <option value="tag">{t('a tag')}</option>
          </select>
        </label>
        <TextField
          {...on}
          of="ref"
          label={draft.kind === 'tag' ? t('Tag') : t('Branch')}
          placeholder={draft.kind === 'tag' ? 'v1' : 'main'}
        />
        <TextField {...on} of="folder" label={t('Folder')} placeholder={t('the whole repository')} />
      </div>
      <Credentials {...on} />
      <More {...on} />
    </>
  )
}

function Credentials(on: Shared) {
  const { draft, faults, set } = on
  const id = useId()
  const reach = reachOf(draft.url.trim())
  if (reach === 'web') {
    return (
      <fieldset className="stack">
        <legend>{t('Credentials (optional)')}</legend>
        <div className="row-start">
          <TextField
            {...on}
            of="login"
            label={t('User at the server')}
            placeholder="git"
            hint={t('For a token, often git or x-access-token.')}
          />
          <SecretField {...on} of="password" label={t('Secret with the password or token')} />
        </div>
      </fieldset>
    )
  }
  if (reach === 'ssh') {
    return (
      <fieldset className="stack">
        <legend>{t('Credentials')}</legend>
        <SecretField
          {...on}
          of="key"
          label={t('Secret with the private key')}
          hint={t('A key without a passphrase.')}
        />
        <label className="field" htmlFor={id}>
          <span>{t('Keys of the machine')}</span>
          <textarea
            id={id}
            className="input mono"
            rows={3}
            spellCheck={false}
            required
            aria-invalid={faults.hosts !== undefined || undefined}
            value={draft.hosts}
            onChange={(e) => set({ hosts: e.target.value })}
          />
          <Hint fault={faults.hosts}>{t('What ssh-keyscan prints, after you compared it.')}</Hint>
        </label>
      </fieldset>
    )
  }
  return reach === 'file' ? (
    <p className="sub">
      {t(
        'A folder of the node. You need a role with workflow.write in all namespaces. There are no credentials.',
      )}
    </p>
  ) : null
}

/** What most sources leave as it is. */
function More(on: Shared) {
  const { draft, faults, set } = on
  const me = useMe()
  const deletes = allows(me, 'workflow.delete', draft.namespace)
  // Only the first draft decides: the settings must not close while a person clears one of them.
  const [isOpen] = useState(Boolean(draft.every || draft.hook || draft.removed || draft.adopt))
  return (
    <details open={isOpen}>
      <summary>{t('More settings')}</summary>
      <div className="form-more">
        <div className="row-start">
          <TextField {...on} of="every" label={t('Look every')} placeholder="1m" hint={t('From 10s.')} />
          <label className="field grow">
            <span>{t('If a file is removed, its workflow is')}</span>
            <select
              className="select"
              value={draft.removed}
              onChange={(e) => set({ removed: e.target.value })}
            >
              <option value="">{t('paused')}</option>
              <option value="keep">{t('kept')}</option>
              <option value="delete" disabled={!deletes}>
                {t('deleted')}
              </option>
            </select>
            <Hint fault={faults.removed}>
              {deletes ? null : t('You need a role with workflow.delete to choose “deleted”.')}
            </Hint>
          </label>
        </div>
        <SecretField
          {...on}
          of="hook"
          label={t('Secret that signs webhooks')}
          hint={t('With one, a push makes a node look at once. The address of the webhook is {address}.', {
            address: `/api/v1/hooks/${draft.namespace || 'NS'}/${draft.name || 'NAME'}`,
          })}
        />
        <label className="row">
          <input type="checkbox" checked={draft.adopt} onChange={(e) => set({ adopt: e.target.checked })} />
          {t('Take over workflows of the same names that come from elsewhere')}
        </label>
      </div>
    </details>
  )
}

function TextField({
  draft,
  faults,
  set,
  of,
  label,
  hint,
  placeholder,
  required,
}: Shared & {
  of: Exclude<keyof Draft, 'adopt'>
  label: string
  hint?: string
  placeholder: string
  required?: boolean
}) {
  const fault = faults[of]
  return (
    <label className="field grow">
      <span>{label}</span>
      <input
        className="input mono"
        autoComplete="off"
        spellCheck={false}
        maxLength={2000}
        required={required ?? false}
        placeholder={placeholder}
        aria-invalid={fault !== undefined || undefined}
        value={draft[of]}
        onChange={(e) => set({ [of]: e.target.value })}
      />
      <Hint fault={fault}>{hint}</Hint>
    </label>
  )
}

/** Chooses a secret of the namespace by its name. Without the right to see the names, the name is typed. */
function SecretField({
  draft,
  faults,
  set,
  of,
  label,
  hint,
}: Shared & { of: 'password' | 'key' | 'hook'; label: string; hint?: string }) {
  const me = useMe()
  const id = useId()
  const lists = me !== undefined && allows(me, 'secret.list', draft.namespace)
  const secrets = useQuery({
    queryKey: ['secrets', draft.namespace],
    queryFn: ({ signal }) => all<Secret>('/secrets', { namespace: draft.namespace }, signal),
    enabled: lists && draft.namespace !== '',
  })
  const names = (secrets.data ?? []).filter((s) => s.namespace === draft.namespace).map((s) => s.name)
  const value = draft[of]
  const shown = value === '' || names.includes(value) ? names : [value, ...names]
  return (
    <label className="field grow" htmlFor={id}>
      <span>{label}</span>
      {lists ? (
        <select
          id={id}
          className="select"
          aria-invalid={faults[of] !== undefined || undefined}
          value={value}
          onChange={(e) => set({ [of]: e.target.value })}
        >
          <option value="">{t('none')}</option>
          {shown.map((n) => (
            <option key={n}>{n}</option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          className="input mono"
          autoComplete="off"
          maxLength={100}
          placeholder="GIT_TOKEN"
          value={value}
          onChange={(e) => set({ [of]: e.target.value.trim() })}
        />
      )}
      <Hint fault={faults[of]}>
        {hint}
        {lists && secrets.data && names.length === 0 ? (
          <>
            {hint ? ' ' : ''}
            {t('The namespace has no secret. Set one on the page Secrets first.')}
          </>
        ) : null}
      </Hint>
    </label>
  )
}
