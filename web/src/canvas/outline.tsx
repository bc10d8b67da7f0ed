// The tasks of a graph as a list, in the order of the drawing: the same selection, find and states as the picture.
import { useEffect, useMemo, useRef } from 'react'
import { useKeys } from '../app/keys'
import { Mark } from '../kit/parts'
import { Rows, type RowsHandle } from '../kit/rows'
import { lookOf } from '../kit/states'
import { changeOf, type Drawing, instanceCounts, isGroup, type States } from './drawing'
import { changeLooks } from './graph'

const row = 28

export function Outline({
  drawing: d,
  states,
  hits,
  selected,
  onSelect,
}: {
  drawing: Drawing
  states: States | undefined
  hits: Uint8Array | undefined
  selected: number | undefined
  onSelect: (t: number | undefined) => void
}) {
  const list = useMemo(() => (hits ? d.sorted.filter((t) => hits[t]) : d.sorted), [d, hits])
  const handle = useRef<RowsHandle>(null)
  const at = selected === undefined ? -1 : list.indexOf(selected)
  const go = (to: number) => {
    const t = list[Math.max(0, Math.min(list.length - 1, to))]
    if (t !== undefined) onSelect(t)
  }
  useKeys({ j: () => go(at + 1), k: () => go(at - 1) })
  useEffect(() => {
    if (at >= 0) handle.current?.show(at)
  }, [at])
  return (
    <Rows n={list.length} row={row} label="Tasks of the graph" className="rows outline" handle={handle}>
      {(i) => {
        const t = list[i]
        if (t === undefined) return null
        const state = states?.names[states.of[t]!]
        const many = isGroup(d, t)
          ? (d.members?.[t]?.length ?? 0)
          : states
            ? [...instanceCounts(states, t).values()].reduce((a, b) => a + b, 0)
            : 0
        const change = d.changes ? changeOf(d, t) : 'same'
        return (
          <button
            key={t}
            type="button"
            tabIndex={-1}
            className="outline-row"
            style={{ height: row }}
            aria-current={t === selected || undefined}
            onClick={() => onSelect(t)}
            title={state ? `${d.names[t]}: ${lookOf(state).label}` : d.names[t]}
          >
            {state ? <Mark state={state} size={14} /> : null}
            {d.changes ? (
              <b
                className="change"
                data-tone={change === 'same' ? undefined : changeLooks[change].tone}
                aria-hidden="true"
              >
                {change === 'same' ? '' : changeLooks[change].sign}
              </b>
            ) : null}
            <span className="clip">{d.names[t]}</span>
            {change === 'same' ? null : <span className="hidden-text">{change}</span>}
            {many > 0 ? <span className="sub">×{many}</span> : null}
            {state ? <span className="hidden-text">{lookOf(state).label}</span> : null}
          </button>
        )
      }}
    </Rows>
  )
}
