// Git sources: the fields of the form, what a request says, and what a look would change.
import { fieldFaults } from '../../api/client'
import type { GitSource, GitSourceRequest, GitSync } from '../../api/types'
import { t } from '../../text/t'

export const fullName = (g: Pick<GitSource, 'namespace' | 'name'>) => `${g.namespace}/${g.name}`

/** Where a source reads: the repository, the branch or tag, and the folder. */
export const placeOf = (g: Pick<GitSource, 'url' | 'branch' | 'tag' | 'folder'>) =>
  `${g.url}@${g.tag || g.branch || 'main'}${g.folder ? `:${g.folder}` : ''}`

/** Whether a node is about to look at a source, because it was just made or changed. */
export const isDue = (g: GitSource) => !g.state.looked_at || g.state.looked_at < g.modified_at

/** The first characters of the name of a commit. */
export const short = (commit: string) => commit.slice(0, 10)

/** The name of a workflow without its namespace. */
export const bare = (workflow: string) => workflow.slice(workflow.indexOf('/') + 1)

/** Where the page of a server of repositories shows a file of a branch or a tag, by the beginning of its host. */
const hosts: [host: RegExp, at: (ref: string, isTag: boolean) => string][] = [
  [/^github\./, (ref) => `blob/${ref}`],
  [/^gitlab\./, (ref) => `-/blob/${ref}`],
  [/^bitbucket\.org$/, (ref) => `src/${ref}`],
  [/^(codeberg\.org$|gitea\.|forgejo\.)/, (ref, isTag) => `src/${isTag ? 'tag' : 'branch'}/${ref}`],
]

/** The address of a file of a source in the page of its server, if the server is of a kind that is known. */
export function fileLink(g: GitSource, file: string): string | undefined {
  const web =
    /^https:\/\/([\w.-]+)(?::\d+)?\/(.+)$/.exec(g.url) ??
    /^ssh:\/\/[\w.-]+@([\w.-]+)(?::\d+)?\/(.+)$/.exec(g.url) ??
    /^[A-Za-z_][\w.-]*@([\w.-]+):([^:].*)$/.exec(g.url)
  const at = web && hosts.find(([host]) => host.test(web[1] ?? ''))?.[1]
  if (!at) return undefined
  const repo = (web[2] ?? '')
    .replace(/^\/+/, '')
    .replace(/\/+$/, '')
    .replace(/\.git$/, '')
  const ref = at(encodeURI(g.tag || g.branch || 'main'), Boolean(g.tag))
  return `https://${web[1]}/${repo}/${ref}/${encodeURI(g.folder ? `${g.folder}/${file}` : file)}`
}

/** What the fields of the form hold. An empty text is the default. */
export type Draft = {
  namespace: string
  name: string
  url: string
  kind: 'branch' | 'tag'
  /** The branch or the tag. */
  ref: string
  folder: string
  every: string
  login: string
  /** The names of secrets: of the password, of the private key, and of webhooks. */
  password: string
  key: string
  hook: string
  hosts: string
  removed: string
  adopt: boolean
}

export const emptyDraft = (namespace: string): Draft => ({
  namespace,
  name: '',
  url: '',
  kind: 'branch',
  ref: '',
  folder: '',
  every: '',
  login: '',
  password: '',
  key: '',
  hook: '',
  hosts: '',
  removed: '',
  adopt: false,
})

export const draftOf = (g: GitSource): Draft => ({
  namespace: g.namespace,
  name: g.name,
  url: g.url,
  kind: g.tag ? 'tag' : 'branch',
  ref: g.tag || g.branch || '',
  folder: g.folder ?? '',
  every: g.every ?? '',
  login: g.login ?? '',
  password: g.password_secret ?? '',
  key: g.key_secret ?? '',
  hook: g.hook_secret ?? '',
  hosts: g.known_hosts ?? '',
  removed: g.removed ?? '',
  adopt: g.adopt ?? false,
})

