import { useId, useState } from 'react'
import { path, send } from '../../api/client'
import { useVerb } from '../../api/verbs'
import { toast } from '../../kit/dialog'
import { Button } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { t } from '../../text/t'
import { configOf, type Field, type Kinds, kindOf, missing, parsed, textsOf } from './channeldata'
import { NamespaceField } from './parts'

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

/** Makes or changes a channel or a connection. It shows the fields of the kind, or JSON if the fields cannot hold all values. */
export function ConfigForm({
  subject: s,
  namespace: first,
  one,
  onClose,
}: {
  subject: Subject
  namespace: string
  /** The object that is changed. If it is undefined, the form makes a new one. */
  one: { name: string; config: unknown } | undefined
  onClose: () => void
}) {
  const known = one ? textsOf(one.config, s.kinds) : {}
  const [namespace, setNamespace] = useState(first)
  const [name, setName] = useState(one?.name ?? '')
  const [kind, setKind] = useState((one && kindOf(one.config)) ?? Object.keys(s.kinds)[0] ?? '')
  const [texts, setTexts] = useState<Record<string, string>>(known ?? {})
  const [json, setJSON] = useState(known ? undefined : JSON.stringify(one?.config, null, 2))
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
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
  const save = () =>
    run(
      () =>
        send(path(s.at, namespace, name), {
          method: 'PUT',
          body: { config: 'config' in written ? written.config : {} },
        }),
      () => {
        onClose()
        toast(
          one
            ? t('The {noun} {name} is changed. Test it now.', { noun: s.noun, name: `${namespace}/${name}` })
            : t('The {noun} {name} is made. Test it now.', { noun: s.noun, name: `${namespace}/${name}` }),
        )
      },
    )
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
          <NamespaceField value={namespace} onChange={setNamespace} placeholder="default" />
          <label className="field">
            <span>{t('Name')}</span>
            <input
              className="input mono"
              required
              autoComplete="off"
              maxLength={100}
              placeholder={s.placeholder}
              value={name}
              onChange={(e) => setName(e.target.value)}
            />
            <small>
              {s.naming(name || s.placeholder)}{' '}
              {t('A {noun} that exists gets the new settings.', { noun: s.noun })}
            </small>
          </label>
        </>
      )}
      {json === undefined ? (
        <>
          <label className="field">
            <span>{s.kind}</span>
            <select className="select" value={kind} onChange={(e) => setKind(e.target.value)}>
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
              set={(v) => setTexts({ ...texts, [f.name]: v })}
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

function Input({ field: f, value, set }: { field: Field; value: string; set: (v: string) => void }) {
  const id = useId()
  const common = {
    id,
    required: f.required ?? false,
    spellCheck: false,
    value,
    onChange: (e: { target: { value: string } }) => set(e.target.value),
  }
  return (
    <label className="field" htmlFor={id}>
      <span>
        {f.label}
        {f.required ? '' : ' (optional)'}
      </span>
      {f.takes === 'list' || f.takes === 'lines' ? (
        <textarea className="input mono" rows={3} {...common} />
      ) : f.takes === 'choice' ? (
        <select className="select" id={id} value={value} onChange={common.onChange}>
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
      <small>
        {f.hint}
        {f.takes === 'text or secret'
          ? ` ${t('Or {form} for an address that is a secret.', { form: 'secret:NAME' })}`
          : ''}
      </small>
    </label>
  )
}
