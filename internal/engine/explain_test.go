package engine_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/inspect"
)

// TestExplainFromMemory explains runs at many moments, once from the owner's memory and once from the rows: both
// must say the same of the run and of each of its tasks.
func TestExplainFromMemory(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 23))
		h := newHands(t)
		h.held = true
		n := start(t, openers["memory"](t), h, func(c *engine.Config) { c.Slots = 1 + r.IntN(3) })
		g := randomGraph(t, r)
		a, err := n.Submit(t.Context(), submission(n.apply("w", g)))
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			explainedAlike(t, n, a.Run, g)
			h.mu.Lock()
			var live []attempt
			for k := range h.live {
				live = append(live, k)
			}
			h.mu.Unlock()
			switch {
			case n.state(a.Run).Terminal():
				continue
			case len(live) == 0 || r.IntN(8) == 0:
				verb := [...]dag.Intent{dag.IntentPause, dag.IntentRun, dag.IntentRun, dag.IntentStop}[r.IntN(4)]
				if err := n.do(a.Run, verb); err != nil {
					continue // the intent is not possible now
				}
			default:
				result := dag.Result{State: dag.AttemptSucceeded, Exited: true}
				if r.IntN(3) == 0 {
					result = dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
				}
				h.end(live[r.IntN(len(live))], result)
			}
			if err := n.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		n.close()
	}
}

func explainedAlike(t *testing.T, n *node, run dag.RunID, g *dag.Graph) {
	t.Helper()
	names := []string{""}
	for i := range g.Len() {
		names = append(names, g.Name(dag.TaskID(i)))
	}
	for _, name := range names {
		var memory, rows inspect.Explanation
		defer func() {
			if t.Failed() {
				t.Logf("memory: %+v\nrows:   %+v", memory, rows)
			}
		}()
		eventually(t, fmt.Sprintf("task %q is explained alike", name), func() bool {
			var err, err2 error
			memory, err = n.Explain(t.Context(), run, name)
			rows, err2 = n.Explain(inspect.FromRows(t.Context()), run, name)
			for _, x := range []*inspect.Explanation{&memory, &rows} {
				for i := range x.Reasons { // ignore the times of these reasons, because memory and rows give different ones
					if name == "" && (x.Reasons[i].Kind == "slot" || x.Reasons[i].Kind == "resources") {
						x.Reasons[i].Since = 0
					}
				}
			}
			return fmt.Sprint(err) == fmt.Sprint(err2) && reflect.DeepEqual(memory, rows)
		})
	}
}
