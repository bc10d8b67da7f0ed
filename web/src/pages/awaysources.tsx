// Sources of events that do not reach the other system, for Home.
import { useQuery } from '@tanstack/react-query'
import { all, slow } from '../api/queries'
import type { Schedule } from '../api/types'
import { Ago, Mark, TriggerLink, WorkflowLink } from '../kit/parts'
import { rich } from '../text/t'
import { isAway, sourceKinds } from './sourcedata'

/** The active triggers whose source is away. */
export const useAway = () =>
  useQuery({
    queryKey: ['sources away'],
    queryFn: async ({ signal }) =>
      (await all<Schedule>('/schedules', { kind: sourceKinds, state: 'active' }, signal)).filter(isAway),
    refetchInterval: slow,
  })

export function Away({ s }: { s: Schedule }) {
  return (
    <li>
      <Mark state="away" />
      <div className="grow">
        <WorkflowLink name={s.workflow} tab="triggers" /> <TriggerLink workflow={s.workflow} name={s.name} />
        <p className="sub">
          {rich('The source is away: {why}', { why: <span lang="en">{s.source?.why}</span> })}
        </p>
      </div>
      <span className="sub nowrap">
        <Ago time={s.source?.away_at} />
      </span>
    </li>
  )
}
