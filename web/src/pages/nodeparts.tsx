// Parts that the list of nodes and the page of one node share.
import { Link } from '@tanstack/react-router'
import { path } from '../api/client'
import type { Node } from '../api/types'
import { plainVerb } from '../api/verbs'
import { plural } from '../kit/format'
import { lookOf } from '../kit/states'
import { type Question, Toggle, VerbButton } from '../kit/verbs'
import { rich, t } from '../text/t'

/** The verbs that the server accepts for a node. If it accepts none, Refusal shows the reason. */
export function NodeVerb({ node, drain }: { node: Node; drain: () => void }) {
  const { name, state } = node
  if (node.orders_refused) return null
  const is = { where: path('nodes', name), verb: 'node.control' }
  if (state === 'cordoned' || state === 'drained')
    return (
      <Toggle
        {...is}
        does="uncordon"
        undoes="cordon"
        label={t('Uncordon')}
        done={t('{name} takes work again.', { name })}
      />
    )
  if (state !== 'active') return null
  return (
    <span className="row">
      <Toggle
        {...is}
        does="cordon"
        undoes="uncordon"
        label={t('Cordon')}
        done={t('{name} gets no shard and no new task. What runs there finishes.', { name })}
      />
      <VerbButton verb={is.verb} namespace="" onPress={drain}>
        {t('Drain')}
      </VerbButton>
    </span>
  )
}

/** Shows why the server does not cordon and drain a node. */
export function Refusal({ node }: { node: Node }) {
  if (!node.orders_refused) return null
  return (
    <p className="sub">
      {rich('It cannot be cordoned or drained: {why}.', {
        why: <span lang="en">{node.orders_refused}</span>,
      })}
    </p>
  )
}

/** Shows the work that is left on a node that gets no new work. */
export function Left({ node: n }: { node: Node }) {
  if (n.state !== 'cordoned' && n.state !== 'leaving') return null
  return (
    <span className="sub">
      {t('{attempts} and {shards} left', {
        attempts: plural(n.slots.busy, 'attempt'),
        shards: plural(n.shards.owned, 'shard'),
      })}
    </span>
  )
}

/**
 * Shows that other nodes do not reach a node, or that the node is not ready, as the answering node sees it.
 */
export function Sight({ node: n }: { node: Node }) {
  const { sight } = n
  if (!sight) return null
  const by = sight.unreached_by
  const seen = sight.state === 'unreachable' || sight.state === 'unready'
  if (!seen && by.length === 0) return null
  return (
    <div className="sub">
      {seen
        ? t('{by} sees it as {state}. ', {
            by: sight.by,
            state: lookOf(sight.state).label + (sight.reason ? `: ${sight.reason}` : ''),
          })
        : ''}
      {by.length > 0 ? t('Not reached by {by}.', { by: by.join(', ') }) : ''}
    </div>
  )
}

/** The question before a drain of a node, with the consequences. */
export const drainOf = (n: Node): Question => ({
  title: t('Drain {name}', { name: n.name }),
  text: t(
    '{attempts} on {name} will finish. Other nodes take over {shards}. The node gets no new work until you uncordon it, also after a restart. When its state is Drained, you can end its process without loss.',
    { attempts: plural(n.slots.busy, 'attempt'), name: n.name, shards: plural(n.shards.owned, 'shard') },
  ),
  answer: t('Drain the node'),
  danger: true,
  act: () => plainVerb(`${path('nodes', n.name)}:drain`, undefined, false),
  done: t('{name} is draining.', { name: n.name }),
})

export function NodeLink({ name }: { name: string }) {
  return (
    <Link to="/n/$name" params={{ name }}>
      {name}
    </Link>
  )
}

/** The part of a resource that is in use, as a bar and in words. */
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
