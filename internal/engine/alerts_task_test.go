package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
)

// watchedTasks makes a workflow with rules. Its task a is retried once, and its task ok waits for a person.
func (n *node) watchedTasks(rules string, g *dag.Graph) store.Workflow {
	n.t.Helper()
	def := []byte(`{"alerts":[` + rules + `]}`)
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: "test", Name: "w", Graph: g.Pack(), Def: def, Digest: def, User: "ada"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// ruleOn is a rule named as its event, with a channel of the same name.
func ruleOn(event string) string {
	return fmt.Sprintf(`{"name":%q,"on":[%q],"to":[%q],"severity":"error"}`, event, event, event)
}

// TestIncidentsOfTasks: a failed attempt, a failed task and the next success each reach the channels of their
// rules, once, also over a restart.
func TestIncidentsOfTasks(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			var failing atomic.Bool
			failing.Store(true)
			n := alerted(t, st, &failing)
			g := graph(t, "a; b: a", func(s *dag.GraphSpec) { s.Tasks[0].Policy.Retry.Max = 1 })
			wf := n.watchedTasks(ruleOn("retrying")+","+ruleOn("task_failed")+","+ruleOn("recovered"), g)
			n.ends(n.submit(wf), dag.RunFailed)
			n.quiet()
			for _, want := range []string{"open 1 opened:retrying", "open 1 opened:task_failed", "counting 1"} {
				if got := incidents(t, st); strings.Count(got, want) != 1 {
					t.Errorf("incidents are %q, want one %q", got, want)
				}
			}
			n.close()
			n = alerted(t, st, &failing)
			n.ends(n.submit(wf), dag.RunFailed)
			failing.Store(false)
			n.ends(n.submit(wf), dag.RunSucceeded)
			n.quiet()
			for _, want := range []string{"resolved 2 opened:retrying resolved:retrying", "resolved 2 opened:task_failed resolved:task_failed", "resolved 2 event:recovered"} {
				if got := incidents(t, st); strings.Count(got, want) != 1 {
					t.Errorf("incidents are %q, want one %q", got, want)
				}
			}
		})
	}
}

// keyed is a submission with a key, which a later process repeats.
func keyed(wf store.Workflow) engine.Submission {
	s := submission(wf)
	s.Key = "k"
	return s
}

// TestIncidentsOfApprovalsCrashAtEveryCommit: whenever the process dies, an approval has one incident, which
// the decision ends.
func TestIncidentsOfApprovalsCrashAtEveryCommit(t *testing.T) {
	for _, after := range []bool{false, true} {
		atEveryCommit(t, 2, func(k int) bool {
			st := openMemory(t)
			var failing atomic.Bool
			first := alerted(t, st, &failing)
			g := graph(t, "ok; b: ok", logical(map[string]*dag.Logic{"ok": {Kind: dag.Approval}}))
			wf := first.watchedTasks(ruleOn("approval"), g)
			first.close()
			m := newMortal(st, k, after)
			n := alerted(t, m, &failing)
			decide := func(ctx context.Context, n *node) error {
				rows, err := st.Runs(t.Context(), store.RunQuery{Workflow: wf.ID, Limit: 9})
				if err != nil || len(rows.Runs) != 1 {
					t.Fatalf("%+v, %v", rows.Runs, err)
				}
				return n.Decide(ctx, engine.Decision{Run: rows.Runs[0].ID, Task: "ok", Actor: "ada",
					Outputs: func(*dag.RunRow) ([]byte, error) { return []byte(`{}`), nil }, May: func(*dag.RunRow) error { return nil }})
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				select {
				case <-m.died:
					cancel()
				case <-ctx.Done():
				}
			}()
			dead := func() bool { return ctx.Err() != nil }
			is, err := n.Submit(ctx, keyed(wf))
			if err == nil {
				eventually(t, "it waits, or the process is dead", func() bool {
					row, err := st.Run(t.Context(), is.Run)
					return dead() || err == nil && row.State == dag.RunSuspended
				})
				err = decide(ctx, n)
			}
			cancel()
			n.close()
			last := alerted(t, st, &failing)
			id := last.submit(wf, func(s *engine.Submission) { s.Key = "k" })
			eventually(t, "it waits or has succeeded", func() bool { s := last.state(id); return s == dag.RunSuspended || s == dag.RunSucceeded })
			if last.state(id) == dag.RunSuspended {
				wantIncidents(t, st, "open 1 opened:approval")
				if err := decide(t.Context(), last); err != nil {
					t.Fatal(err)
				}
			}
			last.ends(id, dag.RunSucceeded)
			last.quiet()
			wantIncidents(t, st, "resolved 1 opened:approval resolved:approval")
			last.close()
			select {
			case <-m.died:
				return true
			default:
				if err != nil {
					t.Errorf("the process lives: %v", err)
				}
				return false
			}
		})
	}
}

// TestApprovalOfStoppedRun: the stop of a run ends the incidents of its approvals.
func TestApprovalOfStoppedRun(t *testing.T) {
	st := openMemory(t)
	var failing atomic.Bool
	n := alerted(t, st, &failing)
	wf := n.watchedTasks(ruleOn("approval"), graph(t, "ok; b: ok", logical(map[string]*dag.Logic{"ok": {Kind: dag.Approval}})))
	ids := []dag.RunID{n.submit(wf), n.submit(wf)}
	for _, id := range ids {
		eventually(t, "it waits", func() bool { return n.state(id) == dag.RunSuspended })
	}
	if err := n.do(ids[0], dag.IntentStop); err != nil {
		t.Fatal(err)
	}
	n.ends(ids[0], dag.RunStopped)
	told := incidents(t, st)
	if strings.Count(told, "resolved 1 opened:approval resolved:approval") != 1 || strings.Count(told, "open 1 opened:approval") != 1 {
		t.Errorf("incidents are %q", told)
	}
}

// TestIncidentsOfQuarantine: a quarantined run is an event of its own, and it ends the run's deadlines.
func TestIncidentsOfQuarantine(t *testing.T) {
	var g guilty
	h := newHands(t)
	h.held = true
	st := openMemory(t)
	n := start(t, &storetest.Faulty{Store: st, Next: g.next}, h, func(c *engine.Config) { c.Rules = alert.Rules })
	wf := n.watchedTasks(ruleOn("quarantined")+`,{"name":"d","on":["late"],"to":["d"],"deadline":{"after":3600000000,"for":"end"}}`, graph(t, "a"))
	id := n.submit(wf)
	k := h.holding(1)[0]
	g.run.Store(&id)
	h.end(k, dag.Result{State: dag.AttemptFailed, Exited: true, ExitCode: 1})
	n.ends(id, dag.RunFailed)
	n.quiet()
	wantIncidents(t, st, "open 1 opened:quarantined")
}

// TestNoIncidentOfTasksWithoutRule: a workflow without a rule about tasks writes no row of an incident,
// whatever happens to its tasks.
func TestNoIncidentOfTasksWithoutRule(t *testing.T) {
	st := openMemory(t)
	var failing atomic.Bool
	failing.Store(true)
	n := alerted(t, st, &failing)
	wf := n.watchedTasks(ruleOn("stopped"), graph(t, "a", func(s *dag.GraphSpec) { s.Tasks[0].Policy.Retry.Max = 1 }))
	n.ends(n.submit(wf), dag.RunFailed)
	n.quiet()
	wantIncidents(t, st, "")
}
