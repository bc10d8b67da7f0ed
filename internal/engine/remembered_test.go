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

// listening are peers that keep the reports that they are given.
type listening struct {
	alone
	reports []engine.Report
}

func (l *listening) Report(r engine.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports = append(l.reports, r)
}

// TestRememberedReport asks a node for an attempt that it has reported, and that runs no more: the owner asks
// because the database has lost the report. The node says that it does not hold the attempt.
func TestRememberedReport(t *testing.T) {
	st, peers := memory.New(memory.Options{}), &listening{}
	n := start(t, st, newHands(t), func(c *engine.Config) { c.Peers, c.Executor = peers, remembering{c.Executor} })
	h := n.Handler()
	if err := st.Join(t.Context(), store.Member{Handler: h.ID, UUID: h.UUID, Name: "n", State: store.MemberActive}); err != nil {
		t.Fatal(err)
	}
	asked := []engine.AttemptID{{Run: dag.RunID{1}, Task: 2, Token: 3}}
	if err := n.Disown(asked); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Own(t.Context(), nil); err != nil { // after what was asked before
		t.Fatal(err)
	}
	peers.mu.Lock()
	defer peers.mu.Unlock()
	if !slices.ContainsFunc(peers.reports, func(r engine.Report) bool {
		return r.Lost != "" && engine.AttemptID{Run: r.Run, Task: r.Task, Token: r.Token} == asked[0]
	}) {
		t.Errorf("the reports are %+v", peers.reports)
	}
}
