// What the list of nodes and the page of one node share.
import { Link } from '@tanstack/react-router'
import { path } from '../api/client'
import type { Node } from '../api/types'
import { plainVerb } from '../api/verbs'
import { plural } from '../kit/format'
import { type Question, Toggle, VerbButton } from '../kit/verbs'

/** The verbs that the server takes for a node. If it takes none, Refusal says why. */
export function NodeVerb({ node, drain }: { node: Node; drain: () => void }) {
  const { name, state } = node
  if (node.orders_refused) return null
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

/** Says why the server does not cordon and drain a node. */
export function Refusal({ node }: { node: Node }) {
  if (!node.orders_refused) return null
  return <p className="sub">It cannot be cordoned or drained: {node.orders_refused}.</p>
}

/** Says what is left on a node that gets no new work. */
export function Left({ node: n }: { node: Node }) {
  if (n.state !== 'cordoned' && n.state !== 'leaving') return null
  return (
    <span className="sub">
      {plural(n.slots.busy, 'attempt')} and {plural(n.shards.owned, 'shard')} left
    </span>
  )
}

/** Says that other nodes do not reach a node, or that it is not ready, as the node that answers sees it. */
export function Sight({ node: n }: { node: Node }) {
  const { sight } = n
  if (!sight) return null
  const by = sight.unreached_by
  const seen = sight.state === 'unreachable' || sight.state === 'unready'
  if (!seen && by.length === 0) return null
  return (
    <div className="sub">
      {seen ? `${sight.by} sees it as ${sight.state}${sight.reason ? `: ${sight.reason}` : ''}. ` : ''}
      {by.length > 0 ? `Not reached by ${by.join(', ')}.` : ''}
    </div>
  )
}

/** What follows from draining a node. */
export const drainOf = (n: Node): Question => ({
  title: `Drain ${n.name}`,
  text: `${plural(n.slots.busy, 'attempt')} on ${n.name} will finish. Other nodes take over ${plural(n.shards.owned, 'shard')}. The node gets no new work until you uncordon it, also after a restart. When its state is Drained, you can end its process without loss.`,
  answer: 'Drain the node',
  danger: true,
  act: () => plainVerb(`${path('nodes', n.name)}:drain`, undefined, false),
  done: `${n.name} is draining.`,
})

export function NodeLink({ name }: { name: string }) {
  return (
    <Link to="/n/$name" params={{ name }}>
      {name}
    </Link>
  )
}

/** How much of something is taken, as a bar and in words. */
export function Taken({ used, total, children }: { used: number; total: number; children: string }) {
  const share = total > 0 ? Math.min(1, used / total) : 0
  return (
    <span className="row places">
      <span className="bar" data-tone={share === 1 ? 'warn' : 'busy'} aria-hidden="true">
        <i style={{ width: `${100 * share}%` }} />
      </span>
      <span className="num">{children}</span>
    </span>
  )
}
