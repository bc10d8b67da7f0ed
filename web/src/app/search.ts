// The state of a view is in its address. Every value is plain text, so that an address can be read and written by hand.
export type Search = Record<string, string>

/** Reads the search part of an address. Empty values count as absent. */
export function parseSearch(text: string): Search {
  const out: Search = {}
  for (const [name, value] of new URLSearchParams(text)) if (value !== '') out[name] = value
  return out
}

/** Writes the search part of an address; names keep the order of the object. */
export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== '') params.set(name, String(value))
  }
  const text = params.toString().replaceAll('%2F', '/').replaceAll('%3A', ':').replaceAll('%2C', ',')
  return text ? `?${text}` : ''
}

/** Keeps only the names of a search that a page knows. */
export const only =
  <N extends string>(...names: N[]) =>
  (search: Record<string, unknown>): { [K in N]?: string } => {
    const out: { [K in N]?: string } = {}
    for (const name of names) {
      const value = search[name]
      if (typeof value === 'string' && value !== '') out[name] = value
    }
    return out
  }

/** Keeps every value of a search, because the parameters of a run can have any name. */
export const every = (search: Record<string, unknown>): Search =>
  Object.fromEntries(Object.entries(search).filter((e): e is [string, string] => typeof e[1] === 'string'))
