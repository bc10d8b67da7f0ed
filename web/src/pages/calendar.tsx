// The calendar of schedules: the past fires, the instants without a fire and their reasons, and the coming
// fires, by hour or by day.
import { locale, t } from '../text/t'
import './calendar.css'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import { post } from '../api/client'
import { all, slow, useSchedules } from '../api/queries'
import type { Fire, Run, Schedule, Simulation } from '../api/types'
import { useKeys } from '../app/keys'
import { useNamespace, within } from '../app/namespace'
import { plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Button } from '../kit/parts'
import { useWatch } from '../live/live'
import {
  cellsOf,
  clockChanges,
  dayKey,
  forecast,
  readKey,
  type Span,
  spanOf,
  step,
  type View,
} from './calendardata'
import { CalendarDetail } from './calendardetail'
import { CalendarGrid } from './calendargrid'
import { ScheduleTop } from './schedules'
import { useTried, WhatIf } from './whatif'

const linesMax = 20_000
const forecastEvery = 60_000

const monthName = new Intl.DateTimeFormat(locale, { month: 'long', year: 'numeric' })
const dayName = new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short', year: 'numeric' })

function titleOf(view: View, span: Span, day: Date) {
  if (view === 'month') return monthName.format(day)
  const last = readKey(span.days.at(-1)) ?? span.to
  return dayName.formatRange(span.from, last)
}

/** Reads the ledger of a span, and which of the runs that it names failed. */
function usePast(span: Span, filter: { workflow?: string; ns: string }) {
  const range = { since: span.from.toISOString(), until: new Date(span.to.getTime() - 1).toISOString() }
  const ledger = useQuery({
    queryKey: ['calendar', 'fires', range, filter.workflow],
    queryFn: ({ signal }) => all<Fire>('/fires', { ...range, workflow: filter.workflow }, signal, linesMax),
    refetchInterval: slow,
    placeholderData: keepPreviousData,
  })
  const runs = useQuery({
    queryKey: ['calendar', 'failed', range, filter.workflow, filter.ns],
    queryFn: ({ signal }) =>
      all<Run>(
        '/runs',
        { state: 'failed', since: range.since, workflow: filter.workflow, ns: filter.ns },
        signal,
      ),
    refetchInterval: slow,
    placeholderData: keepPreviousData,
  })
  const failed = useMemo(() => new Set((runs.data ?? []).map((r) => r.id)), [runs.data])
  return { ledger, failed }
}

/** Reads the coming fires of a span. A span that is over has none. */
function useAhead(span: Span, filter: { workflow?: string; ns: string }) {
  return useQuery({
    queryKey: ['calendar', 'ahead', span.from.getTime(), span.to.getTime(), filter],
    queryFn: () => post<Simulation>('/schedules:simulate', forecast(span, filter)),
    enabled: span.to.getTime() > Date.now(),
    refetchInterval: forecastEvery,
    placeholderData: keepPreviousData,
  })
}

