package engine_test

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// audit compares the ledger with all declarations, and backfills with their runs.
func (b *books) audit(x *timed) {
	b.at.Lock()
	defer b.at.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complain(b.ledger.Audit(func(k store.TriggerKey) []store.Fire { return x.lines(k.Workflow, k.Name) }, b.runs))
	b.auditBackfills()
}

// auditBackfills checks that the counts are those of the runs, and that ended backfills are complete.
func (b *books) auditBackfills() {
	for id, f := range b.fills {
		list, err := dag.UnpackInstants(f.Instants, 0, 0)
		if err != nil {
			b.t.Errorf("backfill %d: %v", id, err)
			continue
		}
		ended, failed := 0, 0
		for at, run := range b.filled[id] {
			r := b.runs[run]
			if r.State.Terminal() || r.Generation > 1 {
				ended++
			}
			if r.State.Terminal() && r.State != dag.RunSucceeded {
				failed++
			}
			if r.Fire == nil || r.Fire.Backfill != id || r.Fire.Instant != at {
				b.t.Errorf("backfill %d: the run of %s says %+v", id, stamp(at), r.Fire)
			}
		}
		without := int(f.Started) - len(b.filled[id]) // their parameters could not be made
		if without < 0 || int(f.Ended) != ended+without || int(f.Failed) < failed {
			b.t.Errorf("backfill %d (%s): started %d, ended %d, failed %d; its runs: %d, %d, %d", id, f.State, f.Started, f.Ended, f.Failed, len(b.filled[id]), ended, failed)
		}
		for i, at := range list {
			if _, started := b.filled[id][at]; !started && without == 0 && i < int(f.Started) {
				b.t.Errorf("backfill %d: %s has no run, and %d instants are started", id, stamp(at), f.Started)
			}
		}
		switch {
		case f.State == store.BackfillDone && (f.Ended != f.Total || f.Started != f.Total):
			b.t.Errorf("backfill %d is done, and %d of %d have ended", id, f.Ended, f.Total)
		case (f.State == store.BackfillRunning || f.State == store.BackfillPaused) && f.Ended == f.Total:
			b.t.Errorf("backfill %d is %s, and all of it has ended", id, f.State)
		}
	}
}
