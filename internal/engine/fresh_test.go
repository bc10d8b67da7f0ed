package engine

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestStartedAttemptIsNotFresh: a run that was inserted and ended by one transaction is not fresh if an
// attempt has started in it, because the tally must read that attempt.
func TestStartedAttemptIsNotFresh(t *testing.T) {
	for started, fresh := range map[dag.Micros]bool{0: true, 7: false} {
		var told []store.Ended
		w := &writer{e: &Engine{cfg: Config{Ended: func(all []store.Ended) { told = append(told, all...) }}}}
		run := dag.RunRow{State: dag.RunSucceeded}
		run.Shard = 3
		b := store.Batch{Fences: []store.Fence{{Shard: 3, Seq: 1}}}
		b.RunInserts = []dag.RunRow{run}
		b.AttemptInserts = []dag.AttemptRow{{State: dag.AttemptSucceeded, Started: started}}
		tellEnds(w, &b)
		if len(told) != 1 || told[0].Fresh != fresh {
			t.Errorf("started at %d: %+v, want fresh = %v", started, told, fresh)
		}
	}
}
