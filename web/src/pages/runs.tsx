import { useQueryClient } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { memo, useCallback, useDeferredValue, useMemo, useState } from 'react'
import { runsQuery, useRuns } from '../api/queries'
import type { Run } from '../api/types'
import { useAsked } from '../app/ask'
import { useNamespace, within } from '../app/namespace'
import { SinceSelect, sinceOf, TextFilter } from '../kit/filter'
import { count, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Button, Command, Message, RunLink, Span, State, WorkflowLink } from '../kit/parts'
import { useWatch } from '../live/live'
import { t } from '../text/t'
import { term } from '../text/terms'
import { Bulk, bulkOf, bulkVerbs, choiceOf } from './bulk'
import { Head } from './head'
import { useRowKeys } from './rowkeys'
import { SavedViews } from './savedviews'
import { Tags, tagOf } from './tags'

const pageSize = 100
/** The largest number of rows that a screen shows. */
const screenful = 30
const states = [
  'active',
  'failed',
  'running',
  'waiting',
  'suspended',
  'paused',
  'succeeded',
  'stopped',
  'skipped',
]
export function Runs() {
  useWatch()
  const [ns] = useNamespace()
  const search = useSearch({ from: '/runs' })
  const navigate = useNavigate({ from: '/runs' })
  const queries = useQueryClient()
  const [opened] = useState(Date.now)
  const { state, workflow, user, cursor, backfill, trigger, node, q, tag } = search
  const filterOf = ({ state, workflow, user, since, backfill, trigger, node, q, tag }: typeof search) => ({
    state,
    workflow,
    user,
    since: sinceOf(since, opened),
    backfill,
    trigger,
    node,
    q,
    tag: tagOf(tag),
    ns: ns || undefined,
  })
  const filter = filterOf(search)
  const { since } = filter
  const pageOf = (at: typeof search) => ({ ...filterOf(at), cursor: at.cursor, limit: pageSize })
  const runs = useRuns(pageOf(search))
  // The count needs more time than the rows, so it has its own request. Without a namespace or a workflow it
  // would include the runs of the system.
  const counted = useRuns({ ...filter, limit: 1, count: true }, !cursor && Boolean(workflow || ns))
  const total = counted.isPlaceholderData ? undefined : counted.data?.total
  const items = runs.data?.items
  // Without a namespace or a workflow, the runs of the system itself are left out.
  const shown = useMemo(
    () => (items ?? []).filter((r) => workflow || within(ns, r.namespace)),
    [items, workflow, ns],
  )
  // After a new filter, the rows on the screen are drawn first, and those below in a second step. Until the
  // new rows have arrived, the rows of the previous filter stay.
  const asks = JSON.stringify(pageOf(search))
  const [choice, setChoice] = useState(asks)
  if (choice !== asks && !runs.isPlaceholderData) setChoice(asks)
  const drawn = useDeferredValue(choice) === choice ? shown : shown.slice(0, screenful)
  const [selected, setSelected] = useState(new Set<string>())
  const asked = useAsked()
  const bulk = bulkOf(asked, selected.size > 0)
  const keys = useRowKeys(
    shown.length,
    (i) => shown[i] && void navigate({ to: '/r/$id', params: { id: shown[i].id } }),
    (i) => shown[i] && toggle(shown[i].id),
  )
  const set = (change: Partial<typeof search>) => {
    setSelected((old) => (old.size > 0 ? new Set() : old))
    const next = { ...search, cursor: undefined, ...change }
    void queries.prefetchQuery(runsQuery(pageOf(next))) // the request runs while the page draws the pressed filter
    void navigate({ search: (old) => ({ ...old, cursor: undefined, ...change }), replace: true })
  }
  const toggle = useCallback(
    (id: string) =>
      setSelected((old) => {
        const to = new Set(old)
        if (!to.delete(id)) to.add(id)
        return to
      }),
    [],
  )
  const everyOne = shown.length > 0 && shown.every((r) => selected.has(r.id))
  const narrow = Boolean(workflow || user || since || backfill || trigger || node || q || tag)
  // The verbs on several runs support the same filters as the list, so a verb changes the runs that the page
  // shows.
  const matching = choiceOf(filter)
  return (
    <>
      <Head title={t('Runs')} label={t('Runs')} actions={<SavedViews />} />
      <div className="filters">
        <div className="row">
          <button
            type="button"
            className="chip"
            aria-pressed={!state}
            onClick={() => set({ state: undefined })}
          >
            {t('All states')}
          </button>
          {states.map((s) => (
            <button
              key={s}
              type="button"
              className="chip"
              aria-pressed={state === s}
              onClick={() => set({ state: state === s ? undefined : s })}
            >
              {s === 'active' ? t('Unfinished') : <State state={s} />}
            </button>
          ))}
        </div>
        <div className="row">
          <TextFilter
            name="workflow"
            label={t('Workflow')}
            value={workflow}
            set={(v) => set({ workflow: v })}
            filter
          />
          <TextFilter name="user" label={t('User')} value={user} set={(v) => set({ user: v })} />
          <TextFilter name="q" label={t('Id, key, user or message')} value={q} set={(v) => set({ q: v })} />
          <TextFilter name="tag" label={t('Tag, as team=data')} value={tag} set={(v) => set({ tag: v })} />
          <SinceSelect label={t('Created')} value={search.since} set={(v) => set({ since: v })} />
          {node ? (
            <button
              type="button"
              className="chip"
              aria-pressed="true"
              onClick={() => set({ node: undefined })}
            >
              {t('Led by {node} ×', { node })}
            </button>
          ) : null}
          {backfill || trigger ? (
            <button
              type="button"
              className="chip"
              aria-pressed="true"
              onClick={() => set({ backfill: undefined, trigger: undefined })}
            >
              {backfill
                ? t('Backfill {backfill}', { backfill })
                : t('Trigger {trigger}', { trigger: trigger ?? '' })}{' '}
              ×
            </button>
          ) : null}
          {state || narrow ? (
            <Button
              kind="quiet"
              icon="cross"
              onPress={() =>
                set({
                  state: undefined,
                  workflow: undefined,
                  user: undefined,
                  since: undefined,
                  backfill: undefined,
                  trigger: undefined,
                  node: undefined,
                  q: undefined,
                  tag: undefined,
                })
              }
            >
              {t('Clear')}
            </Button>
          ) : null}
        </div>
      </div>
      <Panel
        title={selected.size > 0 ? t('{runs} selected', { runs: plural(selected.size, 'run') }) : t('Runs')}
        count={
          selected.size > 0 || !runs.data
            ? undefined
            : total
              ? `${count(total.n)}${total.exact ? '' : '+'}`
              : `${shown.length}${runs.data.next ? '+' : ''}`
        }
        actions={
          <div className="row">
            {bulkVerbs.map((verb) => (
              <Button
                key={verb.name}
                kind={verb.danger ? 'danger' : 'plain'}
                isDisabled={selected.size === 0}
                onPress={() => asked.open('bulk', verb.name)}
              >
                {verb.label}
              </Button>
            ))}
            {matching && shown.length > 0 ? (
              <Button kind="quiet" onPress={() => asked.open('bulk-all', 'recover')}>
                {t('All that fit the filter…')}
              </Button>
            ) : null}
          </div>
        }
      >
        <Loaded
          query={runs}
          rows={10}
          isEmpty={() => shown.length === 0}
          empty={<NoRuns filtered={narrow || Boolean(state)} />}
        >
          {() => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th className="tick">
                      <input
                        type="checkbox"
                        aria-label={t('Select all runs of this page')}
                        checked={everyOne}
                        onChange={() => setSelected(new Set(everyOne ? [] : shown.map((r) => r.id)))}
                      />
                    </th>
                    <th>{t('State')}</th>
                    <th>{t('Workflow')}</th>
                    <th>{t('Run')}</th>
                    <th>{t('Reason')}</th>
                    <th>{t('Created')}</th>
                    <th className="num">{t('Took')}</th>
                    <th>{t('Origin')}</th>
                  </tr>
                </thead>
                <tbody>
                  {drawn.map((run, i) => (
                    <Row
                      key={run.id}
                      run={run}
                      selected={selected.has(run.id)}
                      toggle={toggle}
                      current={keys.at === i}
                    />
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
        <footer className="pager">
          {cursor ? <Button onPress={() => set({ cursor: undefined })}>{t('Newest')}</Button> : null}
          {runs.data?.next ? (
            <Button
              onPress={() =>
                void navigate({ search: (old) => ({ ...old, cursor: runs.data?.next ?? undefined }) })
              }
            >
              {t('Older')}
            </Button>
          ) : null}
        </footer>
      </Panel>
      <Bulk
        open={bulk}
        choice={bulk?.all ? (matching ?? {}) : { runs: [...selected] }}
        onTurn={(verb) => asked.turn('bulk-all', verb)}
        onClose={asked.close}
        onDone={() => setSelected(new Set())}
      />
    </>
  )
}

const Row = memo(function Row({
  run,
  selected,
  toggle,
  current,
}: {
  run: Run
  selected: boolean
  toggle: (id: string) => void
  current: boolean
}) {
  return (
    <tr aria-selected={selected} data-current={current || undefined}>
      <td className="tick">
        <input
          type="checkbox"
          aria-label={t('Select run {id}', { id: run.id })}
          checked={selected}
          onChange={() => toggle(run.id)}
        />
      </td>
      <td>
        <State state={run.state} />
      </td>
      <td className="nowrap">
        <WorkflowLink name={run.workflow} /> <span className="sub">v{run.version}</span>
      </td>
      <td>
        <RunLink id={run.id} />
      </td>
      <td className="reason">
        <span className="clip sub">
          {run.position ? (
            run.position.number ? (
              t('in line for {line}, {number} of {of}', { ...run.position, number: run.position.number })
            ) : (
              t('in line for {line}', { line: run.position.line })
            )
          ) : (
            <Message of={run} />
          )}
        </span>
      </td>
      <td className="nowrap">
        <Ago time={run.created_at} />
      </td>
      <td className="num">
        <Span from={run.started_at} to={run.finished_at} />
      </td>
      <td className="nowrap sub">
        {term(run.origin)}
        {run.trigger ? ` ${run.trigger}` : ''}
        {run.user && run.origin !== 'schedule' ? ` · ${run.user}` : ''}
        <Tags of={run.tags} />
      </td>
    </tr>
  )
})

function NoRuns({ filtered }: { filtered: boolean }) {
  if (filtered) return <p>{t('No run fits the filter.')}</p>
  return (
    <>
      <p>
        {t(
          'Here you see every run with its state and its reason. There is none yet. Start one from the page of a workflow, or so:',
        )}
      </p>
      <Command text="skein run hello" />
    </>
  )
}
