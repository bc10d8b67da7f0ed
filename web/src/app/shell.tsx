import { Link, Outlet, useNavigate, useRouterState } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { basePath } from '../api/client'
import { useMe } from '../api/me'
import { useOpenAlerts, useRuns, useWorkflows } from '../api/queries'
import { Dialog, Menu, Toasts } from '../kit/dialog'
import { clock } from '../kit/format'
import { Icon } from '../kit/icons'
import { Button } from '../kit/parts'
import { useLive } from '../live/live'
import { language, languages, t } from '../text/t'
import { useAsked } from './ask'
import { keyTable, useKeys } from './keys'
import { useLeave } from './leave'
import { useNamespace, within } from './namespace'
import { Palette } from './palette'
import { prefer, usePreference } from './preferences'
import { dropOthers } from './views'

const places = [
  { to: '/', icon: 'home', label: t('Home'), key: 'h' },
  { to: '/workflows', icon: 'workflow', label: t('Workflows'), key: 'w', also: ['/w/', '/edit/'] },
  { to: '/runs', icon: 'runs', label: t('Runs'), key: 'r', also: ['/r/'] },
  {
    to: '/schedules',
    icon: 'calendar',
    label: t('Schedules'),
    key: 's',
    also: ['/schedules/', '/backfills'],
  },
  { to: '/queues', icon: 'queue', label: t('Queues'), key: 'q', also: ['/q/', '/locks'] },
  { to: '/cluster', icon: 'cluster', label: t('Cluster'), key: 'c', also: ['/n/'] },
  { to: '/admin', icon: 'key', label: t('Admin'), key: 'm', also: ['/admin/'] },
] as const

