package inspect

import (
	"context"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// oneFlow has one workflow, and counts how often it is read.
type oneFlow struct {
	store.Store
	is     store.Workflow
	reads  int
	during func()
}

func (s *oneFlow) Run(context.Context, dag.RunID) (dag.RunRow, error) { return oneRun, nil }

func (s *oneFlow) Runs(context.Context, store.RunQuery) (store.RunPage, error) {
	return store.RunPage{Runs: []dag.RunRow{oneRun, oneRun}}, nil
}

var oneRun = dag.RunRow{Header: dag.Header{ID: dag.RunID{1}, Workflow: 7}}

func (s *oneFlow) WorkflowByID(context.Context, dag.WorkflowID) (store.Workflow, error) {
	s.reads++
	is := s.is
	if s.during != nil {
		s.during()
	}
	return is, nil
}

// TestFlowCache: a workflow is read once, its changing columns are not cached, and no row that was read
// before the database went back is cached.
func TestFlowCache(t *testing.T) {
	st := &oneFlow{is: store.Workflow{ID: 7, Shard: 3, Namespace: "shop", Name: "old", State: "paused", Version: 2, Latest: 4, Revision: 9, Created: 5, Modified: 6}}
	var c flowCache
	name := func() string {
		t.Helper()
		is, err := c.get(t.Context(), st, 7)
		if err != nil {
			t.Fatal(err)
		}
		if want := (store.Workflow{ID: 7, Shard: 3, Namespace: "shop", Name: is.Name, Created: 5}); is != want {
			t.Errorf("kept %+v, want %+v", is, want)
		}
		return is.Name
	}
	if name(); name() != "old" || st.reads != 1 {
		t.Errorf("read %d times", st.reads)
	}
	c.forget()
	st.during = func() {
		st.is.Name, st.during = "new", nil
		c.forget()
	}
	if got := name(); got != "old" || st.reads != 2 {
		t.Errorf("%s, read %d times", got, st.reads)
	}
	if got := name(); got != "new" || st.reads != 3 {
		t.Errorf("%s, read %d times", got, st.reads)
	}
}

// TestFlowOfValues: if the database has gone back and the node has not noticed it yet, a view with values
// still has the right workflow, because it comes from the row. Its namespace decides who may see the values.
func TestFlowOfValues(t *testing.T) {
	st := &oneFlow{is: store.Workflow{ID: 7, Namespace: "shop", Name: "old"}}
	rd := New(Config{Store: st, Graphs: NewGraphs(st, nil)})
	listed := func(q store.RunQuery) string {
		t.Helper()
		page, err := rd.Runs(t.Context(), q)
		if err != nil || len(page.Runs) != 2 || page.Runs[0].Workflow != page.Runs[1].Workflow {
			t.Fatalf("%+v, %v", page, err)
		}
		return page.Runs[0].Workflow.Namespace
	}
	if is := listed(store.RunQuery{}); is != "shop" {
		t.Errorf("the first list: namespace %s", is)
	}
	st.is.Namespace, st.reads = "secret", 0
	if is := listed(store.RunQuery{}); is != "shop" || st.reads != 0 {
		t.Errorf("a list without values: namespace %s, %d reads", is, st.reads)
	}
	if is := listed(store.RunQuery{Params: true}); is != "secret" || st.reads != 1 {
		t.Errorf("a list with values: namespace %s, %d reads", is, st.reads)
	}
	if one, err := rd.GetRun(t.Context(), oneRun.ID); err != nil || one.Workflow.Namespace != "secret" {
		t.Errorf("one run: %+v, %v", one.Workflow, err)
	}
}
