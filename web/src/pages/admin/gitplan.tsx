// What a look at a repository would change, and the dialog that reads it now.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { path, post } from '../../api/client'
import type { GitFailing, GitSource, GitSync } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { toast } from '../../kit/dialog'
import { plural } from '../../kit/format'
import { Skeleton } from '../../kit/panel'
import { Ago, Button, State } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { t } from '../../text/t'
import { bare, byEffect, changedBy, fullName, short } from './gitdata'

/** Workflows of one effect that are shown by name. */
const namesMax = 20

/** Why the newest commit is not in force. A plan is about this moment, so its fault has no time. */
export function Failing({ of: f, isPlan = false }: { of: GitFailing; isPlan?: boolean }) {
  return (
    <>
      <State state="failed">
        {f.commit ? t('commit {commit} refused', { commit: short(f.commit) }) : t('away')}
      </State>{' '}
      {isPlan ? null : <Ago time={f.since} />} <span lang="en">{f.why}</span>
      {f.errors.length > 0 ? (
        <ul lang="en">
          {f.errors.map((e) => (
            <li key={`${e.file}:${e.line}:${e.column}:${e.message}`} className="sub">
              {e.file}:{e.line}:{e.column}: {e.message}
              {e.hint ? ` (${e.hint})` : ''}
            </li>
          ))}
        </ul>
      ) : null}
      {f.more > 0 ? <p className="sub">{t('and {n} more', { n: f.more })}</p> : null}
    </>
  )
}

/** The changes of a sync, by their effect. */
export function Changes({ of: sync }: { of: GitSync }) {
  const { state } = sync.source
  if (state.failing) {
    return (
      <div className="notice">
        <Failing of={state.failing} isPlan />
      </div>
    )
  }
  return (
    <>
      <p>
        {t('Commit {commit} has {workflows}.', {
          commit: short(state.seen ?? ''),
          workflows: plural(sync.changes.filter((c) => c.file !== null).length, 'workflow'),
        })}{' '}
        {changedBy(sync) === 0 ? t('A sync changes nothing.') : t('A sync changes this, as a whole:')}
      </p>
      <ul className="list git-changes">
        {byEffect(sync).map(({ effect, of }) => (
          <li key={effect.change} data-change={effect.change}>
            <span className="git-effect" data-tone={effect.tone}>
              {effect.label} <b>{of.length}</b>
            </span>
            <span className="grow">
              {effect.change === 'unchanged'
                ? null
                : of.slice(0, namesMax).map((c) => (
                    <span key={c.workflow} className="git-change">
                      <b>{bare(c.workflow)}</b>{' '}
                      <span className="sub mono">{c.file ?? t('file removed')}</span>
                    </span>
                  ))}
              {effect.change !== 'unchanged' && of.length > namesMax ? (
                <span className="sub">{t('and {n} more', { n: of.length - namesMax })}</span>
              ) : null}
            </span>
          </li>
        ))}
      </ul>
    </>
  )
}

/** Shows what a sync would change, and makes it after a confirmation. */
export function SyncDialog({ of: g, onClose }: { of: GitSource; onClose: () => void }) {
  const [error, setError] = useState<Error>()
  const [refused, setRefused] = useState<GitSync>()
  const where = path('git-sources', g.namespace, g.name)
  const plan = useQuery({
    queryKey: ['git-plan', fullName(g), g.version],
    queryFn: () => post<GitSync>(`${where}:plan`),
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
    staleTime: Number.POSITIVE_INFINITY,
  })
  const { run, isPending } = useVerb(setError)
  const sync = () => {
    setError(undefined)
    run(
      () => post<GitSync>(`${where}:sync`),
      (is) => {
        if (is.source.state.failing) return setRefused(is)
        onClose()
        toast(
          t(
            '{name} is at commit {commit}. {n} workflow was changed.|{name} is at commit {commit}. {n} workflows were changed.',
            {
              name: fullName(g),
              commit: short(is.source.state.applied ?? ''),
              n: changedBy(is),
            },
          ),
        )
      },
    )
  }
  const shown = refused ?? plan.data
  return (
    <>
      {plan.isPending ? (
        <>
          <p role="status">{t('A node reads the repository…')}</p>
          <Skeleton rows={3} />
        </>
      ) : null}
      {plan.error ? <ProblemBox error={plan.error} retry={() => void plan.refetch()} /> : null}
      {shown ? <Changes of={shown} /> : null}
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{refused ? t('Close') : t('Cancel')}</Button>
        <Button
          kind={plan.data?.changes.some((c) => c.change === 'deleted') ? 'danger' : 'primary'}
          isDisabled={isPending || plan.isPending || plan.data?.source.state.failing !== undefined}
          onPress={sync}
        >
          {isPending ? t('Syncing…') : t('Sync now')}
        </Button>
      </footer>
    </>
  )
}
