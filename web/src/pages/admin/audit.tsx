// The audit log: who changed what and started which run, and which calls were refused.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { get } from '../../api/client'
import { hasSomewhere, useMe } from '../../api/me'
import { slow } from '../../api/queries'
import type { AuditRow, ListAuditRow } from '../../api/types'
import { useNamespace } from '../../app/namespace'
import { SinceSelect, sinceOf, TextFilter } from '../../kit/filter'
import { count, plural } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button, Command, RunLink, State } from '../../kit/parts'
import { t } from '../../text/t'
import { AdminTop, Refused } from './parts'
import { verbGroups } from './verbs'

const pageSize = 100
const verbs = verbGroups.flatMap(([, of]) => of.map(([verb]) => verb))

/** The run that a row is about, or undefined if the row is about another object. */
export const runOf = (r: Pick<AuditRow, 'object'>): string | undefined =>
  /\/runs\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=$|[/:?])/.exec(r.object)?.[1]

/**
 * The place of a row in the tree of the log. Only skein audit verify compares it with the signed checkpoints.
 */
export function placeOf(r: Pick<AuditRow, 'id' | 'index'>): string {
  if (r.index !== null) return t('leaf {number}', { number: count(r.index) })
  return r.id === 0 ? t('the run is the record') : t('no place yet')
}

export function AuditLog() {
  const [ns] = useNamespace()
  const search = useSearch({ from: '/admin/audit' })
  const { principal, verb, cursor } = search
  const navigate = useNavigate({ from: '/admin/audit' })
  const me = useMe()
  const reads = hasSomewhere(me, 'audit.read')
  const [opened] = useState(Date.now)
  const since = sinceOf(search.since, opened)
  const filter = { namespace: ns || undefined, principal, verb, since, cursor }
  const query = useQuery({
    queryKey: ['audit', filter],
    queryFn: ({ signal }) => get<ListAuditRow>('/audit', { ...filter, limit: pageSize }, signal),
    refetchInterval: slow,
    placeholderData: keepPreviousData,
    enabled: me !== undefined && reads,
  })
  const set = (change: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, cursor: undefined, ...change }), replace: true })
  const rows = query.data?.items ?? []
  const next = query.data?.next ?? undefined
  const narrow = Boolean(principal || verb || since)
  return (
    <>
      <AdminTop here="/admin/audit" title={t('Audit log')}>
        {t('Who changed what, who started which run, and which calls were refused.')}
      </AdminTop>
      {reads ? (
        <>
          <div className="row">
            <TextFilter
              name="principal"
              label={t('User')}
              value={principal}
              set={(v) => set({ principal: v })}
              filter
            />
            <select
              className="select"
              aria-label={t('Verb')}
              value={verb ?? ''}
              onChange={(e) => set({ verb: e.target.value || undefined })}
            >
              <option value="">{t('any verb')}</option>
              {[...new Set([...verbs, ...(verb ? [verb] : [])])].map((v) => (
                <option key={v} value={v}>
                  {v}
                </option>
              ))}
            </select>
            <SinceSelect label={t('Time')} value={search.since} set={(v) => set({ since: v })} />
            {narrow ? (
              <Button
                kind="quiet"
                icon="cross"
                onPress={() => set({ principal: undefined, verb: undefined, since: undefined })}
              >
                {t('Clear')}
              </Button>
            ) : null}
          </div>
          <Panel
            title={ns ? t('Calls in {namespace}', { namespace: ns }) : t('Calls')}
            count={query.data && `${rows.length}${next ? '+' : ''}`}
          >
            <Loaded
              query={query}
              rows={10}
              isEmpty={() => rows.length === 0}
              empty={
                <p>
                  {narrow || ns || cursor ? t('No call fits the filter.') : t('No call is recorded yet.')}
                </p>
              }
            >
              {() => <Table rows={rows} />}
            </Loaded>
            <footer className="pager">
              {cursor ? <Button onPress={() => set({ cursor: undefined })}>{t('Newest')}</Button> : null}
              {next ? (
                <Button onPress={() => void navigate({ search: (old) => ({ ...old, cursor: next }) })}>
                  {t('Older')}
                </Button>
              ) : null}
            </footer>
          </Panel>
          <Panel title={t('Proof')}>
            <div className="empty">
              <p>
                {t(
                  'A leaf of the tree cannot be changed without a trace. This page does not verify the log. The command compares all rows with the signed checkpoints, and trusts neither this server nor its database:',
                )}
              </p>
              <Command text="skein audit verify" />
            </div>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what={t('the audit log')} verb="audit.read" somewhere />
        </Panel>
      )}
    </>
  )
}

function Table({ rows }: { rows: AuditRow[] }) {
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Time')}</th>
            <th>{t('Outcome')}</th>
            <th>{t('By')}</th>
            <th>{t('Call')}</th>
            <th>{t('Object')}</th>
            <th>{t('Detail')}</th>
            <th>{t('Place in the tree')}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => (
            <tr key={`${r.id} ${r.object}`}>
              <td className="nowrap">
                <Ago time={r.last_at} />
              </td>
              <td className="nowrap">
                <State state={r.outcome} />
                {r.count > 1 ? <span className="sub"> {plural(r.count, 'time')}</span> : null}
              </td>
              <td className="nowrap">
                {r.principal || <span className="muted">{t('unknown')}</span>}
                <div className="sub">{[r.kind, r.address].filter(Boolean).join(' · ')}</div>
              </td>
              <td className="nowrap">
                {r.action}
                <div className="sub mono">{r.verb}</div>
              </td>
              <td>
                <Target r={r} />
                {r.namespace ? (
                  <div className="sub">{t('in {namespace}', { namespace: r.namespace })}</div>
                ) : null}
              </td>
              <td className="sub">{r.detail}</td>
              <td className="nowrap sub">{placeOf(r)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Target({ r }: { r: AuditRow }) {
  const run = runOf(r)
  if (run) return <RunLink id={run} />
  return <span className="mono">{r.object}</span>
}
