// The person who uses the page, with their rights. The server decides each call. The page only shows
// beforehand what the server will refuse.
import { useQuery } from '@tanstack/react-query'
import { get } from './client'
import { become } from './session'
import type { Me } from './types'

/** Returns the caller, or undefined until the server has said who that is. */
export function useMe(): Me | undefined {
  return useQuery({ queryKey: ['me'], queryFn: readMe, staleTime: 60_000, retry: false }).data
}

async function readMe(): Promise<Me> {
  const me = await get<Me>('/me')
  await become(me.name) // a person may have signed in without the form of this page
  return me
}

/**
 * Tells whether a caller has a verb such as run.start in a namespace. The namespace '' is the cluster. A caller who is not
 * known yet may do everything.
 */
export function allows(me: Me | undefined, verb: string, namespace: string): boolean {
  if (!me) return true
  return [me.verbs['*'], namespace === '' ? undefined : me.verbs[namespace]].some((verbs) =>
    verbs?.includes(verb),
  )
}

/** Tells whether a caller has a verb in some namespace. A caller who is not known yet has every verb. */
export const hasSomewhere = (me: Me | undefined, verb: string): boolean =>
  !me || Object.values(me.verbs).some((verbs) => verbs?.includes(verb))

/** Tells whether the user of the page has a verb in a namespace. */
export function useCan(): (verb: string, namespace: string) => boolean {
  const me = useMe()
  return (verb, namespace) => allows(me, verb, namespace)
}
