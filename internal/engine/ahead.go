package engine

import (
	"context"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
)

// While the store writes a large transaction, the writer makes the next one on top of the state in memory. It
// sends the next transaction after the first has committed. So the store still gets one transaction at a
// time, in order. A transaction made ahead exists only in memory, and no caller has seen its results. If the
// first transaction fails, the writer reloads the rows and applies the items of both again.
//
// A transaction made ahead must not read rows that the transaction in flight changes. So the transaction in
// flight contains only runs that have no relations to other runs (see plain), or only relations that the
// admission owner of this node has in memory. It may also contain incidents, which are in memory, too. Only
// simple items are applied ahead. An idempotency key is searched both in the store and in the transaction in
// flight.

// aheadRowsDefault is the number of rows from which a transaction counts as large.
const aheadRowsDefault = 400

// flight is a transaction in flight: the store is writing it.
type flight struct {
	tx   *transaction
	n    int           // the number of its items, which are the first items of kept
	done chan struct{} // receives a value when the flight has ended
	over bool          // the value was received from done
	took time.Duration
	wall dag.Micros
	err  error
}

// depart makes the store begin to write the transaction that was made from items, if the transaction is large
// and plain. Later changes go into a new transaction. Otherwise depart returns nil, and the caller commits
// the transaction.
func (w *writer) depart(items []item) *flight {
	if !w.departs(items) {
		return nil
	}
	b := &w.tx.batch
	w.stage()
	f := &flight{tx: w.tx, n: len(items), done: make(chan struct{}, 1)}
	for i := range b.Fences { // the transaction made ahead gets the next number
		w.held(b.Fences[i].Shard).Seq++
	}
	w.tx, w.spare, w.flying = w.spare, nil, w.tx
	w.alerts.departed()
	ctx, began := context.WithoutCancel(w.ctx), w.e.host.Now()
	w.e.host.Go(w.wg, func() {
		f.wall, f.err = w.e.store.Commit(ctx, b)
		f.took = w.e.host.Now().Sub(began)
		f.done <- struct{}{}
		w.inbox.poke()
	})
	return f
}

// departs reports whether the transaction being made, from these items, is large and plain.
func (w *writer) departs(items []item) bool {
	b := &w.tx.batch
	rows := b.Changes.Rows()
	return rows >= w.e.cfg.AheadRows && rows+b.AlertChanges.Rows() == b.Rows() && b.Watermark == 0 && !w.tx.timed && w.plain(items)
}

// stage makes the store execute the transaction being made, but not commit it. It does so at most once.
func (w *writer) stage() {
	b := &w.tx.batch
	if w.tx.staged {
		return
	}
	b.Fences = w.fenced(b)
	if s := w.e.can.Stager; s != nil {
		s.Stage(b)
	}
	w.tx.staged = true
}

// plain reports whether the transaction being made affects no runs other than its own, except through queues
// and locks that this node grants. While the writer searches for content that a store refuses, no transaction
// is plain, so that transactions commit one by one.
func (w *writer) plain(items []item) bool {
	if w.itemsMax < batchRowsMax || len(w.tx.letters) > 0 || len(w.tx.addressed) > 0 {
		return false
	}
	for i := range items {
		it := &items[i]
		alone := it.submit != nil || it.kind() == dag.EvReport || it.kind() == dag.EvStarted || it.kind() == dag.EvSplit
		if !alone || it.define != nil || it.ask != nil || it.op != nil || it.req != nil {
			return false
		}
	}
	for _, r := range w.tx.touched {
		if !r.Fire.Alone() || len(r.Shares()) > 0 {
			return false
		}
	}
	return true
}

