import { useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'

/** The namespace to which the whole page is narrowed; "" means all. It is in every address as ns. */
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

/**
 * Reports whether objects of a namespace are shown. System runs are shown only if the page is narrowed to
 * them.
 */
export const within = (ns: string, namespace: string) =>
  ns === '' ? namespace !== 'system' : namespace === ns
