// About: the program that answers, its database, and the sources of the page.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { basePath, get } from '../../api/client'
import { allows, useMe } from '../../api/me'
import { useNodes, useStatus } from '../../api/queries'
import type { Verification } from '../../api/types'
import { bytes, count } from '../../kit/format'
import { Loaded, Panel } from '../../kit/panel'
import { Command, Copy, Field, Span, State } from '../../kit/parts'
import { ProblemBox } from '../../kit/problem'
import { VerbButton } from '../../kit/verbs'
import { rich, t } from '../../text/t'
import { AdminTop, Refused } from './parts'

declare const SKEIN_STAMP: string

type Version = { version: string; api: string; go_version: string }

export function About() {
  const me = useMe()
  const version = useQuery({
    queryKey: ['version'],
    queryFn: async ({ signal }): Promise<Version> =>
      (await fetch(`${basePath}/version`, { signal, headers: { Accept: 'application/json' } })).json(),
  })
  return (
    <>
      <AdminTop here="/admin/about" title={t('About')}>
        {t('Which program answers, and what this page is built from.')}
      </AdminTop>
      <div className="columns">
        <Panel title={t('Program')}>
          <Loaded query={version}>
            {(v) => (
              <dl className="facts pad">
                <Field label="Skein">{v.version}</Field>
                <Field label={t('REST interface')}>{v.api}</Field>
                <Field label="Go">{v.go_version}</Field>
                <Field label={t('This page')}>
                  <code title={t('SHA-256 of the files that the page is built from')}>
                    {SKEIN_STAMP.slice(0, 12)}
                  </code>{' '}
                  <Copy text={SKEIN_STAMP} label={t('Copy the build of the page')} />
                </Field>
                <Field label={t('Licence')}>{t('Apache License 2.0')}</Field>
              </dl>
            )}
          </Loaded>
        </Panel>
        <Panel title={t('Read on')}>
          <ul className="list pad">
            <Read path="/api/docs">{t('The REST interface, with every call')}</Read>
            <Read path="/api/v1/openapi.json">{t('The same as an OpenAPI document')}</Read>
            <Read path="/api/v1/schema/workflow.json">{t('The schema of workflow files')}</Read>
            <Read path="/-/licences.txt">{t('Licences of the packages in this page')}</Read>
          </ul>
          <p className="sub pad">{t('Each command explains itself:')}</p>
          <div className="pad">
            <Command text="skein help" />
          </div>
        </Panel>
      </div>
      {me && !allows(me, 'node.read', '*') ? (
        <Panel>
          <Refused what={t('the nodes and their database')} verb="node.read" />
        </Panel>
      ) : (
        <Kept />
      )}
      <Recount />
    </>
  )
}

function Read({ path, children }: { path: string; children: string }) {
  return (
    <li>
      <a href={`${basePath}${path}`}>{children}</a> <code className="sub">{path}</code>
    </li>
  )
}

/** The database, and the members with their versions. */
function Kept() {
  const status = useStatus()
  const nodes = useNodes()
  const versions = [...new Set((nodes.data?.items ?? []).map((n) => n.version))].sort()
  return (
    <Panel title={t('Database')}>
      <Loaded query={status}>
        {({ store, node, started_at }) => (
          <dl className="facts pad">
            <Field label={t('Kept in')}>{store.engine}</Field>
            <Field label={t('Place##of the database')}>
              <code>{store.location}</code>
            </Field>
            <Field label={t('Size')}>{bytes(store.bytes)}</Field>
            <Field label={t('Format')}>{store.format}</Field>
            <Field label={t('Shards')}>{count(store.shards)}</Field>
            <Field label={t('Cluster')}>
              <code>{store.cluster}</code>
            </Field>
            <Field label={t('Answers')}>
              {rich('{node}, up for {time}', { node, time: <Span from={started_at} /> })}
            </Field>
            {versions.length > 0 ? (
              <Field label={t('Versions in the cluster')}>{versions.join(', ')}</Field>
            ) : null}
          </dl>
        )}
      </Loaded>
    </Panel>
  )
}

/** Checks all stored rows, if the caller may request this. */
function Recount() {
  const [asked, setAsked] = useState(false)
  const query = useQuery({
    queryKey: ['verify'],
    queryFn: ({ signal }) => get<Verification>('/verify', {}, signal),
    enabled: asked,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
  })
  const found = query.data?.violations ?? []
  return (
    <Panel
      title={t('Recount')}
      actions={
        <VerbButton
          verb="verify"
          namespace=""
          isDisabled={query.isFetching}
          onPress={() => (asked ? void query.refetch() : setAsked(true))}
        >
          {query.isFetching ? t('Counting…') : t('Recount everything')}
        </VerbButton>
      }
    >
      <div className="pad stack" role="status">
        <p className="sub">
          {t(
            'It reads every row and checks that they agree. With millions of runs it takes minutes. skein doctor finds what is wrong around the database.',
          )}
        </p>
        {query.error ? <ProblemBox error={query.error} /> : null}
        {query.data && found.length === 0 ? <State state="succeeded">{t('All rows agree')}</State> : null}
        {found.length > 0 ? (
          <ul className="list">
            {found.map((v) => (
              <li key={`${v.rule} ${v.run} ${v.task} ${v.what}`}>
                <State state="failed">{v.rule}</State> {v.what}{' '}
                <span className="sub">
                  {v.run} {v.task}
                </span>
              </li>
            ))}
          </ul>
        ) : null}
      </div>
    </Panel>
  )
}
