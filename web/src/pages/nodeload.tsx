// The load of a node in the last hour, as the node has recorded it.
import './nodeload.css'
import { useQuery } from '@tanstack/react-query'
import { get, path } from '../api/client'
import type { NodeLoads } from '../api/types'
import { Loaded, Panel } from '../kit/panel'
import { t } from '../text/t'
import { loadLines } from './nodedata'
import { lineOf } from './statsdata'

const [width, height] = [720, 32]
/** A node records its load every 5,000 ms. */
const noted = 5_000

export function LoadOf({ node }: { node: string }) {
  const query = useQuery({
    queryKey: ['load', node],
    queryFn: ({ signal }) => get<NodeLoads>(path('nodes', node, 'metrics'), {}, signal),
    refetchInterval: 2 * noted,
    retry: false,
  })
  return (
    <Panel title={t('The last hour')}>
      <Loaded
        query={query}
        isEmpty={({ items }) => (items ?? []).length < 2}
        empty={t('The node has noted no load yet. It does so every 5 seconds.')}
      >
        {({ items }) => (
          <div className="node-load pad">
            {loadLines(items ?? []).map((line) => (
              <figure key={line.label}>
                <figcaption>
                  <span>{line.label}</span>
                  <span className="sub num">{t('now {now}, at most {most}', line)}</span>
                </figcaption>
                <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
                  <path d={lineOf(line.values, (v) => height - 1 - v * (height - 2), width)} />
                </svg>
              </figure>
            ))}
          </div>
        )}
      </Loaded>
    </Panel>
  )
}
