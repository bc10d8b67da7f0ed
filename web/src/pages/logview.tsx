// The log of one attempt: opened at its end, or at the first error of one that failed. Only what is on screen is drawn.
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import { address, path } from '../api/client'
import type { Attempt } from '../api/types'
import { useKeys } from '../app/keys'
import { bytes, count } from '../kit/format'
import { Skeleton } from '../kit/panel'
import { Button, Copy } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { Rows, type RowsHandle } from '../kit/rows'
import { level, pieces, plain } from '../text/ansi'
import { useLogWindow } from './logdata'

const lineHeight = 18

type LogSearch = { attempt?: string; l?: string; q?: string; lv?: string }

export function Log({
  run,
  task,
  attempt,
  ended,
  attempts,
}: {
  run: string
  task: string
  attempt: number
  ended: boolean
  attempts: Attempt[]
}) {
  const search = useSearch({ strict: false }) as LogSearch
  const navigate = useNavigate()
  const set = (change: LogSearch) =>
    void navigate({ to: '.', search: (old: object) => ({ ...old, ...change }), replace: true } as never)
  const [follow, setFollow] = useState(!ended)
  const [find, setFind] = useState(search.q ?? '')
  const { window: log, error, loading, earlier, again } = useLogWindow(run, task, attempt, ended)
  const rows = useRef<RowsHandle>(null)
  const lv = search.lv ?? ''
  const length = log.length
  const shown = useMemo(() => {
    if (!lv && !find) return undefined
    const wanted = find.toLowerCase()
    const out: number[] = []
    for (let i = 0; i < length; i++) {
      const text = plain(log.line(i))
      const l = level(text)
      if (lv === 'error' && l !== 'error') continue
      if (lv === 'warning' && l === undefined) continue
      if (wanted && !text.toLowerCase().includes(wanted)) continue
      out.push(i)
    }
    return out
  }, [log, length, lv, find])
  const n = shown ? shown.length : length
  const marked = log.numbered && search.l ? Number(search.l.split('-')[0]) - 1 : -1

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new attempt or a first answer decides where the log opens
  useEffect(() => {
    if (loading || length === 0) return
    if (marked >= 0) rows.current?.show(marked)
    else rows.current?.show(length - 1, 'end')
  }, [loading, attempt, task, run])
  useEffect(() => {
    if (follow && n > 0) rows.current?.show(n - 1, 'end')
  }, [follow, n])

  const firstError = () => {
    for (let i = 0; i < length; i++) {
      if (level(plain(log.line(i))) !== 'error') continue
      set({ lv: undefined as never })
      setFind('')
      setFollow(false)
      requestAnimationFrame(() => rows.current?.show(i))
      return
    }
  }
  useKeys({ f: () => setFollow(!follow), e: firstError })

  return (
    <div className="log">
      <div className="row log-head">
        {attempts.length > 1 ? (
          <select
            className="select"
            aria-label="Attempt"
            value={attempt}
            onChange={(e) => set({ attempt: e.target.value })}
          >
            {attempts.map((a) => (
              <option key={a.token} value={a.number}>
                attempt {a.number}, {a.state}
              </option>
            ))}
          </select>
        ) : null}
        <input
          className="input grow"
          type="search"
          placeholder="Search what is loaded"
          aria-label="Search in the log"
          value={find}
          onChange={(e) => setFind(e.target.value)}
          onBlur={() => set({ q: find || (undefined as never) })}
        />
        <select
          className="select"
          aria-label="Lines"
          value={lv}
          onChange={(e) => set({ lv: e.target.value || (undefined as never) })}
        >
          <option value="">all lines</option>
          <option value="warning">warnings and errors</option>
          <option value="error">errors</option>
        </select>
        <Button kind="quiet" onPress={firstError} hint="Go to the first line that reads like an error (e)">
          First error
        </Button>
        {ended ? null : (
          <button type="button" className="chip" aria-pressed={follow} onClick={() => setFollow(!follow)}>
            Follow
          </button>
        )}
        <a
          className="button"
          data-icon="only"
          data-kind="quiet"
          href={address(path('runs', run, 'tasks', task, 'logs'), { attempt })}
          download={`${task}-${attempt}.log`}
          aria-label="Download the log"
          title="Download the log"
        >
          ⤓
        </a>
        <Copy text={location.href} label="Copy the link" />
      </div>
      {error ? <ProblemBox error={error} retry={again} /> : null}
      {loading ? <Skeleton rows={6} /> : null}
      {!loading && !error && length === 0 ? (
        <p className="empty">
          {ended ? 'The attempt printed nothing.' : 'The attempt has printed nothing yet.'}
        </p>
      ) : null}
      {!loading && n === 0 && length > 0 ? <p className="empty">No loaded line fits.</p> : null}
      {log.from > 0 && !loading ? (
        <button type="button" className="earlier" onClick={() => void earlier()}>
          {bytes(log.from)} before this are not loaded. Load earlier lines
        </button>
      ) : null}
      {n > 0 ? (
        <Rows
          n={n}
          row={lineHeight}
          label={`Log of ${task}`}
          className="rows log-lines"
          handle={rows}
          onTop={() => log.from > 0 && void earlier()}
          onScrolled={(end) => !ended && setFollow(end)}
        >
          {(i) => {
            const at = shown ? (shown[i] ?? 0) : i
            return (
              <Line
                key={at}
                text={log.line(at)}
                number={log.numbered ? at + 1 : undefined}
                marked={at === marked}
                link={() => set({ l: String(at + 1) })}
              />
            )
          }}
        </Rows>
      ) : null}
      <p className="sub log-foot">
        {count(length)} lines, {bytes(log.to - log.from)}
        {log.from > 0 ? ` of ${bytes(log.to)}` : ''} loaded
        {ended ? '' : ' · the attempt is running'}
      </p>
    </div>
  )
}

function Line({
  text,
  number,
  marked,
  link,
}: {
  text: string
  number: number | undefined
  marked: boolean
  link: () => void
}) {
  const parts = pieces(text)
  const l = level(parts.map((p) => p.text).join(''))
  return (
    <div className="line" data-level={l} data-marked={marked || undefined} style={{ height: lineHeight }}>
      {number ? (
        <button
          type="button"
          className="number"
          tabIndex={-1}
          onClick={link}
          title="Put this line into the address"
        >
          {number}
        </button>
      ) : (
        <span className="number">·</span>
      )}
      <span>
        {parts.map((p, i) => (
          <span key={i} data-tone={p.colour} data-bold={p.bold}>
            {p.text}
          </span>
        ))}
      </span>
    </div>
  )
}