export function Shell() {
  const navigate = useNavigate()
  const [palette, setPalette] = useState(false)
  const asked = useAsked()
  const user = useMe()?.name
  useEffect(() => {
    if (user !== undefined) dropOthers(user)
  }, [user])
  useKeys({
    'Ctrl-k': () => setPalette(true),
    '?': () => asked.open('keys'),
    '/': () => document.querySelector<HTMLInputElement>('[data-filter]')?.focus(),
    Escape: () => void navigate({ to: '..' }),
    y: () => void navigator.clipboard?.writeText(location.href),
    'g a': () => void navigate({ to: '/alerts' }),
    ...Object.fromEntries(places.map((p) => [`g ${p.key}`, () => void navigate({ to: p.to })])),
  })
  return (
    <div className="shell">
      <a href="#main" className="skip">
        {t('Skip to the content')}
      </a>
      <Rail />
      <header className="top">
        <Namespace />
        <button
          type="button"
          className="search"
          onClick={() => setPalette(true)}
          aria-keyshortcuts="Control+K"
        >
          <Icon name="search" />
          <span>{t('Search or run a command')}</span>
          <kbd>Ctrl-K</kbd>
        </button>
        <Fresh />
        <AlertsBadge />
        <ApprovalsBadge />
        <Settings onHelp={() => asked.open('keys')} />
      </header>
      <Staleness />
      <main id="main" tabIndex={-1}>
        <Outlet />
      </main>
      {palette ? <Palette onClose={() => setPalette(false)} /> : null}
      <Dialog title={t('Keyboard')} isOpen={asked.name === 'keys'} onClose={asked.close}>
        <dl className="facts">
          {keyTable.map(([keys, what]) => (
            <div key={keys} className="contents">
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
      </Dialog>
      <Toasts />
    </div>
  )
}

function Rail() {
  const where = useRouterState({ select: (s) => s.location.pathname })
  return (
    <nav className="rail" aria-label={t('Pages')}>
      <Link to="/" className="brand" aria-label={t('Skein, home')}>
        <svg
          width="22"
          height="22"
          viewBox="0 0 32 32"
          fill="none"
          strokeWidth="3"
          strokeLinecap="round"
          aria-hidden="true"
        >
          <path d="M4 9c8 0 8 14 16 14h8" stroke="var(--busy)" />
          <path d="M4 23c8 0 8-14 16-14h8" stroke="var(--good)" />
          <path d="M4 16h24" stroke="currentColor" />
        </svg>
        <span>Skein</span>
      </Link>
      <ul>
        {places.map((p) => {
          const also: readonly string[] = 'also' in p ? p.also : []
          const current = where === p.to || also.some((prefix) => where.startsWith(prefix))
          return (
            <li key={p.to}>
              <Link to={p.to} aria-current={current ? 'page' : undefined} title={`${p.label} (g ${p.key})`}>
                <Icon name={p.icon} />
                <span>{p.label}</span>
              </Link>
            </li>
          )
        })}
      </ul>
    </nav>
  )
}

function Namespace() {
  const [namespace, setNamespace] = useNamespace()
  const { data } = useWorkflows()
  const names = [...new Set([...(data ?? []).map((w) => w.namespace), namespace])]
    .filter((n) => n !== '')
    .sort()
  return (
    <label className="namespace">
      <span className="hidden-text">{t('Namespace')}</span>
      <select className="select" value={namespace} onChange={(e) => setNamespace(e.target.value)}>
        <option value="">{t('All namespaces')}</option>
        {names.map((n) => (
          <option key={n}>{n}</option>
        ))}
      </select>
    </label>
  )
}

const words = {
  live: [t('Live'), t('Changes are shown as they are committed.')],
  connecting: [t('Connecting'), t('The page connects to the server.')],
  polling: [t('Not live'), t('The stream of changes is broken. The page reads again every 5 seconds.')],
  offline: [t('Offline'), t('The browser has no network.')],
} as const

function Fresh() {
  const { state } = useLive()
  return (
    <span className="fresh" data-state={state} title={words[state][1]}>
      <i />
      <span>{words[state][0]}</span>
    </span>
  )
}

/** Shows above the page that it may not be up to date, and the last time at which it was. */
function Staleness() {
  const { state, asOf } = useLive()
  if (state !== 'polling' && state !== 'offline') return <div className="banner-place" />
  return (
    <div className="banner-place">
      <p className="banner" role="status">
        <Icon name="warn" />
        {words[state][1]} {t('As of {time}.', { time: clock(asOf) })}
      </p>
    </div>
  )
}

function AlertsBadge() {
  const [ns] = useNamespace()
  const { data } = useOpenAlerts()
  const n = (data?.items ?? []).filter((a) => within(ns, a.namespace)).length
  return (
    <Link to="/alerts" className="badge" title={t('Alerts that are not over')}>
      <Icon name="bell" />
      <span>{t('Alerts')}</span>
      {n > 0 ? <b>{data?.next ? `${n}+` : n}</b> : null}
    </Link>
  )
}

function ApprovalsBadge() {
  const { data } = useRuns({ state: 'suspended', limit: 100 })
  const n = data?.items.length ?? 0
  return (
    <Link to="/approvals" className="badge" title={t('Tasks that wait for an answer')}>
      <Icon name="hand" />
      <span>{t('Approvals')}</span>
      {n > 0 ? <b>{data?.next ? `${n}+` : n}</b> : null}
    </Link>
  )
}

function Settings({ onHelp }: { onHelp: () => void }) {
  const me = useMe()
  const navigate = useNavigate()
  const { leave, leaving } = useLeave()
  const [theme, setTheme] = usePreference('theme')
  const [density, setDensity] = usePreference('density')
  const [keys, setKeys] = usePreference('keys')
  const mark = (on: boolean, text: string) => (on ? `${text} ✓` : text)
  return (
    <div className="row">
      <Button
        kind="quiet"
        icon={document.documentElement.dataset.theme === 'dark' || theme === 'dark' ? 'sun' : 'moon'}
        aria-label={theme === 'dark' ? t('Light theme') : t('Dark theme')}
        onPress={() => setTheme(theme === 'dark' ? 'light' : 'dark')}
      />
      <Menu
        label={t('Settings of the page')}
        items={[
          {
            id: 'system',
            label: mark(theme === 'system', t('Theme of the system')),
            onAction: () => setTheme('system'),
          },
          {
            id: 'light',
            label: mark(theme === 'light', t('Light theme')),
            onAction: () => setTheme('light'),
          },
          { id: 'dark', label: mark(theme === 'dark', t('Dark theme')), onAction: () => setTheme('dark') },
          {
            id: 'density',
            label: mark(density === 'compact', t('Compact rows')),
            onAction: () => setDensity(density === 'compact' ? 'normal' : 'compact'),
          },
          {
            id: 'keys',
            label: mark(keys === 'on', t('Single-letter keys')),
            onAction: () => setKeys(keys === 'on' ? 'off' : 'on'),
          },
          ...(Object.keys(languages) as (keyof typeof languages)[]).map((tag) => ({
            id: tag,
            label: mark(tag === language, languages[tag]),
            onAction: () => {
              prefer('language', tag)
              location.reload()
            },
          })),
          { id: 'help', label: t('Keyboard'), onAction: onHelp },
          { id: 'me', label: t('What you may do'), onAction: () => void navigate({ to: '/admin/me' }) },
          {
            id: 'sign-out',
            label: me ? t('Sign out {name}', { name: me.name }) : t('Sign out'),
            onAction: leave,
          },
          { id: 'about', label: t('About'), onAction: () => void navigate({ to: '/admin/about' }) },
          { id: 'api', label: t('REST interface'), onAction: () => location.assign(`${basePath}/api/docs`) },
        ]}
      />
      {leaving}
    </div>
  )
}
