// Tokens: the credentials that programs, workers and nodes present to a node.
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
import { rich, t } from '../../text/t'
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
    (token) =>
      (state === '' || token.state === state) &&
      [token.name, token.user ?? '', token.kind, token.created_by].some((part) =>
        part.toLowerCase().includes(text),
      ),
  )
  const set = (change: Record<string, string | undefined>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <>
      <AdminTop
        here="/admin/tokens"
        title={t('Tokens')}
        actions={
          <VerbButton
            verb="token.all"
            namespace="*"
            kind="primary"
            icon="plus"
            onPress={() => asked.open('token')}
          >
            {t('New token')}
          </VerbButton>
        }
      >
        {t('Programs, workers and nodes show a token instead of a name and a password.')}
      </AdminTop>
      {reads ? (
        <>
          <div className="row">
            <input
              data-filter
              className="input"
              type="search"
              placeholder={t('Filter by name or user')}
              aria-label={t('Filter by name or user')}
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
                {s === '' ? t('All') : <State state={s} />}
              </button>
            ))}
          </div>
          <Panel title={t('Tokens')} count={query.data ? shown.length : undefined}>
            <Loaded
              query={query}
              isEmpty={() => shown.length === 0}
              empty={q || state ? t('No token fits the filter.') : t('There is no token yet.')}
            >
              {() => <Some of={shown}>{(some) => <TokenTable tokens={some} />}</Some>}
            </Loaded>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what={t('the tokens, nor make one')} verb="token.all" />
        </Panel>
      )}
      <NewToken isOpen={asked.name === 'token'} onClose={asked.close} />
    </>
  )
}

export function TokenTable({ tokens }: { tokens: Token[] }) {
  const [made, setMade] = useState<RotatedToken>()
  const rotate = (token: Token): Question => ({
    title: t('Replace the token {name}', { name: token.name }),
    text: (
      <>
        {t(
          'You get a new secret with the same rights and the same end; it has no right that you lose later. If you signed in with a token, the new one also ends with that token. The old one counts for another day, and what was made with it ends with it.',
        )}
      </>
    ),
    answer: t('Make the new token'),
    act: async () => setMade(await post<RotatedToken>(`${path('tokens', token.id)}:rotate`, {})),
  })
  const revoke = (token: Token): Question => ({
    title: t('Revoke the token {name}', { name: token.name }),
    text:
      token.state === 'ended'
        ? t(
            'It is refused now. Revoked, it stays refused when its user is enabled or its maker has all rights again.',
          )
        : t(
            'What calls with it, or with a token that it made, is refused within seconds. It cannot be brought back.',
          ),
    answer: t('Revoke the token'),
    danger: true,
    act: () => plainVerb(`${path('tokens', token.id)}:revoke`, undefined, false),
    done: t('The token {name} is revoked.', { name: token.name }),
  })
  const of = (id: string, fits: (token: Token) => boolean) =>
    tokens.find((token) => String(token.id) === id && fits(token))
  const { question, asked } = useQuestion({
    rotate: (id) => {
      const token = of(id, isReplaceable)
      return token && rotate(token)
    },
    'revoke-token': (id) => {
      const token = of(id, isRevocable)
      return token && revoke(token)
    },
  })
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('State')}</th>
            <th>{t('Name')}</th>
            <th>{t('Kind')}</th>
            <th>{t('Acts as')}</th>
            <th>{t('May')}</th>
            <th>{t('Created')}</th>
            <th>{t('By')}</th>
            <th>{t('Expires')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map((token) => (
            <tr key={token.id}>
              <td>
                <State state={token.state} />
              </td>
              <td>
                {token.name}
                {token.replaced_by ? <span className="sub"> {t('(replaced)')}</span> : null}
              </td>
              <td className="sub">{token.kind}</td>
              <td>
                {token.user ? (
                  <Link to="/admin/users/$name" params={{ name: token.user }}>
                    {token.user}
                  </Link>
                ) : (
                  <span className="muted">–</span>
                )}
              </td>
              <td>
                <Scope token={token} />
              </td>
              <td className="nowrap sub">
                <Ago time={token.created_at} />
              </td>
              <td className="sub">{token.created_by}</td>
              <td className="nowrap">
                {token.expires_at ? (
                  <Clock time={token.expires_at} />
                ) : (
                  <span className="muted">{t('never')}</span>
                )}
              </td>
              <td className="num">
                {isReplaceable(token) ? (
                  <VerbButton
                    verb="token.all"
                    namespace="*"
                    kind="quiet"
                    onPress={() => asked.open('rotate', String(token.id))}
                  >
                    {t('Rotate')}
                  </VerbButton>
                ) : null}
                {isRevocable(token) ? (
                  <VerbButton
                    verb="token.all"
                    namespace="*"
                    kind="quiet"
                    onPress={() => asked.open('revoke-token', String(token.id))}
                  >
                    {t('Revoke')}
                  </VerbButton>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm question={question} onClose={asked.close} />
      <Dialog
        title={made ? t('The token {name}', { name: made.name }) : ''}
        isOpen={made !== undefined}
        onClose={() => setMade(undefined)}
        wide
        stays
      >
        {made ? (
          <>
            <p>
              {made.expires_at
                ? rich('The new token ends at {time}.', { time: <Clock time={made.expires_at} /> })
                : t('The new token has no end.')}
              {made.old.expires_at ? (
                <> {rich('The old one ends at {time}.', { time: <Clock time={made.old.expires_at} /> })}</>
              ) : null}
            </p>
            <Secret token={made} onClose={() => setMade(undefined)} />
          </>
        ) : null}
      </Dialog>
    </div>
  )
}

/** Shows the verbs, namespaces or groups to which a token is narrowed. */
function Scope({ token }: { token: Token }) {
  if (token.kind !== 'api')
    return <span className="muted">{t('what {kind}s call', { kind: token.kind })}</span>
  const [verbs, places] = [token.verbs ?? [], token.namespaces ?? []]
  if (verbs.length + places.length === 0) return <span className="muted">{t('all that its user may')}</span>
  return (
    <span title={verbs.join(', ')}>
      {verbs.length === 0
        ? t('every verb')
        : verbs.length <= 2
          ? verbs.join(', ')
          : plural(verbs.length, 'verb')}
      {places.length > 0 ? ` ${t('in {namespace}', { namespace: places.join(', ') })}` : ''}
    </span>
  )
}
