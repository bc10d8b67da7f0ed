// The form of a new backfill: what it would start is counted first, and just that is started.
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
import { backfillCommand, isTimed, ranges, requestOf } from './backfilldata'
import { Head } from './head'

/** Asks for a range, counts what it would start, and starts just that. */
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
      <Head title="New backfill" label="New backfill" />
      <Panel>
        <form
          className="form"
          onSubmit={(e) => {
            e.preventDefault()
            if (!isPending) (counted ? start : preview)()
          }}
        >
          <label className="field">
            <span>Schedule</span>
            <select
              className="select"
              required
              value={search.trigger ? `${search.workflow} ${search.trigger}` : ''}
              onChange={(e) => {
                const [workflow, trigger] = e.target.value.split(' ')
                set({ workflow, trigger })
              }}
            >
              <option value="">choose</option>
              {timers.map((s) => (
                <option key={`${s.workflow} ${s.name}`} value={`${s.workflow} ${s.name}`}>
                  {s.workflow}: {s.name}
                </option>
              ))}
            </select>
          </label>
          <div className="row">
            <label className="field grow">
              <span>From</span>
              <input
                className="input"
                type="datetime-local"
                required
                value={search.from ?? ''}
                onChange={(e) => set({ from: e.target.value })}
              />
            </label>
            <label className="field grow">
              <span>To, included</span>
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
              <span>Runs at a time</span>
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
              <span>Instants</span>
              <select
                className="select"
                value={search.only ?? 'all'}
                onChange={(e) => set({ only: e.target.value })}
              >
                <option value="all">all</option>
                <option value="failed">whose newest run did not succeed</option>
                <option value="missing">that have no run</option>
                <option value="failed_or_missing">that failed or have no run</option>
              </select>
            </label>
            <label className="field grow">
              <span>Order</span>
              <select
                className="select"
                value={search.order ?? 'ascending'}
                onChange={(e) => set({ order: e.target.value })}
              >
                <option value="ascending">oldest first</option>
                <option value="descending">newest first</option>
              </select>
            </label>
          </div>
          {error ? <ProblemBox error={error} /> : null}
          {counted ? <Plan b={counted} /> : null}
          <div className="row">
            {counted ? (
              <Button kind="primary" icon="play" type="submit" isDisabled={isPending || counted.total === 0}>
                Start {plural(counted.total, 'run')}
              </Button>
            ) : (
              <Button kind="primary" type="submit" isDisabled={isPending}>
                Count the instants
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
    return <p role="status">No instant of the schedule is in this range. Nothing would start.</p>
  return (
    <div role="status">
      <p>
        <b>{plural(b.total, 'instant')}</b> from <Clock time={b.first} /> to <Clock time={b.last} />
      </p>
      <dl className="facts">
        <Field label="Such as">
          {(b.samples ?? [])
            .slice(0, 6)
            .map((s) => clock(s))
            .join(', ')}
        </Field>
      </dl>
    </div>
  )
}
