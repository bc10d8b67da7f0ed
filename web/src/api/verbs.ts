// The changes that the page makes to runs, tasks and other objects. The page shows a verb as requested until
// the server has committed it.
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Failure, newKey, path, post, send } from './client'

export const runVerb = (id: string, verb: string, body: object = {}, key = newKey()) =>
  post(`${path('runs', id)}:${verb}`, body, key)

export const taskVerb = (id: string, task: string, verb: string, body: object = {}, key = newKey()) =>
  post(`${path('runs', id, 'tasks', task)}:${verb}`, body, verb === 'approve' ? undefined : key)

/** Sends a verb without a body, or with a reason if the verb accepts one. */
export const plainVerb = async (where: string, body?: object, withKey = true) => {
  await send(where, { method: 'POST', body, ...(withKey ? { key: newKey() } : {}) })
}

/** Runs a verb, and then reads all shown data again. Errors go to the given function. */
export function useVerb(onError: (e: Failure | Error) => void) {
  const queries = useQueryClient()
  const { mutate, isPending } = useMutation({
    mutationFn: async ({
      verb,
    }: {
      verb: () => Promise<unknown>
      done?: ((result: never) => void) | undefined
    }) => verb(),
    onSuccess: (result, { done }) => done?.(result as never),
    onError,
    onSettled: () => queries.invalidateQueries({ refetchType: 'active' }),
  })
  const run = <T>(verb: () => Promise<T>, done?: (result: T) => void) =>
    mutate({ verb, done: done as ((result: never) => void) | undefined })
  return { run, isPending }
}

export { Failure }
