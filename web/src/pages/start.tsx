import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { get, newKey, post } from '../api/client'
import { useWorkflow } from '../api/queries'
import type { ListRun, Run, Workflow } from '../api/types'
import { useVerb } from '../api/verbs'
import { toast } from '../kit/dialog'
import { Loaded, Panel } from '../kit/panel'
import { Button, Command, Copy } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { VerbButton } from '../kit/verbs'
import { t } from '../text/t'
import { term } from '../text/terms'
import { Head } from './head'
import { command, fault, request, requestOf, shownOf, textOf } from './startdata'
import { ValueField } from './valuefield'

const priorities = ['highest', 'high', 'medium', 'low', 'lowest']

/** Starts a run with the parameters that its workflow declares. The address holds what was typed, so it can be shared. */
export function Start() {
  const { ns, name } = useParams({ from: '/w/$ns/$name/start' })
  const workflow = ns === 'default' ? name : `${ns}/${name}`
  const query = useWorkflow(workflow)
  return (
    <>
      <Head title={t('Start {workflow}', { workflow })} label={t('Start {workflow}', { workflow })} />
      <Loaded query={query}>{(w) => <Form w={w} />}</Loaded>
    </>
  )
}

function Form({ w }: { w: Workflow }) {
  const [search, setSearch] = useState(useSearch({ from: '/w/$ns/$name/start' }) as Record<string, string>)
  const navigate = useNavigate({ from: '/w/$ns/$name/start' })
  const params = w.params ?? []
  // Values of the type secret are neither in the address nor in the commands that the page shows.
  const [secrets, setSecrets] = useState<Record<string, string>>({})
  const isSecret = (name: string) => params.some((p) => p.name === name && p.type === 'secret')
  const texts = Object.fromEntries(
    params.map((p) => [p.name, (isSecret(p.name) ? secrets[p.name] : search[`p.${p.name}`]) ?? '']),
  )
  const options = { priority: search.priority ?? '', version: search.version ?? '', key: search.key ?? '' }
  const [key] = useState(newKey)
  const [error, setError] = useState<Error>()
  const [tried, setTried] = useState(false)
  const set = (changes: Record<string, string>) => {
    const hidden = (key: string) => key.startsWith('p.') && isSecret(key.slice(2))
    const open = Object.entries(changes).filter(([k]) => !hidden(k))
    const closed = Object.entries(changes).filter(([k]) => hidden(k))
    if (closed.length > 0)
      setSecrets((was) => ({ ...was, ...Object.fromEntries(closed.map(([k, v]) => [k.slice(2), v])) }))
    if (open.length === 0) return
    const to = { ...search, ...Object.fromEntries(open) }
    setSearch(to)
    void navigate({ search: to as never, replace: true })
  }
  const { run, isPending } = useVerb(setError)
  const faults = new Map(
    params.flatMap((p) => (fault(p, texts[p.name]) ? [[p.name, fault(p, texts[p.name])]] : [])),
  )
  const body = faults.size > 0 ? undefined : requestOf(w.workflow, params, texts, options)
  const used = options.key || key
  const start = () => {
    setTried(true)
    if (!body) return
    run(
      () => post<Run>('/runs', body, used),
      (made) => void navigate({ to: '/r/$id', params: { id: made.id }, search: {} }),
    )
  }
  return (
    <Panel
      title={t('Parameters')}
      count={params.length}
      actions={params.length > 0 ? <LastValues w={w} set={set} /> : null}
    >
      <form
        className="form"
        noValidate
        onSubmit={(e) => {
          e.preventDefault()
          start()
        }}
      >
        {params.length === 0 ? <p className="muted">{t('The workflow has no parameters.')}</p> : null}
        {[...params]
          .sort((a, b) => Number(b.required) - Number(a.required))
          .map((p) => (
            <ValueField
              key={p.name}
              p={p}
              value={texts[p.name] ?? ''}
              // An empty field is not an error before the first try.
              fault={tried || texts[p.name] ? faults.get(p.name) : undefined}
              set={(v) => set({ [`p.${p.name}`]: v })}
            />
          ))}
        <details open={Boolean(options.priority || options.version || options.key)}>
          <summary>{t('More')}</summary>
          <div className="form-more">
            <label className="field">
              <span>{t('Priority')}</span>
              <select
                className="select"
                value={options.priority}
                onChange={(e) => set({ priority: e.target.value })}
              >
                <option value="">{t('as the workflow says')}</option>
                {priorities.map((p) => (
                  <option key={p} value={p}>
                    {term(p)}
                  </option>
                ))}
              </select>
            </label>
            <label className="field">
              <span>{t('Version')}</span>
              <input
                className="input"
                type="number"
                min={1}
                max={w.latest}
                value={options.version}
                placeholder={t('{version}, the current one', { version: w.version })}
                onChange={(e) => set({ version: e.target.value })}
              />
            </label>
            <label className="field">
              <span>{t('Idempotency key')}</span>
              <input
                className="input"
                value={options.key}
                maxLength={255}
                onChange={(e) => set({ key: e.target.value })}
              />
              <small>{t('A start with the same key and the same parameters gives the same run.')}</small>
            </label>
          </div>
        </details>
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
            {t('Start the run')}
          </VerbButton>
          <Copy text={location.href} label={t('Copy a link that fills this form')} />
        </div>
        <Command text={command(w.workflow, shownOf(params, texts), options)} />
        {body ? (
          <Command text={request(requestOf(w.workflow, params, shownOf(params, texts), options), used)} />
        ) : null}
      </form>
    </Panel>
  )
}

/** Fills the form with the parameters of the last run. */
function LastValues({ w, set }: { w: Workflow; set: (changes: Record<string, string>) => void }) {
  const last = useQuery({
    queryKey: ['last', w.workflow],
    queryFn: ({ signal }) =>
      get<ListRun>('/runs', { workflow: w.workflow, limit: 1, include: 'params' }, signal),
  })
  const values = last.data?.items[0]?.params as Record<string, unknown> | null | undefined
  return (
    <Button
      kind="quiet"
      isDisabled={!values}
      onPress={() => {
        const known = (w.params ?? []).filter((p) => p.type !== 'secret' && values && p.name in values)
        set(Object.fromEntries(known.map((p) => [`p.${p.name}`, textOf(values?.[p.name])])))
        toast(t('The form has the values of the last run.'))
      }}
    >
      {t('Values of the last run')}
    </Button>
  )
}
