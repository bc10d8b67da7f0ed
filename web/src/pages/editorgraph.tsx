// Keeps typing in a long text fast: the text is read only when it has not changed for a moment, and the graph
// is painted only for its own changes.
import { memo, useEffect, useState } from 'react'
import { EditGraph, type EditGraphProps } from '../canvas/editgraph'

/** A text up to this length is read at each key. A longer one is read when no key has come for a moment. */
const smallText = 1 << 14
const settle = 200

export const isShort = (text: string) => text.length <= smallText

/** The text as it was when it last did not change for a moment. A short text is always the present one. */
export function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  const isSmall = isShort(text)
  useEffect(() => {
    if (isSmall) return
    const timer = setTimeout(() => setSettled(text), settle)
    return () => clearTimeout(timer)
  }, [text, isSmall])
  return isSmall ? text : settled
}

export type GraphActs = Pick<EditGraphProps, 'onSelect' | 'onLink' | 'onDrop' | 'onKey'>

/**
 * The graph of the draft. A key in the text must not paint the graph, so the graph calls the functions of the
 * last render.
 */
export const Graph = memo(function Graph({
  latest,
  ...shown
}: Pick<EditGraphProps, 'drawing' | 'selected' | 'old'> & { latest: { current: GraphActs | undefined } }) {
  return (
    <EditGraph
      {...shown}
      onSelect={(task) => latest.current?.onSelect(task)}
      onLink={(from, to) => latest.current?.onLink(from, to)}
      onDrop={(kind, at) => latest.current?.onDrop(kind, at)}
      onKey={(key) => latest.current?.onKey(key) ?? false}
    />
  )
})
