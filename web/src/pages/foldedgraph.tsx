// The graph of a version or of a run: plain, with folded groups, or compared with another version. The
// address says which form is shown.
import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { get, path, type Query } from '../api/client'
import { useDrawing, useStates } from '../api/columns'
import type { ListVersion } from '../api/types'
import { changeOf, type Drawing, statesOf } from '../canvas/drawing'
import { changeLooks } from '../canvas/graph'
import { GraphView } from '../canvas/graphview'
import { Loaded } from '../kit/panel'
import { Button } from '../kit/parts'
import { taskOrder } from '../kit/states'
import { t } from '../text/t'
import { term } from '../text/terms'

export type GraphLook = {
  group: string | undefined
  /** The groups that are open, by kind and first task, with commas between them. */
  open: string | undefined
  against: string | undefined
}

type Props = {
  where: string
  query: Query
  run?: string
  workflow: { namespace: string; name: string }
  version: number
  view: GraphLook
  onView: (change: Partial<GraphLook> & { q?: string | undefined }) => void
  selected: string | undefined
  onSelect: (task: string | undefined) => void
  q: string
  onFind: (q: string) => void
  narrow?: boolean
}

/** A graph with fewer tasks has nothing to fold. */
const foldMin = 4

export function FoldedGraph({ where, query, run, workflow, version, view, onView, ...rest }: Props) {
  const { against } = view
  const folded = view.group === 'on' && !against
  const plain = useDrawing(where, query)
  const other = useDrawing(
    where,
    against ? { ...query, against } : { ...query, fold: true, open: view.open },
    folded || against !== undefined,
  )
  const states = useStates(run, plain.data)
  const shown = folded || against ? other : plain
  const drawing = shown.data
  const nodes = useMemo(
    () => drawing && states.data && statesOf(drawing, states.data, taskOrder),
    [drawing, states.data],
  )
  const all = useMemo(
    () => (folded && plain.data ? { drawing: plain.data, states: states.data } : undefined),
    [folded, plain.data, states.data],
  )
  const open = (d: Drawing, node: number) => {
    const first = plain.data?.names[d.members?.[node]?.[0] ?? -1]
    if (first === undefined) return
    const key = `${d.kinds[d.kind[node]!]}:${first}`
    onView({ open: view.open ? `${view.open},${key}` : key })
  }
  return (
    <Loaded query={folded && !plain.data ? plain : shown} rows={12}>
      {(d) => (
        <GraphView
          key={`${view.group} ${view.open} ${against}`}
          drawing={d}
          states={nodes}
          {...rest}
          plain={all}
          onOpen={(node) => open(d, node)}
          tools={
            <>
              {against ? <Changes drawing={d} find={(q) => onView({ q })} /> : null}
              {against || d.n + (all?.drawing.n ?? 0) < foldMin ? null : (
                <Button
                  kind="quiet"
                  aria-pressed={folded}
                  hint={t('Draws chains, and tasks that are alike, as one box each. Press a box to open it.')}
                  onPress={() => onView({ group: folded ? undefined : 'on', open: undefined })}
                >
                  {t('Fold')}
                </Button>
              )}
              {folded && view.open ? (
                <Button kind="quiet" onPress={() => onView({ open: undefined })}>
                  {t('Close the groups')}
                </Button>
              ) : null}
              <Against
                workflow={workflow}
                version={version}
                value={against}
                set={(v) => onView({ against: v, q: undefined })}
              />
            </>
          }
        />
      )}
    </Loaded>
  )
}

/** Chooses the version that the graph is compared with. */
function Against({
  workflow: w,
  version,
  value,
  set,
}: {
  workflow: Props['workflow']
  version: number
  value: string | undefined
  set: (version: string | undefined) => void
}) {
  const versions = useQuery({
    queryKey: ['versions', 'of the graph', w.namespace, w.name],
    queryFn: ({ signal }) => get<ListVersion>(path('workflows', w.namespace, w.name, 'versions'), {}, signal),
    staleTime: 60_000,
  })
  const others = (versions.data?.items ?? []).filter((v) => v.version !== version).map((v) => v.version)
  if (others.length === 0 && !value) return null
  if (value && !others.includes(Number(value))) others.push(Number(value))
  return (
    <select
      className="select"
      aria-label={t('Compare with a version')}
      value={value ?? ''}
      onChange={(e) => set(e.target.value || undefined)}
    >
      <option value="">{t('v{version} alone', { version })}</option>
      {others.map((v) => (
        <option key={v} value={v}>
          {t('v{version} against v{other}', { version, other: v })}
        </option>
      ))}
    </select>
  )
}

/** Shows the numbers of changes. A press on a number finds its tasks. */
function Changes({ drawing: d, find }: { drawing: Drawing; find: (q: string | undefined) => void }) {
  const counts = useMemo(() => {
    const by = { added: 0, removed: 0, changed: 0 }
    for (let task = 0; task < d.n; task++) {
      const change = changeOf(d, task)
      if (change !== 'same') by[change]++
    }
    return by
  }, [d])
  const some = (['added', 'removed', 'changed'] as const).filter((c) => counts[c] > 0)
  if (some.length === 0) return <span className="sub">{t('no task differs')}</span>
  return some.map((c) => (
    <button key={c} type="button" className="chip" onClick={() => find(`change:${c}`)}>
      <b className="change" data-tone={changeLooks[c].tone} aria-hidden="true">
        {changeLooks[c].sign}
      </b>
      {counts[c]} {term(c)}
    </button>
  ))
}
