// A verb on several runs: first what it would do, counted by the server, then the same with that number expected.
import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Failure, newKey, post } from '../api/client'
import type { BulkResult } from '../api/types'
import type { Asked } from '../app/ask'
import { Dialog, toast } from '../kit/dialog'
import { plural } from '../kit/format'
import { Skeleton } from '../kit/panel'
import { Button, RunLink, State } from '../kit/parts'
import { ProblemBox } from '../kit/problem'

export type BulkVerb = {
  name: string
  label: string
  past: string
  danger?: boolean
  of: 'active' | 'failed'
}

export const bulkVerbs: BulkVerb[] = [
  { name: 'recover', label: 'Recover', past: 'recovered', of: 'failed' },
  { name: 'rerun', label: 'Rerun', past: 'started again', of: 'failed' },
  { name: 'pause', label: 'Pause', past: 'paused', of: 'active' },
  { name: 'resume', label: 'Resume', past: 'resumed', of: 'active' },
  { name: 'stop', label: 'Stop', past: 'stopped', danger: true, of: 'active' },
]

export type Choice = {
  runs?: string[]
  workflow?: string | undefined
  user?: string | undefined
  since?: string | undefined
  state?: string | undefined
}

const firstShown = 20

/**
 * The dialog that the address asks for. The runs that are selected are not in the address: after a reload there are none,
 * and no dialog about them.
 */
export function bulkOf(asked: Asked, selected: boolean): { verb: BulkVerb; all: boolean } | undefined {
  const all = asked.name === 'bulk-all'
  const verb = bulkVerbs.find((v) => v.name === asked.of)
  return verb && (all || (asked.name === 'bulk' && selected)) ? { verb, all } : undefined
}

export function Bulk({
  open,
  choice,
  onTurn,
  onClose,
  onDone,
}: {
  open: { verb: BulkVerb; all: boolean } | undefined
  choice: Choice
  onTurn: (verb: string) => void
  onClose: () => void
  onDone: () => void
}) {
  return (
    <Dialog
      title={
        open ? `${open.verb.label} ${open.all ? 'all runs that fit the filter' : 'the selected runs'}` : ''
      }
      isOpen={open !== undefined}
      onClose={onClose}
      wide
    >
      {open ? (
        <Plan
          verb={open.verb}
          all={open.all}
          choice={choice}
          onTurn={onTurn}
          onClose={onClose}
          onDone={onDone}
        />
      ) : null}
    </Dialog>
  )
}

function Plan({
  verb,
  all,
  choice,
  onTurn,
  onClose,
  onDone,
}: {
  verb: BulkVerb
  all: boolean
  choice: Choice
  onTurn: (verb: string) => void
  onClose: () => void
  onDone: () => void
}) {
  const [key] = useState(newKey)
  const body = { ...choice, state: all ? (choice.state ?? verb.of) : undefined }
  const plan = useQuery({
    queryKey: ['bulk', verb.name, body],
    queryFn: () => post<BulkResult>(`/runs:${verb.name}`, { ...body, dry_run: true }),
    gcTime: 0,
  })
  const would = plan.data?.items.filter((i) => i.outcome === 'would') ?? []
  const refused = plan.data?.items.filter((i) => i.outcome === 'refused') ?? []
  const act = useMutation({
    // The number is what was looked at: if it has changed since, the server does nothing and says the new one.
    mutationFn: () =>
      post<BulkResult>(
        `/runs:${verb.name}`,
        all ? { ...body, expect: plan.data?.count } : { runs: would.map((i) => i.id) },
        `${key}-${verb.name}-${plan.data?.count}`,
      ),
    onSuccess: (result) => {
      toast(
        `${plural(result.done, 'run')} ${verb.past}${result.refused > 0 ? `, ${result.refused} refused` : ''}.`,
      )
      if (result.refused === 0) {
        onDone()
        onClose()
      }
    },
    onError: (e) => {
      if (e instanceof Failure && e.kind === 'conflict') void plan.refetch()
    },
  })
  const failed = act.data?.items.filter((i) => i.outcome === 'refused') ?? []
  const list = failed.length > 0 ? failed : [...refused, ...would]
  return (
    <>
      {all ? (
        <div className="row">
          {bulkVerbs.map((v) => (
            <button
              key={v.name}
              type="button"
              className="chip"
              aria-pressed={v === verb}
              onClick={() => onTurn(v.name)}
            >
              {v.label}
            </button>
          ))}
        </div>
      ) : null}
      {plan.error ? <ProblemBox error={plan.error} retry={() => void plan.refetch()} /> : null}
      {plan.isPending ? <Skeleton rows={5} /> : null}
      {plan.data ? (
        <>
          <p>
            {failed.length > 0
              ? `${plural(failed.length, 'run')} refused it:`
              : `${plural(would.length, 'run')} would be ${verb.past}${plan.data.next ? ', and more after them' : ''}${refused.length > 0 ? `; ${refused.length} cannot be` : ''}.`}
          </p>
          <ul className="list tall">
            {list.slice(0, firstShown).map((i) => (
              <li key={i.id} className="row">
                <RunLink id={i.id} />
                {i.run ? (
                  <>
                    <State state={i.run.state} /> {i.run.workflow}
                  </>
                ) : null}
                {i.problem ? <span className="sub">{i.problem.detail}</span> : null}
              </li>
            ))}
            {list.length > firstShown ? <li className="sub">and {list.length - firstShown} more</li> : null}
          </ul>
        </>
      ) : null}
      {act.error ? <ProblemBox error={act.error} /> : null}
      <footer>
        <Button onPress={onClose}>{failed.length > 0 ? 'Close' : 'Cancel'}</Button>
        {failed.length === 0 ? (
          <Button
            kind={verb.danger ? 'danger' : 'primary'}
            isDisabled={would.length === 0 || act.isPending || plan.isFetching}
            onPress={() => act.mutate()}
          >
            {verb.label} {plural(would.length, 'run')}
          </Button>
        ) : null}
      </footer>
    </>
  )
}
