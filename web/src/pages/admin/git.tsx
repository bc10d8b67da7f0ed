// Git sources: the repositories from which namespaces get workflows, with the commit in force.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { path, send } from '../../api/client'
import { hasSomewhere, useMe } from '../../api/me'
import { all, quick, slow } from '../../api/queries'
import type { GitSource } from '../../api/types'
import { useAsked, useQuestion } from '../../app/ask'
import { useNamespace, within } from '../../app/namespace'
import { Dialog } from '../../kit/dialog'
import { plural } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button, Command, State } from '../../kit/parts'
import { Confirm, type Question, useToastVerb, VerbButton } from '../../kit/verbs'
import { t } from '../../text/t'
import { bare, fullName, isDue, placeOf, short } from './gitdata'
import { GitForm, restore } from './gitform'
import { Failing, SyncDialog } from './gitplan'
import { AdminTop, Refused, Some } from './parts'

export function GitSources() {
  const { q = '' } = useSearch({ from: '/admin/git' })
  const navigate = useNavigate({ from: '/admin/git' })
  const [ns] = useNamespace()
  const me = useMe()
  const reads = hasSomewhere(me, 'workflow.read')
  const query = useQuery({
    queryKey: ['git-sources'],
    queryFn: ({ signal }) => all<GitSource>('/git-sources', {}, signal),
    refetchInterval: ({ state }) => (state.data?.some(isDue) ? quick : slow),
    enabled: me !== undefined && reads,
  })
  const asked = useAsked()
  const one = query.data?.find((g) => fullName(g) === asked.of)
  const form = asked.name === 'git' || (asked.name === 'change' && one !== undefined)
  const shown = (query.data ?? []).filter(
    (g) => within(ns, g.namespace) && `${fullName(g)} ${placeOf(g)}`.toLowerCase().includes(q.toLowerCase()),
  )
  return (
    <>
      <AdminTop
        here="/admin/git"
        title={t('Git sources')}
        actions={
          hasSomewhere(me, 'workflow.write') ? (
            <Button kind="primary" icon="plus" onPress={() => asked.open('git')}>
              {t('New git source')}
            </Button>
          ) : null
        }
      >
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
              onChange={(e) =>
                void navigate({
                  search: (old) => ({ ...old, q: e.target.value || undefined }),
                  replace: true,
                })
              }
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
                    <p>{t('There is no git source yet. Make one here, or in a terminal:')}</p>
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
      <Dialog
        title={
          asked.name === 'change' && one ? t('Change {name}', { name: fullName(one) }) : t('New git source')
        }
        isOpen={form}
        onClose={asked.close}
        wide
      >
        {form ? (
          <GitForm
            namespace={ns || 'default'}
            one={asked.name === 'change' ? one : undefined}
            taken={(query.data ?? []).map(fullName)}
            onClose={asked.close}
          />
        ) : null}
      </Dialog>
      <Dialog
        title={one ? t('Sync {name}', { name: fullName(one) }) : ''}
        isOpen={asked.name === 'sync' && one !== undefined}
        onClose={asked.close}
        wide
      >
        {asked.name === 'sync' && one ? <SyncDialog of={one} onClose={asked.close} /> : null}
      </Dialog>
    </>
  )
}

function Table({ sources }: { sources: GitSource[] }) {
  const { run } = useToastVerb()
  const { question, asked } = useQuestion({
    remove: (of) => {
      const g = sources.find((i) => fullName(i) === of)
      return g && removal(g, () => run(() => restore(g)))
    },
  })
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
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sources.map((g) => (
            <Row key={fullName(g)} of={g} onAsk={asked.open} />
          ))}
        </tbody>
      </table>
      <Confirm question={question} onClose={asked.close} />
    </div>
  )
}

const verbs = [
  ['sync', t('Sync…')],
  ['change', t('Change')],
  ['remove', t('Remove')],
] as const

function Row({ of: g, onAsk }: { of: GitSource; onAsk: (verb: string, of: string) => void }) {
  const s = g.state
  return (
    <tr>
      <td className="sub">{g.namespace}</td>
      <td className="mono">{g.name}</td>
      <td className="sub target">{placeOf(g)}</td>
      <td className="what">
        <InForce of={g} />
      </td>
      <td className="sub">
        {s.applied ? (
          <>
            <code title={s.applied}>{short(s.applied)}</code>{' '}
            <span className="git-subject" title={s.subject ?? undefined}>
              {s.subject}
            </span>
            {s.author?.replace(/ <.*>$/, '')} {s.applied_at ? <Ago time={s.applied_at} /> : null}
          </>
        ) : (
          '-'
        )}
      </td>
      <td>
        {s.workflows.length === 0 ? (
          '-'
        ) : (
          <details>
            <summary className="nowrap">{plural(s.workflows.length, 'workflow')}</summary>
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
        )}
      </td>
      <td className="nowrap sub">{s.looked_at ? <Ago time={s.looked_at} /> : '-'}</td>
      <td className="num git-verbs">
        {verbs.map(([verb, label]) => (
          <VerbButton
            key={verb}
            verb="workflow.write"
            namespace={g.namespace}
            kind="quiet"
            onPress={() => onAsk(verb, fullName(g))}
          >
            {label}
          </VerbButton>
        ))}
      </td>
    </tr>
  )
}

/** Whether the newest commit is in force, and otherwise why not. */
function InForce({ of: g }: { of: GitSource }) {
  if (g.state.failing) return <Failing of={g.state.failing} />
  return g.state.applied ? (
    <State state="succeeded">{t('in force')}</State>
  ) : (
    <State state="waiting">{t('not read yet')}</State>
  )
}

const removal = (g: GitSource, undo: () => void): Question => ({
  title: t('Remove {name}', { name: fullName(g) }),
  text: (
    <>
      <p>{t('Its workflows stay as they are, with their triggers. They can then be changed by hand.')}</p>
      {g.state.workflows.length > 0 ? (
        <ul className="bullets">
          {g.state.workflows.map((w) => (
            <li key={w.workflow}>{w.workflow}</li>
          ))}
        </ul>
      ) : null}
    </>
  ),
  answer: t('Remove the git source'),
  danger: true,
  act: () => send(path('git-sources', g.namespace, g.name), { method: 'DELETE' }),
  done: t('The git source {name} is removed. Its workflows stay.', { name: fullName(g) }),
  undo,
})
