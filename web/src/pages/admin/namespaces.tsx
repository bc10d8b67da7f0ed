// Namespaces: the quotas of each, and its use of them.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { path, send } from '../../api/client'
import { hasSomewhere, useMe } from '../../api/me'
import { all, slow } from '../../api/queries'
import type { Namespace, Quotas } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { useAsked } from '../../app/ask'
import { useNamespace } from '../../app/namespace'
import { Dialog, toast } from '../../kit/dialog'
import { bytes } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button, Command } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { VerbButton } from '../../kit/verbs'
import { count, rich, t } from '../../text/t'
import { AdminTop, Lacks, NamespaceField, Refused, Some } from './parts'

type Quota = {
  name: keyof Quotas
  label: string
  /**
   * Returns the present use of the namespace. A quota without this function bounds a single workflow or run.
   */
  used?: (n: Namespace) => number | undefined
  isBytes?: boolean
}

/** All quotas, in the order of the command line. */
export const quotas: Quota[] = [
  { name: 'runs', label: t('Runs that have not ended'), used: (n) => n.runs },
  { name: 'runs_per_hour', label: t('Runs that begin in an hour'), used: (n) => n.runs_in_hour },
  { name: 'tasks', label: t('Tasks of a workflow') },
  { name: 'params_bytes', label: t('Bytes of the parameters of a run'), isBytes: true },
  { name: 'logs_per_day', label: t('Logs of a day'), used: (n) => n.logs_in_day, isBytes: true },
  { name: 'stored_bytes', label: t('Stored bytes'), used: (n) => n.stored_bytes, isBytes: true },
  { name: 'versions', label: t('Versions of workflows'), used: (n) => n.versions },
  { name: 'triggers', label: t('Triggers'), used: (n) => n.triggers },
  { name: 'tokens', label: t('Tokens'), used: (n) => n.tokens },
  { name: 'requests_per_minute', label: t('Calls in a minute') },
]

/** The rules in the order of the form, which begins with the level. */
const ruleLabels: { name: keyof Rules; label: string }[] = [
  { name: 'isolation', label: t('Least isolation of tasks') },
  { name: 'allow_read', label: t('Paths that tasks may read') },
  { name: 'allow_write', label: t('Paths that tasks may write') },
  { name: 'egress', label: t('Addresses that calls of the namespace may reach') },
  { name: 'run_as', label: t('Unix user of tasks') },
]

/** The placeholders of the empty fields of those rules that are not paths. */
const placeholders: Partial<Record<keyof Rules, string>> = { egress: 'public, 10.0.0.0/8', run_as: 'shop' }

const placed = /^[a-z0-9][a-z0-9-]{0,62}$/

const levels = ['none', 'fence', 'user', 'box'] as const

/** The rules of a namespace for its tasks, as they are typed: paths and networks with spaces or commas. */
type Rules = { isolation: string; allow_read: string; allow_write: string; egress: string; run_as: string }

const rulesOf = (n: Partial<Namespace>): Rules => ({
  isolation: n.isolation ?? 'none',
  allow_read: (n.allow_read ?? []).join(' '),
  allow_write: (n.allow_write ?? []).join(' '),
  egress: n.egress ?? '',
  run_as: n.run_as ?? '',
})

/** The fields of a request for the rules that were changed. Other rules stay unchanged. */
export function changedRules(was: Rules, is: Rules) {
  const paths = (text: string) => text.split(/\s+/).filter((path) => path !== '')
  return {
    ...(is.isolation === was.isolation ? {} : { isolation: is.isolation }),
    ...(is.allow_read === was.allow_read ? {} : { allow_read: paths(is.allow_read) }),
    ...(is.allow_write === was.allow_write ? {} : { allow_write: paths(is.allow_write) }),
    ...(is.egress === was.egress ? {} : { egress: is.egress.trim() }),
    ...(is.run_as === was.run_as ? {} : { run_as: is.run_as.trim() }),
  }
}

/**
 * Reads a typed bound: a number of at least 1, with Ki, Mi or Gi for bytes. It returns NaN if the text is not
 * a bound.
 */
