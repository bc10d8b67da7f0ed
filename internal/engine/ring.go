package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// ringMax bounds the workflows that are searched for a cycle.
const ringMax = 1000

// ring refuses a declaration if its triggers would let workflows start each other in a cycle. In such a cycle
// each run would be followed by a run of another workflow, for ever and without a pause.
func (s *schedule) ring(wf *store.Workflow, d *Declaration) error {
	start := wf.Namespace + "/" + wf.Name
	type step struct {
		name string
		way  []string
	}
	var todo []step
	hears := func(way []string, on []string) {
		for _, name := range on {
			todo = append(todo, step{name, append(slices.Clone(way), name)})
		}
	}
	hears([]string{start}, d.heard())
	seen := map[string]bool{}
	for len(todo) > 0 && len(seen) < ringMax {
		at := todo[0]
		todo = todo[1:]
		if at.name == start {
			slices.Reverse(at.way)
			return fmt.Errorf("%w: workflows start each other in a ring, without end: %s; have one of them wait for something else, or use again with max_per_hour",
				errkind.ErrInvalid, strings.Join(at.way, " → "))
		}
		if seen[at.name] {
			continue
		}
		seen[at.name] = true
		on, err := s.heardBy(at.name)
		if err != nil {
			return err
		}
		hears(at.way, on)
	}
	return nil
}

// heard lists the workflows whose ends fire triggers of a declaration.
func (d *Declaration) heard() (all []string) {
	for i := range d.Triggers {
		if t := &d.Triggers[i]; t.Kind == kindRunOf {
			all = append(all, t.On...)
		}
	}
	return all
}

// heardBy lists the workflows whose ends fire triggers of a workflow. It takes the set that is being applied
// into account.
func (s *schedule) heardBy(full string) (all []string, err error) {
	if on, ok := s.beside[full]; ok {
		return on, nil
	}
	namespace, name, _ := strings.Cut(full, "/")
	w, err := s.store.Workflow(context.Background(), namespace, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, errkind.FromStore("look for a ring of workflows", err)
	}
	triggers, err := s.triggersOf(w.ID)
	if err != nil {
		return nil, err
	}
	for _, n := range sortedNames(triggers) {
		if t := triggers[n]; t.Kind == kindRunOf {
			all = append(all, t.On...)
		}
	}
	return all, nil
}
