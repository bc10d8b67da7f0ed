package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/store"
)

// A database works on one transaction with one of its processes, so a large transaction goes as
// two, each of some of the shards, on connections of their own. That is sound only where nothing
// in it ties one shard to another: every item is about one run alone (see plain). Then the parts
// are what two transactions after one another would have been, and if one of them fails, memory
// goes back to the rows as after any other transaction in doubt: what is applied again is
// recognised by token and id.

// partRowsDefault is from how many rows on it is worth another round trip and another sync.
const partRowsDefault = 400

// cut is where the rows of a shard begin in the transaction's changes.
type cut struct {
	shard dag.ShardID
	at    changesLen
}

// changesLen is how many rows of each kind there are.
type changesLen struct{ runInserts, runUpdates, attemptInserts, attemptUpdates, events int }

func lenOf(c *dag.Changes) changesLen {
	return changesLen{len(c.RunInserts), len(c.RunUpdates), len(c.AttemptInserts), len(c.AttemptUpdates), len(c.Events)}
}

func (n changesLen) rows() int {
	return n.runInserts + n.runUpdates + n.attemptInserts + n.attemptUpdates + n.events
}

// byShard puts what is to be flushed in the order of shards, if the transaction may go in parts.
func (w *writer) byShard(items []item) {
	w.tx.cuts = w.tx.cuts[:0]
	w.tx.plain = w.plain(items)
	if w.tx.apart = len(w.fences) > 1 && w.tx.plain; w.tx.apart {
		slices.SortStableFunc(w.tx.touched, func(a, b *dag.Run) int { return int(a.Shard - b.Shard) })
	}
}

// plain reports whether every item is about one run alone, and no run has to do with another's.
// After a transaction in doubt the next one goes whole, so that it fails or succeeds as one.
func (w *writer) plain(items []item) bool {
	if w.whole || w.itemsMax < batchRowsMax || w.tx.common || len(w.tx.letters) > 0 || len(w.tx.addressed) > 0 {
		return false
	}
	for i := range items {
		it := &items[i]
		alone := it.submit != nil || it.ev.Kind == dag.EvReport || it.ev.Kind == dag.EvStarted || it.ev.Kind == dag.EvSplit
		if !alone || it.define != nil || it.ask != nil || it.op != nil || it.req != nil || it.again {
			return false
		}
	}
	for _, r := range w.tx.touched {
		if r.Fire != nil || r.Claim != nil || len(r.Shares()) > 0 {
			return false
		}
	}
	return true
}

// cutAt notes that the rows of a shard begin here.
func (w *writer) cutAt(s dag.ShardID) {
	if n := len(w.tx.cuts); w.tx.apart && (n == 0 || w.tx.cuts[n-1].shard != s) {
		w.tx.cuts = append(w.tx.cuts, cut{s, lenOf(&w.tx.batch.Changes)})
	}
}

// parts cuts a batch where its halves are most alike, if it may go in parts.
func (w *writer) parts(b *store.Batch) []*store.Batch {
	rows := b.Changes.Rows()
	if len(w.tx.cuts) < 2 || b != &w.tx.batch || rows < w.e.cfg.PartRows || rows != b.Rows() || b.Watermark != 0 {
		return []*store.Batch{b}
	}
	off := func(c *cut) int { return max(2*c.at.rows()-rows, rows-2*c.at.rows()) }
	best := &w.tx.cuts[1]
	for i := range w.tx.cuts[2:] {
		if c := &w.tx.cuts[i+2]; off(c) < off(best) {
			best = c
		}
	}
	i := slices.IndexFunc(b.Fences, func(f store.Fence) bool { return f.Shard >= best.shard })
	n, c := best.at, &b.Changes
	return []*store.Batch{
		{Fences: b.Fences[:i], Changes: dag.Changes{RunInserts: c.RunInserts[:n.runInserts], RunUpdates: c.RunUpdates[:n.runUpdates],
			AttemptInserts: c.AttemptInserts[:n.attemptInserts], AttemptUpdates: c.AttemptUpdates[:n.attemptUpdates], Events: c.Events[:n.events]}},
		{Fences: b.Fences[i:], Changes: dag.Changes{RunInserts: c.RunInserts[n.runInserts:], RunUpdates: c.RunUpdates[n.runUpdates:],
			AttemptInserts: c.AttemptInserts[n.attemptInserts:], AttemptUpdates: c.AttemptUpdates[n.attemptUpdates:], Events: c.Events[n.events:]}},
	}
}

// commitParts writes the parts of a transaction at once.
func (w *writer) commitParts(ctx context.Context, parts []*store.Batch) (wall dag.Micros, err error) {
	if len(parts) == 1 {
		return w.e.store.Commit(ctx, parts[0])
	}
	w.e.stats.Parted.Add(1)
	walls, errs := make([]dag.Micros, len(parts)), make([]error, len(parts))
	done := make(chan struct{}, len(parts))
	for i := 1; i < len(parts); i++ {
		w.e.host.Go(w.wg, func() {
			walls[i], errs[i] = w.e.store.Commit(ctx, parts[i])
			done <- struct{}{}
		})
	}
	walls[0], errs[0] = w.e.store.Commit(ctx, parts[0])
	for range len(parts) - 1 {
		w.e.host.Await(ctx, done, host.Forever)
	}
	failed := len(parts)
	for i := range parts {
		if errs[i] == nil {
			failed--
		}
	}
	if failed == 0 {
		return slices.Max(walls), nil
	}
	for i, part := range parts {
		if errs[i] == nil { // nobody else is going to tell of it
			w.e.hub.publish(part.Events)
		}
	}
	err = errors.Join(errs...)
	if failed < len(parts) || errors.Is(err, store.ErrUnknown) { // what is known of one does not go for all
		return 0, fmt.Errorf("%w: of %d parts %d failed: %v", store.ErrUnknown, len(parts), failed, err)
	}
	return 0, err
}
