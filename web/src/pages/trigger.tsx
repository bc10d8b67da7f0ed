// One trigger: its rule, its source, its next instants, and the ledger of its fires.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { address, get, path, post } from '../api/client'
import { slow } from '../api/queries'
import type { ListFire, NextFires, Occurrence, Schedule } from '../api/types'
import { plainVerb } from '../api/verbs'
import { useQuestion } from '../app/ask'
import { toast } from '../kit/dialog'
import { plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Ago, Button, Clock, Command, Field, RunLink, State, WorkflowLink } from '../kit/parts'
import { Confirm, type Question, useToastVerb, VerbButton } from '../kit/verbs'
import { liveKey, useWatch } from '../live/live'
import { isTimed } from './backfilldata'
import { zoneOf } from './calendardata'
import { Head } from './head'
import { SeekDialog, SourcePanel } from './sourceparts'

const keyOf = (workflow: string) => `workflow ${workflow}`

export function TriggerPage() {
  const { ns, workflow, trigger } = useParams({ from: '/t/$ns/$workflow/$trigger' })
  const name = ns === 'default' ? workflow : `${ns}/${workflow}`
  useWatch(`workflow:${name}`)
  const where = path('schedules', ns, workflow, trigger)
  const query = useQuery({
    queryKey: liveKey([keyOf(name)], 'trigger', trigger),
    queryFn: ({ signal }) => get<Schedule>(where, {}, signal),
    refetchInterval: slow,
  })
  return (
    <Loaded query={query} rows={10}>
      {(s) => <One s={s} where={where} />}
    </Loaded>
  )
}

function One({ s, where }: { s: Schedule; where: string }) {
  const { run: act } = useToastVerb()
  const resume = () => plainVerb(`${where}:resume`, {})
  const { question, asked } = useQuestion({
    pause: () => (s.state === 'active' ? pauseOf(s, where, () => act(resume)) : undefined),
    fire: () => (s.state === 'ended' ? undefined : fireOf(s, where)),
  })
  return (
    <>
      <Head
        label={`Trigger ${s.name}`}
        title={
          <>
            <WorkflowLink name={s.workflow} tab="triggers" /> / {s.name} <State state={s.state} />
          </>
        }
        actions={s.state === 'ended' ? null : <Verbs s={s} open={asked.open} resume={() => act(resume)} />}
      >
        <p className="sub">
          {s.description} {zoneOf(s)}
        </p>
        {s.state === 'active' || !s.reason ? null : (
          <p className="sub">
            {s.paused_by ? `Paused by ${s.paused_by}: ` : ''}
            {s.reason}
          </p>
        )}
      </Head>
      <div className="columns">
        <SourcePanel s={s} onSeek={() => asked.open('seek')} />
        <About s={s} />
        {s.sensor ? null : <NextOf s={s} where={where} />}
      </div>
      {s.kind === 'webhook' ? <Hook s={s} /> : null}
      <Ledger s={s} where={where} />
      <Confirm question={question} onClose={asked.close} />
      {s.source ? <SeekDialog s={s} isOpen={asked.name === 'seek'} onClose={asked.close} /> : null}
    </>
  )
}

function Verbs({ s, open, resume }: { s: Schedule; open: (name: string) => void; resume: () => void }) {
  const verb = { verb: 'schedule.operate', namespace: s.namespace }
  return (
    <>
      {isTimed(s) ? (
        <Link className="button" to="/backfills/new" search={{ workflow: s.workflow, trigger: s.name }}>
          Backfill…
        </Link>
      ) : null}
      <VerbButton {...verb} icon="play" onPress={() => open('fire')}>
        Fire now…
      </VerbButton>
      {s.state === 'paused' ? (
        <VerbButton {...verb} onPress={resume}>
          Resume
        </VerbButton>
      ) : (
        <VerbButton {...verb} icon="pause" onPress={() => open('pause')}>
          Pause…
        </VerbButton>
      )}
    </>
  )
}

const pauseOf = (s: Schedule, where: string, undo: () => void): Question => ({
  title: `Pause ${s.name}`,
  text: s.source
    ? 'It reads no events until you resume it. Then it goes on where it was.'
    : 'Instants that pass are recorded as skipped. They are not made up for when you resume it.',
  answer: 'Pause the trigger',
  reason: 'optional',
  act: (reason, key) => post(`${where}:pause`, { reason }, key),
  done: `${s.name} is paused.`,
  undo,
})

