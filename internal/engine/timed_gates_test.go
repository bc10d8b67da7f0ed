package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
)

// states returns the number of a workflow's runs in each state, such as "2 running, 3 waiting".
func (x *timed) states(w store.Workflow) string {
	counts := map[string]int{}
	for _, r := range x.runsOf(w.ID) {
		counts[r.State.String()]++
	}
	var out []string
	for state, n := range counts {
		out = append(out, fmt.Sprintf("%d %s", n, state))
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):]) })
	return strings.Join(out, ", ")
}

func (x *timed) statesAre(w store.Workflow, want string) {
	x.t.Helper()
	if is := x.states(w); is != want {
		x.t.Errorf("the runs are %s, want %s", is, want)
	}
}

// TestWorkflowLimit raises, lowers and removes the limit of a workflow while runs wait.
func TestWorkflowLimit(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(10 * time.Second))
		w := x.set("w", "max_concurrent_runs: 2\n")
		for range 8 {
			x.submit(w)
		}
		pass(0)
		x.statesAre(w, "2 running, 6 waiting")
		x.set("w", "max_concurrent_runs: 3\n")
		pass(0)
		x.statesAre(w, "3 running, 5 waiting")
		x.set("w", "max_concurrent_runs: 1\n")
		x.whole()
		pass(11 * time.Second)
		x.statesAre(w, "1 running, 3 succeeded, 4 waiting")
		x.restart(t, 0)
		pass(0)
		x.statesAre(w, "1 running, 3 succeeded, 4 waiting")
		x.whole()
		x.set("w", "")
		pass(0)
		x.statesAre(w, "5 running, 3 succeeded")
		x.rest()
		x.statesAre(w, "8 succeeded")
		_ = x.Ask(t.Context(), func() error {
			if n := x.Gates(); n != 0 {
				t.Errorf("%d gates are kept", n)
			}
			return nil
		})
	})
}

// TestTriggerLimit lowers and removes the limit of a trigger whose runs wait, some at the
// workflow's gate already.
func TestTriggerLimit(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(20500 * time.Millisecond))
		const head = "max_concurrent_runs: 3\n"
		w := x.set("w", head, "name: t, every: 1s, overlap: allow, max_concurrent_runs: 5")
		until(7 * time.Second) // 3 are running, 2 wait at the workflow's limit, 2 at the trigger's limit
		x.statesAre(w, "3 running, 4 waiting")
		x.whole()
		x.set("w", head, "name: t, every: 1h, overlap: allow, max_concurrent_runs: 1")
		until(25 * time.Second)
		x.statesAre(w, "1 running, 3 succeeded, 3 waiting")
		x.whole()
		x.restart(t, 0)
		pass(0)
		x.statesAre(w, "1 running, 3 succeeded, 3 waiting")
		x.set("w", head) // the trigger is removed, and so is its limit
		pass(0)
		x.statesAre(w, "3 running, 3 succeeded, 1 waiting")
		x.set("w", "")
		x.rest()
	})
}

// TestLimitOfARefusedEdit refuses an edit that removes the limit of a trigger, one of whose runs waits. The
// run waits at the workflow's limit in that transaction. It must not begin afterwards, because the trigger
// still has its limit.
func TestLimitOfARefusedEdit(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(20 * time.Second))
		const head = "max_concurrent_runs: 3\n"
		w := x.set("w", head, "name: t, every: 1s, overlap: queue, max_concurrent_runs: 2")
		x.submit(w)
		until(3500 * time.Millisecond) // the first two runs of t are running, the third waits at the trigger's limit
		x.pause(w, "t", false)
		x.statesAre(w, "3 running, 1 waiting")
		x.st.fails(func(b *store.Batch) storetest.Fault {
			if len(b.WorkflowUpdates) > 0 {
				return storetest.Refused
			}
			return storetest.NoFault
		})
		if _, _, err := x.Apply(t.Context(), flow(t, "w", head, "name: t, every: 1s, overlap: allow")); !errors.Is(err, store.ErrRefused) {
			t.Fatalf("the edit: %v", err)
		}
		x.whole()
		until(20500 * time.Millisecond) // the workflow has room, but the trigger has not
		x.statesAre(w, "2 running, 1 succeeded, 1 waiting")
		until(21500 * time.Millisecond)
		x.statesAre(w, "2 running, 2 succeeded")
		x.rest()
	})
}

