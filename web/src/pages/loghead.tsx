// The controls over a log: its attempt, the search, the level of the lines, and the field for a line or a
// time.
import { useState } from 'react'
import { address, path } from '../api/client'
import type { Attempt } from '../api/types'
import { Button, Copy } from '../kit/parts'
import { labelIn } from '../kit/states'
import { t } from '../text/t'
import type { Place } from './logdata'
import { placeOf } from './logsearch'
import type { LogSearch } from './logview'

export function LogHead({
  run,
  task,
  attempt,
  attempts,
  ended,
  partial,
  find,
  setFind,
  searchNow,
  search,
  set,
  follow,
  setFollow,
  firstError,
  go,
}: {
  run: string
  task: string
  attempt: number
  attempts: Attempt[]
  ended: boolean
  partial: boolean
  find: string
  setFind: (text: string) => void
  searchNow: () => void
  search: LogSearch
  set: (change: LogSearch) => void
  follow: boolean
  setFollow: (follow: boolean) => void
  firstError: () => void
  go: (to: Place) => void
}) {
  const [place, setPlace] = useState('')
  const to = placeOf(place, attempts.find((a) => a.number === attempt)?.started_at ?? null)
  return (
    <div className="row log-head">
      {attempts.length > 1 ? (
        <select
          className="select"
          aria-label={t('Attempt')}
          value={attempt}
          onChange={(e) => set({ attempt: e.target.value })}
        >
          {attempts.map((a) => (
            <option key={a.token} value={a.number}>
              {t('attempt {number}, {state}', { number: a.number, state: labelIn(a.state) })}
            </option>
          ))}
        </select>
      ) : null}
      <input
        className="input grow"
        type="search"
        placeholder={partial ? t('Search the whole log') : t('Search')}
        aria-label={t('Search in the log')}
        value={find}
        onChange={(e) => setFind(e.target.value)}
        onBlur={() => set({ q: find || (undefined as never) })}
        onKeyDown={(e) => e.key === 'Enter' && searchNow()}
      />
      <button
        type="button"
        className="chip"
        aria-pressed={search.re !== undefined}
        aria-label={t('Regular expression')}
        title={t('Search for a regular expression')}
        onClick={() => set({ re: search.re === undefined ? '1' : (undefined as never) })}
      >
        .*
      </button>
      <select
        className="select"
        aria-label={t('Where to search')}
        value={search.all ?? ''}
        onChange={(e) => set({ all: e.target.value || (undefined as never) })}
      >
        <option value="">{t('this log')}</option>
        <option value="1">{t('all logs of the run')}</option>
      </select>
      <select
        className="select"
        aria-label={t('Lines')}
        value={search.lv ?? ''}
        onChange={(e) => set({ lv: e.target.value || (undefined as never) })}
      >
        <option value="">{t('all lines')}</option>
        <option value="warning">{t('warnings and errors')}</option>
        <option value="error">{t('errors')}</option>
      </select>
      <Button kind="quiet" onPress={firstError} hint={t('Go to the first line that reads like an error (e)')}>
        {t('First error')}
      </Button>
      {partial ? (
        <form
          className="row"
          onSubmit={(e) => {
            e.preventDefault()
            if (to) go({ line: null, ...to })
          }}
        >
          <input
            className="input log-place"
            placeholder={t('Line or time')}
            aria-label={t('Go to a line or a time')}
            title={t('A number of a line, or a time such as 14:05')}
            aria-invalid={place !== '' && !to}
            value={place}
            onChange={(e) => setPlace(e.target.value)}
          />
        </form>
      ) : null}
      {ended ? null : (
        <button type="button" className="chip" aria-pressed={follow} onClick={() => setFollow(!follow)}>
          {t('Follow')}
        </button>
      )}
      <a
        className="button"
        data-icon="only"
        data-kind="quiet"
        href={address(path('runs', run, 'tasks', task, 'logs'), { attempt })}
        download={`${task}-${attempt}.log`}
        aria-label={t('Download the log')}
        title={t('Download the log')}
      >
        ⤓
      </a>
      <Copy text={location.href} label={t('Copy the link')} />
    </div>
  )
}