const fireOf = (s: Schedule, where: string): Question => ({
  title: `Fire ${s.name} now`,
  text: `It starts one run of ${s.workflow} by hand${s.state === 'paused' ? ', although it is paused' : ''}. ${
    s.source ? 'Its parameters get no event.' : 'Its schedule stays as it is.'
  }`,
  answer: 'Fire it',
  reason: 'optional',
  act: async (reason, key) => {
    const done = await post<Occurrence>(`${where}:trigger`, { reason }, key)
    toast(
      done.run
        ? `${s.name} fired: its run is in the ledger.`
        : `${s.name} did not start a run: ${done.reason ?? done.outcome}.`,
      done.run ? {} : { bad: true },
    )
  },
})

function About({ s }: { s: Schedule }) {
  return (
    <Panel title="About">
      <dl className="facts pad">
        <Field label="Kind">{s.kind}</Field>
        {s.expression ? (
          <Field label="Rule">
            <code className="cursor">{s.expression}</code>
          </Field>
        ) : null}
        <Field label="If a run is unfinished">{overlapText(s)}</Field>
        {s.catchup ? <Field label="After an outage">catch up {s.catchup}</Field> : null}
        {s.delay_tolerance ? <Field label="Late after">{s.delay_tolerance}</Field> : null}
        <Field label="Fired">{plural(s.fired, 'time')}</Field>
        <Field label="Declared">
          version {s.version}, <Ago time={s.since} />
        </Field>
      </dl>
    </Panel>
  )
}

const overlaps: Record<Schedule['overlap'], string> = {
  skip: 'skip the instant',
  queue: 'queue the run',
  cancel_running: 'stop it',
  allow: 'start another one',
  wait: 'read no further',
}

const overlapText = (s: Schedule) =>
  s.max_concurrent_runs === null
    ? 'start another one'
    : `${overlaps[s.overlap]}, at ${plural(s.max_concurrent_runs, 'run')}`

function NextOf({ s, where }: { s: Schedule; where: string }) {
  const next = useQuery({
    queryKey: ['next of', where, s.next],
    queryFn: ({ signal }) => get<NextFires>(`${where}/next`, { n: 5 }, signal),
  })
  return (
    <Panel title={s.state === 'paused' ? 'Next, if it were not paused' : 'Next'}>
      <Loaded query={next} isEmpty={(d) => d.items.length === 0} empty="It fires no more.">
        {({ items }) => (
          <ul className="list pad">
            {items.map((i) => (
              <li key={i.time} className="row spread">
                <Clock time={i.time} />
                <span className="sub">
                  <Ago time={i.time} />
                </span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Panel>
  )
}

function Hook({ s }: { s: Schedule }) {
  const url = new URL(
    address(path('hooks', s.namespace, s.workflow.split('/').pop() ?? '', s.name)),
    location.href,
  ).href
  return (
    <Panel title="Address">
      <div className="pad stack">
        <Command text={url} />
        <p className="sub">The call is a POST that the secret of the webhook signs.</p>
      </div>
    </Panel>
  )
}

/** The fires of the trigger, the newest first. */
function Ledger({ s, where }: { s: Schedule; where: string }) {
  const fires = useInfiniteQuery({
    queryKey: liveKey([keyOf(s.workflow)], 'fires of', s.name),
    queryFn: ({ pageParam, signal }) =>
      get<ListFire>(`${where}/fires`, { limit: 50, cursor: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next ?? undefined,
    refetchInterval: slow,
  })
  const all = (fires.data?.pages ?? []).flatMap((p) => p.items)
  return (
    <Panel
      title="Ledger"
      actions={
        <Link to="/runs" search={{ workflow: s.workflow, trigger: s.name }}>
          Its runs
        </Link>
      }
    >
      <Loaded query={fires} isEmpty={() => all.length === 0} empty="It has decided nothing yet.">
        {() => (
          <>
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>Outcome</th>
                    <th>{s.sensor ? 'When' : 'For'}</th>
                    <th>Reason</th>
                    <th>Run</th>
                  </tr>
                </thead>
                <tbody>
                  {all.map((f) => (
                    <tr key={`${f.at} ${f.key} ${f.outcome}`}>
                      <td>
                        <State state={f.outcome} />
                      </td>
                      <td className="nowrap">
                        <Clock time={f.at} />
                        {f.count > 1 ? <span className="sub"> and {f.count - 1} more</span> : null}
                      </td>
                      <td className="sub">{f.reason ?? ''}</td>
                      <td>{f.run ? <RunLink id={f.run} /> : null}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {fires.hasNextPage ? (
              <footer className="pager">
                <Button onPress={() => void fires.fetchNextPage()} isDisabled={fires.isFetchingNextPage}>
                  Earlier
                </Button>
              </footer>
            ) : null}
          </>
        )}
      </Loaded>
    </Panel>
  )
}
