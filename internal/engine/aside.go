package engine

import (
	"context"
	"errors"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// fetch returns a run, or nil if this owner has no such run. It loads the run if the run is set aside:
// unfinished, but not in memory.
func (w *writer) fetch(id dag.RunID) (*dag.Run, error) {
	if r := w.runs[id]; r != nil || w.bad[id] != "" {
		return r, nil
	}
	page, err := w.e.store.Load(context.Background(), store.LoadQuery{IDs: []dag.RunID{id}})
	if err != nil {
		return nil, errkind.FromStore("load run "+id.String(), err)
	}
	if len(page) == 0 || page[0].Bad == nil && (!page[0].Run.Claim.Aside() || w.held(page[0].Run.Shard) == nil) {
		return nil, nil
	}
	r, err := w.revived(&page[0], &w.tx.fx)
	// the graph could not be read; the answer of the admission owner will be applied again
	if errors.Is(err, errkind.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		w.e.log.Error("a waiting run cannot be loaded; run skein verify", "code", "waiting_run_unreadable", "run", id.String(), "err", err)
		return nil, nil
	}
	w.runs[id] = r
	w.limits.count(r)
	w.alerts.expect(r)
	w.limits.aside = max(w.limits.aside-1, 0)
	return r, nil
}

// standAside drops queued runs from memory after a commit, if there are many runs and no limit counts the
// queued ones. The rows hold their whole state. Runs that a transaction made ahead has already changed stay
// in memory.
func (w *writer) standAside() {
	if len(w.runs) < asideMin {
		return
	}
	for _, r := range w.tx.touched {
		if w.tx.next != nil && w.tx.next.touches(r) {
			continue
		}
		if r.State == dag.RunWaiting && r.Claim.Aside() && w.runs[r.ID] == r {
			w.leave(r.ID)
			w.limits.aside++
		}
	}
}

// asideMin is the number of runs in memory above which a writer sets queued runs aside.
const asideMin = 20_000
