import { useQuery } from '@tanstack/react-query'
import { get } from '../api/client'
import { slow, useNodes } from '../api/queries'
import type { Kind, ListKind } from '../api/types'
import { useQuestion } from '../app/ask'
import { bytes } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, State } from '../kit/parts'
import { Confirm } from '../kit/verbs'
import { Head } from './head'
import { differing } from './nodedata'
import { drainOf, Left, NodeLink, NodeVerb, Sight } from './nodeparts'

export function Cluster() {
  const nodes = useNodes()
  const items = nodes.data?.items ?? []
  const { question, asked } = useQuestion({
    drain: (name) => {
      const n = items.find((i) => i.name === name)
      return n && drainOf(n)
    },
  })
  return (
    <>
      <Head title="Cluster" label="Cluster">
        {items.length > 0 && items.every((n) => n.orders_refused) ? (
          <p className="sub">
            Nodes and workers are cordoned and drained in a cluster on PostgreSQL. Here, end the process: what
            runs in it finishes.
          </p>
        ) : null}
      </Head>
      <Panel title="Nodes and workers" count={nodes.data?.items.length}>
        <Loaded query={nodes} isEmpty={(d) => d.items.length === 0} empty="No node has joined the cluster.">
          {({ items }) => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>State</th>
                    <th>Name</th>
                    <th className="num">Slots</th>
                    <th className="num">CPU</th>
                    <th className="num">Memory</th>
                    <th className="num">Shards</th>
                    <th>Up since</th>
                    <th>Version</th>
                    <th>Roles</th>
                    <th>
                      <span className="hidden-text">Verbs</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((n) => (
                    <tr key={n.name}>
                      <td>
                        <State state={n.state} /> <Left node={n} /> <Sight node={n} />
                      </td>
                      <td>
                        <NodeLink name={n.name} />
                        {n.home ? <div className="sub">at {n.home}</div> : null}
                      </td>
                      <td className="num">
                        {n.slots.busy} of {n.slots.total}
                      </td>
                      <td className="num">
                        {n.resources.cpu.used} of {n.resources.cpu.total}
                      </td>
                      <td className="num">
                        {bytes(n.resources.memory.used)} of {bytes(n.resources.memory.total)}
                      </td>
                      <td className="num">{n.shards.owned}</td>
                      <td className="nowrap">
                        <Ago time={n.started_at} />
                      </td>
                      <td>{n.version}</td>
                      <td className="sub">{n.roles?.join(', ')}</td>
                      <td className="num">
                        <NodeVerb node={n} drain={() => asked.open('drain', n.name)} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
      <Kinds />
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

const origins: Record<Kind['origin'], string> = {
  skein: 'part of Skein',
  extension: 'extension',
  worker: 'task function',
}

/** The kinds of tasks, without commands, and the members that have them. A kind with two declarations is marked. */
function Kinds() {
  const kinds = useQuery({
    queryKey: ['kinds'],
    queryFn: ({ signal }) => get<ListKind>('/kinds', {}, signal),
    refetchInterval: slow,
  })
  const all = kinds.data?.items ?? []
  const differ = differing(all)
  return (
    <Panel title="Kinds of tasks" count={kinds.data?.items.length}>
      <Loaded query={kinds} isEmpty={() => all.length === 0} empty="No node or worker has a kind of its own.">
        {() => (
          <div className="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th>Kind</th>
                  <th>From</th>
                  <th>Version</th>
                  <th>Connections</th>
                  <th>Nodes and workers</th>
                </tr>
              </thead>
              <tbody>
                {all.map((k) => (
                  <tr key={`${k.kind} ${k.origin} ${k.version} ${k.digest}`}>
                    <td className="mono">{k.kind}</td>
                    <td className="nowrap">{origins[k.origin]}</td>
                    <td className="nowrap">
                      {k.version ?? <span className="muted">–</span>}
                      {k.digest ? <code className="sub"> {k.digest.slice(0, 8)}</code> : null}
                      {differ.has(k.kind) ? <span className="sub"> · members differ</span> : null}
                    </td>
                    <td className="sub">{k.connections.join(', ')}</td>
                    <td>
                      <span className="row">
                        {k.members.slice(0, membersShown).map((name) => (
                          <NodeLink key={name} name={name} />
                        ))}
                        {k.total > membersShown ? (
                          <span className="sub">and {k.total - membersShown} more</span>
                        ) : null}
                      </span>
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

const membersShown = 6
