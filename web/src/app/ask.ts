// The dialog that is open is in the address, so that it survives a reload and can be shared. Back closes it.
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

/** Reads the name of a dialog and what it is about. */
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
      // Marks the entries of the history that a click has made: their dialog is closed by going back.
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
      // Going back takes a moment: a second Escape in it must not leave the page.
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
 * The question that the address asks for, made of what is known now. While it cannot be made any more, such as after the
 * answer has changed its subject, there is none.
 */
export function useQuestion(make: Record<string, (of: string) => Question | undefined>): {
  question: Question | undefined
  asked: Asked
} {
  const asked = useAsked()
  const known = Object.hasOwn(make, asked.name) ? make[asked.name] : undefined
  return { question: known?.(asked.of), asked }
}
