import { useId, useState } from 'react'
import { Failure, fieldFaults, ifVersion, path, send } from '../../api/client'
import { useVerb } from '../../api/verbs'
import { toast } from '../../kit/dialog'
import { Button } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { useToastVerb } from '../../kit/verbs'
import { t } from '../../text/t'
import { configOf, type Field, type Kinds, kindOf, missing, parsed, textsOf } from './channeldata'
import { Hint, NamespaceField } from './parts'

const named = /^[A-Za-z0-9_.-]{1,100}$/
const placed = /^[a-z0-9][a-z0-9-]{0,62}$/

/** What a form configures: a channel of alerts, or a connection. */
export type Subject = {
  noun: string
  /** The first part of its address. */
  at: string
  kinds: Kinds
  /** The title of the table of kinds. */
  kind: string
  placeholder: string
  naming: (name: string) => string
}

/** A channel or a connection, as the form needs it. */
export type Configured = { namespace: string; name: string; config: unknown; version: number }

/**
 * Makes an object of a subject, or changes the version of it that is named. Another change in between is refused.
 */
const put = (s: Subject, one: Omit<Configured, 'version'>, version?: number): Promise<Configured> =>
  send(path(s.at, one.namespace, one.name), {
    method: 'PUT',
    body: { config: one.config },
    headers: ifVersion(version),
  }).then((r) => r.json())

/** Makes a deleted object again. */
export const restore = (s: Subject, one: Configured) => put(s, one)

