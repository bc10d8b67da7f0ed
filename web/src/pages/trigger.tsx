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
import { Ago, Button, Clock, Command, Field, RuleWords, RunLink, State, WorkflowLink } from '../kit/parts'
import { labelIn } from '../kit/states'
import { Confirm, type Question, useToastVerb, VerbButton } from '../kit/verbs'
import { liveKey, useWatch } from '../live/live'
import { rich, t } from '../text/t'
import { term } from '../text/terms'
import { isTimed } from './backfilldata'
import { zoneOf } from './calendardata'
import { Head } from './head'
import { Pauses } from './pauserange'
import { FireWhy, fireWords } from './reasons'
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
        label={t('Trigger {name}', { name: s.name })}
        title={
          <>
            <WorkflowLink name={s.workflow} tab="triggers" /> / {s.name} <State state={s.state} />
          </>
        }
        actions={s.state === 'ended' ? null : <Verbs s={s} open={asked.open} resume={() => act(resume)} />}
      >
        <p className="sub">
          <RuleWords s={s} /> {zoneOf(s)}
        </p>
        {s.state === 'active' || !s.reason ? null : (
          <p className="sub">
            {s.paused_by ? t('Paused by {by}: {reason}', { by: s.paused_by, reason: s.reason }) : s.reason}
          </p>
        )}
      </Head>
      <div className="columns">
        <SourcePanel s={s} onSeek={() => asked.open('seek')} />
        <About s={s} />
        {s.sensor ? null : <NextOf s={s} where={where} />}
        <Pauses title={t('Planned pauses')} schedules={[s]} />
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
          {t('Backfill…')}
        </Link>
      ) : null}
      {isTimed(s) ? (
        <Link className="button" to="/schedules/calendar" search={{ workflow: s.workflow, trigger: s.name }}>
          {t('Calendar')}
        </Link>
      ) : null}
      <VerbButton {...verb} icon="play" onPress={() => open('fire')}>
        {t('Fire now…')}
      </VerbButton>
      {s.state === 'paused' ? (
        <VerbButton {...verb} onPress={resume}>
          {t('Resume')}
        </VerbButton>
      ) : (
        <VerbButton {...verb} icon="pause" onPress={() => open('pause')}>
          {t('Pause…')}
        </VerbButton>
      )}
    </>
  )
}

const pauseOf = (s: Schedule, where: string, undo: () => void): Question => ({
  title: t('Pause {name}', { name: s.name }),
  text: s.source
    ? t('It reads no events until you resume it. Then it goes on where it was.')
    : t('Instants that pass are recorded as skipped. They are not made up for when you resume it.'),
  answer: t('Pause the trigger'),
  reason: 'optional',
  act: (reason, key) => post(`${where}:pause`, { reason }, key),
  done: t('{name} is paused.', { name: s.name }),
  undo,
})

const fireOf = (s: Schedule, where: string): Question => ({
  title: t('Fire {name} now', { name: s.name }),
  text: [
    s.state === 'paused'
      ? t('It starts one run of {workflow} by hand, although it is paused.', { workflow: s.workflow })
      : t('It starts one run of {workflow} by hand.', { workflow: s.workflow }),
    s.source ? t('Its parameters get no event.') : t('Its schedule stays as it is.'),
  ].join(' '),
  answer: t('Fire it'),
  reason: 'optional',
  act: async (reason, key) => {
    const done = await post<Occurrence>(`${where}:trigger`, { reason }, key)
    toast(
      done.run
        ? t('{name} fired: its run is in the ledger.', { name: s.name })
        : t('{name} did not start a run: {reason}.', {
            name: s.name,
            reason: fireWords(done) ?? done.reason ?? labelIn(done.outcome),
          }),
      done.run ? {} : { bad: true },
    )
  },
})

function About({ s }: { s: Schedule }) {
  return (
    <Panel title={t('About')}>
      <dl className="facts pad">
        <Field label={t('Kind')}>{s.kind}</Field>
        {s.expression ? (
          <Field label={t('Rule')}>
            <code className="cursor">{s.expression}</code>
          </Field>
        ) : null}
        <Field label={t('If a run is unfinished')}>{overlapText(s)}</Field>
        {s.catchup ? (
          <Field label={t('After an outage')}>{t('catch up {which}', { which: term(s.catchup) })}</Field>
        ) : null}
        {s.delay_tolerance ? <Field label={t('Late after')}>{s.delay_tolerance}</Field> : null}
        <Field label={t('Fired')}>{plural(s.fired, 'time')}</Field>
        <Field label={t('Declared')}>
          {rich('version {version}, {time}', { version: s.version, time: <Ago time={s.since} /> })}
        </Field>
      </dl>
    </Panel>
  )
}

const overlaps: Record<Schedule['overlap'], string> = {
  skip: t('skip the instant'),
  queue: t('queue the run'),
  cancel_running: t('stop it'),
  allow: t('start another one'),
  wait: t('read no further'),
}

const overlapText = (s: Schedule) =>
  s.max_concurrent_runs === null
    ? t('start another one')
    : t('{what}, at {runs}', {
        what: overlaps[s.overlap],
        runs: plural(s.max_concurrent_runs, 'run'),
      })

function NextOf({ s, where }: { s: Schedule; where: string }) {
  const next = useQuery({
    queryKey: ['next of', where, s.next],
    queryFn: ({ signal }) => get<NextFires>(`${where}/next`, { n: 5 }, signal),
  })
  return (
    <Panel title={s.state === 'paused' ? t('Next, if it were not paused') : t('Next##of a schedule')}>
      <Loaded query={next} isEmpty={(d) => d.items.length === 0} empty={t('It fires no more.')}>
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
    <Panel title={t('Address')}>
      <div className="pad stack">
        <Command text={url} />
        <p className="sub">{t('The call is a POST that the secret of the webhook signs.')}</p>
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
      title={t('Ledger')}
      actions={
        <Link to="/runs" search={{ workflow: s.workflow, trigger: s.name }}>
          {t('Its runs')}
        </Link>
      }
    >
      <Loaded query={fires} isEmpty={() => all.length === 0} empty={t('It has decided nothing yet.')}>
        {() => (
          <>
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>{t('Outcome')}</th>
                    <th>{s.sensor ? t('When') : t('For')}</th>
                    <th>{t('Reason')}</th>
                    <th>{t('Run')}</th>
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
                        {f.count > 1 ? (
                          <span className="sub"> {t('and {n} more', { n: f.count - 1 })}</span>
                        ) : null}
                      </td>
                      <td className="sub">
                        <FireWhy f={f} />
                      </td>
                      <td>{f.run ? <RunLink id={f.run} /> : null}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {fires.hasNextPage ? (
              <footer className="pager">
                <Button onPress={() => void fires.fetchNextPage()} isDisabled={fires.isFetchingNextPage}>
                  {t('Earlier')}
                </Button>
              </footer>
            ) : null}
          </>
        )}
      </Loaded>
    </Panel>
  )
}
