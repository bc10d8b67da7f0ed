// A verb on several runs. First the server counts the runs that the verb would change. Then the verb is sent
// with this number as the expected one.
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
import { t } from '../text/t'

export type BulkVerb = {
  name: string
  label: string
  past: string
  danger?: boolean
  of: 'active' | 'failed'
}

export const bulkVerbs: BulkVerb[] = [
  { name: 'recover', label: t('Recover'), past: t('recovered'), of: 'failed' },
  { name: 'rerun', label: t('Rerun'), past: t('started again'), of: 'failed' },
  { name: 'pause', label: t('Pause'), past: t('paused'), of: 'active' },
  { name: 'resume', label: t('Resume'), past: t('resumed'), of: 'active' },
  { name: 'stop', label: t('Stop'), past: t('stopped'), danger: true, of: 'active' },
]

/** The runs of a verb: by id, or by the filters of the list of runs, with the names that REST gives them. */
export type Choice = {
  runs?: string[]
  all?: boolean
  workflow?: string | undefined
  ns?: string | undefined
  user?: string | undefined
  since?: string | undefined
  state?: string | undefined
  trigger?: string | undefined
  backfill?: number
  node?: string | undefined
  tag?: string[]
  q?: string | undefined
}

type Filter = Omit<Choice, 'runs' | 'all' | 'backfill' | 'tag'> & {
  backfill?: string | undefined
  tag?: string | undefined
}

/** The choice of all runs that fit a filter of the list, or nothing if the filter has no condition. */
export function choiceOf({ tag, backfill, state, ...rest }: Filter): Choice | undefined {
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value))
  const narrow: Choice = {
    ...given,
    ...(tag ? { tag: [tag] } : {}),
    ...(backfill ? { backfill: Number(backfill) } : {}),
  }
  if (Object.keys(narrow).length > 0) return { ...narrow, state }
  // With a state alone, the server wants to hear that all runs are meant.
  return state ? { all: true, state } : undefined
}

const firstShown = 20

/**
 * The dialog that the address asks for. The address does not contain the selected runs. So after a reload
 * there are none, and no dialog about them.
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
        open
          ? `${open.verb.label} ${open.all ? t('all runs that fit the filter') : t('the selected runs')}`
          : ''
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
  // The server answers about 1,000 runs at a time. The cursor begins the next part of a longer list.
  const [cursor, setCursor] = useState<string>()
  const body = all ? { ...choice, state: choice.state ?? verb.of, cursor } : choice
  const plan = useQuery({
    queryKey: ['bulk', verb.name, body],
    queryFn: () => post<BulkResult>(`/runs:${verb.name}`, { ...body, dry_run: true }),
    gcTime: 0,
  })
  const would = plan.data?.items.filter((i) => i.outcome === 'would') ?? []
  const refused = plan.data?.items.filter((i) => i.outcome === 'refused') ?? []
  const act = useMutation({
    // The request has the number of runs that the person has seen. If the number has changed since, the
    // server does nothing and returns the new one. For a part of a longer list, it has the ids of these runs.
    mutationFn: () =>
      post<BulkResult>(
        `/runs:${verb.name}`,
        all && !plan.data?.next ? { ...body, expect: plan.data?.count } : { runs: would.map((i) => i.id) },
        `${key}-${verb.name}-${cursor ?? ''}-${plan.data?.count}`,
      ),
    onSuccess: (result) => {
      toast(
        result.refused > 0
          ? t('{runs} {past}, {refused} refused.', {
              runs: plural(result.done, 'run'),
              past: verb.past,
              refused: result.refused,
            })
          : t('{runs} {past}.', { runs: plural(result.done, 'run'), past: verb.past }),
      )
      if (result.refused > 0) return
      if (plan.data?.next) return setCursor(plan.data.next)
      onDone()
      onClose()
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
              onClick={() => {
                setCursor(undefined)
                onTurn(v.name)
              }}
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
              ? t('{runs} refused it:', { runs: plural(failed.length, 'run') })
              : [
                  t(
                    plan.data.next ? '{runs} would be {past}, and more after them' : '{runs} would be {past}',
                    { runs: plural(would.length, 'run'), past: verb.past },
                  ),
                  ...(refused.length > 0 ? [t('{n} cannot be', { n: refused.length })] : []),
                ].join('; ')}
            {failed.length > 0 ? null : '.'}
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
                {i.problem ? (
                  <span className="sub" lang="en">
                    {i.problem.detail}
                  </span>
                ) : null}
              </li>
            ))}
            {list.length > firstShown ? (
              <li className="sub">{t('and {n} more', { n: list.length - firstShown })}</li>
            ) : null}
          </ul>
        </>
      ) : null}
      {act.error ? <ProblemBox error={act.error} /> : null}
      <footer>
        <Button onPress={onClose}>{failed.length > 0 ? t('Close') : t('Cancel')}</Button>
        {plan.data?.next && (would.length === 0 || failed.length > 0) ? (
          <Button
            onPress={() => {
              act.reset()
              setCursor(plan.data?.next ?? undefined)
            }}
          >
            {t('Go on with older runs')}
          </Button>
        ) : null}
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
