// The durations and the ends of the runs of a workflow, by day or hour, and by task.
import { t } from '../text/t'
import './stats.css'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { get, path } from '../api/client'
import type { Workflow as Definition, StatsRow, WorkflowStats } from '../api/types'
import { count, duration, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { exactly, Tabs } from '../kit/parts'
import { labelIn } from '../kit/states'
import { EndBars } from './endbars'
import { lineOf, outcomes, periodsOf, scaleOf, trendOf } from './statsdata'

const width = 600
const height = 96
/** The counts follow the runs within some seconds. */
const readEvery = 15_000

/** The durations of a row, in the order of the columns. */
const shown = ['p50', 'p95', 'p99', 'max', 'wait_p95'] as const

const seconds = (s: number | null | undefined) => (typeof s === 'number' ? duration(s * 1000) : '–')

function useStats(w: Definition, by: string, from: Date | undefined) {
  return useQuery({
    queryKey: ['stats', w.workflow, by, from?.getTime() ?? 0],
    queryFn: ({ signal }) =>
      get<WorkflowStats>(
        path('workflows', w.namespace, w.name, 'stats'),
        { by, from: from?.toISOString() },
        signal,
      ),
    refetchInterval: readEvery,
  })
}

/** The beginning of the hour three days ago. */
function threeDaysAgo(): Date {
  const hour = 3_600_000
  return new Date((Math.floor(Date.now() / hour) - 71) * hour)
}

export function DurationsOf({ w }: { w: Definition }) {
  const { show } = useSearch({ from: '/w/$ns/$name' })
  const by = show === 'hours' ? 'hour' : 'day'
  const runs = useStats(w, by, by === 'hour' ? threeDaysAgo() : undefined)
  const tasks = useStats(w, 'task', undefined)
  return (
    <>
      <Panel
        title={t('Durations of runs')}
        actions={
          <Tabs label={t('Period')}>
            {(['days', 'hours'] as const).map((id) => (
              <Link
                key={id}
                to="/w/$ns/$name"
                params={{ ns: w.namespace, name: w.name }}
                search={{ tab: 'durations', show: id === 'days' ? undefined : id }}
                activeOptions={exactly}
                aria-current={(id === 'hours') === (by === 'hour') ? 'page' : undefined}
              >
                {id === 'days' ? t('30 days') : t('3 days by hour')}
              </Link>
            ))}
          </Tabs>
        }
      >
        <Loaded
          query={runs}
          rows={6}
          isEmpty={(s) => s.items.length === 0}
          empty={<Nothing stats={runs.data} />}
        >
          {(s) => <Runs stats={s} />}
        </Loaded>
      </Panel>
      <Panel title={t('Tasks, the slowest first')}>
        <Loaded
          query={tasks}
          isEmpty={(s) => s.items.length === 0}
          empty={t('No attempt of a task was counted in the last 30 days.')}
        >
          {(s) => <Tasks rows={s.items} />}
        </Loaded>
      </Panel>
    </>
  )
}

function Nothing({ stats }: { stats: WorkflowStats | undefined }) {
  return stats?.counted === false
    ? t('Runs are not counted as long as a node of an earlier version is in the cluster.')
    : t('No run has ended in this time. Its counts appear some seconds after its end.')
}

function Runs({ stats }: { stats: WorkflowStats }) {
  const periods = periodsOf(stats)
  const scale = scaleOf(
    periods.flatMap((p) => [p.row?.p50, p.row?.p95]),
    height,
  )
  const total = stats.total
  return (
    <>
      <figure className="stats-chart">
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          aria-hidden="true"
          className="stats-lines"
        >
          <path className="stats-base" d={`M0 ${height}h${width}`} />
          <path
            data-line="p95"
            d={lineOf(
              periods.map((p) => p.row?.p95),
              scale.y,
              width,
            )}
          />
          <path
            d={lineOf(
              periods.map((p) => p.row?.p50),
              scale.y,
              width,
            )}
          />
        </svg>
        <figcaption>
          <span>{t('Solid: p50. Dashed: p95.')}</span>
          <span>
            {t('{from} to {to}, logarithmic', {
              from: seconds(scale.least),
              to: seconds(scale.most),
            })}
          </span>
        </figcaption>
        <svg
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          aria-hidden="true"
          className="stats-ends"
        >
          <EndBars rows={periods.map((p) => p.row)} width={width} height={height} />
        </svg>
        <figcaption>
          <span>
            {plural(total.n, 'end')}
            {outcomes
              .filter((state) => total[state] > 0)
              .map((state) => `, ${count(total[state])} ${labelIn(state)}`)
              .join('')}
          </span>
          <span>
            {t('p50 {p50} · p95 {p95} · p99 {p99} · longest {max}', {
              p50: seconds(total.p50),
              p95: seconds(total.p95),
              p99: seconds(total.p99),
              max: seconds(total.max),
            })}
          </span>
        </figcaption>
      </figure>
      {stats.damaged > 0 ? (
        <p className="sub">
          {t('{periods} left out: the counts are damaged.', { periods: plural(stats.damaged, 'period') })}
        </p>
      ) : null}
      <Table head={t('From (UTC)')} rows={[...stats.items].reverse()} name={(r) => periodName(r, stats.by)} />
    </>
  )
}

/** The day, or the day and the hour, in UTC, because the periods are in UTC. */
function periodName(r: StatsRow, by: string): string {
  const at = r.at ?? ''
  return by === 'hour' ? at.slice(0, 16).replace('T', ' ') : at.slice(0, 10)
}

function Table({ head, rows, name }: { head: string; rows: StatsRow[]; name: (r: StatsRow) => string }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{head}</th>
            {[t('Ended'), t('Failed'), 'p50', 'p95', 'p99', t('Longest'), t('Wait p95')].map((h) => (
              <th key={h} className="num">
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => (
            <tr key={name(r)}>
              <td className="nowrap">{name(r)}</td>
              <Numbers r={r} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Numbers({ r }: { r: StatsRow }) {
  return (
    <>
      <td className="num">{count(r.n)}</td>
      <td className="num">{count(r.failed)}</td>
      {shown.map((key) => (
        <td key={key} className="num">
          {seconds(r[key])}
        </td>
      ))}
    </>
  )
}

/** The name under which the server sums the tasks that have no row of their own. */
const rest = '…'

function Tasks({ rows }: { rows: StatsRow[] }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Task')}</th>
            {[t('Attempts'), t('Failed'), 'p50', 'p95', 'p99', t('Longest'), t('Wait p95'), t('Trend')].map(
              (h) => (
                <th key={h} className="num">
                  {h}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => {
            const trend = trendOf(r.trend)
            return (
              <tr key={r.task}>
                <td>{r.task === rest ? t('Other tasks') : r.task}</td>
                <Numbers r={r} />
                <td className={trend.isSlower ? 'num stats-slower' : 'num'}>{trend.text}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
