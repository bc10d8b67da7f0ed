// Drafts of workflow files, kept in this browser until they are applied or discarded.

export type Draft = {
  workflow: string
  text: string
  /**
   * The revision from which the draft began, or 0 for a new workflow. The next fields have its version and
   * source.
   */
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
      const all = db.transaction('drafts', mode)
      const request = act(all.objectStore('drafts'))
      // The result does not come at the success of the request, because a write is lost if the page ends
      // before the commit.
      all.oncomplete = () => done(request.result)
      all.onabort = () => fail(all.error)
    })
  } finally {
    db.close()
  }
}

/** The last order about the draft of a workflow: the draft to store, or null to delete it. */
type Word = { draft: Draft | null }

/** The orders that IndexedDB has not confirmed yet. */
const pending = new Map<string, Word>()

// IndexedDB answers later, but a page that is left may end before. So when the page is hidden or left, the
// pending orders are noted in localStorage, which is written at once. A note is newer than the draft in
// IndexedDB, and stays until a later write is confirmed.
const notePrefix = 'skein.draft '

function inNotes<T>(act: (notes: Storage) => T): T | undefined {
  try {
    return act(localStorage)
  } catch {
    return undefined // The browser stores nothing for this page, or has no room.
  }
}

const noteOf = (workflow: string): Word | undefined =>
  inNotes((notes) => JSON.parse(notes.getItem(notePrefix + workflow) ?? 'null') as Word | null) ?? undefined

const forgetNote = (workflow: string) => inNotes((notes) => notes.removeItem(notePrefix + workflow))

const noteKeys = (): string[] =>
  inNotes((notes) => Object.keys(notes).filter((key) => key.startsWith(notePrefix))) ?? []

/**
 * Notes the orders that are not confirmed yet. A page calls this function when it is hidden or left, after
 * its last writes.
 */
export function noteDrafts() {
  for (const [workflow, word] of pending)
    inNotes((notes) => notes.setItem(notePrefix + workflow, JSON.stringify(word)))
}

let lastWrite: Promise<unknown> = Promise.resolve()

/** Reads the draft of a workflow after the earlier writes. There is none if the browser stores nothing. */
export async function readDraft(workflow: string): Promise<Draft | undefined> {
  await lastWrite
  const note = noteOf(workflow)
  if (note) return note.draft ?? undefined
  return inStore<Draft | undefined>('readonly', (s) => s.get(workflow)).catch(() => undefined)
}

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

async function writeWord(workflow: string, word: Word): Promise<boolean> {
  const { draft } = word
  pending.set(workflow, word)
  const isKept = await (draft ? write((s) => s.put(draft)) : write((s) => s.delete(workflow)))
  // A later order is confirmed separately, and the note may belong to it.
  if (pending.get(workflow) !== word) return isKept
  pending.delete(workflow)
  if (isKept) forgetNote(workflow)
  return isKept
}

let closed = false

/** Saves a draft and reports whether the browser stored it. After a sign-out, no draft is stored. */
export const saveDraft = (draft: Draft): Promise<boolean> =>
  closed ? Promise.resolve(false) : writeWord(draft.workflow, { draft })

/** The workflows that have a draft. */
export async function draftNames(): Promise<string[]> {
  await lastWrite
  const stored = await inStore('readonly', (s) => s.getAllKeys()).catch(() => [])
  const names = new Set(stored.map(String))
  for (const key of noteKeys()) {
    const workflow = key.slice(notePrefix.length)
    if (noteOf(workflow)?.draft) names.add(workflow)
    else names.delete(workflow)
  }
  return [...names]
}

/**
 * Deletes all drafts: the person who wrote them has left this browser. Drafts that an editor saves while it
 * is removed from the page are not stored either, until openDrafts is called.
 */
export function forgetDrafts(): Promise<boolean> {
  closed = true
  pending.clear()
  for (const key of noteKeys()) inNotes((notes) => notes.removeItem(key))
  return write((s) => s.clear())
}

/** Permits the saving of drafts again, after a person has signed in. */
export function openDrafts() {
  closed = false
}

/**
 * Deletes the draft of a workflow and reports whether the browser deleted it. After a sign-out there is none.
 */
export const dropDraft = (workflow: string): Promise<boolean> =>
  closed ? Promise.resolve(true) : writeWord(workflow, { draft: null })

/** Waits until the drafts that this tab saved so far are written. */
export const draftsWritten = (): Promise<unknown> => lastWrite
