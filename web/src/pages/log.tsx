import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useRun } from '../api/queries'
import { useKeys } from '../app/keys'
import { shortID } from '../kit/format'
import { Loaded } from '../kit/panel'
import { Span, State } from '../kit/parts'
import { useWatch } from '../live/live'
import { t } from '../text/t'
import { Head } from './head'
import { Log } from './logview'
import { useTask } from './taskpane'

/** The log of a task over the whole height of the window. */
export function LogPage() {
  const { id, task } = useParams({ from: '/r/$id/log/$task' })
  const { attempt } = useSearch({ from: '/r/$id/log/$task' })
  const navigate = useNavigate()
  useWatch(`run:${id}`)
  const query = useTask(id, task)
  const run = useRun(id)
  useKeys({ Escape: () => void navigate({ to: '/r/$id', params: { id }, search: { task } }) })
  return (
    <div className="log-page">
      <Loaded query={query} rows={12}>
        {(row) => {
          const number = attempt ? Number(attempt) : (row.attempts?.at(-1)?.number ?? 0)
          const a = row.attempts?.find((one) => one.number === number)
          return (
            <>
              <Head
                label={t('Log of {task}', { task })}
                title={
                  <>
                    <Link to="/r/$id" params={{ id }} search={{ task }}>
                      {run.data?.workflow ?? shortID(id)}
                    </Link>
                    <span>/ {task}</span>
                  </>
                }
              >
                <p className="row facts-line">
                  {a ? <State state={a.state} /> : null}
                  {a ? <span className="sub">{t('attempt {number}', { number: a.number })}</span> : null}
                  {a ? <span className="sub">{a.node}</span> : null}
                  {a && a.exit_code !== null ? (
                    <span className="sub">{t('exit code {code}', { code: a.exit_code })}</span>
                  ) : null}
                  {a?.started_at ? (
                    <span className="sub">
                      <Span from={a.started_at} to={a.finished_at} />
                    </span>
                  ) : null}
                </p>
              </Head>
              {a ? (
                <Log
                  key={`${task}/${number}`}
                  run={id}
                  task={task}
                  attempt={number}
                  ended={a.finished_at !== null}
                  attempts={row.attempts ?? []}
                />
              ) : (
                <p className="empty">{t('The task has not been started, so it has no log.')}</p>
              )}
            </>
          )
        }}
      </Loaded>
    </div>
  )
}
