// Drafts of workflow files, kept in this browser until they are applied or discarded.

export type Draft = {
  workflow: string
  text: string
  /** What the draft began from: its revision (0: a new workflow), version and source. */
  revision: number
  version: number
  base: string
  savedAt: number
}

const open = (): Promise<IDBDatabase> =>
  new Promise((done, fail) => {
    const request = indexedDB.open('skein', 1)
    request.onupgradeneeded = () => request.result.createObjectStore('drafts', { keyPath: 'workflow' })
    request.onsuccess = () => done(request.result)
    request.onerror = () => fail(request.error)
  })

async function inStore<T>(mode: IDBTransactionMode, act: (s: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const db = await open()
  try {
    return await new Promise((done, fail) => {
      const request = act(db.transaction('drafts', mode).objectStore('drafts'))
      request.onsuccess = () => done(request.result)
      request.onerror = () => fail(request.error)
    })
  } finally {
    db.close()
  }
}

let lastWrite: Promise<unknown> = Promise.resolve()

/** Reads the draft of a workflow after the earlier writes. A browser that keeps nothing has none. */
export const readDraft = (workflow: string): Promise<Draft | undefined> =>
  lastWrite.then(() => inStore<Draft | undefined>('readonly', (s) => s.get(workflow))).catch(() => undefined)

/** Writes after the earlier writes, so that a draft that was dropped does not come back. */
function write<T>(act: (s: IDBObjectStore) => IDBRequest<T>): Promise<boolean> {
  const done = lastWrite
    .then(() => inStore('readwrite', act))
    .then(
      () => true,
      () => false,
    )
  lastWrite = done
  return done
}

let closed = false

/** Saves a draft and reports whether the browser kept it. After a sign-out it keeps none. */
export const saveDraft = (draft: Draft): Promise<boolean> =>
  closed ? Promise.resolve(false) : write((s) => s.put(draft))

/** The workflows that have a draft. */
export const draftNames = (): Promise<string[]> =>
  lastWrite
    .then(() => inStore('readonly', (s) => s.getAllKeys()))
    .then(
      (keys) => keys.map(String),
      () => [],
    )

/**
 * Deletes all drafts: the person who wrote them has left this browser. What an editor saves while it is taken
 * down is not kept either, until openDrafts.
 */
export function forgetDrafts(): Promise<boolean> {
  closed = true
  return write((s) => s.clear())
}

/** Lets drafts be saved again: somebody has signed in. */
export function openDrafts() {
  closed = false
}

export const dropDraft = (workflow: string): Promise<boolean> => write((s) => s.delete(workflow))

/** Waits until the drafts that this tab saved so far are written. */
export const draftsWritten = (): Promise<unknown> => lastWrite