export function Calendar() {
  useWatch()
  const search = useSearch({ from: '/schedules/calendar' })
  const navigate = useNavigate({ from: '/schedules/calendar' })
  const [ns] = useNamespace()
  const view: View = search.view === 'month' ? 'month' : 'week'
  const day = readKey(search.day?.slice(0, 10)) ?? new Date()
  const today = dayKey(day)
  // biome-ignore lint/correctness/useExhaustiveDependencies: the day is what the span depends on, not its hour.
  const span = useMemo(() => spanOf(view, day), [view, today])
  const filter = { ns, ...(search.workflow ? { workflow: search.workflow } : {}) }
  const schedules = useSchedules()
  const { ledger, failed } = usePast(span, filter)
  const ahead = useAhead(span, filter)
  const trigger = (schedules.data ?? []).find(
    (s) => s.workflow === search.workflow && s.name === search.trigger,
  )
  const tried = useTried(trigger, search.rule, span)
  const fires = useMemo(() => (ledger.data ?? []).filter((f) => within(ns, f.namespace)), [ledger.data, ns])
  const shown = useMemo(
    () =>
      (schedules.data ?? []).filter(
        (s) =>
          within(ns, s.namespace) &&
          (!search.workflow || s.workflow === search.workflow) &&
          (!trigger || s.name === trigger.name),
      ),
    [schedules.data, ns, search.workflow, trigger],
  )
  const cells = useMemo(
    () =>
      cellsOf({
        view,
        span,
        schedules: shown,
        fires,
        failed,
        ahead: span.to.getTime() > Date.now() ? (ahead.data?.hours ?? []) : [],
        tried: tried.data?.hours ?? [],
        limits: ahead.data?.limits ?? [],
      }),
    [view, fires, failed, ahead.data, tried.data, span, shown],
  )
  const set = (change: object, replace = false) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace })
  const go = (n: number) => set({ day: step(view, day, n), from: undefined, to: undefined })
  useKeys({ '[': () => go(-1), ']': () => go(1) })
  return (
    <>
      <ScheduleTop here="/schedules/calendar" />
      <div className="row calendar-bar">
        <Button
          kind="quiet"
          icon="left"
          aria-label={view === 'week' ? t('Previous week') : t('Previous month')}
          onPress={() => go(-1)}
        />
        <h2 className="calendar-title">{titleOf(view, span, day)}</h2>
        <Button
          kind="quiet"
          icon="right"
          aria-label={view === 'week' ? t('Next week') : t('Next month')}
          onPress={() => go(1)}
        />
        <Button onPress={() => set({ day: undefined, from: undefined, to: undefined })}>{t('Today')}</Button>
        <div className="row" role="group" aria-label={t('View')}>
          {(['week', 'month'] as const).map((v) => (
            <button
              key={v}
              type="button"
              className="chip"
              aria-pressed={v === view}
              onClick={() => set({ view: v === 'week' ? undefined : v, from: undefined, to: undefined })}
            >
              {v === 'week' ? t('Week') : t('Month')}
            </button>
          ))}
        </div>
        <WorkflowFilter
          schedules={(schedules.data ?? []).filter((s) => within(ns, s.namespace))}
          workflow={search.workflow}
          trigger={search.trigger}
          onChange={(workflow, trigger) => set({ workflow, trigger, rule: undefined })}
        />
        <span className="sub">{Intl.DateTimeFormat().resolvedOptions().timeZone}</span>
      </div>
      {trigger ? (
        <WhatIf trigger={trigger} rule={search.rule} tried={tried} onTry={(rule) => set({ rule }, true)} />
      ) : null}
      <Loaded query={ledger} rows={14}>
        {(lines) => (
          <>
            {lines.length >= linesMax ? (
              <p className="notice" role="status">
                {t(
                  'Only the newest {lines} of the ledger are counted. Choose a workflow to see all of its lines.',
                  { lines: plural(linesMax, 'line') },
                )}
              </p>
            ) : null}
            <div className="calendar-body" data-open={search.from ? '' : undefined}>
              <CalendarGrid
                view={view}
                span={span}
                month={day.getMonth()}
                cells={cells}
                changes={clockChanges(span)}
                tries={tried.data !== undefined}
                from={search.from}
                to={search.to}
                onSelect={(from, to) => set({ from, to: to === from ? undefined : to }, true)}
              />
              {search.from ? (
                <CalendarDetail
                  view={view}
                  from={search.from}
                  to={search.to ?? search.from}
                  fires={fires}
                  failed={failed}
                  filter={filter}
                  trigger={trigger}
                  schedules={shown}
                  onClose={() => set({ from: undefined, to: undefined }, true)}
                />
              ) : null}
            </div>
            {ahead.error ? (
              <p className="sub" role="status">
                {t('The fires to come could not be read: {message}', { message: ahead.error.message })}
              </p>
            ) : null}
            <Shifts simulation={ahead.data} />
          </>
        )}
      </Loaded>
    </>
  )
}

/** The clock changes that leave out or repeat an instant of a schedule. */
function Shifts({ simulation }: { simulation: Simulation | undefined }) {
  const shifts = simulation?.shifts ?? []
  if (shifts.length === 0) return null
  return (
    <Panel title={t('Clock changes')} count={shifts.length}>
      <ul className="list pad">
        {shifts.slice(0, 20).map((c) => (
          <li key={`${c.workflow} ${c.trigger} ${c.at} ${c.local}`}>
            <b>{c.workflow}</b> {c.trigger}: {c.local} ({c.from} → {c.to}). {c.effect}
          </li>
        ))}
      </ul>
    </Panel>
  )
}

function WorkflowFilter({
  schedules,
  workflow,
  trigger,
  onChange,
}: {
  schedules: Schedule[]
  workflow: string | undefined
  trigger: string | undefined
  onChange: (workflow: string | undefined, trigger: string | undefined) => void
}) {
  const names = [...new Set([...schedules.map((s) => s.workflow), ...(workflow ? [workflow] : [])])].sort()
  const own = schedules.filter((s) => s.workflow === workflow && !s.sensor)
  return (
    <>
      <label className="row">
        <span className="hidden-text">{t('Workflow')}</span>
        <select
          className="select"
          value={workflow ?? ''}
          onChange={(e) => onChange(e.target.value || undefined, undefined)}
        >
          <option value="">{t('All workflows')}</option>
          {names.map((n) => (
            <option key={n}>{n}</option>
          ))}
        </select>
      </label>
      {workflow && own.length > 0 ? (
        <label className="row">
          <span className="hidden-text">{t('Trigger')}</span>
          <select
            className="select"
            value={trigger ?? ''}
            onChange={(e) => onChange(workflow, e.target.value || undefined)}
          >
            <option value="">{t('Try another rule of…')}</option>
            {own.map((s) => (
              <option key={s.name}>{s.name}</option>
            ))}
          </select>
        </label>
      ) : null}
      {workflow ? (
        <Link to="/backfills/new" search={{ workflow, ...(trigger ? { trigger } : {}) }}>
          {t('Backfill…')}
        </Link>
      ) : null}
    </>
  )
}
