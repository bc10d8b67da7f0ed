import { useState } from 'react'
import { path } from '../api/client'
import { useNodes, useQueues } from '../api/queries'
import type { Node } from '../api/types'
import { plainVerb } from '../api/verbs'
import { toast } from '../kit/dialog'
import { bytes, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, State } from '../kit/parts'
import { Confirm, type Question, useToastVerb, VerbButton } from '../kit/verbs'
import { Head } from './head'

/** A verb of a queue or a node, with its inverse in the toast. */
function Toggle({
  verb,
  where,
  does,
  undoes,
  label,
  done,
}: {
  verb: string
  where: string
  does: string
  undoes: string
  label: string
  done: string
}) {
  const { run: act, isPending } = useToastVerb()
  const send = (name: string) => plainVerb(`${where}:${name}`, undefined, false)
  return (
    <VerbButton
      verb={verb}
      namespace=""
      isDisabled={isPending}
      onPress={() =>
        act(
          () => send(does),
          () => toast(done, { undo: () => act(() => send(undoes)) }),
        )
      }
    >
      {label}
    </VerbButton>
  )
}

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

function QueueVerb({ name, state }: { name: string; state: string }) {
  const is = { where: path('queues', name), verb: 'queue.write' }
  return state === 'active' ? (
    <Toggle
      {...is}
      does="pause"
      undoes="resume"
      label="Pause"
      done={`${name} is paused: it grants no slot, and new runs wait.`}
    />
  ) : (
    <Toggle {...is} does="resume" undoes="pause" label="Resume" done={`${name} is active again.`} />
  )
}

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

export function Queues() {
  const queues = useQueues()
  return (
    <>
      <Head title="Queues" label="Queues" />
      <Panel title="Queues" count={queues.data?.items.length}>
        <Loaded query={queues} isEmpty={(d) => d.items.length === 0} empty="No workflow uses a named queue.">
          {({ items }) => (
            <div className="scroll" tabIndex={0}>
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
                    <th>
                      <span className="hidden-text">Verbs</span>
                    </th>
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
                      <td className="num">
                        <QueueVerb name={q.name} state={q.state} />
                      </td>
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
