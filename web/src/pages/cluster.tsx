import { useState } from 'react'
import { path } from '../api/client'
import { useNodes } from '../api/queries'
import type { Node } from '../api/types'
import { plainVerb } from '../api/verbs'
import { bytes, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, State } from '../kit/parts'
import { Confirm, type Question, Toggle, VerbButton } from '../kit/verbs'
import { Head } from './head'

/** Members of a cluster can be cordoned and drained; a node that is alone cannot. */
function NodeVerb({ node, drain }: { node: Node; drain: () => void }) {
  const { name, state } = node
  const is = { where: path('nodes', name), verb: 'node.control' }
  if (state === 'cordoned' || state === 'drained')
    return (
      <Toggle {...is} does="uncordon" undoes="cordon" label="Uncordon" done={`${name} takes work again.`} />
    )
  if (state !== 'active') return null
  return (
    <span className="row">
      <Toggle
        {...is}
        does="cordon"
        undoes="uncordon"
        label="Cordon"
        done={`${name} gets no shard and no new task. What runs there finishes.`}
      />
      <VerbButton verb={is.verb} namespace="" onPress={drain}>
        Drain
      </VerbButton>
    </span>
  )
}

/** Says what is left on a node that gets no new work. */
function Left({ node: n }: { node: Node }) {
  if (n.state !== 'cordoned' && n.state !== 'leaving') return null
  return (
    <span className="sub">
      {plural(n.slots.busy, 'attempt')} and {plural(n.shards.owned, 'shard')} left
    </span>
  )
}

/** What follows from draining a node. */
const drainOf = (n: Node): Question => ({
  title: `Drain ${n.name}`,
  text: `${plural(n.slots.busy, 'attempt')} on ${n.name} will finish. Other nodes take over ${plural(n.shards.owned, 'shard')}. The node gets no new work until you uncordon it, also after a restart. When its state is Drained, you can end its process without loss.`,
  answer: 'Drain the node',
  danger: true,
  act: () => plainVerb(`${path('nodes', n.name)}:drain`, undefined, false),
  done: `${n.name} is draining.`,
})

export function Cluster() {
  const nodes = useNodes()
  const [question, ask] = useState<Question>()
  return (
    <>
      <Head title="Cluster" label="Cluster" />
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
                        <State state={n.state} /> <Left node={n} />
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
                      <td className="num">
                        <NodeVerb node={n} drain={() => ask(drainOf(n))} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
      <Confirm question={question} onClose={() => ask(undefined)} />
    </>
  )
}
