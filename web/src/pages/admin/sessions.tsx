// Sessions: where people are signed in.
import { useNavigate, useSearch } from '@tanstack/react-router'
import { path, send } from '../../api/client'
import { allows, useMe } from '../../api/me'
import type { Session } from '../../api/types'
import { useQuestion } from '../../app/ask'
import { useLeave } from '../../app/leave'
import { plural } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button } from '../../kit/parts'
import { Confirm, type Question } from '../../kit/verbs'
import { t } from '../../text/t'
import { agentOf, inOrder, useSessions } from './data'
import { AdminTop, Some } from './parts'

const end = (s: Session) => send(path('sessions', s.id), { method: 'DELETE' })

export function Sessions() {
  const { q = '' } = useSearch({ from: '/admin/sessions' })
  const navigate = useNavigate({ from: '/admin/sessions' })
  const me = useMe()
  const query = useSessions()
  const everybody = me !== undefined && allows(me, 'user.write', '*')
  const all = inOrder(query.data?.items ?? [])
  const text = q.toLowerCase()
  const shown = all.filter((s) =>
    [s.user, s.address, agentOf(s.agent)].some((part) => part.toLowerCase().includes(text)),
  )
  const current = all.find((s) => s.current)
  const others = current ? all.filter((s) => s.user === current.user && !s.current) : []
  const { question, asked } = useQuestion({
    'end-others': () => (others.length > 0 ? endOthers(others) : undefined),
  })
  return (
    <>
      <AdminTop
        here="/admin/sessions"
        title={t('Sessions')}
        actions={
          others.length > 0 ? (
            <Button onPress={() => asked.open('end-others')}>{t('End my other sessions')}</Button>
          ) : null
        }
      >
        {t('A session ends after 8 hours without use, and after 24 hours.')}
        {me && !everybody
          ? ` ${t('You see yours. To see those of others you need a role with user.write.')}`
          : ''}
      </AdminTop>
      <div className="row">
        <input
          data-filter
          className="input"
          type="search"
          placeholder={t('Filter by user or address')}
          aria-label={t('Filter by user or address')}
          value={q}
          onChange={(e) =>
            void navigate({ search: (old) => ({ ...old, q: e.target.value || undefined }), replace: true })
          }
        />
      </div>
      <Panel title={everybody ? t('Everybody') : t('Yours')} count={query.data ? shown.length : undefined}>
        <Loaded
          query={query}
          isEmpty={() => shown.length === 0}
          empty={
            q === ''
              ? t('Nobody is signed in. You call this server with a token, or from its own machine.')
              : t('No session fits the filter.')
          }
        >
          {() => <Some of={shown}>{(some) => <SessionTable sessions={some} />}</Some>}
        </Loaded>
      </Panel>
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

const endOthers = (others: Session[]): Question => ({
  title: t('End your other sessions'),
  text: (
    <p>
      {t('{sessions} of yours on other browsers will end. This one stays.', {
        sessions: plural(others.length, 'session'),
      })}
    </p>
  ),
  answer: t('End them'),
  danger: true,
  act: () => Promise.all(others.map(end)),
  done: t('Your other sessions have ended.'),
})

export function SessionTable({ sessions }: { sessions: Session[] }) {
  const { leave, leaving } = useLeave()
  const ends = (s: Session): Question => ({
    title: t('End a session of {user}', { user: s.user }),
    text: (
      <p>
        {t(
          'The browser ({browser}, {address}) must sign in again. What it has not saved stays in its form until then.',
          { browser: agentOf(s.agent), address: s.address },
        )}
      </p>
    ),
    answer: t('End the session'),
    danger: true,
    act: () => end(s),
    done: t('A session of {user} has ended.', { user: s.user }),
  })
  const { question, asked } = useQuestion({
    'end-session': (id) => {
      const s = sessions.find((i) => i.id === id && !i.current)
      return s && ends(s)
    },
  })
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('User')}</th>
            <th>{t('Browser')}</th>
            <th>{t('Address')}</th>
            <th>{t('Signed in')}</th>
            <th>{t('Last use')}</th>
            <th>{t('Ends')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sessions.map((s) => (
            <tr key={s.id}>
              <td>
                {s.user}
                {s.current ? <span className="sub"> {t('this browser')}</span> : null}
              </td>
              <td className="nowrap" title={s.agent}>
                {agentOf(s.agent)}
              </td>
              <td className="mono">{s.address}</td>
              <td className="nowrap sub">
                <Ago time={s.created_at} />
              </td>
              <td className="nowrap sub">
                <Ago time={s.used_at} />
              </td>
              <td className="nowrap sub">
                <Ago time={s.expires_at} />
              </td>
              <td className="num">
                {s.current ? (
                  <Button kind="quiet" onPress={leave}>
                    {t('Sign out')}
                  </Button>
                ) : (
                  <Button
                    kind="quiet"
                    aria-label={t('End the session of {user}', { user: s.user })}
                    onPress={() => asked.open('end-session', s.id)}
                  >
                    {t('End##a session')}
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm question={question} onClose={asked.close} />
      {leaving}
    </div>
  )
}
