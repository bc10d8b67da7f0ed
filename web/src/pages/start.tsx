import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { newKey, post } from '../api/client'
import { useWorkflow } from '../api/queries'
import type { Param, Run, Workflow } from '../api/types'
import { useVerb } from '../api/verbs'
import { Loaded, Panel } from '../kit/panel'
import { Command } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { VerbButton } from '../kit/verbs'
import { Head } from './head'
import { command, typed } from './startdata'

/** Starts a run with the parameters that its workflow declares. */
export function Start() {
  const { ns, name } = useParams({ from: '/w/$ns/$name/start' })
  const workflow = ns === 'default' ? name : `${ns}/${name}`
  const query = useWorkflow(workflow)
  return (
    <>
      <Head title={`Start ${workflow}`} label={`Start ${workflow}`} />
      <Loaded query={query}>{(w) => <Form w={w} />}</Loaded>
    </>
  )
}

function Form({ w }: { w: Workflow }) {
  const search = useSearch({ from: '/w/$ns/$name/start' }) as Record<string, string>
  const params = w.params ?? []
  const [texts, setTexts] = useState<Record<string, string>>(() =>
    Object.fromEntries(
      params.flatMap((p) =>
        search[`p.${p.name}`] === undefined ? [] : [[p.name, search[`p.${p.name}`] as string]],
      ),
    ),
  )
  const [key] = useState(newKey)
  const [error, setError] = useState<Error>()
  const navigate = useNavigate()
  const { run, isPending } = useVerb(setError)
  const start = () => {
    try {
      const values = Object.fromEntries(
        params.flatMap((p) => (texts[p.name] ? [[p.name, typed(p, texts[p.name] as string)]] : [])),
      )
      run(
        () => post<Run>('/runs', { workflow: w.workflow, params: values }, key),
        (made) => void navigate({ to: '/r/$id', params: { id: made.id } }),
      )
    } catch (e) {
      setError(e as Error)
    }
  }
  return (
    <Panel>
      <form
        className="form"
        onSubmit={(e) => {
          e.preventDefault()
          start()
        }}
      >
        {params.length === 0 ? <p className="muted">The workflow has no parameters.</p> : null}
        {[...params]
          .sort((a, b) => Number(b.required) - Number(a.required))
          .map((p) => (
            <Input
              key={p.name}
              p={p}
              value={texts[p.name] ?? ''}
              set={(v) => setTexts({ ...texts, [p.name]: v })}
            />
          ))}
        {error ? <ProblemBox error={error} /> : null}
        <div className="row">
          <VerbButton
            verb="run.start"
            namespace={w.namespace}
            kind="primary"
            icon="play"
            isDisabled={isPending}
            onPress={start}
          >
            Start the run
          </VerbButton>
        </div>
        <Command text={command(w.workflow, texts)} />
      </form>
    </Panel>
  )
}

function Input({ p, value, set }: { p: Param; value: string; set: (v: string) => void }) {
  const usual =
    p.default === null || p.default === undefined
      ? ''
      : typeof p.default === 'string'
        ? p.default
        : JSON.stringify(p.default)
  const choices = p.type === 'bool' ? ['true', 'false'] : (p.enum as unknown[] | null)?.map(String)
  return (
    <label className="field" htmlFor={`param-${p.name}`}>
      <span>
        {p.name} {p.required ? <small>required</small> : null}
      </span>
      {choices ? (
        <select className="select" value={value} required={p.required} onChange={(e) => set(e.target.value)}>
          <option value="">{p.required ? 'choose' : `default${usual ? `: ${usual}` : ''}`}</option>
          {choices.map((c) => (
            <option key={c}>{c}</option>
          ))}
        </select>
      ) : (
        <input
          id={`param-${p.name}`}
          className="input"
          value={value}
          required={p.required}
          placeholder={usual}
          inputMode={p.type === 'int' || p.type === 'float' ? 'decimal' : undefined}
          onChange={(e) => set(e.target.value)}
        />
      )}
      <small>
        {p.type}
        {p.description ? `: ${p.description}` : ''}
      </small>
    </label>
  )
}
