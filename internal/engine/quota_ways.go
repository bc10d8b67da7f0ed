package engine

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Each code path that makes a run checks the quotas of its namespace in the transaction that makes the run:
//
//   - A submission is refused, and so is a verb that continues a run that had ended.
//   - An instant of a trigger is skipped (fire.go).
//   - A backfill waits (refillOne).
//   - The run of a call, a row of skein_enqueue and a deposited start were acknowledged before, or have no
//     caller. Their run ends at once as failed, with CauseQuota. A call does not wait, because its parent
//     counts too: a namespace full of parents would wait for itself.
//
// The owner knows exactly what its shards use. The store compares the sum of all shards. If the store refuses
// a transaction of one item, the transaction is made again, and quotas.full lists the namespaces without
// room. Then each code path treats the quota as used up.

// newcomer says how a run begins, as far as quotas are concerned.
type newcomer uint8

const (
	begins  newcomer = iota // a new run: it counts among the unfinished runs and among the runs of the hour
	returns                 // a run that began earlier: it counts only among the unfinished runs
)

// roomAbout does the same as room, but also considers the use by shards of other nodes. It knows that use
// from a reading that may be as old as QuotasEach.
func (q *quotas) roomAbout(wf *store.Workflow) error { return q.roomWith(wf, begins, true) }

// room returns a QuotaError if the namespace of a workflow may not have another run. It considers the use of
// the owned shards only.
func (q *quotas) room(wf *store.Workflow, n newcomer) error { return q.roomWith(wf, n, false) }

func (q *quotas) roomWith(wf *store.Workflow, n newcomer, about bool) error {
	if !q.loaded {
		return nil
	}
	bounds := q.set.of[wf.Namespace]
	if over := q.full[wf.Namespace]; over != nil && over.Quota != store.QuotaVersions && over.Quota != store.QuotaTriggers {
		return over
	}
	is := q.set.stocks[wf.Namespace]
	if over := bounds.Overstocked(&is, store.CheckStoredBytes); over != nil && n == begins {
		return over
	}
	if !q.set.counts || !bounds.Counted() || q.pending[wf.Namespace] {
		return nil
	}
	hour := store.QuotaHour(q.txn().now.Wall)
	var all []store.NamespaceUse
	for _, u := range q.uses[wf.Namespace] {
		all = append(all, u.NamespaceUse)
	}
	for _, u := range q.set.uses[wf.Namespace] {
		if about && q.held(u.Shard) == nil {
			all = append(all, u)
		}
	}
	runs, started := store.Sum(all, hour)
	if n == begins {
		started++
	}
	if over := bounds.Exceeded(wf.Namespace, runs+1, started, hour); over != nil {
		return over
	}
	return q.roomForLogs(wf, n, &bounds)
}

// roomForLogs returns a QuotaError if the namespace has used up its quota of logs, and n is a new run. It
// adds up the owned shards, and those of other nodes as they were last read.
func (q *quotas) roomForLogs(wf *store.Workflow, n newcomer, bounds *store.Quotas) error {
	if bounds.LogsPerDay == 0 || n != begins {
		return nil
	}
	day := store.QuotaDay(q.txn().now.Wall)
	var all []store.NamespaceUse
	for _, u := range q.uses[wf.Namespace] {
		all = append(all, u.NamespaceUse)
	}
	for _, u := range q.set.uses[wf.Namespace] {
		if q.held(u.Shard) == nil {
			all = append(all, u)
		}
	}
	if over := bounds.Overlogged(wf.Namespace, store.Logged(all, day), day); over != nil {
		return over
	}
	return nil
}

// checked makes the store compare the use of a namespace with its quotas when the transaction is written. It
// is called when a run begins that can still be refused.
func (q *quotas) checked(r *dag.Run) {
	q.checkParams(r)
	if u := q.of(&r.Header, false); u != nil {
		u.check = true
	}
}

