import { useId, useState } from 'react'
import { path, send } from '../../api/client'
import type { Channel } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { toast } from '../../kit/dialog'
import { Button } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { configOf, type Field, kindOf, kinds, missing, parsed, textsOf } from './channeldata'
import { NamespaceField } from './parts'

const named = /^[A-Za-z0-9_.-]{1,100}$/
const placed = /^[a-z0-9][a-z0-9-]{0,62}$/

/** Makes a channel or changes it: by the fields of its kind, or as JSON if it has more than they hold. */
export function ChannelForm({
  namespace: first,
  channel,
  onClose,
}: {
  namespace: string
  channel: Channel | undefined
  onClose: () => void
}) {
  const known = channel ? textsOf(channel.config) : {}
  const [namespace, setNamespace] = useState(first)
  const [name, setName] = useState(channel?.name ?? '')
  const [kind, setKind] = useState((channel && kindOf(channel.config)) ?? 'webhook')
  const [texts, setTexts] = useState<Record<string, string>>(known ?? {})
  const [json, setJSON] = useState(known ? undefined : JSON.stringify(channel?.config, null, 2))
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const written = json === undefined ? { config: configOf(kind, texts) } : parsed(json)
  const lacks = json === undefined ? missing(kind, texts) : []
  const ready = placed.test(namespace) && named.test(name) && 'config' in written && lacks.length === 0
  const asFields = 'config' in written ? textsOf(written.config) : undefined
  const toFields = () => {
    if (!asFields || !('config' in written)) return
    setKind(kindOf(written.config) ?? kind)
    setTexts(asFields)
    setJSON(undefined)
  }
  const save = () =>
    run(
      () =>
        send(path('channels', namespace, name), {
          method: 'PUT',
          body: { config: 'config' in written ? written.config : {} },
        }),
      () => {
        onClose()
        toast(`The channel ${namespace}/${name} is ${channel ? 'changed' : 'made'}. Send a test to try it.`)
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
      {channel ? null : (
        <>
          <NamespaceField value={namespace} onChange={setNamespace} placeholder="default" />
          <label className="field">
            <span>Name</span>
            <input
              className="input mono"
              required
              autoComplete="off"
              maxLength={100}
              placeholder="ops"
              value={name}
              onChange={(e) => setName(e.target.value)}
            />
            <small>Rules name it: to: {name || 'ops'}. A channel that exists gets the new settings.</small>
          </label>
        </>
      )}
      {json === undefined ? (
        <>
          <label className="field">
            <span>Kind</span>
            <select className="select" value={kind} onChange={(e) => setKind(e.target.value)}>
              {Object.entries(kinds).map(([k, { does }]) => (
                <option key={k} value={k}>
                  {k}: {does}
                </option>
              ))}
            </select>
          </label>
          {(kinds[kind]?.fields ?? []).map((f) => (
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
          <span>Settings as JSON</span>
          <textarea
            className="input mono"
            rows={8}
            spellCheck={false}
            aria-invalid={'fault' in written}
            value={json}
            onChange={(e) => setJSON(e.target.value)}
          />
          <small className={'fault' in written ? 'error' : undefined}>
            {'fault' in written ? written.fault : 'Write a secret as {"secret": "NAME"}.'}
          </small>
        </label>
      )}
      <div className="row">
        {json === undefined ? (
          <Button kind="quiet" onPress={() => setJSON(JSON.stringify(configOf(kind, texts), null, 2))}>
            Write it as JSON
          </Button>
        ) : (
          <Button kind="quiet" isDisabled={!asFields} onPress={toFields}>
            Back to the fields
          </Button>
        )}
      </div>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || !ready}>
          {channel ? 'Change the channel' : 'Make the channel'}
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
      {f.takes === 'list' ? (
        <textarea className="input mono" rows={3} {...common} />
      ) : (
        <input className="input mono" autoComplete="off" {...common} />
      )}
      <small>
        {f.hint}
        {f.takes === 'text or secret' ? ' Or secret:NAME for an address that is a secret.' : ''}
      </small>
    </label>
  )
}
