package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// watching starts the node again with alerts.
func (x *timed) watching(t *testing.T) {
	x.alerts = true
	x.close()
	x.start(t)
}

// incidentsAre compares the incidents, and their reasons.
func (x *timed) incidentsAre(want string) {
	x.t.Helper()
	pass(0)
	if got := incidents(x.t, x.st); got != want {
		x.t.Errorf("at %s the incidents are %q, want %q", stamp(x.st.now()), got, want)
	}
}

// let ends n of the held tasks.
func (x *timed) let(n int) {
	for _, k := range x.hands.holding(n) {
		x.hands.end(k, success())
	}
	pass(0)
}

// newest returns the newest incident.
func (x *timed) newest() *alert.Incident {
	x.t.Helper()
	rows, err := x.st.Incidents(x.t.Context(), store.IncidentQuery{Over: true, Counting: true, Limit: 1})
	if err != nil || len(rows) != 1 {
		x.t.Fatalf("%d incidents, %v", len(rows), err)
	}
	is, err := alert.Read(rows[0])
	if err != nil {
		x.t.Fatal(err)
	}
	return is
}

const late = "alerts: [{deadline: {after: 10s}, to: ops}]\n"

// TestLate: the alert of a late run is open while the run is late, under every owner.
func TestLate(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.watching(t)
		x.slow.Store(int64(30 * time.Second))
		w := x.set("w", late, "name: t, every: 1m")
		until(69 * time.Second)
		x.incidentsAre("")
		until(70 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		if is := x.newest(); stamp(is.Detail.OpenedAt) != "1:10" || stamp(is.Detail.Last.Due) != "1:10" || is.Detail.Last.Event != alert.Late || is.Detail.Last.Trigger != "t" {
			t.Errorf("it is %+v", is.Detail)
		}
		x.whole()
		until(89 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		until(91 * time.Second)
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
		x.pause(w, "t", false)
		x.rest()
	})
}

// TestLateOfAnotherOwner: if a new owner takes a late run, the owner does not count the run as late again.
// The end of the run still resolves the alert.
func TestLateOfAnotherOwner(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.held = true
		x.watching(t)
		w := x.set("w", late)
		for range 3 {
			x.submit(w)
		}
		until(5 * time.Second)
		x.crash(t)
		until(10 * time.Second)
		x.incidentsAre("open 3 opened:ops")
		x.crash(t)
		until(20 * time.Second)
		x.incidentsAre("open 3 opened:ops")
		x.whole()
		x.restart(t, 5*time.Minute)
		x.let(3)
		x.rest()
		x.incidentsAre("resolved 3 opened:ops resolved:ops")
	})
}

// TestLateWithoutRun: an instant that has failed is late from its deadline on, and not before. A success
// before it is in time.
func TestLateWithoutRun(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.watching(t)
		var failing atomic.Bool
		x.result = func(engine.Assignment) dag.Result {
			if failing.Load() {
				return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
			}
			return success()
		}
		failing.Store(true)
		w := x.set("w", `alerts: [{deadline: {by: "00:05"}, to: ops, name: d}]`+"\n", "name: t, every: 1m, end: 2000-01-01T00:02:30Z")
		until(150 * time.Second)
		x.incidentsAre("counting 0")
		x.crash(t)
		until(299 * time.Second)
		x.incidentsAre("counting 0")
		until(300 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		if is := x.newest(); stamp(is.Detail.Last.Due) != "5:00" || !strings.Contains(is.Detail.Last.Message, "task a failed") {
			t.Errorf("it is %+v", is.Detail)
		}
		failing.Store(false)
		x.submit(w)
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
		x.rest()
	})
}

// TestLateInTime: a success before the deadline takes the failure back.
func TestLateInTime(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.watching(t)
		var failing atomic.Bool
		x.result = func(engine.Assignment) dag.Result {
			if failing.Load() {
				return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
			}
			return success()
		}
		failing.Store(true)
		w := x.set("w", "alerts: [{deadline: {after: 1m}, to: ops}]\n")
		x.submit(w)
		until(30 * time.Second)
		x.incidentsAre("counting 0")
		failing.Store(false)
		x.submit(w)
		x.incidentsAre("passed 0")
		until(5 * time.Minute)
		x.incidentsAre("passed 0")
		x.rest()
	})
}

// TestLateStart: a rule can be about the start of a run alone. Runs that wait behind other runs are late.
func TestLateStart(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.watching(t)
		x.slow.Store(int64(20 * time.Second))
		w := x.set("w", "max_concurrent_runs: 1\nalerts: [{deadline: {after: 10s, for: start}, to: ops}]\n")
		x.submit(w)
		x.submit(w)
		until(11 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		until(21 * time.Second)
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
		if is := x.newest(); !strings.HasSuffix(is.Detail.Resolved.Reason, "has begun") {
			t.Errorf("it is resolved by %+v", is.Detail.Resolved)
		}
		x.rest()
	})
}

// TestLateResolvedByHand: an incident that a person has resolved does not open again for the same run.
func TestLateResolvedByHand(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.held = true
		x.watching(t)
		w := x.set("w", late)
		x.submit(w)
		until(10 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		if err := engine.NewIncidents(x.Engine).Change(t.Context(), x.newest().ID, engine.IncidentChange{Actor: "ann", Resolve: true}); err != nil {
			t.Fatal(err)
		}
		x.crash(t)
		until(time.Minute)
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
		x.let(1)
		x.rest()
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
	})
}

