import { useEffect, useState } from 'react'
import { useKeys } from '../app/keys'

/** Moves through rows with j and k, and opens one with Enter. */
export function useRowKeys(n: number, open: (index: number) => void, select?: (index: number) => void) {
  const [at, setAt] = useState(-1)
  const go = (to: number) => setAt(Math.max(0, Math.min(n - 1, to)))
  useKeys({
    j: () => go(at + 1),
    k: () => go(at - 1),
    ...(at >= 0 && at < n && document.activeElement === document.body ? { Enter: () => open(at) } : {}),
    ...(select && at >= 0 ? { x: () => select(at) } : {}),
  })
  useEffect(() => {
    if (at >= 0) document.querySelector('tr[data-current]')?.scrollIntoView({ block: 'nearest' })
  }, [at])
  return { at }
}
