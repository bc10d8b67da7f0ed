// The tasks of a graph as a list, in the order of the drawing: the same selection, find and states as the picture.
import { useEffect, useMemo, useRef } from 'react'
import { useKeys } from '../app/keys'
import { Mark } from '../kit/parts'
import { Rows, type RowsHandle } from '../kit/rows'
import { lookOf } from '../kit/states'
import { t } from '../text/t'
import { term } from '../text/terms'
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
  onSelect: (task: number | undefined) => void
}) {
  const list = useMemo(() => (hits ? d.sorted.filter((node) => hits[node]) : d.sorted), [d, hits])
  const handle = useRef<RowsHandle>(null)
  const at = selected === undefined ? -1 : list.indexOf(selected)
  const go = (to: number) => {
    const index = list[Math.max(0, Math.min(list.length - 1, to))]
    if (index !== undefined) onSelect(index)
  }
  useKeys({ j: () => go(at + 1), k: () => go(at - 1) })
  useEffect(() => {
    if (at >= 0) handle.current?.show(at)
  }, [at])
  return (
    <Rows n={list.length} row={row} label={t('Tasks of the graph')} className="rows outline" handle={handle}>
      {(i) => {
        const task = list[i]
        if (task === undefined) return null
        const state = states?.names[states.of[task]!]
        const many = isGroup(d, task)
          ? (d.members?.[task]?.length ?? 0)
          : states
            ? [...instanceCounts(states, task).values()].reduce((a, b) => a + b, 0)
            : 0
        const change = d.changes ? changeOf(d, task) : 'same'
        return (
          <button
            key={task}
            type="button"
            tabIndex={-1}
            className="outline-row"
            style={{ height: row }}
            aria-current={task === selected || undefined}
            onClick={() => onSelect(task)}
            title={state ? `${d.names[task]}: ${lookOf(state).label}` : d.names[task]}
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
            <span className="clip">{d.names[task]}</span>
            {change === 'same' ? null : <span className="hidden-text">{term(change)}</span>}
            {many > 0 ? <span className="sub">×{many}</span> : null}
            {state ? <span className="hidden-text">{lookOf(state).label}</span> : null}
          </button>
        )
      }}
    </Rows>
  )
}
