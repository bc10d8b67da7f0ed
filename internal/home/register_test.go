package home

import (
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// TestLateLogs: what an attempt printed is its worker's to bring while it runs, and for a while afterwards; the oldest are forgotten.
func TestLateLogs(t *testing.T) {
	r, now := newRegister(2), time.Now()
	at := func(task int) key { return key{task: dag.TaskID(task), token: 1} }
	check := func(task int, after time.Duration, wantKnown, wantLate bool) {
		t.Helper()
		n, known, late := r.of(at(task), now.Add(after))
		if known != wantKnown || late != wantLate || known && n.Task != "t" {
			t.Errorf("%d after %v: %+v %v %v", task, after, n, known, late)
		}
	}
	r.ended(at(1), now)
	check(1, 0, false, false)
	r.add(at(1), Names{Task: "t"}, now)
	check(1, engine.LateMax, true, false)
	check(1, engine.LateMax+1, false, false) // the rows are asked again
	r.ended(at(1), now)
	check(1, engine.LateMax, true, false)
	check(1, engine.LateMax+1, true, true)
	for task := 2; task < 4; task++ {
		r.add(at(task), Names{Task: "t"}, now)
	}
	check(1, 0, false, false)
	check(3, 0, true, false)
}
