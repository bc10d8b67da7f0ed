import { useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'

/** The namespace that the whole page is narrowed to; "" is all. It is in every address as ns. */
export function useNamespace(): [string, (namespace: string) => void] {
  const ns = (useSearch({ strict: false }) as { ns?: string }).ns ?? ''
  const navigate = useNavigate()
  const set = useCallback(
    (namespace: string) =>
      void navigate({
        to: '.',
        search: (old: Record<string, unknown>) => ({ ...old, ns: namespace || undefined }),
      } as never),
    [navigate],
  )
  return [ns, set]
}

/** Reports whether something of a namespace is to be shown. System runs are shown only when they are asked for. */
export const within = (ns: string, namespace: string) =>
  ns === '' ? namespace !== 'system' : namespace === ns
