package engine

import (
	"context"
	"errors"
	"maps"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// spaces holds, for the namespaces of the runs in memory, the demands on the placements of tasks (dag.Space):
// the level of isolation, the user and the name. They come from the reading of the quotas. So a new level
// takes effect on this node when the call that sets it returns, and on other nodes within Config.QuotasEach.
// They are a cache of rows.
type spaces struct {
	known *quotaBook
	store store.Store
	defs  *definitions

	set   *quotaSet             // the reading to which the following fields belong; nil if there is none yet
	named bool                  // placements may contain the name of the namespace
	names map[string]*dag.Space // space of each namespace
	by    map[dag.WorkflowID]*dag.Space
	// behind is set while placements of runs in memory may be from an earlier reading.
	behind bool
}

// renew takes over the newest reading.
func (s *spaces) renew() {
	set := s.known.is.Load()
	if set == nil || set == s.set && s.named {
		return
	}
	named := s.store.LevelsStand()
	if named != s.named || s.set == nil || !maps.Equal(s.set.isolation, set.isolation) || !maps.Equal(s.set.users, set.users) {
		s.names, s.by, s.behind = map[string]*dag.Space{}, map[dag.WorkflowID]*dag.Space{}, true
	}
	s.set, s.named = set, named
}

// of returns the space of a run's namespace. An error comes from the store: then the level is unknown at
// which the tasks may run.
func (s *spaces) of(r *dag.Run) (*dag.Space, error) {
	if !s.known.on {
		return nil, nil
	}
	if s.set == nil {
		if _, err := s.known.read(context.Background(), s.store); err != nil {
			return nil, err
		}
		s.renew()
	}
	if len(s.set.isolation) == 0 && (!s.named || r.Graph == nil || !r.Graph.Named()) {
		return nil, nil
	}
	if is, known := s.by[r.Workflow]; known {
		return is, nil
	}
	wf, err := s.defs.workflow(r.Workflow)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil, nil // without a workflow, no attempt of the run can start
	}
	if err != nil {
		return nil, err
	}
	is := s.names[wf.Namespace]
	if is == nil {
		is = &dag.Space{Isolation: s.set.isolation[wf.Namespace], User: s.set.users[wf.Namespace]}
		if s.named {
			is.Name = wf.Namespace
		}
		s.names[wf.Namespace] = is
	}
	if len(s.by) >= definitionsMax {
		clear(s.by)
	}
	s.by[r.Workflow] = is
	return is, nil
}

// house applies the space of a run's namespace to the placements of the run's tasks.
func (s *spaces) house(r *dag.Run) error {
	is, err := s.of(r)
	if err == nil {
		is.House(r)
	}
	return err
}

// rehouse places the ready tasks of all runs again, if the space of a namespace has changed.
func rehouse(w *writer) error {
	if w.spaces.renew(); !w.spaces.behind {
		return nil
	}
	for _, r := range w.runs {
		queued := r.Queued()
		if err := w.spaces.house(r); err != nil {
			return err
		}
		if queued {
			w.queue.Update(r)
		}
	}
	w.spaces.behind = false
	return nil
}

// spaceReader returns a function that returns the space of a namespace, from this node's last reading.
func spaceReader(b *quotaBook, st store.Store) func(namespace string) *dag.Space {
	return func(namespace string) *dag.Space {
		set := b.is.Load()
		if set == nil {
			return nil
		}
		is := &dag.Space{Isolation: set.isolation[namespace], User: set.users[namespace]}
		if st.LevelsStand() {
			is.Name = namespace
		}
		return is
	}
}
