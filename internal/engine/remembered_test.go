package engine_test

import (
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// remembering is an executor that remembers every attempt as reported.
type remembering struct{ engine.Executor }

func (remembering) Running(dag.RunID, dag.TaskID, dag.Token) bool { return true }

// lent is an executor in which every attempt runs, in a slot that was lent to its owner.
type lent struct{ engine.Executor }

func (lent) Live(dag.RunID, dag.TaskID, dag.Token) bool { return true }

// listening is a Peers that records the reports that it gets.
type listening struct {
	alone
	reports []engine.Report
}

func (l *listening) Report(r engine.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports = append(l.reports, r)
}

// TestRememberedReport asks a node about an attempt that it has reported and that no longer runs. The owner
// asks because the database has lost the report. The node answers that it does not hold the attempt.
func TestRememberedReport(t *testing.T) {
	asked := engine.AttemptID{Run: dag.RunID{1}, Task: 2, Token: 3}
	for name, c := range map[string]struct {
		executor func(engine.Executor) engine.Executor
		lost     bool
	}{
		"it only remembers it":   {func(x engine.Executor) engine.Executor { return remembering{x} }, true},
		"it runs in a lent slot": {func(x engine.Executor) engine.Executor { return lent{x} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			st, peers := memory.New(memory.Options{}), &listening{}
			n := start(t, st, newHands(t), func(cfg *engine.Config) { cfg.Peers, cfg.Executor = peers, c.executor(cfg.Executor) })
			h := n.Handler()
			if err := st.Join(t.Context(), store.Member{Handler: h.ID, UUID: h.UUID, Name: "n", State: store.MemberActive}); err != nil {
				t.Fatal(err)
			}
			if err := n.Disown([]engine.AttemptID{asked}); err != nil {
				t.Fatal(err)
			}
			if _, err := n.Own(t.Context(), nil); err != nil { // this comes after the earlier requests
				t.Fatal(err)
			}
			peers.mu.Lock()
			defer peers.mu.Unlock()
			lost := slices.ContainsFunc(peers.reports, func(r engine.Report) bool {
				return r.Lost != "" && engine.AttemptID{Run: r.Run, Task: r.Task, Token: r.Token} == asked
			})
			if lost != c.lost {
				t.Errorf("the reports are %+v", peers.reports)
			}
		})
	}
}
