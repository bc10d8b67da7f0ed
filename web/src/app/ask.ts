// The address names the open dialog, so that the dialog survives a reload and can be shared. Back closes the
// dialog.
import { useNavigate, useRouter, useSearch } from '@tanstack/react-router'
import type { Question } from '../kit/verbs'

/** The address has ask=NAME, or ask=NAME:OF if the dialog is about one of many things. */
export type Asked = {
  /** '' if no dialog is open. */
  name: string
  of: string
  open: (name: string, of?: string) => void
  /** Shows another dialog in place of the one that is open. */
  turn: (name: string, of?: string) => void
  close: () => void
}

/** Reads the name of a dialog, and the object that the dialog is about. */
export function readAsk(text: string): [name: string, of: string] {
  const at = text.indexOf(':')
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

export const writeAsk = (name: string, of = '') => (of === '' ? name : `${name}:${of}`)

export function useAsked(): Asked {
  const [name, of] = readAsk((useSearch({ strict: false }) as { ask?: string }).ask ?? '')
  const navigate = useNavigate()
  const router = useRouter()
  const go = (ask: string | undefined, replace: boolean) =>
    void navigate({
      to: '.',
      search: (old: Record<string, unknown>) => ({ ...old, ask }),
      // Marks the entries of the history that a click has made. The dialog of such an entry is closed by
      // going back.
      state: (old: object) => ({ ...old, asked: ask !== undefined && (replace ? marked(old) : true) }),
      replace,
      resetScroll: false,
    } as never)
  return {
    name,
    of,
    open: (name, of) => go(writeAsk(name, of), false),
    turn: (name, of) => go(writeAsk(name, of), true),
    close: () => {
      const { search, state } = router.state.location
      if (!(search as { ask?: string }).ask) return
      if (!marked(state) || !router.history.canGoBack()) return go(undefined, true)
      // Going back takes a moment. A second Escape in this time must not leave the page.
      if (leaving) return
      leaving = true
      const off = router.history.subscribe(() => {
        leaving = false
        off()
      })
      router.history.back()
    },
  }
}

let leaving = false

const marked = (state: object) => (state as { asked?: boolean }).asked === true

/**
 * Returns the question that the address names, made from the present data. It returns none if the question
 * cannot be made any more, for example after the answer has changed its subject.
 */
export function useQuestion(make: Record<string, (of: string) => Question | undefined>): {
  question: Question | undefined
  asked: Asked
} {
  const asked = useAsked()
  const known = Object.hasOwn(make, asked.name) ? make[asked.name] : undefined
  return { question: known?.(asked.of), asked }
}
