// The log of one attempt: opened at its end, or at the first error if the attempt failed. Only what is on
// screen is drawn.
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { Attempt } from '../api/types'
import { useKeys } from '../app/keys'
import { bytes, count, plural } from '../kit/format'
import { Skeleton } from '../kit/panel'
import { Button } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { Rows, type RowsHandle } from '../kit/rows'
import { level, pieces, plain } from '../text/ansi'
import { t } from '../text/t'
import { type Place, useLogWindow } from './logdata'
import { LogHead } from './loghead'
import { type Found, type Hit, useLogIndex, useLogSearch } from './logsearch'

const lineHeight = 18
/** A token is the number of the attempt plus a multiple of this number. */
const tokens = 2 ** 20

export type LogSearch = { attempt?: string; l?: string; q?: string; re?: string; lv?: string; all?: string }

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
  const {
    window: log,
    error,
    loading,
    earlier,
    later,
    jump,
    atEnd,
    again,
  } = useLogWindow(run, task, attempt, ended)
  const partial = log.from > 0 || !atEnd
  const lv = search.lv ?? ''
  const re = search.re !== undefined
  // The server searches the parts that are not loaded, and all logs for expressions. A chosen hit is shown within the log.
  const all = search.all !== undefined
  const served = partial || all || (re && find.trim() !== '')
  const { found, more, now } = useLogSearch(
    run,
    task,
    attempt,
    { text: find.trim(), re, level: lv, all },
    served,
  )
  const index = useLogIndex(run, task, attempt, ended, partial && !loading)
  const [chosen, setChosen] = useState<number>()
  const [target, setTarget] = useState<{ place: number }>()
  const [lost, setLost] = useState<Error>()
  const go = (to: Place) =>
    void jump(to).then(
      (place) => {
        setLost(undefined)
        setTarget({ place })
      },
      (e) => setLost(e instanceof Error ? e : new Error(String(e))),
    )
  const choose = (i: number) => {
    const hit = found?.hits[i]
    if (!hit) return
    if (hit.task !== undefined) {
      const number = (hit.attempt ?? 1) % tokens
      const l = hit.line === null ? (undefined as never) : String(hit.line)
      setFollow(false)
      if (hit.task === task && number === attempt) {
        setFind('')
        set({ l, q: undefined as never, re: undefined as never, all: undefined as never })
        go(hit)
        return
      }
      const at = { attempt: String(number), l }
      void navigate({ to: '/r/$id/log/$task', params: { id: run, task: hit.task }, search: at })
      return
    }
    setChosen(i)
    setFollow(false)
    if (hit.line !== null) set({ l: String(hit.line) })
    go(hit)
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: another search has other hits
  useEffect(() => setChosen(undefined), [re, lv, all])
  const listed = found !== undefined && chosen === undefined
  const rows = useRef<RowsHandle>(null)
  const length = log.length
  const shown = useMemo(() => {
    const wanted = find.toLowerCase()
    if (served || (!lv && !wanted)) return undefined
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
  }, [log, length, lv, find, served])
  const n = shown ? shown.length : length
  const wantedLine = search.l ? Number(search.l.split('-')[0]) : 0
  const marked = log.first !== undefined && wantedLine >= log.first ? wantedLine - log.first : -1

  /** The first loaded line that reads like an error. */
  const errorAt = () => {
    for (let i = 0; i < length; i++) if (level(plain(log.line(i))) === 'error') return i
    return undefined
  }
  const failed = attempts.find((a) => a.number === attempt)?.state === 'failed'

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new attempt or a first answer decides where the log opens
  useEffect(() => {
    if (loading || length === 0) return
    if (marked >= 0 && marked < length) rows.current?.show(marked)
    else if (wantedLine > 0) go({ line: wantedLine })
    else rows.current?.show(failed ? (errorAt() ?? length - 1) : length - 1)
  }, [loading, attempt, task, run])
  useEffect(() => {
    if (target) rows.current?.show(target.place)
  }, [target])
  useEffect(() => {
    if (follow && n > 0) rows.current?.show(n - 1, 'end')
  }, [follow, n])

  const firstError = () => {
    const first = index?.first[0]
    const at = first && partial ? -1 : errorAt()
    if (at === undefined) return
    set({ lv: undefined as never, ...(first?.line && at < 0 ? { l: String(first.line) } : {}) })
    setFind('')
    setFollow(false)
    if (first && at < 0) go(first)
    else requestAnimationFrame(() => rows.current?.show(at))
  }
  const next = (by: number) =>
    found && choose(Math.max(0, Math.min(found.hits.length - 1, (chosen ?? (by > 0 ? -1 : 1)) + by)))
  const toEnd = () => {
    setChosen(undefined)
    setLost(undefined)
    setFind('')
    set({ l: undefined as never, q: undefined as never })
    again()
  }
  useKeys({
    f: () => setFollow(!follow),
    e: firstError,
    ...(found ? { n: () => next(1), N: () => next(-1) } : {}),
  })

  return (
    <div className="log">
      <LogHead
        {...{ run, task, attempt, attempts, ended, partial, find, follow, setFollow, firstError, set }}
        search={search}
        setFind={(text) => {
          setFind(text)
          setChosen(undefined)
        }}
        searchNow={now}
        go={(to) => {
          setFollow(false)
          setFind('')
          setChosen(undefined)
          set({ l: to.line === null ? (undefined as never) : String(to.line), lv: undefined as never })
          go(to)
        }}
      />
      {error ? <ProblemBox error={error} retry={again} /> : null}
      {lost ? <ProblemBox error={lost} retry={toEnd} /> : null}
      {found && !found.error ? (
        <p className="row log-found" role="status">
          <span className="grow">{told(found, chosen)}</span>
          {chosen === undefined ? null : (
            <Button kind="quiet" onPress={() => setChosen(undefined)}>
              {t('All hits')}
            </Button>
          )}
          {found.hits.length > 0 && !all ? (
            <>
              <Button kind="quiet" hint={t('Previous hit (N)')} onPress={() => next(-1)}>
                {t('Previous')}
              </Button>
              <Button kind="quiet" hint={t('Next hit (n)')} onPress={() => next(1)}>
                {t('Next')}
              </Button>
            </>
          ) : null}
          {found.end && found.end.next !== null ? (
            <Button kind="quiet" hint={t('Search the rest of the log')} onPress={more}>
              {t('Search on')}
            </Button>
          ) : null}
        </p>
      ) : null}
      {found?.error ? <ProblemBox error={found.error} /> : null}
      {listed && found.hits.length > 0 ? (
        <Rows n={found.hits.length} row={lineHeight} label={t('Hits')} className="rows log-lines">
          {(i) => {
            const hit = found.hits[i]
            return hit ? <HitLine key={i} hit={hit} open={() => choose(i)} /> : null
          }}
        </Rows>
      ) : null}
      {loading ? <Skeleton rows={6} /> : null}
      {!loading && !error && length === 0 ? (
        <p className="empty">
          {ended ? t('The attempt printed nothing.') : t('The attempt has printed nothing yet.')}
        </p>
      ) : null}
      {!loading && !listed && n === 0 && length > 0 ? (
        <p className="empty">{t('No loaded line fits.')}</p>
      ) : null}
      {log.from > 0 && !loading && !listed ? (
        <button type="button" className="earlier" onClick={() => void earlier()}>
          {t('{size} before this are not loaded. Load earlier lines', { size: bytes(log.from) })}
        </button>
      ) : null}
      {n > 0 && !listed ? (
        <Rows
          n={n}
          row={lineHeight}
          label={t('Log of {task}', { task })}
          className="rows log-lines"
          handle={rows}
          onTop={() => log.from > 0 && void earlier()}
          onScrolled={(end) => {
            if (!atEnd && end) void later()
            else if (!ended) setFollow(end && atEnd)
          }}
        >
          {(i) => {
            const at = shown ? (shown[i] ?? 0) : i
            return (
              <Line
                key={at}
                text={log.line(at)}
                number={log.first === undefined ? undefined : log.first + at}
                marked={at === marked}
                link={() => set({ l: String((log.first ?? 1) + at) })}
              />
            )
          }}
        </Rows>
      ) : null}
      <p className="sub row log-foot">
        {atEnd && log.from > 0
          ? t('{n} line, {size} of {all} loaded|{n} lines, {size} of {all} loaded', {
              n: length,
              size: bytes(log.to - log.from),
              all: bytes(log.to),
            })
          : t('{n} line, {size} loaded|{n} lines, {size} loaded', {
              n: length,
              size: bytes(log.to - log.from),
            })}
        {index?.lines ? ` · ${whole(index)}` : ''}
        {ended ? '' : ` · ${t('the attempt is running')}`}
        {atEnd ? null : (
          <Button kind="quiet" onPress={toEnd}>
            {t('To the end')}
          </Button>
        )}
      </p>
    </div>
  )
}

