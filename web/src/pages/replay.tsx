// The graph of a run at any moment, with a slider over the time of the run.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react'
import { get, path } from '../api/client'
import { useDrawing, useStates } from '../api/columns'
import type { Event, ListEvent, Run, Timeline } from '../api/types'
import { type Decisions, decisionKinds, decisionsOf, isPaused, markAt } from '../canvas/decisions'
import type { Drawing, States } from '../canvas/drawing'
import { GraphView } from '../canvas/graphview'
import { changesUntil, neighbourTime, type Replay, replayOf, statesAt, tally } from '../canvas/replay'
import { clock, count, duration } from '../kit/format'
import { Loaded } from '../kit/panel'
import { Button, State } from '../kit/parts'
import { labelIn, lookOf, taskOrder } from '../kit/states'
import { liveKey } from '../live/live'
import { t } from '../text/t'

const speeds = [1, 10, 100, 1000]
/** The initial speed is one that plays the run within this time, in milliseconds, if there is one. */
const playWithin = 30_000

export function ReplayView({ run, task }: { run: Run; task: string | undefined }) {
  const drawing = useDrawing(path('runs', run.id, 'layout'))
  const states = useStates(run.id, drawing.data)
  const timeline = useQuery({
    queryKey: liveKey([`run ${run.id}`], 'timeline'),
    queryFn: ({ signal }) => get<Timeline>(path('runs', run.id, 'timeline'), {}, signal),
    placeholderData: keepPreviousData,
  })
  // The graph does not wait for the history: pauses and marks are added when it has been read.
  const history = useQuery({
    queryKey: liveKey([`run ${run.id}`], 'decisions'),
    queryFn: ({ signal }) => readDecisions(run.id, signal),
    placeholderData: keepPreviousData,
    retry: false,
  })
  return (
    <Loaded query={drawing} rows={12}>
      {(d) => (
        <Loaded query={states} rows={12}>
          {(now) => (
            <Loaded query={timeline} rows={12}>
              {(timeline) => (
                <Player
                  drawing={d}
                  now={now}
                  timeline={timeline}
                  decided={decisionsOf(history.data ?? [], timeline.t0)}
                  task={task}
                />
              )}
            </Loaded>
          )}
        </Loaded>
      )}
    </Loaded>
  )
}

/** The largest number of pages of the history that are read. Each page has up to 1,000 transactions. */
const pagesMax = 20

async function readDecisions(run: string, signal: AbortSignal): Promise<Event[]> {
  const found: Event[] = []
  let cursor: string | null | undefined
  for (let i = 0; i < pagesMax && cursor !== null; i++) {
    const query = { kind: decisionKinds, limit: 1000, cursor }
    const page: ListEvent = await get(path('runs', run, 'events'), query, signal)
    found.push(...page.items)
    cursor = page.next ?? null
  }
  return found
}

