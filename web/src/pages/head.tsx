import { type ReactNode, useEffect } from 'react'

/** The head of a page: its name, its subject, and its verbs. It also sets the title of the browser's tab. */
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
