// How the runs of the past day ended, by hour, for Home.
import './stats.css'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { get } from '../api/client'
import { slow } from '../api/queries'
import type { RunCounts } from '../api/types'
import { clock, count, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { labelIn } from '../kit/states'
import { t } from '../text/t'
import { EndBars } from './endbars'
import { outcomes, periodsOf, sumOf } from './statsdata'

const [width, height] = [480, 64]

/** The server counts an end some seconds after it. */
export function Past({ ns, since }: { ns: string; since: string }) {
  const query = useQuery({
    queryKey: ['ends', ns, since],
    queryFn: ({ signal }) => get<RunCounts>('/runs/counts', { by: 'hour', from: since, ns }, signal),
    refetchInterval: slow,
  })
  return (
    <Panel title={t('Past 24 hours')} actions={<Link to="/runs">{t('All runs')}</Link>}>
      <Loaded
        query={query}
        rows={3}
        isEmpty={(counts) => (counts.items ?? []).length === 0}
        empty={t('No run has ended in the past 24 hours, or it is not counted yet.')}
      >
        {(counts) => <Ends counts={counts} />}
      </Loaded>
    </Panel>
  )
}

function Ends({ counts }: { counts: RunCounts }) {
  const items = (counts.items ?? []).map((item) => ({ ...item, at: item.key }))
  const periods = periodsOf({ ...counts, items })
  const total = sumOf(items)
  return (
    <figure className="stats-chart">
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
        <span>{t('{from} to {to}', { from: clock(counts.from), to: clock(counts.to) })}</span>
      </figcaption>
    </figure>
  )
}
