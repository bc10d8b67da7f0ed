package engine_test

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// TestCallsPassTagsOn: runs at each level of calls have the tags of the run that called them.
func TestCallsPassTagsOn(t *testing.T) {
	st := openMemory(t)
	n := start(t, st, newHands(t), calls)
	top, mid, leaf := nested(n)
	id := n.submit(top, func(s *engine.Submission) { s.Tags = "order=17\nteam=data" })
	n.ends(id, dag.RunSucceeded)
	for _, w := range []store.Workflow{top, mid, leaf} {
		if all := runsOf(t, st, w); len(all) != 1 || all[0].Tags() != "order=17\nteam=data" {
			t.Errorf("runs of %s: %+v", w.Name, all)
		}
	}
}
