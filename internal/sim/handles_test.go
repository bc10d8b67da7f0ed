package sim

import (
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestHandles makes attempts begin work outside of their processes. Whatever fails, each piece of work has an
// attempt, an errand or an orphan, and errands end the work that no attempt continues.
func TestHandles(t *testing.T) {
	all := soak(0, 900, nil, Stage{Handles: true})
	for _, seed := range all.bad {
		t.Errorf("seed %d: %.400s\n\tgo test ./internal/sim -run TestSeed$ -seed %d -handles -v", seed, all.what[seed], seed)
	}
	for _, kind := range []string{"work outside", "adopted work", "released work"} {
		if all.kinds[kind] < 20 {
			t.Errorf("%s: %d times", kind, all.kinds[kind])
		}
	}
}

// TestHandlesCanFail checks that the simulator finds an errand that is not sent, a forgotten handle, and a
// handle that is released although another attempt has adopted it.
func TestHandlesCanFail(t *testing.T) {
	for _, m := range []*Mutant{
		{Name: "errand-not-sent-again", noErrand: true},
		{Name: "handle-forgotten", commit: without(func(b *store.Batch) {
			b.AttemptUpdates = slices.Clone(b.AttemptUpdates)
			for i := range b.AttemptUpdates {
				u := &b.AttemptUpdates[i]
				if h, ok := dag.HandleOf(&u.AttemptRow); ok && u.State == dag.AttemptLost && h.State == dag.HandleHeld {
					u.Outputs = nil
				}
			}
		})},
		{Name: "adopted-and-released", commit: func(v *view, b *store.Batch) (dag.Micros, error) {
			c := *b
			c.AttemptUpdates = slices.Clone(b.AttemptUpdates)
			for i := range c.AttemptUpdates {
				u := &c.AttemptUpdates[i]
				if was := v.handleOf(&u.AttemptRow); u.State == dag.AttemptLost && u.Outputs == nil && was == dag.HandleHeld {
					u.Outputs = []byte(`{"handle":"job-1","state":"releasing"}`)
				}
			}
			return v.write(&c)
		}},
	} {
		all := soak(0, 400, m, Stage{Handles: true})
		if len(all.bad) == 0 {
			t.Errorf("%s: no seed shows it", m.Name)
			continue
		}
		t.Logf("%s: seed %d: %s", m.Name, all.bad[0], all.what[all.bad[0]])
	}
}

// TestJudgeHandles breaks each rule about handles once.
func TestJudgeHandles(t *testing.T) {
	row := func(task dag.TaskID, token dag.Token, s dag.AttemptState, h dag.HandleState, text string) dag.AttemptRow {
		return dag.AttemptRow{Task: task, Token: token, Handler: 1, State: s, Outputs: []byte(`{"handle":"` + text + `","state":"` + string(h) + `"}`)}
	}
	for _, c := range []struct {
		rule     string
		run      dag.RunState
		attempts []dag.AttemptRow
	}{
		{"", dag.RunRunning, []dag.AttemptRow{row(0, 1, dag.AttemptLost, dag.HandleHeld, "x"), row(0, 2, dag.AttemptRunning, dag.HandleHeld, "y")}},
		{"", dag.RunFailed, []dag.AttemptRow{row(0, 1, dag.AttemptFailed, dag.HandleOrphan, "x")}},
		{"held", dag.RunRunning, []dag.AttemptRow{row(0, 1, dag.AttemptRunning, dag.HandleReleasing, "x")}},
		{"held", dag.RunRunning, []dag.AttemptRow{row(0, 1, dag.AttemptFailed, dag.HandleHeld, "x")}},
		{"held", dag.RunRunning, []dag.AttemptRow{row(0, 1, dag.AttemptFailed, dag.HandleOrphan, "x"), row(0, 2, dag.AttemptRunning, dag.HandleHeld, "x")}},
		{"released before the end", dag.RunFailed, []dag.AttemptRow{row(0, 1, dag.AttemptFailed, dag.HandleReleasing, "x")}},
		{"released before the next", dag.RunRunning, []dag.AttemptRow{row(0, 1, dag.AttemptFailed, dag.HandleReleasing, "x"), row(0, 2, dag.AttemptRunning, dag.HandleHeld, "y")}},
	} {
		fs := judgeHandles(&dag.RunRow{State: c.run}, c.attempts, map[string]bool{})
		if len(fs) == 0 && c.rule == "" || len(fs) > 0 && fs[0].rule == c.rule {
			continue
		}
		t.Errorf("%s, %v: found %v, want %q", c.run, c.attempts, fs, c.rule)
	}
}
