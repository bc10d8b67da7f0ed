package home_test

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestLogsOfWorkersCount: a log counts with the length that its worker states, but at least with the bytes
// that have arrived. So the logs of workers that state no length count, too.
func TestLogsOfWorkersCount(t *testing.T) {
	t.Parallel()
	for stated, want := range map[int64]int64{0: 7, 3: 7, 100: 100} {
		s := newScene(t)
		if why := s.a.printed(s.x, 0, "honest\n"); why != "" {
			t.Fatal(why)
		}
		r := good(s.x)
		r.LogBytes, r.ArtifactBytes = stated, 5
		s.a.report(r)
		all, err := s.store.Load(t.Context(), store.LoadQuery{IDs: []dag.RunID{s.run}})
		if err != nil || len(all) != 1 || all[0].Run.Weight != want+5 {
			t.Errorf("with %d stated bytes, the run weighs %+v, want %d: %v", stated, all, want+5, err)
		}
	}
}