export function readBound(text: string): number | undefined {
  const typed = text.trim()
  if (typed === '') return undefined
  const [, digits = '', unit = ''] = /^(\d{1,15})\s*(Ki|Mi|Gi)?$/.exec(typed) ?? []
  const n = digits === '' ? Number.NaN : Number(digits) * 1024 ** ['', 'Ki', 'Mi', 'Gi'].indexOf(unit)
  return n >= 1 && n <= Number.MAX_SAFE_INTEGER ? n : Number.NaN
}

export function Namespaces() {
  const me = useMe()
  const [ns] = useNamespace()
  const reads = hasSomewhere(me, 'namespace.read')
  const query = useQuery({
    queryKey: ['namespaces', ns],
    queryFn: ({ signal }) => all<Namespace>('/namespaces', ns ? { namespace: ns } : {}, signal),
    refetchInterval: slow,
    enabled: me !== undefined && reads,
  })
  const asked = useAsked()
  const target =
    asked.name === 'namespace'
      ? { name: '', quotas: {} }
      : asked.name === 'quotas'
        ? query.data?.find((n) => n.name === asked.of)
        : undefined
  return (
    <>
      <AdminTop
        here="/admin/namespaces"
        title={t('Namespaces')}
        actions={
          <VerbButton verb="namespace.write" namespace="*" onPress={() => asked.open('namespace')}>
            {t('Set quotas and rules')}
          </VerbButton>
        }
      >
        {t('A quota bounds what a namespace may use. Without a quota, it may use any amount.')}
      </AdminTop>
      {reads ? (
        <>
          <Lacks verb="namespace.write" what={t('change quotas')} />
          <Panel title={t('Namespaces')} count={query.data?.length}>
            <Loaded
              query={query}
              isEmpty={(list) => list.length === 0}
              empty={
                <>
                  <p>{t('There is no namespace with a workflow or a quota yet.')}</p>
                  <Command text="skein namespace set shop --quota runs=500" />
                </>
              }
            >
              {(list) => (
                <Some of={list}>
                  {(some) => <Table namespaces={some} onSet={(n) => asked.open('quotas', n)} />}
                </Some>
              )}
            </Loaded>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what={t('the namespaces')} verb="namespace.read" somewhere />
        </Panel>
      )}
      <Dialog
        title={
          target?.name
            ? t('Quotas and rules of {name}', { name: target.name })
            : t('Quotas and rules of a namespace')
        }
        isOpen={target !== undefined}
        onClose={asked.close}
      >
        {target ? <Form target={target} onClose={asked.close} /> : null}
      </Dialog>
    </>
  )
}

