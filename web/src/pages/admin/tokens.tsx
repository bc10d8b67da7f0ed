// Tokens: what programs, workers and nodes show to a node.
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { path, post } from '../../api/client'
import { useCan, useMe } from '../../api/me'
import type { RotatedToken, Token } from '../../api/types'
import { plainVerb } from '../../api/verbs'
import { useAsked, useQuestion } from '../../app/ask'
import { Dialog } from '../../kit/dialog'
import { plural } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Clock, State } from '../../kit/parts'
import { Confirm, type Question, VerbButton } from '../../kit/verbs'
import { isReplaceable, isRevocable, tokenStates, useTokens } from './data'
import { NewToken, Secret } from './newtoken'
import { AdminTop, Refused, Some } from './parts'

const states = ['', ...tokenStates] as const

export function Tokens() {
  const { q = '', state = '' } = useSearch({ from: '/admin/tokens' })
  const navigate = useNavigate({ from: '/admin/tokens' })
  const me = useMe()
  const reads = useCan()('token.all', '*')
  const query = useTokens(me !== undefined && reads)
  const asked = useAsked()
  const text = q.toLowerCase()
  const shown = (query.data?.items ?? []).filter(
    (t) =>
      (state === '' || t.state === state) &&
      [t.name, t.user ?? '', t.kind, t.created_by].some((part) => part.toLowerCase().includes(text)),
  )
  const set = (change: Record<string, string | undefined>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <>
      <AdminTop
        here="/admin/tokens"
        title="Tokens"
        actions={
          <VerbButton
            verb="token.all"
            namespace="*"
            kind="primary"
            icon="plus"
            onPress={() => asked.open('token')}
          >
            New token
          </VerbButton>
        }
      >
        Programs, workers and nodes show a token instead of a name and a password.
      </AdminTop>
      {reads ? (
        <>
          <div className="row">
            <input
              data-filter
              className="input"
              type="search"
              placeholder="Filter by name or user"
              aria-label="Filter by name or user"
              value={q}
              onChange={(e) => set({ q: e.target.value || undefined })}
            />
            {states.map((s) => (
              <button
                key={s}
                type="button"
                className="chip"
                aria-pressed={state === s}
                onClick={() => set({ state: s || undefined })}
              >
                {s === '' ? 'All' : <State state={s} />}
              </button>
            ))}
          </div>
          <Panel title="Tokens" count={query.data ? shown.length : undefined}>
            <Loaded
              query={query}
              isEmpty={() => shown.length === 0}
              empty={q || state ? 'No token fits the filter.' : 'There is no token yet.'}
            >
              {() => <Some of={shown}>{(some) => <TokenTable tokens={some} />}</Some>}
            </Loaded>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what="the tokens, nor make one" verb="token.all" />
        </Panel>
      )}
      <NewToken isOpen={asked.name === 'token'} onClose={asked.close} />
    </>
  )
}

export function TokenTable({ tokens }: { tokens: Token[] }) {
  const [made, setMade] = useState<RotatedToken>()
  const rotate = (t: Token): Question => ({
    title: `Replace the token ${t.name}`,
    text: (
      <>
        You get a new secret with the same rights and the same end; it has no right that you lose later. If
        you signed in with a token, the new one also ends with that token. The old one counts for another day,
        and what was made with it ends with it.
      </>
    ),
    answer: 'Make the new token',
    act: async () => setMade(await post<RotatedToken>(`${path('tokens', t.id)}:rotate`, {})),
  })
  const revoke = (t: Token): Question => ({
    title: `Revoke the token ${t.name}`,
    text:
      t.state === 'ended'
        ? 'It is refused now. Revoked, it stays refused when its user is enabled or its maker has all rights again.'
        : 'What calls with it, or with a token that it made, is refused within seconds. It cannot be brought back.',
    answer: 'Revoke the token',
    danger: true,
    act: () => plainVerb(`${path('tokens', t.id)}:revoke`, undefined, false),
    done: `The token ${t.name} is revoked.`,
  })
  const of = (id: string, fits: (t: Token) => boolean) => tokens.find((t) => String(t.id) === id && fits(t))
  const { question, asked } = useQuestion({
    rotate: (id) => {
      const t = of(id, isReplaceable)
      return t && rotate(t)
    },
    'revoke-token': (id) => {
      const t = of(id, isRevocable)
      return t && revoke(t)
    },
  })
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>State</th>
            <th>Name</th>
            <th>Kind</th>
            <th>Acts as</th>
            <th>May</th>
            <th>Created</th>
            <th>By</th>
            <th>Expires</th>
            <th>
              <span className="hidden-text">Verbs</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map((t) => (
            <tr key={t.id}>
              <td>
                <State state={t.state} />
              </td>
              <td>
                {t.name}
                {t.replaced_by ? <span className="sub"> (replaced)</span> : null}
              </td>
              <td className="sub">{t.kind}</td>
              <td>
                {t.user ? (
                  <Link to="/admin/users/$name" params={{ name: t.user }}>
                    {t.user}
                  </Link>
                ) : (
                  <span className="muted">–</span>
                )}
              </td>
              <td>
                <Scope token={t} />
              </td>
              <td className="nowrap sub">
                <Ago time={t.created_at} />
              </td>
              <td className="sub">{t.created_by}</td>
              <td className="nowrap">
                {t.expires_at ? <Clock time={t.expires_at} /> : <span className="muted">never</span>}
              </td>
              <td className="num">
                {isReplaceable(t) ? (
                  <VerbButton
                    verb="token.all"
                    namespace="*"
                    kind="quiet"
                    onPress={() => asked.open('rotate', String(t.id))}
                  >
                    Rotate
                  </VerbButton>
                ) : null}
                {isRevocable(t) ? (
                  <VerbButton
                    verb="token.all"
                    namespace="*"
                    kind="quiet"
                    onPress={() => asked.open('revoke-token', String(t.id))}
                  >
                    Revoke
                  </VerbButton>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm question={question} onClose={asked.close} />
      <Dialog
        title={made ? `The token ${made.name}` : ''}
        isOpen={made !== undefined}
        onClose={() => setMade(undefined)}
        wide
        stays
      >
        {made ? (
          <>
            <p>
              The new token {made.expires_at ? 'ends at ' : 'has no end'}
              {made.expires_at ? <Clock time={made.expires_at} /> : null}.
              {made.old.expires_at ? (
                <>
                  {' '}
                  The old one ends at <Clock time={made.old.expires_at} />.
                </>
              ) : null}
            </p>
            <Secret token={made} onClose={() => setMade(undefined)} />
          </>
        ) : null}
      </Dialog>
    </div>
  )
}

/** To what a token is narrowed. */
function Scope({ token }: { token: Token }) {
  if (token.kind !== 'api') return <span className="muted">what {token.kind}s call</span>
  const [verbs, places] = [token.verbs ?? [], token.namespaces ?? []]
  if (verbs.length + places.length === 0) return <span className="muted">all that its user may</span>
  return (
    <span title={verbs.join(', ')}>
      {verbs.length === 0
        ? 'every verb'
        : verbs.length <= 2
          ? verbs.join(', ')
          : plural(verbs.length, 'verb')}
      {places.length > 0 ? ` in ${places.join(', ')}` : ''}
    </span>
  )
}
