package trace

import (
	"context"
	"errors"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

// catchUp exports the ends after the position of a shard from the rows, and returns the new progress. The
// ends of later transactions are in Exporter.held. A shard without a position gets the position before the
// first end that this process has reported, so runs that ended before are not exported.
func (x *Exporter) catchUp(ctx context.Context, s dag.ShardID) (*progress, error) {
	x.mu.Lock()
	delete(x.lost, s) // later ends are in Exporter.held
	x.mu.Unlock()
	now, err := x.cfg.Store.Clock(ctx)
	if err != nil {
		return nil, err
	}
	fences, err := x.cfg.Store.Marks(ctx)
	if err != nil {
		return nil, err
	}
	p, to := &progress{}, store.TraceMark{Shard: s, At: now}
	for _, m := range fences {
		if m.Shard == s {
			to.Epoch, to.Seq = m.Epoch, m.Seq
		}
	}
	from, err := x.cfg.Store.TraceMark(ctx, s)
	if errors.Is(err, store.ErrNotFound) {
		if e, some := x.first(s); some {
			to = store.TraceMark{Shard: s, Epoch: e.Epoch, Seq: e.Seq - 1, At: e.Finished}
		}
		return p, x.move(ctx, p, to)
	}
	if err != nil {
		return nil, err
	}
	if from.Seq == to.Seq {
		p.epoch, p.seq = to.Epoch, to.Seq
		return p, nil
	}
	err = tally.EachWorkflow(ctx, x.cfg.Store, func(page []store.Workflow) error {
		for i := range page {
			if page[i].Shard != s {
				continue
			}
			if err := x.between(ctx, page[i].ID, from, to); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, x.move(ctx, p, to)
}

// first returns the first of the waiting ends of a shard.
func (x *Exporter) first(s dag.ShardID) (e store.Ended, some bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.held[s]) == 0 {
		return e, false
	}
	return x.held[s][0], true
}

// between exports the ends of a workflow's runs in the transactions after the position from, up to the
// position to. It does not load runs that finished more than store.ClockSlack before from.At. But if from.At
// is later than to.At, the clock was set back between the two positions, so it loads all runs.
func (x *Exporter) between(ctx context.Context, w dag.WorkflowID, from, to store.TraceMark) error {
	old := dag.Micros(0)
	if from.At <= to.At {
		old = from.At - dag.Micros(store.ClockSlack.Microseconds())
	}
	for before := (dag.RunID{}); ; {
		began := time.Now()
		page, err := x.cfg.Store.Runs(ctx, store.RunQuery{Workflow: w, Before: before, Limit: pageRuns})
		if err != nil {
			return err
		}
		var ids []dag.RunID
		for i := range page.Runs {
			r := &page.Runs[i]
			if r.FinishedAt == 0 && r.Generation == 1 || r.FinishedAt > 0 && r.FinishedAt < old || !x.cfg.sampled(r.Root(), r.Trace()) {
				continue
			}
			ids = append(ids, r.ID)
		}
		if err := x.missed(ctx, ids, from, to); err != nil {
			return err
		}
		if before = page.Next; before.IsZero() {
			return nil
		}
		// The scan uses half of the time, and pauses for the other half.
		if err := x.sleep(ctx, min(time.Since(began), time.Second)); err != nil {
			return err
		}
	}
}

// missed exports the ends of runs between two positions.
func (x *Exporter) missed(ctx context.Context, ids []dag.RunID, from, to store.TraceMark) error {
	out := &batch{x: x}
	for len(ids) > 0 {
		n := min(loadRuns, len(ids))
		err := x.load(ctx, ids[:n], func(rec *store.RunRecord) error {
			all, err := x.ends(ctx, rec)
			for i := range all {
				if e := &all[i]; err == nil && e.Seq > from.Seq && e.Seq <= to.Seq {
					x.stats.waiting.CompareAndSwap(0, int64(e.At))
					err = out.add(ctx, rec, e)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		ids = ids[n:]
	}
	return out.flush(ctx)
}