/** Makes or changes a channel or a connection. It shows the fields of the kind, or JSON if the fields cannot hold all values. */
export function ConfigForm({
  subject: s,
  namespace: first,
  one: given,
  onClose,
}: {
  subject: Subject
  namespace: string
  /** The object that is changed. If it is undefined, the form makes a new one. */
  one: Configured | undefined
  onClose: () => void
}) {
  // The object as it was when the form opened: the list that is read again must not change what is compared.
  const [one] = useState(given)
  const known = one ? textsOf(one.config, s.kinds) : {}
  const [namespace, setNamespace] = useState(first)
  const [name, setName] = useState(one?.name ?? '')
  const [kind, setKind] = useState((one && kindOf(one.config)) ?? Object.keys(s.kinds)[0] ?? '')
  const [texts, setTexts] = useState<Record<string, string>>(known ?? {})
  const [json, setJSON] = useState(known ? undefined : JSON.stringify(one?.config, null, 2))
  const [error, setError] = useState<Error>()
  const [faults, setFaults] = useState<Record<string, string | undefined>>({})
  const failed = (e: Error) => {
    const own = (s.kinds[kind]?.fields ?? []).map((f) => f.name)
    const shown = ['namespace', 'name', ...(json === undefined ? own : [])]
    const isThere = !one && e instanceof Failure && e.kind === 'precondition-failed'
    const named = isThere
      ? {
          name: t('There is a {noun} of this name. Change that one, or choose another name.', {
            noun: s.noun,
          }),
        }
      : fieldFaults(e, (key) => (shown.includes(key) ? key : undefined))
    setFaults(named ?? {})
    setError(named ? undefined : e)
  }
  const { run, isPending } = useVerb(failed)
  const { run: undo } = useToastVerb()
  // What the server said of a field is not about its new value.
  const changed = (...fields: string[]) =>
    setFaults(Object.fromEntries(Object.entries(faults).filter(([field]) => !fields.includes(field))))
  const written = json === undefined ? { config: configOf(kind, texts, s.kinds) } : parsed(json)
  const lacks = json === undefined ? missing(kind, texts, s.kinds) : []
  const ready = placed.test(namespace) && named.test(name) && 'config' in written && lacks.length === 0
  const asFields = 'config' in written ? textsOf(written.config, s.kinds) : undefined
  const toFields = () => {
    if (!asFields || !('config' in written)) return
    setKind(kindOf(written.config) ?? kind)
    setTexts(asFields)
    setJSON(undefined)
  }
  const save = () => {
    setError(undefined)
    const config = 'config' in written ? written.config : {}
    run(
      () => put(s, { namespace, name, config }, one?.version),
      (is) => {
        onClose()
        const about = { noun: s.noun, name: `${namespace}/${name}` }
        if (!one) return toast(t('The {noun} {name} is made. Test it now.', about))
        toast(t('The {noun} {name} is changed. Test it now.', about), {
          undo: () => undo(() => put(s, one, is.version)),
        })
      },
    )
  }
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (!isPending && ready) save()
      }}
    >
      {one ? null : (
        <>
          <NamespaceField
            value={namespace}
            onChange={(ns) => {
              setNamespace(ns)
              changed('namespace', 'name')
            }}
            placeholder="default"
          />
          {faults.namespace ? <Hint fault={faults.namespace} /> : null}
          <label className="field">
            <span>{t('Name')}</span>
            <input
              className="input mono"
              required
              autoComplete="off"
              maxLength={100}
              placeholder={s.placeholder}
              aria-invalid={faults.name !== undefined || undefined}
              value={name}
              onChange={(e) => {
                setName(e.target.value)
                changed('name')
              }}
            />
            <Hint fault={faults.name}>{s.naming(name || s.placeholder)}</Hint>
          </label>
        </>
      )}
      {json === undefined ? (
        <>
          <label className="field">
            <span>{s.kind}</span>
            <select
              className="select"
              value={kind}
              onChange={(e) => {
                setKind(e.target.value)
                setFaults({})
              }}
            >
              {Object.entries(s.kinds).map(([k, { does }]) => (
                <option key={k} value={k}>
                  {k}: {does}
                </option>
              ))}
            </select>
          </label>
          {(s.kinds[kind]?.fields ?? []).map((f) => (
            <Input
              key={`${kind} ${f.name}`}
              field={f}
              value={texts[f.name] ?? ''}
              fault={faults[f.name]}
              set={(v) => {
                setTexts({ ...texts, [f.name]: v })
                changed(f.name)
              }}
            />
          ))}
        </>
      ) : (
        <label className="field">
          <span>{t('Settings as JSON')}</span>
          <textarea
            className="input mono"
            rows={8}
            spellCheck={false}
            aria-invalid={'fault' in written}
            value={json}
            onChange={(e) => setJSON(e.target.value)}
          />
          <small className={'fault' in written ? 'error' : undefined}>
            {'fault' in written
              ? written.fault
              : t('Write a secret as {example}.', { example: '{"secret": "NAME"}' })}
          </small>
        </label>
      )}
      <div className="row">
        {json === undefined ? (
          <Button
            kind="quiet"
            onPress={() => setJSON(JSON.stringify(configOf(kind, texts, s.kinds), null, 2))}
          >
            {t('Write it as JSON')}
          </Button>
        ) : (
          <Button kind="quiet" isDisabled={!asFields} onPress={toFields}>
            {t('Back to the fields')}
          </Button>
        )}
      </div>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || !ready}>
          {one ? t('Change the {noun}', { noun: s.noun }) : t('Make the {noun}', { noun: s.noun })}
        </Button>
      </footer>
    </form>
  )
}

function Input({
  field: f,
  value,
  fault,
  set,
}: {
  field: Field
  value: string
  fault: string | undefined
  set: (v: string) => void
}) {
  const id = useId()
  const common = {
    id,
    required: f.required ?? false,
    spellCheck: false,
    'aria-invalid': fault !== undefined || undefined,
    value,
    onChange: (e: { target: { value: string } }) => set(e.target.value),
  }
  return (
    <label className="field" htmlFor={id}>
      <span>{f.required ? f.label : t('{label} (optional)', { label: f.label })}</span>
      {f.takes === 'list' || f.takes === 'lines' ? (
        <textarea className="input mono" rows={3} {...common} />
      ) : f.takes === 'choice' ? (
        <select className="select" {...common}>
          <option value="">{t('default')}</option>
          {(f.choices ?? []).map((c) => (
            <option key={c}>{c}</option>
          ))}
        </select>
      ) : (
        <input
          className="input mono"
          autoComplete="off"
          inputMode={f.takes === 'number' ? 'numeric' : undefined}
          pattern={f.takes === 'number' ? '[0-9]+' : undefined}
          {...common}
        />
      )}
      <Hint fault={fault}>
        {f.hint}
        {f.takes === 'text or secret'
          ? ` ${t('Or {form} for an address that is a secret.', { form: 'secret:NAME' })}`
          : ''}
      </Hint>
    </label>
  )
}
