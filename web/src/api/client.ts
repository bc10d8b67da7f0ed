// Makes the calls of the REST interface: it turns problems into errors, handles ETag and Idempotency-Key, and
// records when each answer came.
import { lookOf } from '../kit/states'
import { byCode, t } from '../text/t'
import type { Problem } from './types'

export const basePath =
  document.querySelector('meta[name="skein-base"]')?.getAttribute('content')?.replace(/\/$/, '') ?? ''

const prefix = `${basePath}/api/v1`

/** An answer that reports a failure. problem is the description by the server. */
export class Failure extends Error {
  problem: Problem
  /** The title of the problem, in the language of the page. */
  title: string
  /** The detail of the problem in the language of the page; undefined if that is English, or has no text for the detail. */
  words: string | undefined
  retryAfter: number | undefined
  constructor(problem: Problem, retryAfter?: number) {
    const title = byCode(`problem.${problem.code}`)
    const { state, ...args } = problem.args ?? {}
    const words = byCode(`detail.${problem.about}`, state ? { ...args, state: lookOf(state).label } : args)
    super(title ? `${title}: ${words ?? problem.detail}` : problem.detail || problem.title)
    this.problem = problem
    this.words = words
    this.title = title ?? problem.title
    this.retryAfter = retryAfter
  }
  /** The last part of the problem's type, such as not-found. */
  get kind(): string {
    return this.problem.type.split('/').pop() ?? ''
  }
}

/**
 * The faults of fields that an answer names, by the names that the form gives them. Undefined: it names none, or one
 * that the form does not show.
 */
export function fieldFaults<F extends string>(
  error: Error,
  field: (key: string) => F | undefined,
): Partial<Record<F, string>> | undefined {
  const errors = (error instanceof Failure ? error.problem.errors : undefined) ?? []
  const faults: Partial<Record<F, string>> = {}
  for (const e of errors) {
    const is = field(e.key)
    if (!is) return undefined
    // The message may begin with the name of its field, which the label says already.
    faults[is] = e.message.replace(new RegExp(`^${e.key}: `), '')
  }
  return errors.length > 0 ? faults : undefined
}

export type Query = Record<string, string | number | boolean | undefined | null>

export function address(path: string, query?: Query): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null && value !== '' && value !== false)
      params.set(name, String(value))
  }
  const text = params.toString()
  return `${prefix}${path}${text ? `?${text}` : ''}`
}

/** Joins parts of a path, each escaped. */
export const path = (...parts: (string | number)[]) =>
  `/${parts.map((part) => encodeURIComponent(part)).join('/')}`

/** Returns the path of a workflow, NAMESPACE/NAME. A name without a namespace is in the namespace default. */
export function workflowPath(name: string): string {
  const [first, second] = name.split('/')
  return second === undefined ? path('default', first ?? '') : path(first ?? '', second)
}

/** The header of a change of a version of an object. Without a version, the object must not exist yet. */
export const ifVersion = (version?: number): Record<string, string> =>
  version ? { 'If-Match': `"${version}"` } : { 'If-None-Match': '*' }

export type Options = {
  method?: string
  query?: Query
  body?: unknown
  key?: string
  headers?: Record<string, string>
  signal?: AbortSignal
}

let refused: (began: number) => void = () => {}

/**
 * Sets a function that is called when the server asks for a sign-in. Its argument is the time at which the
 * refused request began.
 */
export function watchRefused(tell: (began: number) => void) {
  refused = tell
}

/** Sends a request and returns the response, or throws a Failure. */
export async function send(where: string, o: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: 'application/json', ...o.headers }
  if (o.body !== undefined) headers['Content-Type'] = 'application/json'
  if (o.key) headers['Idempotency-Key'] = o.key
  let response: Response
  const began = performance.now()
  try {
    response = await fetch(address(where, o.query), {
      method: o.method ?? 'GET',
      headers,
      body: o.body === undefined ? undefined : JSON.stringify(o.body),
      signal: o.signal,
      credentials: 'same-origin',
    })
  } catch (e) {
    if (e instanceof DOMException && e.name === 'AbortError') throw e
    throw new Failure({
      type: 'network',
      code: 'network',
      title: t('The server cannot be reached'),
      status: 0,
      detail: t('The server cannot be reached.'),
    })
  }
  if (response.ok) return response
  if (response.status === 401) refused(began)
  throw new Failure(await problemOf(response), Number(response.headers.get('Retry-After')) || undefined)
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body = await response.json()
    if (typeof body?.type === 'string') return body
  } catch {
    // The answer came from a proxy, not from the server.
  }
  const type = response.status >= 500 ? 'unavailable' : 'internal'
  return {
    type,
    code: type,
    title: t('The server did not answer as it should'),
    status: response.status,
    detail: t('The answer had the status {status}.', { status: response.status }),
  }
}

export async function get<T>(where: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await send(where, { query, signal })).json()
}

export async function post<T>(where: string, body?: unknown, key?: string): Promise<T> {
  const response = await send(where, { method: 'POST', body, key })
  return response.status === 204 ? (undefined as T) : response.json()
}

/** Makes an idempotency key. A dialog makes one when it opens, so that a repeated click asks for the same thing. */
export const newKey = (): string => crypto.randomUUID()
