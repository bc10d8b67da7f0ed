import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { get, path } from '../api/client'
import { useOpenAlerts, useRuns, useSchedules, useWorkflow } from '../api/queries'
import type { Workflow as Definition, ListVersion } from '../api/types'
import { plainVerb } from '../api/verbs'
import { toast } from '../kit/dialog'
import { plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, exactly, Message, RunLink, Span, State, Tabs } from '../kit/parts'
import { useToastVerb, VerbButton } from '../kit/verbs'
import { useWatch } from '../live/live'
import { rich, t } from '../text/t'
import { term } from '../text/terms'
import { AlertsOf } from './alertparts'
import { RulesOf } from './deadlines'
import { FoldedGraph } from './foldedgraph'
import { GridOf } from './grid'
import { Head } from './head'
import { Idle } from './idle'
import { ScheduleTable } from './schedules'
import { NewSilence, NewSilenceButton } from './silenceform'
import { DurationsOf } from './stats'

const tabs = [
  ['runs', t('Runs')],
  ['grid', t('Grid')],
  ['graph', t('Graph')],
  ['durations', t('Durations')],
  ['triggers', t('Triggers')],
  ['alerts', t('Alerts')],
  ['versions', t('Versions')],
  ['source', t('Source')],
] as const

export function Workflow() {
  const { ns, name } = useParams({ from: '/w/$ns/$name' })
  const { tab = 'runs' } = useSearch({ from: '/w/$ns/$name' })
  const workflow = ns === 'default' ? name : `${ns}/${name}`
  useWatch(`workflow:${workflow}`)
  const query = useWorkflow(workflow)
  return (
    <Loaded query={query} rows={10}>
      {(w) => (
        <>
          <Top w={w} />
          <Idle workflow={workflow} />
          <Tabs label={t('Views of the workflow')}>
            {tabs.map(([id, label]) => (
              <Link
                key={id}
                to="/w/$ns/$name"
                params={{ ns, name }}
                search={{ tab: id === 'runs' ? undefined : id }}
                activeOptions={exactly}
                aria-current={id === tab ? 'page' : undefined}
              >
                {label}
              </Link>
            ))}
          </Tabs>
          {tab === 'runs' ? <RunsOf workflow={workflow} /> : null}
          {tab === 'grid' ? <GridOf w={w} /> : null}
          {tab === 'graph' ? <GraphOf w={w} /> : null}
          {tab === 'durations' ? <DurationsOf w={w} /> : null}
          {tab === 'triggers' ? <TriggersOf workflow={workflow} /> : null}
          {tab === 'alerts' ? <AlertsTab w={w} /> : null}
          {tab === 'versions' ? <Versions w={w} /> : null}
          {tab === 'source' ? (
            <Panel title={t('Source of version {version}', { version: w.version })}>
              <pre className="source">{w.source}</pre>
            </Panel>
          ) : null}
        </>
      )}
    </Loaded>
  )
}

function Top({ w }: { w: Definition }) {
  const { run: act } = useToastVerb()
  const paused = w.state === 'paused'
  const verb = (name: string) => plainVerb(`${path('workflows', w.namespace, w.name)}:${name}`)
  const [does, undoes] = paused ? ['resume', 'pause'] : ['pause', 'resume']
  const toggle = () =>
    act(
      () => verb(does),
      () =>
        toast(
          paused
            ? t('{workflow} is active again.', { workflow: w.workflow })
            : t('{workflow} is paused: nothing of it starts.', { workflow: w.workflow }),
          {
            undo: () => act(() => verb(undoes)),
          },
        ),
    )
  return (
    <Head
      label={w.workflow}
      title={
        <>
          {w.workflow} <State state={w.state} /> <AlertsOf workflow={w.workflow} />
        </>
      }
      actions={
        <>
          <Link
            className="button"
            data-kind="primary"
            to="/w/$ns/$name/start"
            params={{ ns: w.namespace, name: w.name }}
          >
            {t('Start')}
          </Link>
          <Link className="button" to="/edit/$ns/$name" params={{ ns: w.namespace, name: w.name }}>
            {t('Edit')}
          </Link>
          <VerbButton
            verb="workflow.operate"
            namespace={w.namespace}
            icon={paused ? 'play' : 'pause'}
            onPress={toggle}
          >
            {paused ? t('Resume') : t('Pause')}
          </VerbButton>
        </>
      }
    >
      <p className="sub">
        {w.description ? `${w.description} · ` : ''}
        {plural(w.tasks ?? 0, 'task')} · {t('version {version}', { version: w.version })}
        {w.git ? (
          <span title={t('commit {commit}', { commit: w.git.commit })}>
            {' · '}
            {rich('from git: {file} of {source}, commit {commit}', {
              file: w.git.file,
              source: (
                <Link to="/admin/git" search={{ q: `${w.namespace}/${w.git.source}` }}>
                  {w.git.source}
                </Link>
              ),
              commit: w.git.commit.slice(0, 10),
            })}
          </span>
        ) : null}
      </p>
    </Head>
  )
}

