package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"skein.dev/skein/internal/store"
)

// ringMax bounds the workflows that are looked at for a ring.
const ringMax = 1000

// ring refuses triggers by which workflows would start each other round and round: each run
// of one of them would follow one of another, for ever and as fast as they end.
func (w *writer) ring(wf *store.Workflow, d *Declaration) error {
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
	for i := range d.Triggers {
		if t := &d.Triggers[i]; t.Kind == kindRunOf {
			hears([]string{start}, t.On)
		}
	}
	seen := map[string]bool{}
	for len(todo) > 0 && len(seen) < ringMax {
		s := todo[0]
		todo = todo[1:]
		if s.name == start {
			slices.Reverse(s.way)
			return fmt.Errorf("%w: workflows start each other in a ring, without end: %s; have one of them wait for something else, or use again with max_per_hour",
				ErrInvalid, strings.Join(s.way, " → "))
		}
		if seen[s.name] {
			continue
		}
		seen[s.name] = true
		namespace, name, _ := strings.Cut(s.name, "/")
		other, err := w.e.store.Workflow(context.Background(), namespace, name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return fromStore("look for a ring of workflows", err)
		}
		triggers, err := w.triggersOf(other.ID)
		if err != nil {
			return err
		}
		for _, n := range sortedNames(triggers) {
			if t := triggers[n]; t.Kind == kindRunOf {
				hears(s.way, t.On)
			}
		}
	}
	return nil
}
