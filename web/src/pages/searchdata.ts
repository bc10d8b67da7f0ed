// The search in lists that the page has read.
import { score } from '../app/score'

export const foundMax = 20

/** Returns the items whose text matches, the best first, and their number. */
export function found<I>(
  items: I[] | undefined,
  q: string,
  text: (item: I) => string,
): { items: I[]; of: number } {
  const wanted = q.trim().toLowerCase()
  if (wanted === '') return { items: [], of: 0 }
  const fit = (items ?? []).filter((item) => text(item).toLowerCase().includes(wanted))
  fit.sort((a, b) => score(wanted, text(b)) - score(wanted, text(a)))
  return { items: fit.slice(0, foundMax), of: fit.length }
}
