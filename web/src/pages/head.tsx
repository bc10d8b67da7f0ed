import { type ReactNode, useEffect } from 'react'

/** The head of a page: its name, what belongs to it, and its verbs. It names the tab of the browser, too. */
export function Head({
  title,
  label,
  children,
  actions,
}: {
  title: ReactNode
  label: string
  children?: ReactNode
  actions?: ReactNode
}) {
  useEffect(() => {
    document.title = `${label} · Skein`
  }, [label])
  return (
    <header className="page-head">
      <div className="grow">
        <h1>{title}</h1>
        {children}
      </div>
      {actions ? <div className="row">{actions}</div> : null}
    </header>
  )
}
