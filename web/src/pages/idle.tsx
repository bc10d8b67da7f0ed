// What keeps a workflow from starting by itself: a pause, or a source of events that does not reach the other system.
import { useQuery } from '@tanstack/react-query'
import { get, workflowPath } from '../api/client'
import { slow } from '../api/queries'
import type { Explanation } from '../api/types'
import { liveKey } from '../live/live'
import { t } from '../text/t'
import { Reasons } from './reasons'

/** Reasons that are no fault: the head of the page says that the workflow is paused, and an instant is to come. */
const plain = new Set(['workflow_paused', 'no_trigger', 'trigger_due', 'trigger_ended'])

export function Idle({ workflow }: { workflow: string }) {
  const query = useQuery({
    queryKey: liveKey([`workflow ${workflow}`], 'idle'),
    queryFn: ({ signal }) => get<Explanation>(`/workflows${workflowPath(workflow)}/explain`, {}, signal),
    refetchInterval: slow,
  })
  const reasons = query.data?.reasons.filter((r) => !plain.has(r.code)) ?? []
  if (reasons.length === 0) return null
  return (
    <section className="notice" aria-label={t('Why it does not start')}>
      <Reasons reasons={reasons} fallback="" full />
    </section>
  )
}
