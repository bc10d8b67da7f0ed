// Reads the answers that are packed in columns.
import { useQuery } from '@tanstack/react-query'
import { type Drawing, layoutType, readDrawing, readStates, statesType } from '../canvas/drawing'
import { liveKey } from '../live/live'
import { path, type Query, send } from './client'

async function packed(where: string, query: Query, type: string, signal: AbortSignal): Promise<ArrayBuffer> {
  return (await send(where, { query, headers: { Accept: type }, signal })).arrayBuffer()
}

/** Reads the drawing of the tasks of a version or of a run. */
export const useDrawing = (where: string, query: Query = {}, enabled = true) =>
  useQuery({
    enabled,
    queryKey: ['layout', where, query],
    queryFn: async ({ signal }) => readDrawing(await packed(where, query, layoutType, signal)),
    structuralSharing: false,
    staleTime: 60_000,
  })

/** Reads the state of every task of a run, again whenever the run changes. */
export const useStates = (id: string | undefined, drawing: Drawing | undefined) =>
  useQuery({
    queryKey: liveKey([`run ${id}`], 'states'),
    queryFn: async ({ signal }) =>
      readStates(await packed(path('runs', id ?? '', 'states'), {}, statesType, signal), drawing?.n ?? 0),
    structuralSharing: false,
    enabled: id !== undefined && drawing !== undefined,
  })
