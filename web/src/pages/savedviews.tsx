// The menu of saved views: opens one, saves the present one, deletes one.
import { useNavigate, useRouterState } from '@tanstack/react-router'
import { useState } from 'react'
import { useMe } from '../api/me'
import { useAsked } from '../app/ask'
import { stringifySearch } from '../app/search'
import { deleteView, nameMax, saveView, useViews, type View, viewsMax } from '../app/views'
import { Dialog, Menu, toast } from '../kit/dialog'
import { plural } from '../kit/format'
import { Button } from '../kit/parts'
import { t } from '../text/t'

export function SavedViews() {
  const me = useMe()
  const views = useViews(me?.name)
  const navigate = useNavigate()
  const asked = useAsked()
  // The dialog that saves a view is not part of the view.
  const here = useRouterState({
    select: ({ location: l }) => l.pathname + stringifySearch({ ...l.search, ask: undefined }),
  })
  if (!me) return null
  const mark = (v: View) => (v.to === here ? `${v.name} ✓` : v.name)
  return (
    <>
      <Menu
        label={t('Saved views')}
        icon="down"
        items={[
          ...views.map((v) => ({
            id: `to ${v.name}`,
            label: mark(v),
            onAction: () => void navigate({ to: v.to }),
          })),
          {
            id: 'save',
            label: t('Save this view…'),
            onAction: () => asked.open('save-view'),
            disabled:
              views.length >= viewsMax
                ? t('{views} are kept at most.', { views: plural(viewsMax, 'view') })
                : undefined,
          },
          ...(views.length > 0
            ? [{ id: 'delete', label: t('Delete a view…'), onAction: () => asked.open('delete-view') }]
            : []),
        ]}
      >
        {t('Views')}
      </Menu>
      <Dialog title={t('Save this view')} isOpen={asked.name === 'save-view'} onClose={asked.close}>
        <Save
          save={(name) => {
            const kept = saveView(me.name, name, here)
            toast(
              kept
                ? t('The view {name} is saved in this browser.', { name })
                : t('This browser keeps nothing for this page.'),
              {
                bad: !kept,
              },
            )
            asked.close()
          }}
          names={views.map((v) => v.name)}
          onClose={asked.close}
        />
      </Dialog>
      <Dialog title={t('Delete a view')} isOpen={asked.name === 'delete-view'} onClose={asked.close}>
        <ul className="list">
          {views.map((v) => (
            <li key={v.name} className="row spread">
              <span className="grow">
                {v.name} <span className="sub">{v.to}</span>
              </span>
              <Button
                aria-label={t('Delete {name}', { name: v.name })}
                onPress={() => {
                  deleteView(me.name, v.name)
                  toast(t('The view {name} is deleted.', { name: v.name }), {
                    undo: () => void saveView(me.name, v.name, v.to),
                  })
                  asked.close()
                }}
              >
                {t('Delete')}
              </Button>
            </li>
          ))}
        </ul>
      </Dialog>
    </>
  )
}

function Save({
  names,
  save,
  onClose,
}: {
  names: string[]
  save: (name: string) => void
  onClose: () => void
}) {
  const [name, setName] = useState('')
  const is = name.trim()
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (is) save(is)
      }}
    >
      <label className="field">
        <span>{t('Name')}</span>
        <input
          className="input"
          // biome-ignore lint/a11y/noAutofocus: the dialog was opened to answer this.
          autoFocus
          autoComplete="off"
          maxLength={nameMax}
          value={name}
          onChange={(e) => setName(e.target.value)}
        />
        <small>
          {names.includes(is)
            ? t('It replaces the view of this name.')
            : t('The page with its filters. It is kept in this browser, for you.')}
        </small>
      </label>
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={!is}>
          {t('Save the view')}
        </Button>
      </footer>
    </form>
  )
}
