// Who uses the page and what they may do. A server without the route lets everybody do everything.
import { useQuery } from '@tanstack/react-query'
import { get } from './client'

export type Me = {
  user: string
  roles: { role: string; namespace: string }[]
  can: Record<string, string[]> | null
}

const anybody: Me = { user: '', roles: [], can: null }

export function useMe(): Me {
  const { data } = useQuery({ queryKey: ['me'], queryFn: readMe, staleTime: 60_000, retry: false })
  return data ?? anybody
}

// The server says in index.html whether it has accounts: a request for a route that is absent would be an error on the console.
const accounts = document.querySelector('meta[name="skein-access"]')?.getAttribute('content') === 'on'

const readMe = async (): Promise<Me> => (accounts ? get<Me>('/me') : anybody)

/** Tells whether a verb such as run.stop is allowed in a namespace. */
export function useCan(): (verb: string, namespace: string) => boolean {
  const { can } = useMe()
  return (verb, namespace) => {
    const where = can?.[verb]
    return can === null || where?.includes('*') === true || where?.includes(namespace) === true
  }
}