// TestWaitingByPriority: of the waiting runs, the one with the best priority begins first, and the oldest
// among equal ones, also after a restart.
func TestWaitingByPriority(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(10 * time.Second))
		w := x.set("w", "max_concurrent_runs: 1\n")
		var ids []dag.RunID
		for _, p := range []dag.Priority{dag.Medium, dag.Low, dag.High, dag.Low, dag.Highest, dag.High} {
			ids = append(ids, x.submit(w, func(s *engine.Submission) { s.Priority = p }))
			pass(time.Millisecond)
		}
		pass(25 * time.Second)
		x.restart(t, time.Second)
		x.rest()
		rows := x.runsOf(w.ID)
		slices.SortFunc(rows, func(a, b dag.RunRow) int { return int(a.StartedAt - b.StartedAt) })
		var order []int
		for _, r := range rows {
			order = append(order, slices.Index(ids, r.ID))
		}
		if want := []int{0, 4, 2, 5, 1, 3}; !slices.Equal(order, want) {
			t.Errorf("they ran in the order %v, want %v", order, want)
		}
	})
}

// TestInsertedByOthers: runs that other programs insert as submitted obey the limits, too.
func TestInsertedByOthers(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(10 * time.Second))
		w := x.set("w", "max_concurrent_runs: 2\n")
		var b store.Batch
		for range 5 {
			b.RunInserts = append(b.RunInserts, dag.RunRow{Generation: 1, Header: dag.Header{ID: engine.NewRunID(), Workflow: w.ID, Version: 1,
				Priority: dag.Medium, Origin: dag.OriginAPI, Created: x.st.now()}})
		}
		if _, err := x.st.Commit(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		if err := x.Do(t.Context(), engine.Command{Run: b.RunInserts[4].ID, Intent: dag.IntentStop, Actor: "ada"}); err == nil {
			t.Log("a run that nobody has taken up was stopped")
		}
		x.restart(t, 0)
		pass(0)
		x.statesAre(w, "2 running, 3 waiting")
		x.rest()
		x.statesAre(w, "5 succeeded")
	})
}

// TestStopWhileWaiting stops, kills, pauses and resumes runs that wait.
func TestStopWhileWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(10 * time.Second))
		w := x.set("w", "max_concurrent_runs: 1\n")
		var ids []dag.RunID
		for range 5 {
			ids = append(ids, x.submit(w))
		}
		for i, intent := range []dag.Intent{dag.IntentStop, dag.IntentKill, dag.IntentPause} {
			if err := x.Do(t.Context(), engine.Command{Run: ids[i+1], Intent: intent, Actor: "ada"}); err != nil {
				t.Fatal(err)
			}
		}
		pass(0)
		x.statesAre(w, "1 running, 2 stopped, 2 waiting")
		x.whole()
		pass(11 * time.Second) // the paused run is admitted, and still counts
		x.statesAre(w, "1 paused, 2 stopped, 1 succeeded, 1 waiting")
		x.restart(t, 0)
		pass(0)
		x.statesAre(w, "1 paused, 2 stopped, 1 succeeded, 1 waiting")
		if err := x.Do(t.Context(), engine.Command{Run: ids[3], Intent: dag.IntentRun, Actor: "ada"}); err != nil {
			t.Fatal(err)
		}
		x.rest()
		x.statesAre(w, "2 stopped, 3 succeeded")
	})
}

