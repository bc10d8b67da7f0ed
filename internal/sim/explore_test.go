package sim

import (
	"testing"

	"skein.dev/skein/internal/dag"
)

// TestExhaustive plays every interleaving and every point of failure of small graphs with two workers. All
// histories must end in the same state.
func TestExhaustive(t *testing.T) {
	fail := func(tasks ...dag.TaskID) map[dag.TaskID]bool {
		m := map[dag.TaskID]bool{}
		for _, task := range tasks {
			m[task] = true
		}
		return m
	}
	states, steps := 0, 0
	for _, c := range []struct {
		name string
		b    bounds
	}{
		{"one task", bounds{plan: single(), faults: 5}},
		{"diamond", bounds{plan: diamond(), faults: 3}},
		{"diamond, its left fails", bounds{plan: diamond(), fails: fail(1), faults: 3}},
		{"diamond, its head fails", bounds{plan: diamond(), fails: fail(0), faults: 3}},
		{"diamond, cleaned up", bounds{plan: newPlan([][]int{nil, {0}, {0}, {1, 2}}, func(i int, _ *dag.TaskSpec, p *plan) {
			if i == 3 {
				p.ifs[i] = "always"
			}
		}, false, 0), fails: fail(1), faults: 3}},
		{"nine tasks", bounds{plan: nine(0), faults: 1}},
		{"nine tasks, task 4 fails", bounds{plan: nine(0), fails: fail(3), faults: 2}},
		{"nine tasks, 2 before 8", bounds{plan: nine(8), fails: fail(3), faults: 1}},
		{"nine tasks, 2 before 9", bounds{plan: nine(9), faults: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := explore(&c.b)
			for _, f := range e.found {
				t.Error(f)
			}
			if len(e.outcomes) != 1 {
				t.Errorf("%d different ends: %v", len(e.outcomes), e.outcomes)
			}
			t.Logf("%d states, %d histories ended, %d steps, at most %d faults", e.states, e.ends, e.steps, c.b.faults)
			states += e.states
			steps += e.steps
		})
	}
	t.Logf("%d states by %d histories played", states, steps)
}

// TestExhaustiveCanFail builds in one bug at a time, and checks that the exploration finds a history that
// shows it.
func TestExhaustiveCanFail(t *testing.T) {
	join := mangled(diamond(), func(i int, q *plan) {
		if i == 3 {
			q.needs[i] = q.needs[i][:1]
		}
	})
	deaf := mangled(diamond(), func(i int, q *plan) {
		if i == 3 {
			q.ifs[i] = "always"
		}
	})
	for name, b := range map[string]bounds{
		"a join that does not wait for all":  {plan: diamond(), wrong: join},
		"a failure that is not passed on":    {plan: diamond(), wrong: deaf, fails: map[dag.TaskID]bool{1: true}},
		"reports that count without a token": {plan: diamond(), anyToken: true, faults: 1},
	} {
		if e := explore(&b); len(e.found) == 0 {
			t.Errorf("%s: nothing found in %d states", name, e.states)
		}
	}
}