function Table({ namespaces, onSet }: { namespaces: Namespace[]; onSet: (name: string) => void }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Namespace')}</th>
            <th>{t('Uses')}</th>
            <th>{t('Last set')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {namespaces.map((n) => (
            <tr key={n.name}>
              <td className="mono">{n.name}</td>
              <td>
                <Uses namespace={n} />
              </td>
              <td className="nowrap sub">
                {n.modified_at
                  ? rich('{time} by {user}', { time: <Ago time={n.modified_at} />, user: n.user ?? '' })
                  : t('never')}
              </td>
              <td className="num nowrap">
                <VerbButton
                  verb="namespace.write"
                  namespace={n.name}
                  kind="quiet"
                  onPress={() => onSet(n.name)}
                >
                  {t('Set quotas and rules')}
                </VerbButton>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** The use of a namespace: each quota with a use or a bound, and a bar if it has both. */
function Uses({ namespace }: { namespace: Namespace }) {
  const shown = quotas.flatMap((q) => {
    const used = q.used?.(namespace)
    const bound = namespace.quotas[q.name] ?? undefined
    return used === undefined && bound === undefined ? [] : [{ ...q, used, bound }]
  })
  const rules = rulesOf(namespace)
  return (
    <dl className="quotas">
      {ruleLabels.map(({ name, label }) =>
        rules[name] === '' || rules[name] === 'none' ? null : (
          <div key={name} data-rule={name}>
            <dt>{label}</dt>
            <dd>{rules[name]}</dd>
          </div>
        ),
      )}
      {shown.map(({ name, label, used, bound, isBytes }) => {
        const text = (n: number) => (isBytes ? bytes(n) : count(n))
        const share = used === undefined || bound === undefined ? undefined : Math.min(used / bound, 1)
        return (
          <div key={name} data-quota={name}>
            <dt>{label}</dt>
            <dd>
              {used === undefined ? '' : text(used)}
              {bound === undefined
                ? ''
                : used === undefined
                  ? t('at most {bound}', { bound: text(bound) })
                  : ` ${t('of {bound}', { bound: text(bound) })}`}
            </dd>
            {share === undefined ? null : (
              <span className="bar" data-tone={share === 1 ? 'warn' : 'busy'} aria-hidden="true">
                <i style={{ width: `${share * 100}%` }} />
              </span>
            )}
          </div>
        )
      })}
    </dl>
  )
}

function Form({
  target,
  onClose,
}: {
  target: Pick<Namespace, 'name' | 'quotas'> & Partial<Namespace>
  onClose: () => void
}) {
  const [name, setName] = useState(target.name)
  const [typed, setTyped] = useState<Record<string, string>>(() =>
    Object.fromEntries(quotas.map((q) => [q.name, String(target.quotas[q.name] ?? '')])),
  )
  const [begun] = useState(() => rulesOf(target))
  const [rules, setRules] = useState(begun)
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const bounds = quotas.map((q) => [q.name, readBound(typed[q.name] ?? '')] as const)
  const ready = placed.test(name) && bounds.every(([, n]) => !Number.isNaN(n))
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (isPending || !ready) return
        run(
          () =>
            send(path('namespaces', name), {
              method: 'PUT',
              body: { quotas: Object.fromEntries(bounds), ...changedRules(begun, rules) },
            }),
          () => {
            onClose()
            toast(
              t('The quotas and rules of {name} are set. They count at once for what begins later.', {
                name,
              }),
            )
          },
        )
      }}
    >
      {target.name ? (
        <p>{t('An empty field is no bound. A smaller quota ends no run.')}</p>
      ) : (
        <>
          <p>{t('An empty field is no bound. These quotas replace those that the namespace has.')}</p>
          <NamespaceField value={name} onChange={setName} placeholder="default" />
        </>
      )}
      <div className="quotas">
        {quotas.map((q) => (
          <label key={q.name} className="field">
            <span>{q.label}</span>
            <input
              className="input"
              inputMode="numeric"
              autoComplete="off"
              placeholder={q.isBytes ? t('no bound, or such as 64Mi') : t('no bound')}
              value={typed[q.name]}
              aria-invalid={Number.isNaN(readBound(typed[q.name] ?? '')) || undefined}
              onChange={(e) => setTyped({ ...typed, [q.name]: e.target.value })}
            />
          </label>
        ))}
      </div>
      <p>
        {t(
          'These rules narrow what tasks may reach, whatever their workflows say. Separate paths by spaces. Empty: no rule.',
        )}
      </p>
      <div className="quotas">
        <label className="field">
          <span>{t('Least isolation of tasks')}</span>
          <select
            className="select"
            value={rules.isolation}
            onChange={(e) => setRules({ ...rules, isolation: e.target.value })}
          >
            {levels.map((level) => (
              <option key={level} value={level}>
                {level}
              </option>
            ))}
          </select>
        </label>
        {ruleLabels.slice(1).map(({ name, label }) => (
          <label key={name} className="field">
            <span>{label}</span>
            <input
              className="input"
              autoComplete="off"
              placeholder={placeholders[name] ?? '/srv/shop'}
              value={rules[name]}
              onChange={(e) => setRules({ ...rules, [name]: e.target.value })}
            />
          </label>
        ))}
      </div>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={isPending || !ready}>
          {t('Set the quotas')}
        </Button>
      </footer>
    </form>
  )
}
