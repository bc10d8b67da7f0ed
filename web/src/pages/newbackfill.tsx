// The form of a new backfill: the runs are counted first, and exactly these runs are started.
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { newKey, post } from '../api/client'
import { useSchedules } from '../api/queries'
import type { Backfill, BackfillRequest } from '../api/types'
import { useVerb } from '../api/verbs'
import { clock, plural } from '../kit/format'
import { Panel } from '../kit/panel'
import { Button, Clock, Command, Field } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { rich, t } from '../text/t'
import { backfillCommand, isTimed, ranges, requestOf } from './backfilldata'
import { Head } from './head'

/** Asks for a range, counts the runs that it would start, and starts exactly these. */
export function NewBackfill() {
  const search = useSearch({ from: '/backfills/new' })
  const navigate = useNavigate({ from: '/backfills/new' })
  const schedules = useSchedules()
  const set = (change: object) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  const [error, setError] = useState<Error>()
  const [key, setKey] = useState(newKey)
  const [plan, setPlan] = useState<{ of: string; b: Backfill }>()
  const { run, isPending } = useVerb(setError)
  const request = requestOf(search)
  const of = JSON.stringify(request)
  const counted = plan?.of === of ? plan.b : undefined
  const preview = () => {
    setError(undefined)
    setKey(newKey())
    run(
      () => post<Backfill>('/backfills', { ...request, dry_run: true }),
      (b) => setPlan({ of, b }),
    )
  }
  const start = () =>
    run(
      () => post<Backfill>('/backfills', request as BackfillRequest, key),
      (b) => void navigate({ to: '/backfills/$id', params: { id: String(b.id) } }),
    )
  const timers = (schedules.data ?? []).filter((s) => isTimed(s))
  return (
    <>
      <Head title={t('New backfill')} label={t('New backfill')} />
      <Panel>
        <form
          className="form"
          onSubmit={(e) => {
            e.preventDefault()
            if (!isPending) (counted ? start : preview)()
          }}
        >
          <label className="field">
            <span>{t('Schedule')}</span>
            <select
              className="select"
              required
              value={search.trigger ? `${search.workflow} ${search.trigger}` : ''}
              onChange={(e) => {
                const [workflow, trigger] = e.target.value.split(' ')
                set({ workflow, trigger })
              }}
            >
              <option value="">{t('choose')}</option>
              {timers.map((s) => (
                <option key={`${s.workflow} ${s.name}`} value={`${s.workflow} ${s.name}`}>
                  {s.workflow}: {s.name}
                </option>
              ))}
            </select>
          </label>
          <div className="row">
            <label className="field grow">
              <span>{t('From')}</span>
              <input
                className="input"
                type="datetime-local"
                required
                value={search.from ?? ''}
                onChange={(e) => set({ from: e.target.value })}
              />
            </label>
            <label className="field grow">
              <span>{t('To, included')}</span>
              <input
                className="input"
                type="datetime-local"
                required
                value={search.to ?? ''}
                onChange={(e) => set({ to: e.target.value })}
              />
            </label>
          </div>
          <div className="row">
            {ranges(new Date()).map(({ label, from, to }) => (
              <button
                key={label}
                type="button"
                className="chip"
                aria-pressed={search.from === from && search.to === to}
                onClick={() => set({ from, to })}
              >
                {label}
              </button>
            ))}
          </div>
          <div className="row">
            <label className="field grow">
              <span>{t('Runs at a time')}</span>
              <input
                className="input"
                type="number"
                min={1}
                max={10000}
                value={search.parallel ?? '1'}
                onChange={(e) => set({ parallel: e.target.value })}
              />
            </label>
            <label className="field grow">
              <span>{t('Instants')}</span>
              <select
                className="select"
                value={search.only ?? 'all'}
                onChange={(e) => set({ only: e.target.value })}
              >
                <option value="all">{t('all')}</option>
                <option value="failed">{t('whose newest run did not succeed')}</option>
                <option value="missing">{t('that have no run')}</option>
                <option value="failed_or_missing">{t('that failed or have no run')}</option>
              </select>
            </label>
            <label className="field grow">
              <span>{t('Order')}</span>
              <select
                className="select"
                value={search.order ?? 'ascending'}
                onChange={(e) => set({ order: e.target.value })}
              >
                <option value="ascending">{t('oldest first')}</option>
                <option value="descending">{t('newest first')}</option>
              </select>
            </label>
          </div>
          {error ? <ProblemBox error={error} /> : null}
          {counted ? <Plan b={counted} /> : null}
          <div className="row">
            {counted ? (
              <Button kind="primary" icon="play" type="submit" isDisabled={isPending || counted.total === 0}>
                {t('Start {runs}', { runs: plural(counted.total, 'run') })}
              </Button>
            ) : (
              <Button kind="primary" type="submit" isDisabled={isPending}>
                {t('Count the instants')}
              </Button>
            )}
          </div>
          <Command text={backfillCommand(request)} />
        </form>
      </Panel>
    </>
  )
}

function Plan({ b }: { b: Backfill }) {
  if (b.total === 0)
    return <p role="status">{t('No instant of the schedule is in this range. Nothing would start.')}</p>
  return (
    <div role="status">
      <p>
        {rich('{instants} from {from} to {to}', {
          instants: <b>{plural(b.total, 'instant')}</b>,
          from: <Clock time={b.first} />,
          to: <Clock time={b.last} />,
        })}
      </p>
      <dl className="facts">
        <Field label={t('Such as')}>
          {(b.samples ?? [])
            .slice(0, 6)
            .map((s) => clock(s))
            .join(', ')}
        </Field>
      </dl>
    </div>
  )
}
