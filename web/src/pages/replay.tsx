// The graph of a run at any moment of it, with a slider over its time.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react'
import { get, path } from '../api/client'
import { useDrawing, useStates } from '../api/columns'
import type { Run, Timeline } from '../api/types'
import type { Drawing, States } from '../canvas/drawing'
import { GraphView } from '../canvas/graphview'
import { changesUntil, neighbourTime, type Replay, replayOf, statesAt, tally } from '../canvas/replay'
import { clock, count, duration } from '../kit/format'
import { Loaded } from '../kit/panel'
import { Button, State } from '../kit/parts'
import { lookOf, taskOrder } from '../kit/states'
import { liveKey } from '../live/live'

const speeds = [1, 10, 100, 1000]
/** The speed that is chosen first plays a run within this time, if one does. */
const playWithin = 30_000

export function ReplayView({ run, task }: { run: Run; task: string | undefined }) {
  const drawing = useDrawing(path('runs', run.id, 'layout'))
  const states = useStates(run.id, drawing.data)
  const timeline = useQuery({
    queryKey: liveKey([`run ${run.id}`], 'timeline'),
    queryFn: ({ signal }) => get<Timeline>(path('runs', run.id, 'timeline'), {}, signal),
    placeholderData: keepPreviousData,
  })
  return (
    <Loaded query={drawing} rows={12}>
      {(d) => (
        <Loaded query={states} rows={12}>
          {(now) => (
            <Loaded query={timeline} rows={12}>
              {(t) => <Player drawing={d} now={now} timeline={t} task={task} />}
            </Loaded>
          )}
        </Loaded>
      )}
    </Loaded>
  )
}

function Player({
  drawing: d,
  now,
  timeline: t,
  task,
}: {
  drawing: Drawing
  now: States
  timeline: Timeline
  task: string | undefined
}) {
  const search = useSearch({ from: '/r/$id' })
  const navigate = useNavigate({ from: '/r/$id' })
  const set = (change: object) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  const replay = useMemo(() => replayOf(t, d, now), [t, d, now])
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
  const words = `${duration(time)} of ${duration(replay.end)}, ${taskOrder
    .filter((s) => counts.has(s))
    .map((s) => `${counts.get(s)} ${lookOf(s).label.toLowerCase()}`)
    .join(', ')}`
  return (
    <>
      <div className="panel replay" role="group" aria-label="Replay">
        <div className="row">
          <Button
            icon={playing ? 'pause' : 'play'}
            aria-label={playing ? 'Stop' : 'Play'}
            onPress={playing ? stop : play}
          />
          <Button
            kind="quiet"
            icon="left"
            aria-label="Previous change"
            onPress={() => seek(neighbourTime(replay, time, -1))}
          />
          <Button
            kind="quiet"
            icon="right"
            aria-label="Next change"
            onPress={() => seek(neighbourTime(replay, time, 1))}
          />
          <input
            className="replay-time"
            type="range"
            min={0}
            max={replay.end}
            step="any"
            value={time}
            aria-label="Moment of the run"
            aria-valuetext={words}
            title="← and → go to the previous and the next change"
            onChange={(e) => seek(Number(e.target.value))}
            onKeyDown={onKey}
          />
          <span className="num replay-at">
            {duration(time)} <span className="sub">{clock(Date.parse(t.t0) + time)}</span>
          </span>
          <label>
            <span className="hidden-text">Speed</span>
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
          {taskOrder
            .filter((s) => counts.has(s))
            .map((s) => (
              <State key={s} state={s}>
                {count(counts.get(s) ?? 0)} {lookOf(s).label.toLowerCase()}
              </State>
            ))}
          <LastChange replay={replay} drawing={d} time={time} />
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

/** The change that came last before the moment that is shown. */
function LastChange({ replay: r, drawing, time }: { replay: Replay; drawing: Drawing; time: number }) {
  let i = changesUntil(r, time) - 1
  while (i >= 0 && r.tasks[i]! >= drawing.n) i--
  if (i < 0) return null
  return (
    <span className="sub">
      last: {drawing.names[r.tasks[i]!]} {lookOf(r.names[r.to[i]!] ?? '').label.toLowerCase()}
    </span>
  )
}

/** Plays a run from the moment that the address says. The address follows when the play stops. */
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
      // At the end, a play begins from the start.
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
