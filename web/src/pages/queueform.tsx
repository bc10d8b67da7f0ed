import { useState } from 'react'
import { newKey, send } from '../api/client'
import type { Queue, QueueRequest } from '../api/types'
import { useVerb } from '../api/verbs'
import { Dialog, toast } from '../kit/dialog'
import { Button } from '../kit/parts'
import { ProblemBox } from '../kit/problem'
import { t } from '../text/t'
import { queuePath } from './queuedata'

/** Changes the definition of a queue. The server refuses the change if another change came in between. */
export function QueueForm({
  queue,
  isOpen,
  onClose,
}: {
  queue: Queue
  isOpen: boolean
  onClose: () => void
}) {
  return (
    <Dialog title={t('Change {name}', { name: queue.name })} isOpen={isOpen} onClose={onClose}>
      <Form queue={queue} onClose={onClose} />
    </Dialog>
  )
}

function Form({ queue, onClose }: { queue: Queue; onClose: () => void }) {
  const [begun] = useState(queue)
  const [limit, setLimit] = useState(begun.limit === null ? '' : String(begun.limit))
  const [rate, setRate] = useState(begun.rate ?? '')
  const [order, setOrder] = useState(begun.order)
  const [overflow, setOverflow] = useState(begun.overflow)
  const [error, setError] = useState<Error>()
  const { run, isPending } = useVerb(setError)
  const fits = limit === '' || /^[1-9]\d{0,6}$/.test(limit)
  const save = () =>
    run(
      () =>
        send(queuePath(begun.name), {
          method: 'PUT',
          headers: { 'If-Match': `"${begun.revision}"` },
          key: newKey(),
          body: {
            ...(limit === '' ? {} : { limit: Number(limit) }),
            ...(rate.trim() === '' ? {} : { rate: rate.trim() }),
            ...(begun.per_key === null ? {} : { per_key: begun.per_key }),
            order,
            overflow,
          } as QueueRequest,
        }),
      () => {
        onClose()
        toast(t('{name} was changed.', { name: begun.name }))
      },
    )
  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault()
        if (fits && !isPending) save()
      }}
    >
      <label className="field">
        <span>{t('Limit')}</span>
        <input
          className="input"
          inputMode="numeric"
          value={limit}
          aria-invalid={!fits}
          // biome-ignore lint/a11y/noAutofocus: the dialog was opened to change this.
          autoFocus
          onChange={(e) => setLimit(e.target.value.trim())}
        />
        <small>{t('Places for runs, and as many for tasks. Empty: any number.')}</small>
      </label>
      <label className="field">
        <span>{t('Rate')}</span>
        <input className="input" value={rate} placeholder="10/m" onChange={(e) => setRate(e.target.value)} />
        <small>{t('Runs that get a place: N/s, N/m or N/h. Empty: any number.')}</small>
      </label>
      <label className="field">
        <span>{t('Order')}</span>
        <select className="select" value={order} onChange={(e) => setOrder(e.target.value)}>
          <option value="fifo">{t('fifo: first come, first served')}</option>
          <option value="priority">{t('priority: the most urgent first')}</option>
        </select>
      </label>
      <label className="field">
        <span>{t('If it is full')}</span>
        <select className="select" value={overflow} onChange={(e) => setOverflow(e.target.value)}>
          <option value="wait">{t('a new run waits')}</option>
          <option value="skip">{t('a new run is skipped')}</option>
          <option value="fail">{t('a new run fails')}</option>
        </select>
      </label>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>{t('Cancel')}</Button>
        <Button kind="primary" type="submit" isDisabled={!fits || isPending}>
          {t('Change the queue')}
        </Button>
      </footer>
    </form>
  )
}
