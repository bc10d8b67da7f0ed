// The form in which every problem is shown: what failed, where, why, and which button helps.
import { useEffect, useState } from 'react'
import { Failure } from '../api/client'
import { t } from '../text/t'
import { Icon } from './icons'
import { Button, Command } from './parts'

const advice: Record<string, string> = {
  'not-found': t('It may have been deleted, or retention no longer keeps it.'),
  'precondition-failed': t(
    'Somebody changed it since you read it. Look at it again before you repeat your change.',
  ),
  'idempotency-conflict': t('Close the dialog and open it again to ask anew.'),
  busy: t('The server does too much of this at once.'),
  unavailable: t('The server cannot do it at the moment.'),
  'storage-full': t('Free some space on the disk of the server.'),
  network: t('The page shows what it read last. It connects again by itself.'),
}

const passing = new Set(['busy', 'unavailable', 'network'])

export function ProblemBox({ error, retry, stale }: { error: Error; retry?: () => void; stale?: boolean }) {
  const failure = error instanceof Failure ? error : undefined
  const kind = failure?.kind ?? 'internal'
  return (
    <div className="problem" role="alert" data-kind={passing.has(kind) ? 'passing' : undefined}>
      <Icon name="warn" />
      <div>
        <strong>{stale ? t('This is not up to date') : (failure?.title ?? t('The page met a bug'))}</strong>
        <p lang={failure?.words ? undefined : 'en'}>
          {failure?.words ?? failure?.problem.detail ?? error.message}
        </p>
        {advice[kind] ? <p className="muted">{advice[kind]}</p> : null}
        {failure?.problem.errors?.map((e) => (
          <p key={`${e.line}:${e.column}:${e.key}`} className="mono">
            {e.file ? `${e.file}:${e.line}:${e.column}: ` : e.key ? `${e.key}: ` : ''}
            <span lang="en">{e.message}</span>
            {e.hint ? (
              <span className="muted" lang="en">
                {' '}
                ({e.hint})
              </span>
            ) : null}
          </p>
        ))}
        {kind === 'damaged' ? <Command text="skein verify" /> : null}
      </div>
      {retry ? <Again seconds={failure?.retryAfter} retry={retry} /> : null}
    </div>
  )
}

/** Repeats the request after the time that the server has named, or when the button is pressed. */
function Again({ seconds, retry }: { seconds?: number | undefined; retry: () => void }) {
  const [left, setLeft] = useState(seconds ?? 0)
  useEffect(() => {
    if (left <= 0) return
    const timer = setTimeout(() => {
      setLeft(left - 1)
      if (left === 1) retry()
    }, 1000)
    return () => clearTimeout(timer)
  }, [left, retry])
  return <Button onPress={retry}>{left > 0 ? t('Try again ({left} s)', { left }) : t('Try again')}</Button>
}