// TestOverlap checks each overlap policy with runs that take longer than the time between instants.
func TestOverlap(t *testing.T) {
	for _, c := range []struct{ head, policy, states, ledger string }{
		{"", "overlap: skip", "1 running, 1 succeeded", "0:02 fired\n0:04..0:06 2 skipped\n0:08 fired\n0:10 skipped"},
		{"", "overlap: skip, max_concurrent_runs: 2", "2 running, 2 succeeded", "0:02 fired\n0:04 fired\n0:06 skipped\n0:08 fired\n0:10 fired"},
		{"", "overlap: queue, overlap_limit: 1", "1 running, 1 succeeded, 1 waiting", "0:02 fired\n0:04 fired\n0:06 skipped\n0:08 fired\n0:10 skipped"},
		{"", "overlap: queue, overlap_limit: 2", "1 running, 1 succeeded, 2 waiting", "0:02 fired\n0:04 fired\n0:06 fired\n0:08 fired\n0:10 skipped"},
		{"", "overlap: cancel_running", "1 running, 3 stopped, 1 waiting", "0:02 fired\n0:04 fired\n0:06 fired\n0:08 fired\n0:10 fired"},
		{"", "overlap: allow", "3 running, 2 succeeded", "0:02 fired\n0:04 fired\n0:06 fired\n0:08 fired\n0:10 fired"},
		{"", "overlap: allow, max_concurrent_runs: 2", "2 running, 2 succeeded, 1 waiting", "0:02 fired\n0:04 fired\n0:06 fired\n0:08 fired\n0:10 fired"},
		{"max_concurrent_runs: 1\n", "overlap: allow", "1 running, 1 succeeded, 3 waiting", "0:02 fired\n0:04 fired\n0:06 fired\n0:08 fired\n0:10 fired"},
		{"max_concurrent_runs: 1\n", "overlap: skip, max_concurrent_runs: 2", "1 running, 1 succeeded, 1 waiting", "0:02 fired\n0:04 fired\n0:06 skipped\n0:08 fired\n0:10 skipped"},
	} {
		t.Run(strings.ReplaceAll(c.head+c.policy, "\n", " "), func(t *testing.T) {
			bubble(t, func(t *testing.T, x *timed) {
				x.slow.Store(int64(5500 * time.Millisecond))
				w := x.set("w", c.head, "name: t, every: 2s, "+c.policy)
				until(11 * time.Second)
				x.statesAre(w, c.states)
				x.ledgerIs(w, "t", c.ledger)
				x.whole()
				x.set("w", "")
				x.rest()
			})
		})
	}
}

// TestRecoveredWait recovers runs of which only one may be active at a time. They wait like new runs.
func TestRecoveredWait(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(10 * time.Second))
		w, _, err := x.Apply(t.Context(), parsed(t, "name: w\nnamespace: test\nmax_concurrent_runs: 1\ntasks:\n  a: {run: x}\n  b: {run: x, needs: a}\n"))
		if err != nil {
			t.Fatal(err)
		}
		ids := []dag.RunID{x.submit(w), x.submit(w), x.submit(w)}
		for _, id := range ids[:2] {
			if err := x.Do(t.Context(), engine.Command{Run: id, Intent: dag.IntentKill, Actor: "ada"}); err != nil {
				t.Fatal(err)
			}
			pass(10500 * time.Millisecond) // it ends, and the next one begins
		}
		x.statesAre(w, "1 running, 2 stopped")
		for _, id := range ids[:2] {
			if v, err := x.Recovered(t.Context(), id); err != nil || v != dag.Accepted {
				t.Fatal(v, err)
			}
		}
		x.statesAre(w, "1 running, 2 waiting")
		x.whole()
		x.restart(t, 0)
		pass(0)
		x.statesAre(w, "1 running, 2 waiting")
		pass(20 * time.Second)
		x.statesAre(w, "1 running, 1 succeeded, 1 waiting")
		x.rest()
		x.statesAre(w, "3 succeeded")
	})
}
