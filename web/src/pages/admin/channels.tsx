// Channels: how people are notified of alerts. Each can be tested.
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { path, post, send } from '../../api/client'
import { hasSomewhere, useMe } from '../../api/me'
import { all, slow } from '../../api/queries'
import type { Channel, ChannelTest } from '../../api/types'
import { useVerb } from '../../api/verbs'
import { type Asked, useAsked, useQuestion } from '../../app/ask'
import { useNamespace, within } from '../../app/namespace'
import { Dialog } from '../../kit/dialog'
import { Loaded, Panel } from '../../kit/panel'
import { Ago, Button, Command, State } from '../../kit/parts'
import { Confirm, type Question, useToastVerb, VerbButton } from '../../kit/verbs'
import { t } from '../../text/t'
import { kinds, targetOf } from './channeldata'
import { ConfigForm, restore } from './configform'
import { AdminTop, Refused, Some } from './parts'

const subject = {
  noun: t('channel'),
  at: 'channels',
  kinds,
  kind: t('Kind'),
  placeholder: 'ops',
  naming: (name: string) => t('Rules name it: {how}.', { how: `to: ${name}` }),
}

/** The channel for which a form is open. Without a channel, the form makes a new one. */
type Target = { namespace: string; channel?: Channel }

export function Channels() {
  const { q = '', kind = '' } = useSearch({ from: '/admin/channels' })
  const navigate = useNavigate({ from: '/admin/channels' })
  const [ns] = useNamespace()
  const me = useMe()
  const reads = hasSomewhere(me, 'alert.channel')
  const query = useQuery({
    queryKey: ['channels'],
    queryFn: ({ signal }) => all<Channel>('/channels', {}, signal),
    refetchInterval: slow,
    enabled: me !== undefined && reads,
  })
  const asked = useAsked()
  const target = targetFor(asked, query.data, ns)
  const shown = (query.data ?? []).filter(
    (c) =>
      within(ns, c.namespace) &&
      `${c.namespace}/${c.name}`.toLowerCase().includes(q.toLowerCase()) &&
      (kind === '' || c.kind === kind),
  )
  const set = (change: { q?: string | undefined; kind?: string | undefined }) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true })
  return (
    <>
      <AdminTop
        here="/admin/channels"
        title={t('Channels')}
        actions={
          reads ? (
            <Button kind="primary" icon="plus" onPress={() => asked.open('channel')}>
              {t('New channel')}
            </Button>
          ) : null
        }
      >
        {t('How people are notified of alerts. A rule of a workflow names channels of its namespace.')}
      </AdminTop>
      {reads ? (
        <>
          <div className="row">
            <input
              data-filter
              className="input"
              type="search"
              placeholder={t('Filter by name')}
              aria-label={t('Filter by name')}
              value={q}
              onChange={(e) => set({ q: e.target.value || undefined })}
            />
            <select
              className="select"
              aria-label={t('Kind')}
              value={kind}
              onChange={(e) => set({ kind: e.target.value || undefined })}
            >
              <option value="">{t('any kind')}</option>
              {[...new Set([...Object.keys(kinds), ...(query.data ?? []).map((c) => c.kind)])].map((k) => (
                <option key={k}>{k}</option>
              ))}
            </select>
          </div>
          <Panel title={t('Channels')} count={query.data ? shown.length : undefined}>
            <Loaded
              query={query}
              isEmpty={() => shown.length === 0}
              empty={
                q || kind || ns ? (
                  <p>{t('No channel fits the filter.')}</p>
                ) : (
                  <>
                    <p>{t('There is no channel yet. Make one here, or from a file:')}</p>
                    <Command text="skein alert apply channels.yaml" />
                  </>
                )
              }
            >
              {() => (
                <Some of={shown}>
                  {(some) => (
                    <Table channels={some} onChange={(channel) => asked.open('change', fullName(channel))} />
                  )}
                </Some>
              )}
            </Loaded>
          </Panel>
        </>
      ) : (
        <Panel>
          <Refused what={t('the channels')} verb="alert.channel" somewhere />
        </Panel>
      )}
      <Dialog
        title={target?.channel ? t('Change {name}', { name: fullName(target.channel) }) : t('New channel')}
        isOpen={target !== undefined}
        onClose={asked.close}
      >
        {target ? (
          <ConfigForm
            subject={subject}
            namespace={target.namespace}
            one={target.channel}
            onClose={asked.close}
          />
        ) : null}
      </Dialog>
    </>
  )
}

