// All objects whose name or id contains a text: workflows, runs, schedules, queues, nodes.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { allows, useMe } from '../api/me'
import { useNodes, useQueues, useRuns, useSchedules, useWorkflows } from '../api/queries'
import { useNamespace, within } from '../app/namespace'
import { TextFilter } from '../kit/filter'
import { Loaded, Panel } from '../kit/panel'
import { Ago, RunLink, State, TriggerLink, WorkflowLink } from '../kit/parts'
import { t } from '../text/t'
import { Head } from './head'
import { NodeLink } from './nodeparts'
import { found, foundMax } from './searchdata'

export function SearchPage() {
  const { q = '' } = useSearch({ from: '/search' })
  const navigate = useNavigate({ from: '/search' })
  return (
    <>
      <Head title={t('Search')} label={q ? t('Search: {q}', { q }) : t('Search')} />
      <div className="row">
        <TextFilter
          name="q"
          label={t('Name, id, key, user or message')}
          value={q}
          set={(v) => void navigate({ search: (old) => ({ ...old, q: v }) })}
          filter
        />
      </div>
      {q ? (
        <Found q={q} />
      ) : (
        <p className="sub">{t('Write a part of a name, the id of a run or its key, and press Enter.')}</p>
      )}
    </>
  )
}

function Found({ q }: { q: string }) {
  const [ns] = useNamespace()
  const me = useMe()
  const workflows = useWorkflows()
  const schedules = useSchedules()
  const queues = useQueues()
  const w = found(
    workflows.data?.filter((i) => within(ns, i.namespace)),
    q,
    (i) => `${i.workflow} ${i.description ?? ''}`,
  )
  const s = found(
    schedules.data?.filter((i) => within(ns, i.namespace)),
    q,
    (i) => `${i.name} ${i.workflow}`,
  )
  const u = found(queues.data?.items, q, (i) => i.name)
  return (
    <>
      <Part title={t('Workflows')} of={w.of} query={workflows}>
        {w.items.map((i) => (
          <li key={i.workflow} className="row">
            <State state={i.state} /> <WorkflowLink name={i.workflow} />{' '}
            <span className="sub">{i.description}</span>
          </li>
        ))}
      </Part>
      <Runs q={q} ns={ns} />
      <Part title={t('Schedules')} of={s.of} query={schedules}>
        {s.items.map((i) => (
          <li key={`${i.workflow} ${i.name}`} className="row">
            <State state={i.state} /> <WorkflowLink name={i.workflow} tab="triggers" />{' '}
            <TriggerLink workflow={i.workflow} name={i.name} />
          </li>
        ))}
      </Part>
      <Part title={t('Queues')} of={u.of} query={queues}>
        {u.items.map((i) => (
          <li key={i.name} className="row">
            <State state={i.state} />{' '}
            <Link to="/q/$name" params={{ name: i.name }}>
              {i.name}
            </Link>
          </li>
        ))}
      </Part>
      {allows(me, 'node.read', '*') ? <Nodes q={q} /> : null}
    </>
  )
}

/** The server searches for runs, because the page has not read all of them. */
function Runs({ q, ns }: { q: string; ns: string }) {
  const runs = useRuns({ q, limit: foundMax, ns: ns || undefined })
  const items = (runs.data?.items ?? []).filter((r) => within(ns, r.namespace))
  return (
    <Part title={t('Runs')} of={items.length} more={Boolean(runs.data?.next)} query={runs}>
      {items.map((r) => (
        <li key={r.id} className="row">
          <State state={r.state} /> <WorkflowLink name={r.workflow} /> <RunLink id={r.id} />{' '}
          <span className="sub">
            <Ago time={r.created_at} />
            {r.message ? <span lang="en"> · {r.message}</span> : null}
          </span>
        </li>
      ))}
    </Part>
  )
}

function Nodes({ q }: { q: string }) {
  const nodes = useNodes()
  const n = found(nodes.data?.items, q, (i) => `${i.name} ${i.groups?.join(' ') ?? ''}`)
  return (
    <Part title={t('Nodes and workers')} of={n.of} query={nodes}>
      {n.items.map((i) => (
        <li key={i.name} className="row">
          <State state={i.state} /> <NodeLink name={i.name} />
        </li>
      ))}
    </Part>
  )
}

function Part({
  title,
  of,
  more,
  query,
  children,
}: {
  title: string
  of: number
  more?: boolean
  query: Parameters<typeof Loaded<unknown>>[0]['query']
  children: ReactNode
}) {
  return (
    <Panel title={title} count={query.data ? `${of}${more ? '+' : ''}` : undefined}>
      <Loaded query={query} rows={1} isEmpty={() => of === 0} empty={t('Nothing fits.')}>
        {() => <ul className="list pad found">{children}</ul>}
      </Loaded>
    </Panel>
  )
}