/** How a node reaches a repository, which decides about the credentials. Nothing: the address does not say it yet. */
export function reachOf(url: string): 'web' | 'ssh' | 'file' | undefined {
  if (/^https?:\/\/./.test(url)) return 'web'
  if (/^ssh:\/\/./.test(url) || /^[A-Za-z_][\w.-]*@[\w.-]+:[^:]/.test(url)) return 'ssh'
  return url.startsWith('file:///') ? 'file' : undefined
}

/** The request of a draft. Credentials of another kind of address are left out. */
export function requestOf(d: Draft): GitSourceRequest {
  const reach = reachOf(d.url.trim())
  const texts: Record<string, string> = {
    [d.kind]: d.ref.trim(),
    folder: d.folder.trim().replace(/\/+$/, ''),
    every: d.every.trim(),
    login: reach === 'web' ? d.login.trim() : '',
    password_secret: reach === 'web' ? d.password : '',
    key_secret: reach === 'ssh' ? d.key : '',
    known_hosts: reach === 'ssh' ? d.hosts : '',
    hook_secret: d.hook,
    removed: d.removed,
  }
  const given = Object.fromEntries(Object.entries(texts).filter(([, text]) => text.trim() !== ''))
  return { url: d.url.trim(), ...given, ...(d.adopt ? { adopt: true } : {}) } as GitSourceRequest
}

/** The fields by the names that the server gives them. */
const fields: Record<string, keyof Draft> = {
  namespace: 'namespace',
  name: 'name',
  url: 'url',
  branch: 'ref',
  tag: 'ref',
  folder: 'folder',
  every: 'every',
  login: 'login',
  password_secret: 'password',
  key_secret: 'key',
  known_hosts: 'hosts',
  hook_secret: 'hook',
  removed: 'removed',
}

export type Faults = Partial<Record<keyof Draft, string>>

/** The faults of fields that an answer names, or nothing if it does not say a field. */
export const faultsOf = (error: Error): Faults | undefined => fieldFaults(error, (key) => fields[key])

const named = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const placed = /^[a-z0-9][a-z0-9-]{0,62}$/

/** What is wrong with a draft before the server is asked. A field that is still empty has no fault, and is not ready. */
export function localFaults(d: Draft, isNew: boolean, taken: readonly string[]): Faults {
  const faults: Faults = {}
  if (d.name && !named.test(d.name)) faults.name = t('Small letters, digits and -, at most 63.')
  else if (isNew && taken.includes(fullName(d)))
    faults.name = t('There is a git source of this name. Change that one, or choose another name.')
  if (d.namespace && !placed.test(d.namespace))
    faults.namespace = t('Small letters, digits and -, at most 63.')
  if (/\/\/[^/]*:[^/]*@/.test(d.url))
    faults.url = t('Take the password out of the address. Choose a secret for it below.')
  return faults
}

/** Whether every field that must have a value has one. */
export function isReady(d: Draft): boolean {
  const reach = reachOf(d.url.trim())
  return (
    d.namespace !== '' &&
    d.name !== '' &&
    d.url.trim() !== '' &&
    (reach !== 'ssh' || (d.key !== '' && d.hosts.trim() !== ''))
  )
}

export type Effect = { change: GitSync['changes'][number]['change']; label: string; tone: string }

/** The effects of a sync, those that matter most first. */
export const effects: Effect[] = [
  { change: 'deleted', label: t('deleted'), tone: 'bad' },
  { change: 'paused', label: t('paused'), tone: 'warn' },
  { change: 'created', label: t('created##by a sync'), tone: 'good' },
  { change: 'changed', label: t('changed'), tone: 'busy' },
  { change: 'resumed', label: t('resumed'), tone: 'good' },
  { change: 'kept', label: t('kept, without a file'), tone: 'over' },
  { change: 'unchanged', label: t('unchanged'), tone: 'over' },
]

/** The changes of a sync by their effect, without effects that no workflow has. */
export const byEffect = (sync: Pick<GitSync, 'changes'>) =>
  effects
    .map((effect) => ({ effect, of: sync.changes.filter((c) => c.change === effect.change) }))
    .filter(({ of }) => of.length > 0)

/** How many workflows a sync changes. */
export const changedBy = (sync: Pick<GitSync, 'changes'>) =>
  sync.changes.filter((c) => c.change !== 'unchanged' && c.change !== 'kept').length
