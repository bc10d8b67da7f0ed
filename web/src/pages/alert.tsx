// One alert: what it is about, and what each channel was told, with the tries.
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { get, path } from '../api/client'
import { useCan } from '../api/me'
import { quick } from '../api/queries'
import type { AlertDetail, AlertWord } from '../api/types'
import { count } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Clock, Command, Field, RunLink, State, WorkflowLink } from '../kit/parts'
import { Confirm, type Question, VerbButton } from '../kit/verbs'
import { liveKey, useWatch } from '../live/live'
import { isOver, messageOf, workflowOf } from './alertdata'
import { acknowledgeOf, resolveOf, Severity } from './alertparts'
import { Head } from './head'

export function AlertPage() {
  const { id } = useParams({ from: '/alerts/$id' })
  useWatch()
  const query = useQuery({
    queryKey: liveKey(['runs'], 'alert', id),
    queryFn: ({ signal }) => get<AlertDetail>(path('alerts', id), {}, signal),
    refetchInterval: quick,
  })
  return (
    <Loaded query={query} rows={10}>
      {(a) => <One a={a} />}
    </Loaded>
  )
}

function One({ a }: { a: AlertDetail }) {
  const [question, ask] = useState<Question>()
  return (
    <>
      <Head
        title={
          <>
            <Link to="/alerts">Alert</Link> of <WorkflowLink name={workflowOf(a)} />
          </>
        }
        label={`Alert of ${workflowOf(a)}`}
        actions={
          isOver(a) ? null : (
            <>
              {a.state === 'open' ? (
                <VerbButton
                  verb="alert.operate"
                  namespace={a.namespace}
                  kind="primary"
                  onPress={() => ask(acknowledgeOf(a))}
                >
                  Acknowledge…
                </VerbButton>
              ) : null}
              <VerbButton verb="alert.operate" namespace={a.namespace} onPress={() => ask(resolveOf(a))}>
                Resolve…
              </VerbButton>
            </>
          )
        }
      >
        <p className="row facts-line">
          <State state={a.state} />
          <Severity of={a.severity} />
          <span className="sub">
            since <Ago time={a.opened_at ?? a.created_at} />
          </span>
        </p>
      </Head>
      <Panel title="What happened">
        <dl className="facts pad">
          <Field label="Reason">{a.reason ?? a.event}</Field>
          {a.message ? <Field label="Message of the rule">{a.message}</Field> : null}
          <Field label="Rule">{a.rule}</Field>
          <Field label="Newest event">
            {a.event}
            {a.count > 1 ? <span className="sub"> · {count(a.count)} in a row</span> : null}
          </Field>
          {a.run ? (
            <Field label="Run">
              <RunLink id={a.run} />
            </Field>
          ) : null}
          {a.trigger ? <Field label="Trigger">{a.trigger}</Field> : null}
          <Field label="Opened">
            <Clock time={a.opened_at} />
          </Field>
          {a.acknowledged ? (
            <Field label="Acknowledged">
              <Word of={a.acknowledged} />
            </Field>
          ) : null}
          {a.resolved ? (
            <Field label="Resolved">
              <Word of={a.resolved} />
            </Field>
          ) : null}
        </dl>
      </Panel>
      <Notices a={a} />
      <Command text={`skein alert get ${a.id}`} />
      <Confirm question={question} onClose={() => ask(undefined)} />
    </>
  )
}

function Word({ of: w }: { of: AlertWord }) {
  return (
    <>
      <Clock time={w.at} />
      {w.user ? ` by ${w.user}` : ''}
      {w.run ? (
        <>
          {' by '}
          <RunLink id={w.run}>the run that succeeded</RunLink>
        </>
      ) : null}
      {w.reason ? `: ${w.reason}` : ''}
    </>
  )
}

function Notices({ a }: { a: AlertDetail }) {
  const can = useCan()('alert.channel', a.namespace)
  const all = a.notices ?? []
  return (
    <Panel title="Messages" count={all.length}>
      {all.length === 0 ? (
        <p className="empty">No channel was told yet.</p>
      ) : (
        <div className="scroll" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th>State</th>
                <th>Message</th>
                <th>Channel</th>
                <th className="num">Tries</th>
                <th>Made</th>
                <th>Sent, or next try</th>
                <th>Error of the last try</th>
              </tr>
            </thead>
            <tbody>
              {all.map((n) => (
                <tr key={`${n.seq} ${n.channel}`}>
                  <td>
                    <State state={n.state} />
                  </td>
                  <td className="nowrap">{messageOf(n, all, isOver(a))}</td>
                  <td className="nowrap">
                    {can ? (
                      <Link to="/admin/channels" search={{ q: `${a.namespace}/${n.channel}` }}>
                        {n.channel}
                      </Link>
                    ) : (
                      n.channel
                    )}
                  </td>
                  <td className="num">{count(n.tries)}</td>
                  <td className="nowrap">
                    <Clock time={n.created_at} />
                  </td>
                  <td className="nowrap">
                    {n.ended_at ? <Clock time={n.ended_at} /> : <Ago time={n.next_at} />}
                  </td>
                  <td className="what">{n.error ?? <span className="muted">–</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}
