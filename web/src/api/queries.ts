// Reads that several pages share. Keys that begin with 'live' are read again when one of their topics changes.
import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query'
import { liveKey } from '../live/live'
import { get, path, type Query, workflowPath } from './client'
import { hasSomewhere, useMe } from './me'
import type * as T from './types'

const soon = 1_000
export const quick = 5_000
export const slow = 30_000

export const useStatus = () =>
  useQuery({
    queryKey: liveKey(['runs'], 'status'),
    queryFn: ({ signal }) => get<T.Status>('/status', {}, signal),
  })

export const runsQuery = (filter: Query) =>
  queryOptions({
    queryKey: liveKey(['runs'], 'list', filter),
    queryFn: ({ signal }) => get<T.ListRun>('/runs', filter, signal),
  })

export const useRuns = (filter: Query, enabled = true) =>
  useQuery({ ...runsQuery(filter), placeholderData: keepPreviousData, enabled })

export const useRun = (id: string) =>
  useQuery({
    queryKey: liveKey([`run ${id}`], 'run'),
    queryFn: ({ signal }) => get<T.Run>(path('runs', id), {}, signal),
  })

export const useExplain = (id: string, task?: string, enabled = true) =>
  useQuery({
    queryKey: liveKey([`run ${id}`], 'explain', task ?? ''),
    queryFn: ({ signal }) =>
      get<T.Explanation>(
        task ? path('runs', id, 'tasks', task, 'explain') : path('runs', id, 'explain'),
        {},
        signal,
      ),
    enabled,
  })

export const useWorkflow = (name: string) =>
  useQuery({
    queryKey: ['workflow', name],
    queryFn: ({ signal }) => get<T.Workflow>(`/workflows${workflowPath(name)}`, {}, signal),
    refetchInterval: slow,
  })

/** Reports whether a node is about to change its state, so that a person may be waiting for the change. */
const isLeaving = (n: T.Node) => n.state === 'cordoned' || n.state === 'leaving'

export const useNodes = () =>
  useQuery({
    queryKey: ['nodes'],
    queryFn: ({ signal }) => get<T.ListNode>('/nodes', {}, signal),
    refetchInterval: ({ state }) => (state.data?.items.some(isLeaving) ? soon : quick),
  })

export const useQueues = () =>
  useQuery({
    queryKey: ['queues'],
    queryFn: ({ signal }) => get<T.ListQueue>('/queues', { limit: 1000 }, signal),
    refetchInterval: quick,
  })

const openAlertsMax = 100

/** The newest alerts that are not over. Without the right to see alerts there are none. */
export function useOpenAlerts(workflow?: string) {
  const me = useMe()
  return useQuery({
    queryKey: liveKey([workflow ? `workflow ${workflow}` : 'runs'], 'alerts', workflow ?? ''),
    queryFn: ({ signal }) => get<T.ListAlert>('/alerts', { workflow, limit: openAlertsMax }, signal),
    refetchInterval: slow,
    enabled: me !== undefined && hasSomewhere(me, 'alert.read'),
  })
}

/** Reads pages of a list until it ends, or until there are enough. */
export async function all<I>(where: string, query: Query, signal: AbortSignal, max = 5000): Promise<I[]> {
  const items: I[] = []
  let cursor: string | null | undefined
  do {
    const page = await get<{ items: I[]; next: string | null }>(
      where,
      { limit: 1000, ...query, cursor },
      signal,
    )
    items.push(...page.items)
    cursor = page.next
  } while (cursor && items.length < max)
  return items
}

export const useWorkflows = () =>
  useQuery({
    queryKey: ['workflows'],
    queryFn: ({ signal }) => all<T.Workflow>('/workflows', {}, signal),
    refetchInterval: slow,
  })

export const useTasks = (id: string, enabled = true) =>
  useQuery({
    enabled,
    queryKey: liveKey([`run ${id}`], 'tasks'),
    queryFn: ({ signal }) => all<T.Task>(path('runs', id, 'tasks'), {}, signal),
  })

export const useSchedules = (filter: Query = {}) =>
  useQuery({
    queryKey: ['schedules', filter],
    queryFn: ({ signal }) => all<T.Schedule>('/schedules', filter, signal),
    refetchInterval: slow,
  })

export const useNext = (query: Query) =>
  useQuery({
    queryKey: ['next', query],
    queryFn: ({ signal }) => get<T.NextFires>('/schedules/next', query, signal),
    refetchInterval: slow,
  })

export const useFires = (query: Query) =>
  useQuery({
    queryKey: ['fires', query],
    queryFn: ({ signal }) => get<T.ListFire>('/fires', query, signal),
    refetchInterval: slow,
    placeholderData: keepPreviousData,
  })