/** Describes the progress of a search, or its results. */
function told(found: Found, chosen: number | undefined): string {
  const n = found.hits.length
  if (chosen !== undefined)
    return t('Hit {chosen} of {all}', {
      chosen: count(chosen + 1),
      all: count(n) + (found.end?.next ? '+' : ''),
    })
  const { end, progress } = found
  if (end && end.next !== null)
    return typeof end.next === 'number'
      ? t('The first {hits}, up to {to} of {all}', {
          hits: plural(n, 'hit'),
          to: bytes(end.next),
          all: bytes(end.bytes),
        })
      : t('The first {hits}', { hits: plural(n, 'hit') })
  if (end)
    return t('{hits} in {size}', {
      hits: n === 0 ? t('No hit') : plural(n, 'hit'),
      size: bytes(end.bytes) + (end.lines ? `, ${plural(end.lines, 'line')}` : ''),
    })
  const part = progress
    ? progress.of
      ? t('{size} of {all}', { size: bytes(progress.bytes), all: bytes(progress.of) })
      : bytes(progress.bytes)
    : t('the log')
  return t('{hits} so far: searching {part}', { hits: plural(n, 'hit'), part })
}

/** The counts of the whole log, in words. */
const whole = (index: { lines: number | null; errors: number | null; warnings: number | null }) =>
  [
    t('{lines} in all', { lines: plural(index.lines ?? 0, 'line') }),
    plural(index.errors ?? 0, 'error'),
    plural(index.warnings ?? 0, 'warning'),
  ].join(', ')

function HitLine({ hit, open }: { hit: Hit; open: () => void }) {
  const letters = [...hit.text]
  const end = hit.at + hit.length
  return (
    <div
      className="line"
      data-level={hit.length > 0 ? undefined : level(plain(hit.text))}
      style={{ height: lineHeight }}
    >
      <button type="button" className="number" onClick={open} title={t('Show this line in the log')}>
        {hit.line === null ? bytes(hit.offset) : count(hit.line)}
      </button>
      {hit.task === undefined ? null : <span className="sub">{`${hit.task}  `}</span>}
      <span>
        {plain(letters.slice(Math.max(0, hit.at - 60), hit.at).join(''))}
        {hit.length > 0 ? <mark>{letters.slice(hit.at, end).join('')}</mark> : null}
        {plain(letters.slice(end).join(''))}
      </span>
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
          title={t('Put this line into the address')}
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
