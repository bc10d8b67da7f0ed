import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { get } from '../api/client'
import { useMe } from '../api/me'
import { useSchedules, useWorkflows } from '../api/queries'
import type { ListRun, Me, Run, Schedule, Workflow } from '../api/types'
import { useAsked } from '../app/ask'
import { useNamespace, within } from '../app/namespace'
import { Dialog } from '../kit/dialog'
import { plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Button, Command, State, WorkflowLink } from '../kit/parts'
import { VerbButton } from '../kit/verbs'
import { liveKey, useWatch } from '../live/live'
import { t } from '../text/t'
import { Bars } from './bars'
import { Head } from './head'
import { useRowKeys } from './rowkeys'
import { SavedViews } from './savedviews'
import { Tags, tagged } from './tags'

const lastRuns = 14

export function Workflows() {
  useWatch()
  const [ns] = useNamespace()
  const { q = '', state = '', sort = 'name', tag = '' } = useSearch({ from: '/workflows' })
  const navigate = useNavigate({ from: '/workflows' })
  const workflows = useWorkflows()
  const next = useNextOf(useSchedules().data)
  const recent = useRecent()
  const shown = useMemo(() => {
    const rows = (workflows.data ?? []).filter(
      (w) =>
        within(ns, w.namespace) &&
        w.workflow.includes(q) &&
        (state === '' || w.state === state) &&
        tagged(w.tags, tag),
    )
    const last = (w: Workflow) => recent.get(w.workflow)?.[0]?.created_at ?? ''
    if (sort === 'recent') rows.sort((a, b) => last(b).localeCompare(last(a)))
    if (sort === 'next')
      rows.sort((a, b) => (next.get(a.workflow) ?? '~').localeCompare(next.get(b.workflow) ?? '~'))
    return rows
  }, [workflows.data, ns, q, state, sort, tag, recent, next])
  const keys = useRowKeys(shown.length, (i) => {
    const w = shown[i]
    if (w) void navigate({ to: '/w/$ns/$name', params: { ns: w.namespace, name: w.name } })
  })
  const set = (change: Record<string, string | undefined>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <>
      <Head
        title={t('Workflows')}
        label={t('Workflows')}
        actions={
          <>
            <SavedViews />
            <NewWorkflow ns={ns} />
          </>
        }
      />
      <div className="row">
        <input
          data-filter
          className="input"
          type="search"
          placeholder={t('Filter by name')}
          aria-label={t('Filter by name')}
          value={q}
          onChange={(e) => set({ q: e.target.value || undefined })}
        />
        <input
          className="input"
          type="search"
          placeholder={t('Tag, as team=data')}
          aria-label={t('Tag, as team=data')}
          value={tag}
          onChange={(e) => set({ tag: e.target.value || undefined })}
        />
        {['', 'active', 'paused'].map((s) => (
          <button
            key={s}
            type="button"
            className="chip"
            aria-pressed={state === s}
            onClick={() => set({ state: s || undefined })}
          >
            {s === '' ? t('All') : s === 'active' ? t('Active') : t('Paused')}
          </button>
        ))}
        <label className="row sub">
          {t('Sort by')}
          <select
            className="select"
            value={sort}
            onChange={(e) => set({ sort: e.target.value === 'name' ? undefined : e.target.value })}
          >
            <option value="name">{t('name')}</option>
            <option value="recent">{t('last run')}</option>
            <option value="next">{t('next fire')}</option>
          </select>
        </label>
      </div>
      <Panel title={t('Workflows')} count={workflows.data ? plural(shown.length, 'workflow') : undefined}>
        <Loaded
          query={workflows}
          rows={8}
          isEmpty={() => shown.length === 0}
          empty={<None filtered={q !== '' || state !== '' || tag !== '' || ns !== ''} />}
        >
          {() => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>{t('Workflow')}</th>
                    <th>{t('Last {lastRuns} runs', { lastRuns })}</th>
                    <th>{t('Last run')}</th>
                    <th>{t('Next fire')}</th>
                    <th className="num">{t('Version')}</th>
                    <th>
                      <span className="hidden-text">{t('Verbs')}</span>
                    </th>
                  </tr>
                </thead>
                {groupsOf(shown, sort === 'name').map((group) => (
                  <tbody key={group.namespace}>
                    {group.namespace ? (
                      <tr>
                        <th scope="rowgroup" colSpan={6}>
                          {group.namespace}
                        </th>
                      </tr>
                    ) : null}
                    {group.rows.map(({ w, i }) => (
                      <Row
                        key={w.workflow}
                        w={w}
                        short={group.namespace !== ''}
                        runs={recent.get(w.workflow)}
                        next={next.get(w.workflow)}
                        current={keys.at === i}
                      />
                    ))}
                  </tbody>
                ))}
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
    </>
  )
}

/**
 * The rows grouped by namespace, if they are sorted by name and have several namespaces. Otherwise one group
 * without a name.
 */
function groupsOf(all: Workflow[], byName: boolean) {
  const rows = all.map((w, i) => ({ w, i }))
  const names = [...new Set(all.map((w) => w.namespace))]
  if (!byName || names.length < 2) return [{ namespace: '', rows }]
  return names.map((namespace) => ({ namespace, rows: rows.filter((r) => r.w.namespace === namespace) }))
}

function Row({
  w,
  short,
  runs = [],
  next,
  current,
}: {
  w: Workflow
  short: boolean
  runs?: Run[] | undefined
  next: string | undefined
  current: boolean
}) {
  const last = runs[0]
  return (
    <tr data-current={current || undefined}>
      <td>
        <span className="row">
          <WorkflowLink name={w.workflow}>{short ? w.name : w.workflow}</WorkflowLink>
          {w.state === 'paused' ? <State state="paused" /> : null}
          <Tags of={w.tags} />
        </span>
        {w.description ? <p className="sub clip narrow">{w.description}</p> : null}
      </td>
      <td>
        <Bars runs={runs.slice(0, lastRuns)} />
      </td>
      <td className="nowrap">
        {last ? <Ago time={last.created_at} /> : <span className="muted">{t('never')}</span>}
      </td>
      <td className="nowrap">{next ? <Ago time={next} /> : <span className="muted">–</span>}</td>
      <td className="num">v{w.version}</td>
      <td className="num">
        <Link className="button" to="/w/$ns/$name/start" params={{ ns: w.namespace, name: w.name }}>
          {t('Start')}
        </Link>
      </td>
    </tr>
  )
}

/** A namespace in which the caller may write workflows; the namespace default if there is none. */
const writable = (me: Me | undefined) =>
  Object.keys(me?.verbs ?? {}).find((ns) => ns !== '*' && me?.verbs[ns]?.includes('workflow.write')) ??
  'default'

/** Asks for the name of a workflow that does not exist yet, and opens the editor with a first text. */
function NewWorkflow({ ns }: { ns: string }) {
  const navigate = useNavigate()
  const asked = useAsked()
  const mine = writable(useMe())
  const [namespace, setNamespace] = useState(ns || mine)
  const [name, setName] = useState('')
  const named = /^[a-z0-9][a-z0-9-]{0,62}$/
  return (
    <>
      <VerbButton
        verb="workflow.write"
        namespace={ns || mine}
        icon="plus"
        onPress={() => asked.open('workflow')}
      >
        {t('New workflow')}
      </VerbButton>
      <Dialog title={t('New workflow')} isOpen={asked.name === 'workflow'} onClose={asked.close}>
        <form
          className="contents"
          onSubmit={(e) => {
            e.preventDefault()
            if (named.test(name) && named.test(namespace))
              void navigate({
                to: '/edit/$ns/$name',
                params: { ns: namespace, name },
                search: { new: 'yes' },
                replace: true,
              })
          }}
        >
          <label className="field">
            <span>{t('Name')}</span>
            <input className="input" autoFocus value={name} onChange={(e) => setName(e.target.value)} />
            <small>{t('Small letters, digits and -, at most 63.')}</small>
          </label>
          <label className="field">
            <span>{t('Namespace')}</span>
            <input className="input" value={namespace} onChange={(e) => setNamespace(e.target.value)} />
          </label>
          <footer>
            <Button onPress={asked.close}>{t('Cancel')}</Button>
            <Button kind="primary" type="submit" isDisabled={!named.test(name) || !named.test(namespace)}>
              {t('Open the editor')}
            </Button>
          </footer>
        </form>
      </Dialog>
    </>
  )
}

function None({ filtered }: { filtered: boolean }) {
  if (filtered) return <p>{t('No workflow fits the filter.')}</p>
  return (
    <>
      <p>{t('Here you see every workflow with its last runs and its next fire. There is none yet.')}</p>
      <Command text="skein init my.yaml && skein workflow apply my.yaml" />
    </>
  )
}

/** The newest runs of all workflows in one request, by workflow. */
function useRecent(): Map<string, Run[]> {
  const { data } = useQuery({
    queryKey: liveKey(['runs'], 'recent'),
    queryFn: ({ signal }) => get<ListRun>('/runs', { limit: 1000 }, signal),
  })
  return useMemo(() => {
    const by = new Map<string, Run[]>()
    for (const run of data?.items ?? []) {
      const runs = by.get(run.workflow)
      if (runs) runs.push(run)
      else by.set(run.workflow, [run])
    }
    return by
  }, [data])
}

function useNextOf(schedules: Schedule[] | undefined): Map<string, string> {
  return useMemo(() => {
    const first = new Map<string, string>()
    for (const s of schedules ?? []) {
      const is = first.get(s.workflow)
      if (s.next && s.state === 'active' && (is === undefined || s.next < is)) first.set(s.workflow, s.next)
    }
    return first
  }, [schedules])
}