// fly waits for the end of a flight, and of the flights that begin meanwhile.
func (w *writer) fly(ctx context.Context, f *flight) error {
	for {
		n, err := w.ahead(ctx, f)
		if n > 0 && err == nil && w.departs(w.kept[f.n:f.n+n]) {
			w.stage()
		}
		if w.arrive(f); f.err != nil {
			w.fold(f)
			return w.failed(ctx, f.n, f.err)
		}
		if n > 0 {
			w.e.stats.Ahead.Add(1)
		}
		var next *flight
		if n > 0 && err == nil {
			next = w.depart(w.kept[f.n : f.n+n])
		}
		made := w.tx
		w.tx = f.tx
		if w.tx.next = made; next != nil {
			w.tx.next = next.tx
		}
		w.settle(f.n)
		w.look(ctx)
		if f = next; f != nil {
			continue
		}
		if w.spare = made; n == 0 && err == nil {
			return nil
		}
		w.tx, w.spare = made, w.tx
		if err == nil {
			err = w.commit(ctx)
		}
		if err != nil {
			return w.failed(ctx, n, err)
		}
		w.settle(n)
		return nil
	}
}

// ahead makes the next transaction while one is in flight, as soon as enough items are waiting. It returns
// the number of items in the new transaction, or 0 if the flight ended first.
func (w *writer) ahead(ctx context.Context, f *flight) (n int, err error) {
	enough := max(w.e.cfg.AheadRows/rowsPerItem, 1)
	for ctx.Err() == nil {
		select {
		case <-f.done:
			f.over = true
			return 0, nil
		default:
		}
		if len(w.kept) > f.n || w.todo.len()+w.inbox.len() >= enough {
			if !w.onlyItems() {
				return 0, nil
			}
			if len(w.kept) == f.n {
				w.take()
			}
			if !w.quotas.fresh() { // a caller may have set a quota before it sent one of the waiting items
				return 0, nil
			}
			simple := 0
			for i := f.n; i < len(w.kept) && w.simple(&w.kept[i]); i++ {
				simple++
			}
			if simple < enough {
				return 0, nil
			}
			return w.make(ctx, w.kept[f.n:f.n+simple])
		}
		w.e.host.Await(ctx, w.inbox.wake, host.Forever)
	}
	return 0, nil
}

// onlyItems reports whether the writer has only items to process, and no work that must first read the store.
func (w *writer) onlyItems() bool {
	return w.itemsMax == batchRowsMax && w.quotas.fresh() && !w.quotas.heldOpen() && len(w.schedule.backfills.open) == 0 && !w.limits.busy(w.clock.now().Wall)
}

// simple reports whether an item can be applied before the transaction in flight has committed. Such an item
// reads no run from the store, except the run with its key. For that key, the function known also searches
// the transaction in flight.
func (w *writer) simple(it *item) bool {
	if it.define != nil || it.ask != nil || it.op != nil || it.req != nil || it.mail != 0 || it.again {
		return false
	}
	if it.submit != nil {
		return !it.submit.named
	}
	return (it.kind() == dag.EvReport || it.kind() == dag.EvStarted || it.kind() == dag.EvSplit) && w.runs[it.run] != nil
}

// arrive waits for the end of a flight.
func (w *writer) arrive(f *flight) {
	if !f.over {
		w.e.host.Await(context.Background(), f.done, host.Forever)
	}
	w.flying = nil
	b := &f.tx.batch
	if f.err == nil {
		w.committed(f.wall)
		w.alerts.landed()
		w.confirmed(b)
		w.e.stats.count(b.Rows(), f.took)
		return
	}
	for i := range b.Fences {
		w.held(b.Fences[i].Shard).Seq--
	}
}

// fold undoes a transaction whose flight failed, together with the transactions made after it. None of these
// later transactions was sent.
func (w *writer) fold(f *flight) {
	if s := w.e.can.Stager; s != nil { // later transactions are made again, and may get the same number
		s.Unstage()
	}
	w.quotas.forget()
	made := w.tx
	if r := made.current; r != nil {
		made.touched = append(made.touched, r)
	}
	for _, r := range made.touched {
		if f.tx.mark(r) {
			f.tx.touched = append(f.tx.touched, r)
		}
	}
	for i := range made.assigns {
		w.e.slots.unassign(&made.assigns[i])
	}
	made.reset()
	w.tx, w.spare, w.unsure = f.tx, made, nil
}
