// Ctrl-K: every page and every workflow by a few letters, and runs by their id.
import { useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { Dialog as AriaDialog, Modal, ModalOverlay } from 'react-aria-components'
import { useMe } from '../api/me'
import { useRuns, useWorkflows } from '../api/queries'
import { shortID } from '../kit/format'
import { Icon } from '../kit/icons'
import { Mark } from '../kit/parts'
import { t } from '../text/t'
import { score } from './score'
import { useViews } from './views'

type Entry = { text: string; detail: string; icon?: string; state?: string; go: () => void }

const shownMax = 12
const runID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i

export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const entries = useEntries()
  const found = useMemo(() => {
    const scored = entries
      .map((e) => ({ e, s: score(text, `${e.text} ${e.detail}`) }))
      .filter(({ s }) => s > 0)
    return scored
      .sort((a, b) => b.s - a.s)
      .slice(0, shownMax)
      .map(({ e }) => e)
  }, [entries, text])
  const navigate = useNavigate()
  const id = text.trim()
  const all: Entry[] = [...found]
  if (runID.test(id))
    all.unshift({
      text: t('Run {id}', { id }),
      detail: t('Run'),
      icon: 'runs',
      go: () => void navigate({ to: '/r/$id', params: { id } }),
    })
  // Names that only the server knows, such as the key of a run.
  if (id !== '')
    all.push({
      text: t('Search for {id}', { id }),
      detail: t('Search'),
      icon: 'search',
      go: () => void navigate({ to: '/search', search: { q: id } }),
    })
  const here = Math.min(at, all.length - 1)
  const choose = (entry: Entry | undefined) => {
    if (!entry) return
    onClose()
    entry.go()
  }
  return (
    <ModalOverlay className="overlay" isOpen onOpenChange={(open) => !open && onClose()} isDismissable>
      <Modal className="modal palette">
        <AriaDialog aria-label={t('Search or run a command')} className="palette-in">
          <div className="row palette-field">
            <Icon name="search" />
            <input
              // biome-ignore lint/a11y/noAutofocus: the dialog was opened to type into it
              autoFocus
              role="combobox"
              aria-expanded="true"
              aria-controls="palette-list"
              aria-activedescendant={all.length > 0 ? `palette-${here}` : undefined}
              aria-label={t('Search or run a command')}
              placeholder={t('Page, workflow, run or command')}
              value={text}
              onChange={(e) => {
                setText(e.target.value)
                setAt(0)
              }}
              onKeyDown={(e) => {
                if (e.key === 'ArrowDown') setAt(Math.min(here + 1, all.length - 1))
                else if (e.key === 'ArrowUp') setAt(Math.max(here - 1, 0))
                else if (e.key === 'Enter') choose(all[here])
                else return
                e.preventDefault()
              }}
            />
          </div>
          <div role="listbox" id="palette-list" aria-label={t('Results')}>
            {all.map((entry, i) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keyboard
              <div
                key={`${entry.text} ${entry.detail}`}
                id={`palette-${i}`}
                role="option"
                aria-selected={i === here}
                className="palette-row"
                onClick={() => choose(entry)}
                onMouseMove={() => setAt(i)}
              >
                {entry.state ? <Mark state={entry.state} /> : <Icon name={entry.icon ?? 'right'} />}
                <span className="grow clip">{entry.text}</span>
                <span className="sub">{entry.detail}</span>
              </div>
            ))}
          </div>
          {all.length === 0 ? <p className="empty">{t('Nothing has that name.')}</p> : null}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}

function useEntries(): Entry[] {
  const navigate = useNavigate()
  const workflows = useWorkflows().data
  const runs = useRuns({ limit: 50 }).data
  const views = useViews(useMe()?.name)
  return useMemo(() => {
    const page = (text: string, to: string, icon: string): Entry => ({
      text,
      detail: t('Page'),
      icon,
      go: () => void navigate({ to }),
    })
    const pages = [
      page(t('Home'), '/', 'home'),
      page(t('Workflows'), '/workflows', 'workflow'),
      page(t('Runs'), '/runs', 'runs'),
      page(t('Failed runs'), '/runs?state=failed', 'runs'),
      page(t('Schedules'), '/schedules', 'calendar'),
      page(t('Next fires'), '/schedules/next', 'calendar'),
      page(t('Missed and late fires'), '/schedules/missed', 'calendar'),
      page(t('Backfills'), '/backfills', 'calendar'),
      page(t('New backfill'), '/backfills/new', 'calendar'),
      page(t('Search'), '/search', 'search'),
      page(t('Approvals'), '/approvals', 'hand'),
      page(t('Alerts'), '/alerts', 'bell'),
      page(t('What you may do'), '/admin/me', 'key'),
      page(t('Users'), '/admin/users', 'key'),
      page(t('Roles'), '/admin/roles', 'key'),
      page(t('Tokens'), '/admin/tokens', 'key'),
      page(t('Namespaces'), '/admin/namespaces', 'key'),
      page(t('Secrets'), '/admin/secrets', 'key'),
      page(t('Connections'), '/admin/connections', 'key'),
      page(t('Channels of alerts'), '/admin/channels', 'bell'),
      page(t('Git sources'), '/admin/git', 'workflow'),
      page(t('Sessions'), '/admin/sessions', 'key'),
      page(t('Audit log'), '/admin/audit', 'key'),
      page(t('Queues'), '/queues', 'queue'),
      page(t('Locks'), '/locks', 'queue'),
      page(t('Cluster'), '/cluster', 'cluster'),
      page(t('About Skein'), '/admin/about', 'info'),
    ]
    const named = (workflows ?? []).flatMap((w): Entry[] => {
      const params = { ns: w.namespace, name: w.name }
      return [
        {
          text: w.workflow,
          detail: t('Workflow'),
          icon: 'workflow',
          go: () => void navigate({ to: '/w/$ns/$name', params }),
        },
        {
          text: t('Start {workflow}', { workflow: w.workflow }),
          detail: t('Command'),
          icon: 'play',
          go: () => void navigate({ to: '/w/$ns/$name/start', params }),
        },
      ]
    })
    const recent = (runs?.items ?? []).map(
      (r): Entry => ({
        text: `${r.workflow} ${shortID(r.id)}`,
        detail: t('Run'),
        state: r.state,
        go: () => void navigate({ to: '/r/$id', params: { id: r.id } }),
      }),
    )
    const saved = views.map(
      (v): Entry => ({
        text: v.name,
        detail: t('View'),
        icon: 'filter',
        go: () => void navigate({ to: v.to }),
      }),
    )
    return [...saved, ...pages, ...named, ...recent]
  }, [navigate, workflows, runs, views])
}