// TestSlow: a run is slow if it takes longer than the last successful runs usually took.
func TestSlow(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.watching(t)
		w := x.set("w", "alerts: [{on: slow, than: 2x p95, to: ops}, {on: slow, than: 15s, to: mail, name: fixed}]\n")
		x.slow.Store(int64(4 * time.Second))
		for i := range 6 {
			x.submit(w)
			until(time.Duration(i+1) * 10 * time.Second)
		}
		x.incidentsAre("")
		x.hands.mu.Lock()
		x.held, x.hands.held = true, true
		x.hands.mu.Unlock()
		x.submit(w)
		until(69 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		if is := x.newest(); stamp(is.Detail.OpenedAt) != "1:08" || is.Detail.Last.Event != alert.Slow {
			t.Errorf("it is %+v", is.Detail)
		}
		x.crash(t)
		until(76 * time.Second)
		x.incidentsAre("open 1 opened:ops, open 1 opened:mail")
		x.let(1)
		x.rest()
		x.incidentsAre("resolved 1 opened:ops resolved:ops, resolved 1 opened:mail resolved:mail")
	})
}

// TestLateAfterAJump: a clock that jumps ahead is noticed although nothing is written.
func TestLateAfterAJump(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.watching(t)
		x.slow.Store(int64(time.Minute))
		x.submit(x.set("w", "alerts: [{deadline: {after: 1h}, to: ops}]\n"))
		until(5 * time.Second)
		x.st.ahead.Store(2 * time.Hour.Microseconds())
		until(25 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		x.rest()
	})
}

// TestLateByAnEdit: a new rule also applies to runs that are already running.
func TestLateByAnEdit(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.watching(t)
		x.slow.Store(int64(time.Minute))
		x.submit(x.set("w", ""))
		until(20 * time.Second)
		x.set("w", late)
		x.incidentsAre("open 1 opened:ops")
		x.set("w", "")
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
		x.rest()
	})
}

// TestRowsOfAnIncident: however often an incident changes in a transaction, it has one row.
func TestRowsOfAnIncident(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.held = true
		x.watching(t)
		w := x.set("w", "alerts: [{on: failed, to: ops}]\n")
		for range 50 {
			x.submit(w)
		}
		x.together(func() {
			for _, k := range x.hands.holding(50) {
				go x.hands.end(k, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1})
			}
		}, 50)
		x.rest()
		x.incidentsAre("open 50 opened:ops")
		if is := x.newest(); is.Revision > 25 {
			t.Errorf("50 failures have written its row %d times", is.Revision)
		}
	})
}

// TestLateByARollback: the rules of an earlier version apply to running runs as soon as this version is
// current again.
func TestLateByARollback(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.held = true
		x.watching(t)
		x.set("w", late)
		w := x.set("w", "")
		x.submit(w)
		if _, err := x.Rollback(t.Context(), w, 1, 0, nil); err != nil {
			t.Fatal(err)
		}
		until(9 * time.Second)
		x.incidentsAre("")
		until(11 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		x.let(1)
		x.rest()
	})
}

// TestLateInAQueue: a run that waits in a named queue has its deadline after a crash as well.
func TestLateInAQueue(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.held = true
		x.watching(t)
		x.queue("q", 1)
		w := x.set("w", "queue: q\nalerts: [{deadline: {after: 10s, for: start}, to: ops}]\n")
		x.submit(w)
		x.submit(w)
		until(5 * time.Second)
		x.crash(t)
		until(11 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		x.let(1)
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
		x.let(1)
		x.rest()
	})
}

// TestSlowAfterAWait: the duration of a run that has waited is counted from its start. No rule checks the run
// before that.
func TestSlowAfterAWait(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.watching(t)
		x.slow.Store(int64(20 * time.Second))
		w := x.set("w", "max_concurrent_runs: 1\nalerts: [{on: slow, than: 15s, to: ops}]\n")
		x.submit(w)
		x.submit(w)
		pass(0)
		if got := x.moments(); got != 1 {
			t.Errorf("%d moments are due to come, want the one of the run that runs", got)
		}
		until(21 * time.Second)
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
		until(34 * time.Second)
		x.incidentsAre("resolved 1 opened:ops resolved:ops")
		until(36 * time.Second)
		x.incidentsAre("resolved 1 opened:ops resolved:ops, open 1 opened:ops")
		until(time.Minute)
		x.rest()
	})
}

// TestLatePrune: when moments are pruned, the earliest of a run stays.
func TestLatePrune(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.held = true
		x.watching(t)
		w := x.set("w", "alerts: [{deadline: {after: 4h}, to: ops, name: d}]\n")
		for range 20 {
			x.submit(w)
		}
		x.set("w", "alerts: [{deadline: {after: 1h}, to: ops, name: d}]\n")
		due := []time.Duration(nil)
		if err := x.Ask(t.Context(), func() error { due = x.Pruned(); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(due) != 20 {
			t.Errorf("%d moments are left of 20 runs", len(due))
		}
		for _, d := range due {
			if d > time.Hour+time.Minute {
				t.Fatalf("a moment is due in %s", d)
			}
		}
		x.let(20)
		x.rest()
	})
}

// moments returns the number of moments for which the owner waits.
func (x *timed) moments() (n int) {
	x.t.Helper()
	if err := x.Ask(x.t.Context(), func() error { n = x.Moments(); return nil }); err != nil {
		x.t.Fatal(err)
	}
	return n
}

// TestRulePanics: although a rule panics, its shard is loaded, and runs can be submitted.
func TestRulePanics(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.held = true
		x.watching(t)
		w := x.set("w", "alerts: [{on: slow, than: 2x p95, to: ops}]\n")
		x.submit(w)
		x.st.panics.Store(true)
		x.crash(t)
		x.submit(w)
		x.st.panics.Store(false)
		x.let(2)
		x.rest()
		x.incidentsAre("")
	})
}
