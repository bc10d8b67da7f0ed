import { useQuery } from '@tanstack/react-query'
import { get } from '../api/client'
import { slow, useNodes } from '../api/queries'
import type { Kind, ListKind, ListRefusedExtension } from '../api/types'
import { useQuestion } from '../app/ask'
import { bytes } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, State } from '../kit/parts'
import { Confirm } from '../kit/verbs'
import { t } from '../text/t'
import { Head } from './head'
import { differing } from './nodedata'
import { drainOf, Left, NodeLink, NodeVerb, Sight } from './nodeparts'

export function Cluster() {
  const nodes = useNodes()
  const items = nodes.data?.items ?? []
  const { question, asked } = useQuestion({
    drain: (name) => {
      const n = items.find((i) => i.name === name)
      return n && drainOf(n)
    },
  })
  return (
    <>
      <Head title={t('Cluster')} label={t('Cluster')}>
        {items.length > 0 && items.every((n) => n.orders_refused) ? (
          <p className="sub">
            {t(
              'Nodes and workers are cordoned and drained in a cluster on PostgreSQL. Here, end the process: what runs in it finishes.',
            )}
          </p>
        ) : null}
      </Head>
      <Panel title={t('Nodes and workers')} count={nodes.data?.items.length}>
        <Loaded
          query={nodes}
          isEmpty={(d) => d.items.length === 0}
          empty={t('No node has joined the cluster.')}
        >
          {({ items }) => (
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>{t('State')}</th>
                    <th>{t('Name')}</th>
                    <th className="num">{t('Slots')}</th>
                    <th className="num">CPU</th>
                    <th className="num">{t('Memory')}</th>
                    <th className="num">{t('Shards')}</th>
                    <th>{t('Up since')}</th>
                    <th>{t('Version')}</th>
                    <th>{t('Roles')}</th>
                    <th>
                      <span className="hidden-text">{t('Verbs')}</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((n) => (
                    <tr key={n.name}>
                      <td>
                        <State state={n.state} /> <Left node={n} /> <Sight node={n} />
                      </td>
                      <td>
                        <NodeLink name={n.name} />
                        {n.home ? <div className="sub">{t('at {node}', { node: n.home })}</div> : null}
                      </td>
                      <td className="num">
                        {t('{busy} of {total}', { busy: n.slots.busy, total: n.slots.total })}
                      </td>
                      <td className="num">
                        {t('{busy} of {total}', { busy: n.resources.cpu.used, total: n.resources.cpu.total })}
                      </td>
                      <td className="num">
                        {t('{busy} of {total}', {
                          busy: bytes(n.resources.memory.used),
                          total: bytes(n.resources.memory.total),
                        })}
                      </td>
                      <td className="num">{n.shards.owned}</td>
                      <td className="nowrap">
                        <Ago time={n.started_at} />
                      </td>
                      <td>{n.version}</td>
                      <td className="sub">{n.roles?.join(', ')}</td>
                      <td className="num">
                        <NodeVerb node={n} drain={() => asked.open('drain', n.name)} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Loaded>
      </Panel>
      <Kinds />
      <RefusedExtensions />
      <Confirm question={question} onClose={asked.close} />
    </>
  )
}

const origins: Record<Kind['origin'], string> = {
  skein: t('part of Skein'),
  extension: t('extension'),
  worker: t('task function'),
}

/** The kinds of tasks, without commands, and the members that have them. A kind with two declarations is marked. */
function Kinds() {
  const kinds = useQuery({
    queryKey: ['kinds'],
    queryFn: ({ signal }) => get<ListKind>('/kinds', {}, signal),
    refetchInterval: slow,
  })
  const all = kinds.data?.items ?? []
  const differ = differing(all)
  return (
    <Panel title={t('Kinds of tasks')} count={kinds.data?.items.length}>
      <Loaded
        query={kinds}
        isEmpty={() => all.length === 0}
        empty={t('No node or worker has a kind of its own.')}
      >
        {() => (
          <div className="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  <th>{t('Kind')}</th>
                  <th>{t('From##where it comes from')}</th>
                  <th>{t('Version')}</th>
                  <th>{t('Connections')}</th>
                  <th>{t('Nodes and workers')}</th>
                </tr>
              </thead>
              <tbody>
                {all.map((k) => (
                  <tr key={`${k.kind} ${k.origin} ${k.version} ${k.digest}`}>
                    <td className="mono">{k.kind}</td>
                    <td className="nowrap">{origins[k.origin]}</td>
                    <td className="nowrap">
                      {k.version ?? <span className="muted">–</span>}
                      {k.digest ? <code className="sub"> {k.digest.slice(0, 8)}</code> : null}
                      {differ.has(k.kind) ? <span className="sub"> · {t('members differ')}</span> : null}
                    </td>
                    <td className="sub">{k.connections.join(', ')}</td>
                    <td>
                      <span className="row">
                        {k.members.slice(0, membersShown).map((name) => (
                          <NodeLink key={name} name={name} />
                        ))}
                        {k.total > membersShown ? (
                          <span className="sub">{t('and {n} more', { n: k.total - membersShown })}</span>
                        ) : null}
                      </span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
    </Panel>
  )
}

/** The folders of extensions that nodes and workers do not use. Mostly there are none, and then nothing is shown. */
function RefusedExtensions() {
  const refused = useQuery({
    queryKey: ['refused-extensions'],
    queryFn: ({ signal }) => get<ListRefusedExtension>('/refused-extensions', {}, signal),
    refetchInterval: slow,
  })
  const all = refused.data?.items ?? []
  if (all.length === 0) return null
  return (
    <Panel title={t('Refused extensions')} count={all.length}>
      <div className="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th>{t('Folder')}</th>
              <th>{t('Why')}</th>
              <th>{t('Nodes and workers')}</th>
            </tr>
          </thead>
          <tbody>
            {all.map((x) => (
              <tr key={`${x.folder} ${x.why}`}>
                <td className="mono">{x.folder}</td>
                <td lang="en">{x.why}</td>
                <td>
                  <span className="row">
                    {x.members.slice(0, membersShown).map((name) => (
                      <NodeLink key={name} name={name} />
                    ))}
                    {x.total > membersShown ? (
                      <span className="sub">{t('and {n} more', { n: x.total - membersShown })}</span>
                    ) : null}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}

const membersShown = 6