const fullName = (c: Channel) => `${c.namespace}/${c.name}`

/** Returns the channel for which the form is open. */
function targetFor(asked: Asked, channels: Channel[] | undefined, ns: string): Target | undefined {
  if (asked.name === 'channel') return { namespace: ns }
  const channel = asked.name === 'change' ? channels?.find((c) => fullName(c) === asked.of) : undefined
  return channel && { namespace: channel.namespace, channel }
}

function Table({ channels, onChange }: { channels: Channel[]; onChange: (c: Channel) => void }) {
  const { run } = useToastVerb()
  const remove = (c: Channel): Question => ({
    title: t('Delete {name}', { name: fullName(c) }),
    text: t('Messages that wait for it are lost after 24 hours, unless a channel of this name comes back.'),
    answer: t('Delete the channel'),
    danger: true,
    act: () => send(path('channels', c.namespace, c.name), { method: 'DELETE' }),
    done: t('The channel {name} is deleted.', { name: fullName(c) }),
    undo: () => run(() => restore(subject, c)),
  })
  const { question, asked } = useQuestion({
    delete: (of) => {
      const c = channels.find((i) => fullName(i) === of)
      return c && remove(c)
    },
  })
  return (
    <div className="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th>{t('Namespace')}</th>
            <th>{t('Name')}</th>
            <th>{t('Kind')}</th>
            <th>{t('Sends to')}</th>
            <th>{t('Changed')}</th>
            <th>{t('By')}</th>
            <th>{t('Test')}</th>
            <th>
              <span className="hidden-text">{t('Verbs')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {channels.map((c) => (
            <tr key={fullName(c)}>
              <td className="sub">{c.namespace}</td>
              <td className="mono">{c.name}</td>
              <td>{c.kind}</td>
              <td className="sub target">{targetOf(c.config)}</td>
              <td className="nowrap sub">
                <Ago time={c.modified_at} />
              </td>
              <td className="sub">{c.user}</td>
              <td className="what">
                <Test of={c} />
              </td>
              <td className="num nowrap">
                <VerbButton
                  verb="alert.channel"
                  namespace={c.namespace}
                  kind="quiet"
                  onPress={() => onChange(c)}
                >
                  {t('Change')}
                </VerbButton>
                <VerbButton
                  verb="alert.channel"
                  namespace={c.namespace}
                  kind="quiet"
                  onPress={() => asked.open('delete', fullName(c))}
                >
                  {t('Delete')}
                </VerbButton>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Confirm question={question} onClose={asked.close} />
    </div>
  )
}

/** Sends a test message, and shows the answer of the channel. */
function Test({ of: c }: { of: Channel }) {
  const [answer, setAnswer] = useState<ChannelTest>()
  const { run, isPending } = useVerb((e) => setAnswer({ ok: false, error: e.message }))
  const test = () => {
    setAnswer(undefined)
    run(() => post<ChannelTest>(`${path('channels', c.namespace, c.name)}:test`), setAnswer)
  }
  return (
    <div className="row" role="status">
      <VerbButton verb="alert.channel" namespace={c.namespace} isDisabled={isPending} onPress={test}>
        {isPending ? t('Sending…') : t('Send a test')}
      </VerbButton>
      {answer?.ok ? <State state="sent" /> : null}
      {answer && !answer.ok ? (
        <span className="grow">
          <State state="failed" /> {answer.error}
        </span>
      ) : null}
    </div>
  )
}
