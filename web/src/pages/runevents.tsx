import { useInfiniteQuery } from '@tanstack/react-query'
import { get, path } from '../api/client'
import type { Event, ListEvent } from '../api/types'
import { clock, full, plural } from '../kit/format'
import { Loaded, Panel } from '../kit/panel'
import { Button, State } from '../kit/parts'
import { labelIn } from '../kit/states'
import { liveKey } from '../live/live'
import { t } from '../text/t'
import { term } from '../text/terms'

/**
 * The history of a run: what happened, when, and who did it. If a task is given, only the events of this
 * task.
 */
export function Events({ id, task }: { id: string; task?: string | undefined }) {
  const query = useInfiniteQuery({
    queryKey: liveKey([`run ${id}`], 'events'),
    queryFn: ({ pageParam, signal }) =>
      get<ListEvent>(path('runs', id, 'events'), { limit: 500, cursor: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next ?? undefined,
  })
  const events = (query.data?.pages ?? [])
    .flatMap((p) => p.items)
    .filter((e) => !task || e.task === task || e.task === null)
  return (
    <Panel title={task ? t('History, with the task {task}', { task }) : t('History')}>
      <Loaded query={query} rows={8}>
        {() => (
          <>
            <div className="scroll" tabIndex={0}>
              <table>
                <thead>
                  <tr>
                    <th>{t('Time')}</th>
                    <th>{t('What')}</th>
                    <th>{t('Task')}</th>
                    <th>{t('Detail')}</th>
                    <th>{t('By')}</th>
                  </tr>
                </thead>
                <tbody>
                  {events.map((e, i) => (
                    <tr key={`${e.seq} ${i}`}>
                      <td className="nowrap mono" title={full(e.at)}>
                        {clock(e.at)}
                      </td>
                      <td className="nowrap">
                        {e.state ? (
                          <State state={e.state}>{`${term(e.kind)}: ${labelIn(e.state)}`}</State>
                        ) : (
                          term(e.kind)
                        )}
                      </td>
                      <td className="nowrap">{e.task ?? ''}</td>
                      <td className="sub">{detail(e)}</td>
                      <td className="nowrap sub">{e.actor ?? e.node ?? ''}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {query.hasNextPage ? (
              <footer className="pager">
                <Button onPress={() => void query.fetchNextPage()} isDisabled={query.isFetchingNextPage}>
                  {t('Later events')}
                </Button>
              </footer>
            ) : null}
          </>
        )}
      </Loaded>
    </Panel>
  )
}

function detail(e: Event): string {
  const parts = [
    e.attempt ? t('attempt {attempt}', { attempt: e.attempt }) : '',
    e.exit_code === null ? '' : t('exit code {code}', { code: e.exit_code }),
    e.tasks ? plural(e.tasks, 'task') : '',
    e.text ?? '',
    e.reason ?? '',
  ]
  return parts.filter((p) => p !== '').join(' · ')
}
