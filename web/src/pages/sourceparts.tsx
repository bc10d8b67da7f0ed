// The state of a source of events on pages, and the dialog that moves its position.
import { useState } from 'react'
import { newKey, path, post } from '../api/client'
import type { Schedule } from '../api/types'
import { useVerb } from '../api/verbs'
import { Dialog, toast } from '../kit/dialog'
import { count } from '../kit/format'
import { Panel } from '../kit/panel'
import { Ago, Button, Clock, Copy, Field, Mark, State } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { VerbButton } from '../kit/verbs'
import { rich, t } from '../text/t'
import { isAway, lagText, seekPlan, seekTo, type Target, targetsOf } from './sourcedata'

/** The source of a trigger in a list, in place of the next instant. */
export function SourceState({ s }: { s: Schedule }) {
  const { source } = s
  if (!source) return null
  if (isAway(s))
    return (
      <span title={source.why ?? undefined}>
        <State state="away">{rich('Away, {time}', { time: <Ago time={source.away_at} /> })}</State>
      </span>
    )
  if (source.lag) return <span>{t('{events} to read', { events: lagText(source.lag) })}</span>
  return <span className="sub">{t('on events')}</span>
}

/** The position of a source. */
export function SourcePanel({ s, onSeek }: { s: Schedule; onSeek: () => void }) {
  const { source } = s
  if (!source) return null
  const what = s.kind === 'event' ? t('Events') : t('Source##of events')
  return (
    <Panel
      title={what}
      actions={
        <VerbButton verb="schedule.operate" namespace={s.namespace} onPress={onSeek}>
          {t('Read on elsewhere…')}
        </VerbButton>
      }
    >
      {isAway(s) ? (
        <p className="notice row" role="alert">
          <Mark state="away" />
          <span className="grow">
            {rich('Away since {time}: {why}', {
              time: <Clock time={source.away_at} />,
              why: <span lang="en">{source.why}</span>,
            })}
          </span>
        </p>
      ) : null}
      <dl className="facts pad">
        <Field label={t('Waiting to be read')}>{lagText(source.lag)}</Field>
        <Field label={t('Position')}>
          {source.cursor === null ? (
            <span className="muted">
              {source.from === 'now'
                ? t('none: it begins at the end')
                : t('none: it begins at the beginning')}
            </span>
          ) : (
            <span className="row">
              <code className="cursor">{source.cursor}</code> <Copy text={source.cursor} />
            </span>
          )}
        </Field>
        <Field label={t('Last events')}>
          <Ago time={source.taken_at} />
        </Field>
        <Field label={t('Filtered out')}>{count(source.filtered)}</Field>
        <Field label={t('Lost')}>
          {source.lost > 0 ? <State state="missed">{count(source.lost)}</State> : count(source.lost)}
        </Field>
      </dl>
    </Panel>
  )
}

const words: Record<Target, { short: string; long: string }> = {
  beginning: { short: t('the beginning'), long: t('the beginning: all events that are there') },
  now: { short: t('the end'), long: t('the end: only events that come from now on') },
  time: { short: t('a time'), long: t('a time') },
  cursor: { short: t('a position'), long: t('a position') },
}

/** The dialog that moves the position of a trigger. It first shows the consequences. */
export function SeekDialog({ s, isOpen, onClose }: { s: Schedule; isOpen: boolean; onClose: () => void }) {
  return (
    <Dialog title={t('Where {name} reads on', { name: s.name })} isOpen={isOpen} onClose={onClose}>
      {isOpen ? <Seek s={s} onClose={onClose} /> : null}
    </Dialog>
  )
}

function Seek({ s, onClose }: { s: Schedule; onClose: () => void }) {
  const [target, setTarget] = useState<Target>('now')
  const [text, setText] = useState('')
  const [key] = useState(newKey)
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const to = seekTo(target, text)
  const was = s.source?.cursor
  const where = path('schedules', s.namespace, s.workflow.split('/').pop() ?? '', s.name)
  const back = () =>
    run(
      () => post(`${where}:seek`, { to: was }, newKey()),
      () => toast(t('{name} reads on at {place} again.', { name: s.name, place: was ?? '' })),
    )
  const act = () => {
    if (to === undefined || isPending) return
    run(
      () => post<Schedule>(`${where}:seek`, { to }, key),
      () => {
        onClose()
        toast(
          t('{name} reads on at {place}.', { name: s.name, place: words[target].short }),
          was ? { undo: back } : {},
        )
      },
    )
  }
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        act()
      }}
    >
      <label className="field">
        <span>{t('Read on at')}</span>
        <select className="select" value={target} onChange={(e) => setTarget(e.target.value as Target)}>
          {targetsOf(s.kind).map((one) => (
            <option key={one} value={one}>
              {words[one].long}
            </option>
          ))}
        </select>
      </label>
      {target === 'time' || target === 'cursor' ? (
        <label className="field">
          <span>{target === 'time' ? t('Time, on your clock') : t('Position')}</span>
          <input
            className={target === 'time' ? 'input' : 'input mono'}
            type={target === 'time' ? 'datetime-local' : 'text'}
            autoComplete="off"
            required
            value={text}
            onChange={(e) => setText(e.target.value)}
          />
          {target === 'cursor' ? (
            <small>{t('As this page shows it, such as {position}.', { position: was ?? '1204' })}</small>
          ) : null}
        </label>
      ) : null}
      <ul className="plan">
        {seekPlan(s, target).map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={to === undefined || isPending}>
          {t('Read on there')}
        </Button>
      </footer>
    </form>
  )
}