function RunsOf({ workflow }: { workflow: string }) {
  const runs = useRuns({ workflow, limit: 50 })
  return (
    <Panel
      title={t('Runs')}
      actions={
        <Link to="/runs" search={{ workflow }}>
          {t('Filter and act on many')}
        </Link>
      }
    >
      <Loaded
        query={runs}
        isEmpty={(d) => d.items.length === 0}
        empty={t('The workflow has not run yet. Start it with the button above.')}
      >
        {({ items }) => (
          <div className="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th>{t('State')}</th>
                  <th>{t('Run')}</th>
                  <th>{t('Reason')}</th>
                  <th>{t('Created')}</th>
                  <th className="num">{t('Took')}</th>
                  <th>{t('Origin')}</th>
                </tr>
              </thead>
              <tbody>
                {items.map((r) => (
                  <tr key={r.id}>
                    <td>
                      <State state={r.state} />
                    </td>
                    <td>
                      <RunLink id={r.id} />
                    </td>
                    <td className="reason">
                      <span className="sub clip">
                        <Message of={r} />
                      </span>
                    </td>
                    <td className="nowrap">
                      <Ago time={r.created_at} />
                    </td>
                    <td className="num">
                      <Span from={r.started_at} to={r.finished_at} />
                    </td>
                    <td className="sub nowrap">
                      {term(r.origin)} {r.trigger ?? ''}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

function GraphOf({ w }: { w: Definition }) {
  const { version, task, q = '', group, open, against } = useSearch({ from: '/w/$ns/$name' })
  const navigate = useNavigate({ from: '/w/$ns/$name' })
  const set = (change: object) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <FoldedGraph
      where={path('workflows', w.namespace, w.name, 'layout')}
      query={{ version: version ?? w.version }}
      workflow={w}
      version={Number(version ?? w.version)}
      view={{ group, open, against }}
      onView={set}
      selected={task}
      onSelect={(name) => set({ task: name })}
      q={q}
      onFind={(text) => set({ q: text || undefined })}
    />
  )
}

function TriggersOf({ workflow }: { workflow: string }) {
  const schedules = useSchedules({ workflow })
  return (
    <Panel title={t('Triggers')}>
      <Loaded
        query={schedules}
        isEmpty={(d) => d.length === 0}
        empty={t('The workflow has no triggers: it runs when it is started.')}
      >
        {(all) => <ScheduleTable all={all} />}
      </Loaded>
    </Panel>
  )
}

/** The rules of a workflow, and the alerts about it that are not over. */
function AlertsTab({ w }: { w: Definition }) {
  const open = useOpenAlerts(w.workflow).data?.items ?? []
  return (
    <>
      <RulesOf rules={w.alerts ?? []} />
      <p className="row">
        <AlertsOf workflow={w.workflow} />
        <Link to="/alerts" search={{ workflow: w.workflow, ...(open.length > 0 ? {} : { state: 'all' }) }}>
          {open.length > 0 ? t('What is not over') : t('Earlier alerts')}
        </Link>
        <NewSilenceButton quiet />
      </p>
      <NewSilence about={{ namespace: w.namespace, workflow: w.name }} />
    </>
  )
}

function Versions({ w }: { w: Definition }) {
  const versions = useQuery({
    queryKey: ['versions', w.workflow, w.revision],
    queryFn: ({ signal }) => get<ListVersion>(path('workflows', w.namespace, w.name, 'versions'), {}, signal),
  })
  return (
    <Panel title={t('Versions')}>
      <Loaded query={versions}>
        {({ items }) => (
          <table>
            <thead>
              <tr>
                <th>{t('Version')}</th>
                <th>{t('Applied')}</th>
                <th>{t('By')}</th>
                <th>{t('Digest')}</th>
                <th>{t('Graph')}</th>
              </tr>
            </thead>
            <tbody>
              {items.map((v) => (
                <tr key={v.version}>
                  <td>
                    v{v.version} {v.current ? <span className="sub">{t('current')}</span> : null}
                  </td>
                  <td>
                    <Ago time={v.created_at} />
                  </td>
                  <td>{v.user}</td>
                  <td className="mono">{v.digest.slice(0, 12)}</td>
                  <td>
                    <Link
                      to="/w/$ns/$name"
                      params={{ ns: w.namespace, name: w.name }}
                      search={{
                        tab: 'graph',
                        version: String(v.version),
                        ...(v.version > 1 ? { against: String(v.version - 1) } : {}),
                      }}
                    >
                      {v.version > 1 ? t('changes since v{version}', { version: v.version - 1 }) : t('show')}
                    </Link>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Loaded>
    </Panel>
  )
}
