// A part of a page: a head, then the content in one of its states. A part that fails shows the error in its
// place, and the rest of the page still works. Old data stays visible while new data is read.
import type { UseQueryResult } from '@tanstack/react-query'
import { type ReactNode, useEffect, useState } from 'react'
import { t } from '../text/t'
import { ProblemBox } from './problem'

export function Panel({
  title,
  count,
  actions,
  children,
  id,
}: {
  title?: ReactNode
  count?: ReactNode
  actions?: ReactNode
  children: ReactNode
  id?: string
}) {
  return (
    <section className="panel" id={id}>
      {title ? (
        <header className="panel-head">
          <h2>
            {title}
            {count === undefined ? null : <span className="count">{count}</span>}
          </h2>
          {actions}
        </header>
      ) : null}
      {children}
    </section>
  )
}

type Query<T> = Pick<UseQueryResult<T>, 'data' | 'error' | 'isPending' | 'refetch'>

/** Shows the data of a query; rows is the expected height. */
export function Loaded<T>({
  query,
  rows = 4,
  empty,
  isEmpty,
  children,
}: {
  query: Query<T>
  rows?: number
  empty?: ReactNode
  isEmpty?: (data: T) => boolean
  children: (data: T) => ReactNode
}) {
  const { data, error, refetch } = query
  if (data === undefined) {
    if (error) return <ProblemBox error={error} retry={() => void refetch()} />
    return <Skeleton rows={rows} />
  }
  return (
    <>
      {error ? <ProblemBox error={error} retry={() => void refetch()} stale /> : null}
      {empty !== undefined && isEmpty?.(data) ? <div className="empty">{empty}</div> : children(data)}
    </>
  )
}

/** Bars of the right size, shown after a moment so that quick answers do not flash. */
export function Skeleton({ rows = 4 }: { rows?: number }) {
  const [shown, setShown] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 150)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div className="skeleton" aria-busy="true" data-shown={shown || undefined}>
      <span className="hidden-text">{t('Loading')}</span>
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} style={{ width: `${90 - ((i * 17) % 45)}%` }} />
      ))}
    </div>
  )
}
