package engine

import (
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// tellEnds reports the runs that ended in a committed transaction.
func tellEnds(w *writer, b *store.Batch) {
	if w.e.cfg.Ended == nil {
		return
	}
	var all []store.Ended
	none := !slices.ContainsFunc(b.AttemptInserts, func(a dag.AttemptRow) bool { return a.State.Ended() && a.Started != 0 })
	tell := func(r *dag.RunRow, fresh bool) {
		for _, f := range b.Fences {
			if f.Shard == r.Shard && r.State.Terminal() {
				if all == nil {
					all = make([]store.Ended, 0, len(b.RunInserts)+len(b.RunUpdates))
				}
				f.Seq++ // the fence still has the number before this transaction
				all = append(all, store.Ended{Fence: f, ID: r.ID, Workflow: r.Workflow, Version: r.Version, Generation: r.Generation,
					State: r.State, Created: r.Created, Split: r.SplitAt, Finished: r.FinishedAt,
					Root: r.Root(), Trace: r.Trace(), Fresh: fresh})
			}
		}
	}
	for i := range b.RunInserts {
		tell(&b.RunInserts[i], none)
	}
	for i := range b.RunUpdates {
		tell(&b.RunUpdates[i].RunRow, false)
	}
	if len(all) > 0 {
		w.e.cfg.Ended(all)
	}
}