// refused records that the store has refused a transaction because of a quota. It reports whether the
// transaction is to be made again. This is done once for each namespace without quota left. refused returns
// false if there was another cause, or if the store has already refused the same namespace.
func (q *quotas) refused(cause error) bool {
	over, is := quotaRefusal(cause)
	if !is || q.full[over.Namespace] != nil {
		return false
	}
	if q.full == nil {
		q.full = map[string]*store.QuotaError{}
	}
	q.full[over.Namespace] = over
	return true
}

// beyondQuota returns the event that ends a new run because the quota of its namespace is used up. If it
// returns nil, the caller lets the run pass its limits, and then calls checked.
func (q *quotas) beyondQuota(r *dag.Run) (*dag.Event, error) {
	if !q.loaded {
		return nil, nil
	}
	wf, err := q.defs.workflow(r.Workflow)
	if err != nil {
		return nil, err
	}
	over, is := quotaRefusal(q.roomAbout(&wf))
	if !is {
		return nil, nil
	}
	r.Gate = beyond
	q.keepParams(r)
	return &dag.Event{Kind: dag.EvDeny, Cause: dag.CauseQuota, Reason: over.Error()}, nil
}

// turnAway ends a new run at once if the quota of its namespace is used up. No caller waits for the run, so
// the run's row says what happened.
func (q *quotas) turnAway(r *dag.Run) (over bool, err error) {
	deny, err := q.beyondQuota(r)
	if deny == nil || err != nil {
		return false, err
	}
	q.inMemory()[r.ID] = r
	q.stepSelf(r, *deny)
	q.txn().tally.accepted++
	return true, nil
}

// mayReturn returns a QuotaError if a run that has ended may not continue because of a quota.
func (q *quotas) mayReturn(r *dag.Run) error {
	if !q.loaded || !q.set.counts || r.Unfinished() {
		return nil
	}
	wf, err := q.defs.workflow(r.Workflow)
	if err != nil {
		return err
	}
	return q.room(&wf, returns)
}

// heldBackfills are the backfills that wait for quota in their namespace.
type heldBackfills struct {
	of   map[int64]string // the namespace, by backfill
	open []int64          // may try again
	at   *quotaSet        // the reading of the quotas when the backfills began to wait
}

func (h *heldBackfills) put(id int64, namespace string, at *quotaSet) {
	if h.of == nil {
		h.of = map[int64]string{}
	}
	h.of[id], h.at = namespace, at
}

// freed lets the backfills of a namespace try again, because a run of the namespace has ended.
func (h *heldBackfills) freed(namespace string) {
	for id, of := range h.of {
		if of == namespace {
			h.open = append(h.open, id)
			delete(h.of, id)
		}
	}
}

// reread lets all backfills try again, if the quotas and the use by other nodes were read again since they
// began to wait.
func (h *heldBackfills) reread(now *quotaSet) {
	if len(h.of) == 0 || h.at == now {
		return
	}
	for id := range h.of {
		h.open = append(h.open, id)
		delete(h.of, id)
	}
}

// retryHeld opens the backfills whose namespace may have quota left now.
func (s *schedule) retryHeld() {
	h := &s.limits.quotas.waiting
	h.reread(s.limits.quotas.known.is.Load())
	for _, id := range h.open {
		if s.backfills.known[id] != nil {
			s.backfills.open[id] = true
		}
	}
	h.open = h.open[:0]
}

// holds makes a backfill wait if its namespace has no quota left, and reports whether it waits.
func (s *schedule) holds(b *store.Backfill, wf *store.Workflow) bool {
	q := s.limits.quotas
	if _, over := quotaRefusal(q.roomAbout(wf)); !over {
		return false
	}
	q.waiting.put(b.ID, wf.Namespace, q.known.is.Load())
	q.known.awaited.Store(true)
	return true
}

// heldOpen reports whether a backfill that waits for quota may try again.
func (q *quotas) heldOpen() bool {
	return len(q.waiting.open) > 0 || len(q.waiting.of) > 0 && q.waiting.at != q.known.is.Load()
}
