// Git sources: the repositories from which namespaces get workflows, with the commit in force.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { path, post } from '../../api/client'
import { hasSomewhere, useMe } from '../../api/me'
import { all, slow } from '../../api/queries'
import type { GitSource, GitSync } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { useNamespace, within } from '../../app/namespace'
import { plural } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Command, State } from '../../kit/parts'
import { VerbButton } from '../../kit/verbs'
import { t } from '../../text/t'
import { AdminTop, Refused, Some } from './parts'

const fullName = (g: GitSource) => `${g.namespace}/${g.name}`

/** The place from which a source reads: the repository, the branch or tag, and the folder. */
const placeOf = (g: GitSource) => `${g.url}@${g.tag || g.branch || 'main'}${g.folder ? `:${g.folder}` : ''}`

const short = (commit: string) => commit.slice(0, 10)

export function GitSources() {
  const { q = '' } = useSearch({ from: '/admin/git' })
  const navigate = useNavigate({ from: '/admin/git' })
  const [ns] = useNamespace()
  const me = useMe()
  const reads = hasSomewhere(me, 'workflow.read')
  const query = useQuery({
    queryKey: ['git-sources'],
    queryFn: ({ signal }) => all<GitSource>('/git-sources', {}, signal),
    refetchInterval: slow,
    enabled: me !== undefined && reads,
  })
  const shown = (query.data ?? []).filter(
    (g) => within(ns, g.namespace) && `${fullName(g)} ${placeOf(g)}`.toLowerCase().includes(q.toLowerCase()),
  )
  return (
    <>
      <AdminTop here="/admin/git" title={t('Git sources')}>
        {t(
          'Repositories from which namespaces get workflows. A new commit is applied as a whole, or not at all.',
        )}
      </AdminTop>
      {reads ? (
        <>
          <div className="row">
            <input
              data-filter
              className="input"
              type="search"
              placeholder={t('Filter by name or repository')}
              aria-label={t('Filter by name or repository')}
              value={q}
              onChange={(e) => void navigate({ search: { q: e.target.value || undefined }, replace: true })}
            />
          </div>
          <Panel title={t('Git sources')} count={query.data ? shown.length : undefined}>
            <Loaded
              query={query}
              isEmpty={() => shown.length === 0}
              empty={
                q || ns ? (
                  <p>{t('No git source fits the filter.')}</p>
                ) : (
                  <>
                    <p>{t('There is no git source yet. Make one in a terminal:')}</p>
                    <Command text="skein git add default/flows --url https://git.example.com/flows.git" />
                  </>
                )
              }
            >
              {() => <Some of={shown}>{(some) => <Table sources={some} />}</Some>}
            </Loaded>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what={t('the git sources')} verb="workflow.read" somewhere />
        </Panel>
      )}
    </>
  )
}

function Table({ sources }: { sources: GitSource[] }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Namespace')}</th>
            <th>{t('Name')}</th>
            <th>{t('Repository')}</th>
            <th>{t('State##of a git source')}</th>
            <th>{t('Commit in force')}</th>
            <th>{t('Workflows')}</th>
            <th>{t('Last look')}</th>
          </tr>
        </thead>
        <tbody>
          {sources.map((g) => (
            <Row key={fullName(g)} of={g} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Row({ of: g }: { of: GitSource }) {
  const s = g.state
  return (
    <tr>
      <td className="sub">{g.namespace}</td>
      <td className="mono">{g.name}</td>
      <td className="sub target">{placeOf(g)}</td>
      <td className="what">
        <Failing of={g} />
      </td>
      <td className="sub">
        {s.applied ? (
          <>
            <code title={s.applied}>{short(s.applied)}</code> {s.subject}
            {s.author ? ` · ${s.author}` : ''} {s.applied_at ? <Ago time={s.applied_at} /> : null}
          </>
        ) : (
          '-'
        )}
      </td>
      <td>
        <details>
          <summary>{plural(s.workflows.length, 'workflow')}</summary>
          <ul>
            {s.workflows.map((w) => (
              <li key={w.workflow}>
                {w.gone ? (
                  <span className="muted">{t('{name}, whose file was removed', { name: w.workflow })}</span>
                ) : (
                  <Link to="/w/$ns/$name" params={{ ns: g.namespace, name: bare(w.workflow) }}>
                    {w.workflow}
                  </Link>
                )}{' '}
                <span className="sub">{w.file}</span>
              </li>
            ))}
          </ul>
        </details>
      </td>
      <td>
        <div className="row">
          <span className="nowrap sub">{s.looked_at ? <Ago time={s.looked_at} /> : '-'}</span>
          <Look of={g} />
        </div>
      </td>
    </tr>
  )
}

/** The name of a workflow without its namespace. */
const bare = (workflow: string) => workflow.slice(workflow.indexOf('/') + 1)

/** Shows whether the newest commit is in force, and why not otherwise. */
function Failing({ of: g }: { of: GitSource }) {
  const f = g.state.failing
  if (!f) {
    return g.state.applied ? (
      <State state="succeeded">{t('in force')}</State>
    ) : (
      <State state="waiting">{t('not read yet')}</State>
    )
  }
  return (
    <>
      <State state="failed">
        {f.commit ? t('commit {commit} refused', { commit: short(f.commit) }) : t('away')}
      </State>{' '}
      <Ago time={f.since} /> <span lang="en">{f.why}</span>
      {f.errors.length > 0 ? (
        <ul lang="en">
          {f.errors.map((e) => (
            <li key={`${e.file}:${e.line}:${e.column}:${e.message}`} className="sub">
              {e.file}:{e.line}:{e.column}: {e.message}
            </li>
          ))}
        </ul>
      ) : null}
    </>
  )
}

/** Reads the repository now, and applies its commit. */
function Look({ of: g }: { of: GitSource }) {
  const [answer, setAnswer] = useState('')
  const { run, isPending } = useVerb((e) => setAnswer(e.message))
  const look = () => {
    setAnswer('')
    run(
      () => post<GitSync>(`${path('git-sources', g.namespace, g.name)}:sync`),
      (is) => {
        const changed = is.changes.filter((c) => c.change !== 'unchanged' && c.change !== 'kept').length
        setAnswer(is.source.state.failing ? t('nothing was changed') : t('{n} changed', { n: changed }))
      },
    )
  }
  return (
    <span className="row" role="status">
      <VerbButton verb="workflow.write" namespace={g.namespace} isDisabled={isPending} onPress={look}>
        {isPending ? t('Looking…') : t('Look now')}
      </VerbButton>
      {answer ? <span className="sub">{answer}</span> : null}
    </span>
  )
}