function Player({
  drawing: d,
  now,
  timeline,
  decided,
  task,
}: {
  drawing: Drawing
  now: States
  timeline: Timeline
  decided: Decisions
  task: string | undefined
}) {
  const search = useSearch({ from: '/r/$id' })
  const navigate = useNavigate({ from: '/r/$id' })
  const set = (change: object) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  const replay = useMemo(() => replayOf(timeline, d, now, decided), [timeline, d, now, decided])
  const asked = search.at === undefined ? replay.end : Number(search.at)
  const { time, playing, play, stop, speed, setSpeed } = usePlayer(
    replay,
    Number.isFinite(asked) ? Math.max(0, Math.min(replay.end, asked)) : replay.end,
    (at) => set({ at: at >= replay.end ? undefined : String(Math.round(at)) }),
  )
  const states = useMemo(() => statesAt(replay, time), [replay, time])
  const seek = (to: number) => {
    stop()
    set({ at: to >= replay.end ? undefined : String(to) })
  }
  const onKey = (e: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[e.key] as 1 | -1 | undefined
    if (by) seek(neighbourTime(replay, time, by))
    else if (e.key === ' ') playing ? stop() : play()
    else return
    e.preventDefault()
  }
  const counts = tally(states, d.n)
  const paused = isPaused(decided, time)
  const words = [
    t('{time} of {end}', { time: duration(time), end: duration(replay.end) }),
    ...(paused ? [t('the run is paused')] : []),
    ...taskOrder.filter((s) => counts.has(s)).map((s) => `${counts.get(s)} ${labelIn(s)}`),
  ].join(', ')
  return (
    <>
      <div className="panel replay" role="group" aria-label={t('Replay')}>
        <div className="row">
          <Button
            icon={playing ? 'pause' : 'play'}
            aria-label={playing ? t('Stop') : t('Play')}
            onPress={playing ? stop : play}
          />
          <Button
            kind="quiet"
            icon="left"
            aria-label={t('Previous change')}
            onPress={() => seek(neighbourTime(replay, time, -1))}
          />
          <Button
            kind="quiet"
            icon="right"
            aria-label={t('Next change')}
            onPress={() => seek(neighbourTime(replay, time, 1))}
          />
          <span className="replay-track">
            <input
              className="replay-time"
              type="range"
              min={0}
              max={replay.end}
              step="any"
              value={time}
              aria-label={t('Moment of the run')}
              aria-valuetext={words}
              title={t('← and → go to the previous and the next change')}
              onChange={(e) => seek(Number(e.target.value))}
              onKeyDown={onKey}
            />
            <span className="replay-decided" aria-hidden="true">
              {decided.pauses.map(([from, to = replay.end]) => (
                <i
                  key={from}
                  data-what="pause"
                  style={{
                    left: `${(100 * from) / replay.end}%`,
                    width: `${(100 * (to - from)) / replay.end}%`,
                  }}
                />
              ))}
              {decided.marks.map((m) => (
                <i
                  key={`${m.at} ${m.task}`}
                  data-what="mark"
                  style={{ left: `${(100 * m.at) / replay.end}%` }}
                />
              ))}
            </span>
          </span>
          <span className="num replay-at">
            {duration(time)} <span className="sub">{clock(Date.parse(timeline.t0) + time)}</span>
          </span>
          <label>
            <span className="hidden-text">{t('Speed')}</span>
            <select className="select" value={speed} onChange={(e) => setSpeed(Number(e.target.value))}>
              {speeds.map((s) => (
                <option key={s} value={s}>
                  {count(s)}×
                </option>
              ))}
            </select>
          </label>
        </div>
        <div className="row replay-counts">
          {paused ? <State state="paused">{t('the run is paused')}</State> : null}
          {taskOrder
            .filter((s) => counts.has(s))
            .map((s) => (
              <State key={s} state={s}>
                {count(counts.get(s) ?? 0)} {lookOf(s).label.toLowerCase()}
              </State>
            ))}
          <LastChange replay={replay} drawing={d} decided={decided} time={time} />
        </div>
      </div>
      <GraphView
        drawing={d}
        states={states}
        selected={task}
        onSelect={(name) => set({ task: name })}
        q={search.q ?? ''}
        onFind={(text) => set({ q: text || undefined })}
        narrow={task !== undefined}
      />
    </>
  )
}

/** The last change before the shown moment. */
function LastChange({
  replay: r,
  drawing,
  decided,
  time,
}: {
  replay: Replay
  drawing: Drawing
  decided: Decisions
  time: number
}) {
  let i = changesUntil(r, time) - 1
  while (i >= 0 && r.tasks[i]! >= drawing.n) i--
  if (i < 0) return null
  const name = drawing.names[r.tasks[i]!]
  const mark = markAt(decided, name, r.times[i]!)
  return (
    <span className="sub">
      {[
        t('last: {name} {state}', { name: name ?? '', state: labelIn(r.names[r.to[i]!] ?? '') }),
        ...(mark ? [mark.by ? t('marked by {by}', { by: mark.by }) : t('marked')] : []),
      ].join(', ')}
    </span>
  )
}

/** Plays a run from the moment in the address. When the play stops, the address gets the new moment. */
function usePlayer(replay: Replay, asked: number, onStop: (at: number) => void) {
  const [speed, setSpeed] = useState(
    () => speeds.find((s) => replay.end / s <= playWithin) ?? (speeds.at(-1) as number),
  )
  const [playing, setPlaying] = useState(false)
  const [time, setTime] = useState(asked)
  const at = useRef(asked)
  const latest = useRef(onStop)
  latest.current = onStop
  useEffect(() => {
    if (playing) return
    at.current = asked
    setTime(asked)
  }, [asked, playing])
  useEffect(() => {
    if (!playing) return
    let [before, frame] = [performance.now(), 0]
    const draw = (now: number) => {
      at.current = Math.min(replay.end, at.current + (now - before) * speed)
      before = now
      setTime(at.current)
      if (at.current < replay.end) {
        frame = requestAnimationFrame(draw)
        return
      }
      setPlaying(false)
      latest.current(at.current)
    }
    frame = requestAnimationFrame(draw)
    return () => cancelAnimationFrame(frame)
  }, [playing, speed, replay.end])
  return {
    time: playing ? time : asked,
    playing,
    speed,
    setSpeed,
    play: () => {
      // At the end of the run, a play begins from the start.
      at.current = time >= replay.end ? 0 : time
      setPlaying(true)
    },
    stop: () => {
      if (!playing) return
      setPlaying(false)
      latest.current(at.current)
    },
  }
}
