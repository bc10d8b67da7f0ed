// Two runs of a workflow side by side: what changed since the workflow worked.
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { lazy, Suspense, useEffect } from 'react'
import { get, path, workflowPath } from '../api/client'
import { useRun, useRuns, useTasks } from '../api/queries'
import type { Run, Version } from '../api/types'
import { duration, plural, shortID } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Clock, Field, RunLink, Span, State, WorkflowLink } from '../kit/parts'
import { t } from '../text/t'
import { paramChanges, type TaskPair, taskPairs } from './comparedata'
import { Head } from './head'

const TextDiff = lazy(() => import('../text/editor').then((m) => ({ default: m.TextDiff })))
const pairsShown = 200

export function Compare() {
  const { a, b = '' } = useSearch({ from: '/compare' })
  const right = useRun(b)
  return (
    <>
      <Head title={t('Compare two runs')} label={t('Compare')} />
      <Loaded query={right} rows={8}>
        {(run) => (a ? <Both a={a} right={run} /> : <LastGood of={run} />)}
      </Loaded>
    </>
  )
}

/** Chooses the last run that succeeded before the given one. */
function LastGood({ of }: { of: Run }) {
  const navigate = useNavigate({ from: '/compare' })
  const runs = useRuns({ workflow: of.workflow, state: 'succeeded', until: of.created_at, limit: 2 })
  const good = runs.data?.items.find((r) => r.id !== of.id)
  useEffect(() => {
    if (good) void navigate({ search: { a: good.id, b: of.id }, replace: true })
  }, [good, of.id, navigate])
  return (
    <Panel>
      <Loaded
        query={runs}
        isEmpty={() => !good}
        empty={t('No earlier run of {workflow} succeeded, so there is nothing to compare with.', {
          workflow: of.workflow,
        })}
      >
        {() => null}
      </Loaded>
    </Panel>
  )
}

function Both({ a, right }: { a: string; right: Run }) {
  const left = useRun(a)
  return (
    <Loaded query={left} rows={8}>
      {(l) => (
        <>
          <div className="compare-ends">
            <End run={l} title={t('Before')} />
            <End run={right} title={t('After')} />
          </div>
          <Params a={l} b={right} />
          <Tasks a={l} b={right} />
          {l.workflow === right.workflow && l.version !== right.version ? <Source a={l} b={right} /> : null}
        </>
      )}
    </Loaded>
  )
}

function End({ run, title }: { run: Run; title: string }) {
  return (
    <Panel title={title}>
      <dl className="facts">
        <Field label={t('Run')}>
          <WorkflowLink name={run.workflow} /> <RunLink id={run.id}>{shortID(run.id)}</RunLink>
        </Field>
        <Field label={t('State')}>
          <State state={run.state} />
        </Field>
        <Field label={t('Version')}>{run.version}</Field>
        <Field label={t('Instant')}>
          <Clock time={run.instant} />
        </Field>
        <Field label={t('Took')}>
          <Span from={run.started_at} to={run.finished_at} />
        </Field>
      </dl>
    </Panel>
  )
}

function Params({ a, b }: { a: Run; b: Run }) {
  const changes = paramChanges(a, b)
  return (
    <Panel title={t('Parameters that differ')} count={changes.length}>
      {changes.length === 0 ? (
        <p className="empty">{t('Both runs have the same parameters.')}</p>
      ) : (
        <div className="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>{t('Parameter')}</th>
                <th>{t('Before')}</th>
                <th>{t('After')}</th>
              </tr>
            </thead>
            <tbody>
              {changes.map((c) => (
                <tr key={c.what}>
                  <td>{c.what}</td>
                  <td className="mono">{c.a}</td>
                  <td className="mono">{c.b}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}

function Tasks({ a, b }: { a: Run; b: Run }) {
  const [left, right] = [useTasks(a.id), useTasks(b.id)]
  const pairs = taskPairs(left.data ?? [], right.data ?? [])
  const differing = pairs.filter((p) => p.weight > 0)
  return (
    <Panel
      title={t('Tasks, by difference')}
      count={right.data ? plural(differing.length, 'difference') : undefined}
    >
      <Loaded query={left.data === undefined || left.error ? left : right} rows={6}>
        {() => (
          <div className="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th>{t('Task')}</th>
                  <th>{t('Before')}</th>
                  <th>{t('After')}</th>
                  <th className="num">{t('Took before')}</th>
                  <th className="num">{t('Took after')}</th>
                  <th>{t('Node before')}</th>
                  <th>{t('Node after')}</th>
                </tr>
              </thead>
              <tbody>
                {pairs.slice(0, pairsShown).map((p) => (
                  <Pair key={p.name} p={p} run={b} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

const timeOf = (ms: number | undefined) => (ms === undefined ? '–' : duration(ms))

function Pair({ p, run }: { p: TaskPair; run: Run }) {
  return (
    <tr data-current={p.weight >= 1e9 || undefined}>
      <td>
        {p.b ? (
          <RunLink id={run.id} task={p.name}>
            {p.name}
          </RunLink>
        ) : (
          p.name
        )}
      </td>
      <td>{p.a ? <State state={p.a.state} /> : <span className="muted">{t('absent')}</span>}</td>
      <td>{p.b ? <State state={p.b.state} /> : <span className="muted">{t('absent')}</span>}</td>
      <td className="num">{timeOf(p.tookA)}</td>
      <td className="num">{timeOf(p.tookB)}</td>
      <td className="sub">{p.a?.attempts?.at(-1)?.node ?? '–'}</td>
      <td className="sub">{p.b?.attempts?.at(-1)?.node ?? '–'}</td>
    </tr>
  )
}

/** The change of the workflow file between the versions of the two runs. */
function Source({ a, b }: { a: Run; b: Run }) {
  const versions = useQuery({
    queryKey: ['sources', a.workflow, a.version, b.version],
    queryFn: ({ signal }) =>
      Promise.all(
        [a, b].map((r) =>
          get<Version>(`/workflows${workflowPath(r.workflow)}${path('versions', r.version)}`, {}, signal),
        ),
      ),
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <Panel title={t('Workflow file, version {from} to {to}', { from: a.version, to: b.version })}>
      <Loaded query={versions}>
        {([from, to]) => (
          <Suspense fallback={null}>
            <TextDiff
              from={from?.source ?? ''}
              to={to?.source ?? ''}
              label={t('Changes of the workflow file')}
            />
          </Suspense>
        )}
      </Loaded>
    </Panel>
  )
}
