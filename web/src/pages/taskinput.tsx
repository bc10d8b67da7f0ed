// The input of an attempt: its command, environment and limits, with the expressions evaluated.
import { useQuery } from '@tanstack/react-query'
import { get, path } from '../api/client'
import { useCan } from '../api/me'
import type { NamedValue, Run, Task, TaskDefinition } from '../api/types'
import { bytes, plural } from '../kit/format'
import { Loaded } from '../kit/panel'
import { Copy, Field, RunLink } from '../kit/parts'
import { needs } from '../kit/verbs'
import { liveKey } from '../live/live'
import { rich, t } from '../text/t'
import { term } from '../text/terms'
import { commandText, kindText } from './inputdata'

export function Input({ run, task, attempt }: { run: Run; task: Task; attempt: string | undefined }) {
  const can = useCan()
  const lacks = ['workflow.source', 'run.values'].find((verb) => !can(verb, run.namespace))
  const query = useQuery({
    queryKey: liveKey([`run ${run.id}`], 'definition', task.name, attempt ?? ''),
    queryFn: ({ signal }) =>
      get<TaskDefinition>(path('runs', run.id, 'tasks', task.name, 'definition'), { attempt }, signal),
    enabled: lacks === undefined,
  })
  if (lacks)
    return (
      <p className="empty">
        {`${t('You may not see what the task was given.')} ${needs(lacks, run.namespace)}`}
      </p>
    )
  return (
    <Loaded query={query} rows={6}>
      {(d) => <Shown d={d} run={run} />}
    </Loaded>
  )
}

function Shown({ d, run }: { d: TaskDefinition; run: Run }) {
  return (
    <div className="pad stack">
      {d.fault ? (
        <p className="notice" role="alert">
          {rich('This cannot be computed now: {fault}', { fault: <span lang="en">{d.fault}</span> })}
        </p>
      ) : null}
      {d.command.length > 0 ? <Text title={t('Command')} text={commandText(d.command)} /> : null}
      {d.script ? (
        <Text
          title={[d.script.interpreter ?? t('Script'), d.script.file, ...d.script.args]
            .filter(Boolean)
            .join(' ')}
          text={d.script.code ?? ''}
        />
      ) : null}
      {d.request ? (
        <>
          <Text
            title={
              d.request.connection
                ? t('Request over the connection {connection}', { connection: d.request.connection })
                : t('Request')
            }
            text={`${d.request.method} ${d.request.url}`}
          />
          <Pairs title={t('Headers')} all={d.request.headers} />
          {d.request.body === null ? null : <Text title={t('Body')} text={d.request.body} />}
        </>
      ) : null}
      {d.input === null ? null : <Text title={t('Input')} text={JSON.stringify(d.input, null, 1)} />}
      <Pairs title={t('Environment')} all={d.env} />
      {d.files.length > 0 ? (
        <div>
          <h3>{t('Files of other tasks')}</h3>
          <ul className="list">
            {d.files.map((f) => (
              <li key={`${f.name} ${f.value}`} className="row">
                <RunLink id={run.id} task={f.name}>
                  {f.name}
                </RunLink>
                <code>{f.value}</code>
              </li>
            ))}
          </ul>
        </div>
      ) : null}
      <dl className="facts">
        <Field label={t('Kind')}>{kindText(d)}</Field>
        {d.description ? <Field label={t('Description')}>{d.description}</Field> : null}
        <Field label={t('Needs')}>
          {d.needs.length === 0 ? <span className="muted">{t('nothing')}</span> : null}
          <span className="row">
            {d.needs.map((name) => (
              <RunLink key={name} id={run.id} task={name}>
                {name}
              </RunLink>
            ))}
          </span>
        </Field>
        <Field label={t('Runs if')}>
          {d.if ? <code>{d.if}</code> : <span className="muted">{t('what it needs succeeded')}</span>}
        </Field>
        {d.dir ? (
          <Field label={t('Folder')}>
            <code>{d.dir}</code>
          </Field>
        ) : null}
        {d.place ? <Field label={t('Place##where the task may run')}>{d.place}</Field> : null}
        {d.queue ? <Field label={t('Queue')}>{d.queue}</Field> : null}
        {d.cpu > 0 ? <Field label="CPU">{plural(d.cpu, 'core')}</Field> : null}
        {d.memory > 0 ? <Field label={t('Memory')}>{bytes(d.memory)}</Field> : null}
        {d.timeout ? <Field label={t('Timeout')}>{d.timeout}</Field> : null}
        {d.retries > 0 ? (
          <Field label={t('Retries')}>
            {d.retry_delay
              ? t('up to {n}, after {delay}', { n: d.retries, delay: d.retry_delay })
              : t('up to {n}', { n: d.retries })}
          </Field>
        ) : null}
        <Field label={t('Priority')}>{term(d.priority)}</Field>
      </dl>
      {d.secrets.length > 0 ? (
        <p className="sub">
          {t('••• stands for the value of a secret: {secrets}.', { secrets: d.secrets.join(', ') })}
        </p>
      ) : null}
      <p className="sub">
        {t(
          'Expressions are evaluated with the present outputs of other tasks. If one of them ran again, the attempt had an earlier output.',
        )}
      </p>
    </div>
  )
}

function Text({ title, text }: { title: string; text: string }) {
  return (
    <div>
      <h3 className="row spread">
        {title} {text ? <Copy text={text} /> : null}
      </h3>
      {text ? (
        <pre className="value" tabIndex={0}>
          {text}
        </pre>
      ) : null}
    </div>
  )
}

function Pairs({ title, all }: { title: string; all: NamedValue[] }) {
  if (all.length === 0) return null
  return (
    <div>
      <h3>{title}</h3>
      <dl className="facts value" tabIndex={0}>
        {all.map((p) => (
          <Field key={p.name} label={<code>{p.name}</code>}>
            <code>{p.value}</code>
          </Field>
        ))}
      </dl>
    </div>
  )
}
