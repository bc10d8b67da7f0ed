import { useState } from 'react'
import { newKey, path, send } from '../api/client'
import type { Queue, QueueRequest } from '../api/types'
import { useVerb } from '../api/verbs'
import { Dialog, toast } from '../kit/dialog'
import { Button } from '../kit/parts'
import { ProblemBox } from '../kit/problem'

/** Changes the definition of a queue. Another change that came in between is refused by the server. */
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
    <Dialog title={`Change ${queue.name}`} isOpen={isOpen} onClose={onClose}>
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
        send(path('queues', begun.name), {
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
        toast(`${begun.name} was changed.`)
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
        <span>Limit</span>
        <input
          className="input"
          inputMode="numeric"
          value={limit}
          aria-invalid={!fits}
          // biome-ignore lint/a11y/noAutofocus: the dialog was opened to change this.
          autoFocus
          onChange={(e) => setLimit(e.target.value.trim())}
        />
        <small>Places for runs, and as many for tasks. Empty: any number.</small>
      </label>
      <label className="field">
        <span>Rate</span>
        <input className="input" value={rate} placeholder="10/m" onChange={(e) => setRate(e.target.value)} />
        <small>Runs that get a place: N/s, N/m or N/h. Empty: any number.</small>
      </label>
      <label className="field">
        <span>Order</span>
        <select className="select" value={order} onChange={(e) => setOrder(e.target.value)}>
          <option value="fifo">fifo: first come, first served</option>
          <option value="priority">priority: the most urgent first</option>
        </select>
      </label>
      <label className="field">
        <span>If it is full</span>
        <select className="select" value={overflow} onChange={(e) => setOverflow(e.target.value)}>
          <option value="wait">a new run waits</option>
          <option value="skip">a new run is skipped</option>
          <option value="fail">a new run fails</option>
        </select>
      </label>
      {error ? <ProblemBox error={error} /> : null}
      <footer>
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="primary" type="submit" isDisabled={!fits || isPending}>
          Change the queue
        </Button>
      </footer>
    </form>
  )
}
