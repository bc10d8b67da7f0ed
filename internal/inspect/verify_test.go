package inspect_test

import (
	"context"
	"errors"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// shown is a store of one run, whose rows a test can damage.
type shown struct {
	store.Store
	graph  []byte
	rec    store.RunRecord
	events []dag.EventRow
}

func (s *shown) Scan(_ context.Context, see func(store.RunRecord, []dag.EventRow) error) error {
	return see(s.rec, s.events)
}

func (s *shown) Info(context.Context) (store.Info, error) { return store.Info{Shards: 1}, nil }

func (s *shown) TallyMarks(context.Context, dag.ShardID) ([]store.TallyMark, error) { return nil, nil }

func (s *shown) Workflows(context.Context, store.WorkflowQuery) ([]store.Workflow, error) {
	return nil, nil
}

func (s *shown) Incidents(context.Context, store.IncidentQuery) ([]store.Incident, error) {
	return nil, nil
}

func (s *shown) NamespaceUses(context.Context, string) ([]store.NamespaceUse, error) { return nil, nil }

func (s *shown) Version(context.Context, dag.WorkflowID, int32) (store.Version, error) {
	return store.Version{Graph: s.graph}, nil
}

// history makes the rows of a run a → b → c by steps. The argument ends has, for each task, the ends of its
// attempts in order.
func history(t *testing.T, live bool, ends map[dag.TaskID][]dag.AttemptState) *shown {
	t.Helper()
	g, err := dag.NewGraph(dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "a", Policy: dag.Policy{Retry: dag.Retry{Max: 1}}},
		{Name: "b", Needs: []string{"a"}}, {Name: "c", Needs: []string{"b"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{graph: g.Pack()}
	r := dag.NewRun(dag.Header{ID: dag.RunID{1}, Workflow: 1, Version: 1, Priority: dag.Medium, Created: 100})
	now := dag.Now{Wall: 100}
	var fx dag.Effects
	attempts := map[[2]int]dag.AttemptRow{}
	step := func(ev dag.Event) {
		now.Wall += 10
		if v := r.Step(&ev, now, &fx); v != dag.Accepted {
			t.Fatalf("%s: %s", ev.Kind, v)
		}
		var c dag.Changes
		r.Flush(&c, now.Wall)
		for _, row := range c.RunInserts {
			s.rec.Run = row
		}
		for _, u := range c.RunUpdates {
			s.rec.Run = u.RunRow
		}
		for _, a := range c.AttemptInserts {
			attempts[[2]int{int(a.Task), int(a.Token)}] = a
		}
		for _, u := range c.AttemptUpdates {
			attempts[[2]int{int(u.Task), int(u.Token)}] = u.AttemptRow
		}
		for _, e := range c.Events {
			e.Seq = int64(len(s.events)) + 1
			s.events = append(s.events, e)
		}
	}
	step(dag.Event{Kind: dag.EvSubmit, Graph: g, Handler: 9})
	for r.Ready() > 0 {
		task := r.NextReady()
		step(dag.Event{Kind: dag.EvAssign, Task: task, Handler: 9})
		if live {
			break
		}
		_, token := r.Task(task)
		end := ends[task][token-1]
		step(dag.Event{Kind: dag.EvReport, Task: task, Token: token, Handler: 9, Result: dag.Result{State: end, Exited: true, Started: now.Wall, Finished: now.Wall + 1}})
		if st, _ := r.Task(task); st == dag.RetryWait {
			step(dag.Event{Kind: dag.EvTimer, Timer: dag.TimerRetry, Task: task, Token: token})
		}
	}
	for task := range 3 {
		for token := 1; ; token++ {
			a, ok := attempts[[2]int{task, token}]
			if !ok {
				break
			}
			s.rec.Attempts = append(s.rec.Attempts, a)
		}
	}
	return s
}

func verify(t *testing.T, s *shown) []inspect.Violation {
	t.Helper()
	found, err := inspect.Verify(context.Background(), s, func(string) (dag.Condition, error) { return nil, errors.New("no conditions") })
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestVerifyCanFail: for every rule, Verify finds a hand-made history that breaks it.
func TestVerifyCanFail(t *testing.T) {
	ok, fail := dag.AttemptSucceeded, dag.AttemptFailed
	good := map[dag.TaskID][]dag.AttemptState{0: {fail, ok}, 1: {ok}, 2: {ok}}
	failed := map[dag.TaskID][]dag.AttemptState{0: {fail, fail}}
	final := func(states ...dag.TaskState) []byte {
		var b []byte
		for _, s := range states {
			b = append(b, byte(s), 1)
		}
		return b
	}
	if v := verify(t, history(t, false, good)); len(v) != 0 {
		t.Fatalf("a good history: %+v", v)
	}
	if v := verify(t, history(t, false, failed)); len(v) != 0 {
		t.Fatalf("a good failed history: %+v", v)
	}
	if v := verify(t, history(t, true, good)); len(v) != 0 {
		t.Fatalf("a good live history: %+v", v)
	}
	for _, c := range []struct {
		rule   string
		ends   map[dag.TaskID][]dag.AttemptState
		live   bool
		damage func(s *shown)
	}{
		{"readable", good, false, func(s *shown) { s.rec.Bad = errors.New("unknown state") }},
		{"finished", good, false, func(s *shown) { s.rec.Run.FinishedAt = 0 }},
		{"finished", good, false, func(s *shown) { s.rec.Attempts[0].Finished = 0 }},
		{"tokens", good, false, func(s *shown) { s.rec.Attempts[1].Token = 3 }},
		{"tokens", good, false, func(s *shown) { s.rec.Attempts[1].Token = 1 }},
		{"one holder", good, false, func(s *shown) { s.rec.Attempts[0].State = dag.AttemptRunning }},
		{"one holder", good, false, func(s *shown) { s.rec.Attempts[3].State = dag.AttemptAssigned }},
		{"terminal is absorbing", good, false, func(s *shown) { s.rec.Attempts[0].State = ok }},
		{"generation", good, false, func(s *shown) { s.rec.Attempts[0].Generation = 2 }},
		{"graph", good, false, func(s *shown) { s.graph = []byte{9} }},
		{"derivable", good, false, func(s *shown) { s.rec.Run.Final = []byte{200, 3} }},
		{"derivable", good, false, func(s *shown) { s.rec.Run.Final = final(dag.Succeeded, dag.Running, dag.Succeeded) }},
		{"derived state", failed, false, func(s *shown) { s.rec.Run.Final = final(dag.Failed, dag.Failed, dag.UpstreamFailed) }},
		{"derived state", failed, false, func(s *shown) { s.rec.Run.Final = final(dag.Failed, dag.UpstreamFailed, dag.Skipped) }},
		{"outcome", failed, false, func(s *shown) { s.rec.Run.State = dag.RunSucceeded }},
		{"outcome", good, false, func(s *shown) { s.rec.Run.State = dag.RunFailed }},
		{"outcome", good, false, func(s *shown) { s.rec.Run.State = dag.RunStopped }},
		{"finalised", good, false, func(s *shown) {
			s.rec.Run.State, s.rec.Run.FinishedAt, s.rec.Run.Final = dag.RunRunning, 0, nil
		}},
		{"order", good, false, func(s *shown) { s.swap(4, 5) }},
		{"history order", good, false, func(s *shown) { s.events[2].Seq = s.events[1].Seq }},
		{"history readable", good, false, func(s *shown) { s.events[2].Records = []byte{77} }},
		{"one hand-over", good, false, func(s *shown) { s.events = append(s.events[:1], s.events[2:]...) }},
		{"one hand-over", good, false, func(s *shown) { s.rec.Attempts = s.rec.Attempts[:3] }},
		{"one end", good, false, func(s *shown) { s.events[len(s.events)-1].Records = s.events[2].Records }},
		{"one end", good, true, func(s *shown) {
			s.rec.Attempts[0].State, s.rec.Attempts[0].Finished = dag.AttemptLost, 500
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s := history(t, c.live, c.ends)
			c.damage(s)
			for _, v := range verify(t, s) {
				if v.Rule == c.rule {
					return
				}
			}
			t.Errorf("not found; found %+v", verify(t, s))
		})
	}
}

// swap exchanges two transactions of the history.
func (s *shown) swap(i, j int) {
	s.events[i].Records, s.events[j].Records = s.events[j].Records, s.events[i].Records
}
