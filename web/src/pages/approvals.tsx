// The tasks of all runs that wait for an approval, the oldest first. A person decides on this page.

import { useQueries } from '@tanstack/react-query'
import { get, path } from '../api/client'
import { useRuns } from '../api/queries'
import type { Explanation, Reason, Run, Task } from '../api/types'
import { useNamespace, within } from '../app/namespace'
import { Loaded, Panel } from '../kit/panel'
import { Ago, RunLink, WorkflowLink } from '../kit/parts'
import { liveKey, useWatch } from '../live/live'
import { rich, t } from '../text/t'
import { formOf, messageOf, refusalOf, taskOfAction } from './approvalsdata'
import { Answer } from './approve'
import { Head } from './head'
import { What } from './reasons'

const runsMax = 100

export function Approvals() {
  useWatch()
  const [ns] = useNamespace()
  const runs = useRuns({ state: 'suspended', limit: runsMax, ns: ns || undefined, include: 'params' })
  const shown = (runs.data?.items ?? []).filter((r) => within(ns, r.namespace))
  const reasons = useQueries({
    queries: shown.map((r) => ({
      queryKey: liveKey([`run ${r.id}`], 'explain', ''),
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        get<Explanation>(path('runs', r.id, 'explain'), {}, signal),
    })),
  })
  const waiting = shown
    .flatMap((run, i) =>
      (reasons[i]?.data?.reasons ?? [])
        .filter((reason) => reason.kind === 'approval')
        .map((reason) => ({ run, reason, task: taskOfAction(reason) })),
    )
    .sort((a, b) => (a.reason.since ?? '').localeCompare(b.reason.since ?? ''))
  const pending = runs.isPending || reasons.some((r) => r.isPending)
  const broken = reasons.filter((r) => r.error).length
  return (
    <>
      <Head title={t('Approvals')} label={t('Approvals')} />
      {broken > 0 ? (
        <p className="sub">
          {t('The reasons of {n} runs could not be read. They are read again.', { n: broken })}
        </p>
      ) : null}
      <Panel title={t('Waiting for an answer')} count={pending ? undefined : waiting.length}>
        <Loaded
          query={runs}
          isEmpty={() => !pending && waiting.length === 0}
          empty={
            <p>
              {t(
                'Nothing waits for an answer. A task with the key approval asks here before its run goes on.',
              )}
            </p>
          }
        >
          {() => (
            <ul className="inbox">
              {waiting.map(({ run, reason, task }) => (
                <Item key={`${run.id} ${task ?? reason.what}`} run={run} reason={reason} task={task} />
              ))}
            </ul>
          )}
        </Loaded>
      </Panel>
      {runs.data?.next ? (
        <p className="sub">{t('Only the newest {n} suspended runs are looked at.', { n: runsMax })}</p>
      ) : null}
    </>
  )
}

function Item({ run, reason, task }: { run: Run; reason: Reason; task: Task['name'] | undefined }) {
  const params = Object.entries((run.params ?? {}) as Record<string, unknown>)
  return (
    <li className="stack">
      <div className="row spread">
        <span className="row">
          <b>
            <WorkflowLink name={run.workflow} />
          </b>
          {task ? (
            <RunLink id={run.id} task={task}>
              {task}
            </RunLink>
          ) : null}
          <span className="sub">
            {rich('run {run}', { run: <RunLink id={run.id} /> })}
            {run.user ? ` ${t('by {user}', { user: run.user })}` : ''}
          </span>
        </span>
        <span className="sub">
          {reason.holder ? `${t('asks {who}', { who: reason.holder })} ` : ''}
          {reason.since ? rich('since {time}', { time: <Ago time={reason.since} /> }) : null}
          {reason.expected_at ? (
            <> · {rich('ends {time}', { time: <Ago time={reason.expected_at} /> })}</>
          ) : null}
        </span>
      </div>
      <p>{messageOf(reason) ?? <What r={reason} />}</p>
      {params.length > 0 ? (
        <p className="sub">
          {params
            .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
            .join(' · ')}
        </p>
      ) : null}
      {task ? (
        <Answer run={run} task={task} form={formOf(reason)} refusal={refusalOf(reason)} keys={false} />
      ) : null}
    </li>
  )
}
