// The data that the pages of the administration read, and small rules that they share.
import { useQuery } from '@tanstack/react-query'
import { get, path } from '../../api/client'
import { all, slow, useWorkflows } from '../../api/queries'
import type {
  Binding,
  ListRole,
  ListSession,
  ListToken,
  Me,
  Role,
  RoleRef,
  Session,
  Token,
  User,
} from '../../api/types'
import { t } from '../../text/t'

export const useUsers = (enabled: boolean) =>
  useQuery({
    queryKey: ['users'],
    queryFn: ({ signal }) => all<User>('/users', {}, signal),
    refetchInterval: slow,
    enabled,
  })

export const useUser = (name: string, enabled: boolean) =>
  useQuery({
    queryKey: ['user', name],
    queryFn: ({ signal }) => get<User>(path('users', name), {}, signal),
    refetchInterval: slow,
    enabled,
  })

export const useRoles = (enabled: boolean) =>
  useQuery({
    queryKey: ['roles'],
    queryFn: ({ signal }) => get<ListRole>('/roles', {}, signal),
    refetchInterval: slow,
    enabled,
  })

export const useBindings = (filter: { user?: string }, enabled: boolean) =>
  useQuery({
    queryKey: ['bindings', filter],
    queryFn: ({ signal }) => all<Binding>('/bindings', filter, signal),
    refetchInterval: slow,
    enabled,
  })

export const useTokens = (enabled: boolean) =>
  useQuery({
    queryKey: ['tokens'],
    queryFn: ({ signal }) => get<ListToken>('/tokens', {}, signal),
    refetchInterval: slow,
    enabled,
  })

export const useSessions = () =>
  useQuery({
    queryKey: ['sessions'],
    queryFn: ({ signal }) => get<ListSession>('/sessions', {}, signal),
    refetchInterval: slow,
  })

/** Returns the names of the namespaces of workflows and of the caller's roles. */
export function useNamespaces(me: Me | undefined): string[] {
  const { data } = useWorkflows()
  const names = new Set((data ?? []).map((w) => w.namespace))
  for (const ns of Object.keys(me?.verbs ?? {})) names.add(ns)
  names.delete('*')
  return [...names].sort()
}

/**
 * The verbs of a role that the caller does not have in a namespace, so that the caller cannot give the role
 * there.
 */
export function lacking(me: Me | undefined, role: Pick<Role, 'verbs'>, namespace: string): string[] {
  if (!me) return []
  const mine = new Set([...(me.verbs['*'] ?? []), ...(me.verbs[namespace] ?? [])])
  return (role.verbs ?? []).filter((v) => !mine.has(v))
}

/** The states of tokens, as the filter lists them. */
export const tokenStates: Token['state'][] = ['valid', 'ended', 'expired', 'revoked']

/** Whether a token can be revoked. A token that has ended is valid again as soon as its user is enabled. */
export const isRevocable = (token: Pick<Token, 'state'>) => token.state === 'valid' || token.state === 'ended'

/** Whether a token can get a successor. A token with a successor is about to end. */
export const isReplaceable = (token: Pick<Token, 'state' | 'replaced_by'>) =>
  token.state === 'valid' && token.replaced_by === null

/** The identity provider by which a user signs in, or nothing if the server has the password. */
export const providerOf = (user: Pick<User, 'source'>): string | undefined =>
  user.source === 'local' ? undefined : user.source.slice(user.source.indexOf(':') + 1)

/** Names the place where a role is valid. */
export const whereOf = (namespace: string | undefined) =>
  !namespace || namespace === '*' ? t('all namespaces') : namespace

/** Names a role with the place where it is valid, such as operator in shop. */
export const roleText = (r: RoleRef) => t('{role} in {where}', { role: r.role, where: whereOf(r.namespace) })

/** Returns the instant a number of days from now, or nothing for never. */
export const daysOn = (days: string, now = Date.now()): { expires_at?: string } =>
  days === '' ? {} : { expires_at: new Date(now + Number(days) * 86_400_000).toISOString() }

/**
 * Reports whether the server accepts a text as the name of a user, service or role. The server converts names
 * to lower case.
 */
export const isName = (text: string) => text.trim() !== '' && text.trim().length <= 100

export const passwordMin = 12

// Letters and digits that nobody mistakes for one another.
const alphabet = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789'

/** Makes a password of 20 letters and digits: more than 110 bits. */
export function newPassword(): string {
  let text = ''
  while (text.length < 20) {
    // Bytes beyond the last whole multiple would make some letters more frequent.
    for (const byte of crypto.getRandomValues(new Uint8Array(32)))
      if (byte < 256 - (256 % alphabet.length) && text.length < 20) text += alphabet[byte % alphabet.length]
  }
  return text
}

const browsers: [RegExp, string][] = [
  [/Edg\//, 'Edge'],
  [/OPR\//, 'Opera'],
  [/Firefox\//, 'Firefox'],
  [/Chrom(e|ium)\/|HeadlessChrome/, 'Chrome'],
  [/Safari\//, 'Safari'],
  [/^skein/i, 'skein'],
  [/^curl/i, 'curl'],
]
const systems: [RegExp, string][] = [
  [/Android/, 'Android'],
  [/iPhone|iPad/, 'iOS'],
  [/Windows/, 'Windows'],
  [/Mac OS X/, 'macOS'],
  [/Linux/, 'Linux'],
]

/**
 * Names the browser and the system of a session, or returns the text that the browser sent if neither is
 * known.
 */
export function agentOf(agent: string): string {
  const find = (of: [RegExp, string][]) => of.find(([is]) => is.test(agent))?.[1]
  const [browser, system] = [find(browsers), find(systems)]
  if (!browser) return agent || t('unknown')
  return system ? t('{browser} on {system}', { browser, system }) : browser
}

/** Sessions as they are shown: the caller's present one first, then the one that was used last. */
export const inOrder = (sessions: Session[]): Session[] =>
  [...sessions].sort((a, b) => Number(b.current) - Number(a.current) || b.used_at.localeCompare(a.used_at))
