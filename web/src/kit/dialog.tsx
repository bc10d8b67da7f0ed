// Dialogs, menus and the toast. Focus returns to where it was when they close.
import { type ReactNode, useSyncExternalStore } from 'react'
import {
  Dialog as AriaDialog,
  Menu as AriaMenu,
  Heading,
  MenuItem,
  MenuTrigger,
  Modal,
  ModalOverlay,
  Popover,
} from 'react-aria-components'
import { t } from '../text/t'
import { Button } from './parts'

export function Dialog({
  title,
  isOpen,
  onClose,
  children,
  wide,
  stays,
}: {
  title: string
  isOpen: boolean
  onClose: () => void
  children: ReactNode
  wide?: boolean
  /** Only its own button closes the dialog, because its content cannot be shown again. */
  stays?: boolean
}) {
  return (
    <ModalOverlay
      className="overlay"
      isOpen={isOpen}
      onOpenChange={(open) => !open && onClose()}
      isDismissable={!stays}
      isKeyboardDismissDisabled={stays ?? false}
    >
      <Modal className="modal" data-wide={wide || undefined}>
        <AriaDialog className="dialog">
          <Heading slot="title">{title}</Heading>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}

export type Item = {
  id: string
  label: string
  onAction: () => void
  disabled?: string | undefined
  danger?: boolean
}

/** A menu behind a button. An item that is not allowed is shown as disabled, with the reason. */
export function Menu({
  label,
  icon = 'more',
  items,
  children,
}: {
  label: string
  icon?: string
  items: Item[]
  children?: ReactNode
}) {
  return (
    <MenuTrigger>
      <Button icon={icon} aria-label={children ? undefined : label}>
        {children}
      </Button>
      <Popover className="popover" placement="bottom end">
        <AriaMenu
          className="menu"
          aria-label={label}
          disabledKeys={items.filter((i) => i.disabled).map((i) => i.id)}
        >
          {items.map((item) => (
            <MenuItem
              key={item.id}
              id={item.id}
              className="menu-item"
              data-danger={item.danger || undefined}
              textValue={item.label}
              onAction={item.onAction}
            >
              {item.label}
              {item.disabled ? <small>{item.disabled}</small> : null}
            </MenuItem>
          ))}
        </AriaMenu>
      </Popover>
    </MenuTrigger>
  )
}

type Note = { id: number; text: string; bad?: boolean; undo?: () => void }

let notes: Note[] = []
let next = 1
const listeners = new Set<() => void>()
const noteTime = 10_000

function change(to: Note[]) {
  notes = to
  for (const listener of listeners) listener()
}

/** Shows for ten seconds what was done, with a button that undoes it. */
export function toast(text: string, o: { undo?: () => void; bad?: boolean } = {}) {
  const note: Note = { id: next++, text, ...o }
  change([...notes.slice(-2), note])
  setTimeout(() => change(notes.filter((n) => n.id !== note.id)), noteTime)
}

/** Removes all toasts. */
export const dropToasts = () => change([])

export function Toasts() {
  const all = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => notes,
  )
  return (
    <div className="toasts" role="status" aria-live="polite">
      {all.map((note) => (
        <div key={note.id} className="toast" data-bad={note.bad || undefined}>
          <span>{note.text}</span>
          {note.undo ? (
            <Button
              kind="quiet"
              onPress={() => {
                note.undo?.()
                change(notes.filter((n) => n.id !== note.id))
              }}
            >
              {t('Undo')}
            </Button>
          ) : null}
          <Button
            kind="quiet"
            icon="cross"
            aria-label={t('Dismiss')}
            onPress={() => change(notes.filter((n) => n.id !== note.id))}
          />
        </div>
      ))}
    </div>
  )
}
