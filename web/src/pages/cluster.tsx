import { useNodes, useQueues } from '../api/queries'
import { bytes } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, State } from '../kit/parts'
import { Head } from './head'

export function Cluster() {
  const nodes = useNodes()
  return (
    <>
      <Head title="Cluster" label="Cluster" />
      <Panel title="Nodes and workers" count={nodes.data?.items.length}>
        <Loaded query={nodes} isEmpty={(d) => d.items.length === 0} empty="No node has joined the cluster.">
          {({ items }) => (
            <div className="scroll">
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
                  </tr>
                </thead>
                <tbody>
                  {items.map((n) => (
                    <tr key={n.name}>
                      <td>
                        <State state={n.state} />
                      </td>
                      <td>{n.name}</td>
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
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
    </>
  )
}

export function Queues() {
  const queues = useQueues()
  return (
    <>
      <Head title="Queues" label="Queues" />
      <Panel title="Queues" count={queues.data?.items.length}>
        <Loaded query={queues} isEmpty={(d) => d.items.length === 0} empty="No workflow uses a named queue.">
          {({ items }) => (
            <div className="scroll">
              <table>
                <thead>
                  <tr>
                    <th>State</th>
                    <th>Name</th>
                    <th className="num">Held</th>
                    <th className="num">Limit</th>
                    <th className="num">Waiting</th>
                    <th>Order</th>
                    <th>Reason</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((q) => (
                    <tr key={q.name}>
                      <td>
                        <State state={q.state} />
                      </td>
                      <td>{q.name}</td>
                      <td className="num">{q.held}</td>
                      <td className="num">{q.limit ?? 'none'}</td>
                      <td className="num">{q.waiting}</td>
                      <td>{q.order}</td>
                      <td className="sub">{q.reason ?? ''}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
    </>
  )
}
