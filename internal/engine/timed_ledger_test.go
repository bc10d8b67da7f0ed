package engine_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
)

// TestCatchup lets time pass while no node runs, under each policy of catchup.
func TestCatchup(t *testing.T) {
	for _, c := range []struct{ policy, ledger string }{
		{"catchup: none", "2:00 fired\n4:00..8:00 3 missed"},
		{"catchup: latest", "2:00 fired\n4:00..6:00 2 merged\n8:00 late"},
		{"catchup: all", "2:00 fired\n4:00 late\n6:00 late\n8:00 late"},
		{"catchup: all, catchup_limit: 1", "2:00 fired\n4:00..6:00 2 missed\n8:00 late"},
		{"catchup: all, delay_tolerance: 4m", "2:00 fired\n4:00 missed\n6:00 late\n8:00 late"},
		{"catchup: latest, delay_tolerance: 30s", "2:00 fired\n4:00..8:00 3 missed"},
		{"catchup: latest, delay_tolerance: 5m", "2:00 fired\n4:00 missed\n6:00 merged\n8:00 late"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			bubble(t, func(t *testing.T, x *timed) {
				w := x.set("w", "", "name: t, every: 2m, overlap: allow, "+c.policy)
				until(2*time.Minute + time.Second)
				x.restart(t, 7*time.Minute+29*time.Second)
				pass(time.Second)
				x.ledgerIs(w, "t", c.ledger)
				pass(30 * time.Second) // 10:01
				x.ledgerIs(w, "t", c.ledger+"\n10:00 fired")
				x.rest()
			})
		})
	}
}

// TestStartBy lets a run wait for longer than its delay tolerance: the run ends as skipped, and in the same
// transaction its line changes to missed. This also works across a restart.
func TestStartBy(t *testing.T) {
	for _, restart := range []time.Duration{-1, 0, time.Minute} {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			bubble(t, func(t *testing.T, x *timed) {
				x.slow.Store(int64(30 * time.Second))
				w := x.set("w", "max_concurrent_runs: 1\n", "name: t, every: 10s, overlap: allow, delay_tolerance: 15s")
				until(21 * time.Second)
				x.statesAre(w, "1 running, 1 waiting")
				if restart >= 0 {
					x.restart(t, restart)
				}
				until(36 * time.Second)
				pass(time.Until(x.st.now().Time())) // at once, if the restart took longer
				x.set("w", "max_concurrent_runs: 1\n")
				x.rest()
				lines := x.lines(w.ID, "t")
				if l := lines[1]; l.Outcome != store.OutcomeMissed || l.Run.IsZero() {
					t.Errorf("the second line is %s: %s", l.Outcome, l.Reason)
				}
			})
		})
	}
}

// TestPausedTrigger: the instants that pass while a trigger is paused share one ledger line.
func TestPausedTrigger(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 10s")
		until(15 * time.Second)
		x.pause(w, "t", false)
		x.pause(w, "t", false)
		until(55 * time.Second)
		x.set("w", "", "name: t, every: 20s") // a person's pause outlives an edit
		if row := x.row(w, "t"); row.State != store.TriggerPaused || row.Next != 0 {
			t.Errorf("it is %s", row.State)
		}
		if o, err := x.occur(w, "t", "hand/1", "ada"); err != nil || o.Outcome != store.OutcomeFired {
			t.Errorf("by hand: %+v %v", o, err)
		}
		if _, err := x.occur(w, "t", "event/1", ""); !errors.Is(err, errkind.ErrConflict) {
			t.Errorf("an event: %v", err)
		}
		until(65 * time.Second)
		x.pause(w, "t", true)
		until(85 * time.Second)
		x.ledgerIs(w, "t", `
			0:10 fired
			0:20..0:50 4 skipped
			0:55 hand/1 fired
			1:00 skipped
			1:20 fired`)
		x.rest()
	})
}

// TestPausedWorkflow: instants that are due while the workflow is paused are skipped.
func TestPausedWorkflow(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 10s")
		b := x.backfill(w, 1, nil, hours(2)...)
		x.slow.Store(int64(time.Second))
		until(15 * time.Second)
		x.become(w, store.WorkflowPaused)
		until(35 * time.Second)
		x.become(w, store.WorkflowActive)
		until(45 * time.Second)
		x.ledgerIs(w, "t", `
			0:10 fired
			0:20..0:30 2 skipped
			0:40 fired`)
		if f := x.st.books.fill(b.ID); f.State != store.BackfillDone {
			t.Errorf("the backfill is %s", f.State)
		}
		x.become(w, store.WorkflowDeleted)
		until(75 * time.Second)
		x.rest()
	})
}

// TestChangesWhenDue changes a workflow when an instant is due: before the read of due triggers begins, and
// between the read and the decision.
func TestChangesWhenDue(t *testing.T) {
	changes := map[string]struct {
		do     func(x *timed, w store.Workflow)
		ledger string
	}{
		"pause":    {func(x *timed, w store.Workflow) { x.pause(w, "t", false) }, "0:10 fired\n0:20 fired"},
		"edit":     {func(x *timed, w store.Workflow) { x.set("w", "", "name: t, every: 4s") }, "0:10 fired\n0:20 fired\n0:24 fired\n0:28 fired"},
		"tasks":    {func(x *timed, w store.Workflow) { x.set("w", "description: x\n", "name: t, every: 10s") }, "0:10 fired\n0:20 fired"},
		"remove":   {func(x *timed, w store.Workflow) { x.set("w", "") }, "0:10 fired\n0:20 fired"},
		"rename":   {func(x *timed, w store.Workflow) { x.set("w", "", "name: u, every: 10s") }, "0:10 fired\n0:20 fired"},
		"rollback": {func(x *timed, w store.Workflow) { x.back(w) }, "0:10 fired\n0:20 fired\n0:24 fired\n0:28 fired"},
		"delete":   {func(x *timed, w store.Workflow) { x.become(w, store.WorkflowDeleted) }, "0:10 fired\n0:20 fired"},
		"stop":     {func(x *timed, w store.Workflow) { x.become(w, store.WorkflowPaused) }, "0:10 fired\n0:20 skipped"},
	}
	for name, c := range changes {
		for _, when := range []string{"before", "between"} {
			t.Run(name+" "+when, func(t *testing.T) {
				bubble(t, func(t *testing.T, x *timed) {
					x.set("w", "", "name: t, every: 4s, start: '2001-01-01'")
					x.set("w", "", "name: t, every: 4s")
					w := x.set("w", "", "name: t, every: 10s")
					until(15 * time.Second)
					once := func() {}
					if when == "between" {
						once = func() {
							x.st.read.Store(nil)
							c.do(x, w)
						}
						x.st.read.Store(&once)
						pass(5 * time.Second)
					} else {
						wait := make(chan struct{})
						hold := func() { x.st.read.Store(nil); <-wait }
						x.st.read.Store(&hold)
						pass(5 * time.Second)
						c.do(x, w)
						close(wait)
					}
					until(29 * time.Second)
					x.ledgerIs(w, "t", c.ledger)
					x.rest()
				})
			})
		}
	}
}

// TestEditBesideAnotherClock: the store's clock jumps ahead, and an edit comes in the transaction that
// decides the instants that are then due. The new declaration begins after the decided instants.
func TestEditBesideAnotherClock(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 5s, catchup: none")
		until(11 * time.Second)
		busy := make(chan struct{})
		held := func() {
			x.st.read.Store(nil)
			go func() { _ = x.Ask(t.Context(), func() error { <-busy; return nil }) }()
			synctest.Wait()
		}
		x.st.read.Store(&held)
		x.st.ahead.Store(time.Hour.Microseconds())
		pass(5 * time.Second) // the read finds many due instants, and waits for the writer
		go x.set("w", "", "name: t, every: 3s, catchup: none")
		synctest.Wait()
		close(busy)
		pass(5 * time.Second)
		x.rest() // each instant has one outcome
		if row := x.row(w, "t"); row.Since < dag.Micro(time.Now()) {
			t.Errorf("the new declaration holds since %s", stamp(row.Since))
		}
	})
}

// back makes the second version current.
func (x *timed) back(w store.Workflow) {
	x.t.Helper()
	if _, err := x.Rollback(x.t.Context(), w, 2, 0, nil); err != nil {
		x.t.Fatal(err)
	}
}

// TestOnceAndCounted: triggers end after their only instant, or after their last counted run.
func TestOnceAndCounted(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: past, at: '1999-01-01T00:00:00Z'", "name: once, at: '2000-01-01T00:00:05Z'",
			"name: three, every: 2s, count: 3", "name: skips, every: 2s, count: 2, max_concurrent_runs: 1")
		x.slow.Store(int64(3 * time.Second))
		until(20 * time.Second)
		x.ledgerIs(w, "past", "")
		x.ledgerIs(w, "once", "0:05 fired")
		x.ledgerIs(w, "skips", "0:02 fired\n0:04 skipped\n0:06 fired")
		for _, name := range []string{"past", "once", "three", "skips"} {
			if row := x.row(w, name); row.State != store.TriggerEnded || row.Next != 0 || row.Reason == "" {
				t.Errorf("%s is %s, next %s: %s", name, row.State, stamp(row.Next), row.Reason)
			}
		}
		x.rest()
	})
}

// TestEvents: events come once, twice, while the trigger is paused, and several at once.
func TestEvents(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: h, webhook: {secret: s}, overlap: skip")
		x.slow.Store(int64(5 * time.Second))
		first, err := x.occur(w, "h", "a", "")
		if err != nil || first.Outcome != store.OutcomeFired || first.Existing {
			t.Fatalf("%+v %v", first, err)
		}
		if o, _ := x.occur(w, "h", "b", ""); o.Outcome != store.OutcomeSkipped || !o.Run.IsZero() {
			t.Errorf("while it runs: %+v", o)
		}
		for range 2 { // the second round is after a restart
			if o, err := x.occur(w, "h", "a", ""); err != nil || !o.Existing || o.Run != first.Run {
				t.Errorf("again: %+v %v", o, err)
			}
			x.restart(t, 0)
		}
		pass(10 * time.Second)
		got := make(chan engine.Occurred, 10)
		x.together(func() {
			for range 10 {
				go func() { o, _ := x.occur(w, "h", "c", ""); got <- o }()
			}
		}, 10)
		made := 0
		for range 10 {
			if o := <-got; !o.Existing {
				made++
			}
		}
		if made != 1 {
			t.Errorf("one event made %d runs", made)
		}
		x.rest()
	})
}

// TestCallsAtOnce: two owners search for one call at the same time, and both find that it is new. One of them
// records it. The other one answers as if it had searched later.
func TestCallsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.st.books.allowed = true
		w := x.set("w", "", "name: h, webhook: {secret: s}", "name: i, webhook: {secret: s}")
		call := func(name, filtered string) (engine.Occurred, error) {
			o := engine.Occurrence{Key: "k", Reason: "it came", Filtered: filtered}
			o.Seen.Scope, o.Seen.Key = store.CallScope+"s", "k"
			return x.Occur(x.t.Context(), store.TriggerKey{Workflow: w.ID, Name: name}, o)
		}
		first, err := call("h", "")
		if err != nil || first.Outcome != store.OutcomeFired {
			t.Fatalf("%+v %v", first, err)
		}
		for _, filtered := range []string{"", "the filter of the trigger is false for this call"} {
			x.st.race.Store(true)
			if o, err := call("i", filtered); !errors.Is(err, errkind.ErrReplayed) {
				t.Errorf("by another trigger, filtered %q: %+v %v", filtered, o, err)
			}
		}
		x.st.race.Store(true)
		if o, err := call("h", ""); err != nil || !o.Existing || o.Run != first.Run {
			t.Errorf("by the same trigger: %+v %v", o, err)
		}
		x.rest()
	})
}

// TestNothingDue: while no instant is due for an hour, the engine reads the store only a few times a minute.
func TestNothingDue(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, daily: {at: '06:00'}", "name: a, again: {}", "name: b, absent: {run_of: {workflow: c}, by: 3h}")
		pass(time.Minute)
		commits, clocks, dues, nexts := x.st.commits.Load(), x.st.clocks.Load(), x.st.dues.Load(), x.st.nexts.Load()
		pass(time.Hour)
		if n := x.st.commits.Load() - commits; n > 0 {
			t.Errorf("%d transactions", n)
		}
		for what, n := range map[string]int64{"clock": x.st.clocks.Load() - clocks, "due": x.st.dues.Load() - dues, "next": x.st.nexts.Load() - nexts} {
			if n > 250 {
				t.Errorf("%s was read %d times", what, n)
			}
		}
		x.become(w, store.WorkflowDeleted)
		x.rest()
	})
}

// TestListeners: run_of triggers fire for any and for all of several workflows, and not while one has not
// ended.
func TestListeners(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		a, b := x.set("a", ""), x.set("b", "")
		w := x.set("w", "", "name: any, overlap: allow, run_of: {workflow: [a, b], require: any}", "name: all, overlap: allow, run_of: {workflow: [a, b], require: all}",
			"name: late, overlap: allow, absent: {run_of: {workflow: a}, by: 30s}")
		until(5 * time.Second)
		x.submit(a)
		pass(time.Second)
		x.submit(a)
		pass(time.Second)
		if n := len(x.lines(w.ID, "all")); n != 0 {
			t.Errorf("all: %d lines before the second workflow", n)
		}
		x.restart(t, 0)
		x.submit(b)
		pass(time.Second)
		if n, m := len(x.lines(w.ID, "any")), len(x.lines(w.ID, "all")); n != 3 || m != 1 {
			t.Errorf("any: %d lines, all: %d", n, m)
		}
		until(50 * time.Second)
		if n := len(x.lines(w.ID, "late")); n != 1 {
			t.Errorf("late: %d lines", n)
		}
		x.become(w, store.WorkflowDeleted)
		x.rest()
	})
}

// TestThousandStarts: one trigger has to start a thousand runs at once. Each run ends in the transaction in
// which it begins.
func TestThousandStarts(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 1s, catchup: all, catchup_limit: 3000, overlap: allow")
		until(time.Second / 2)
		x.restart(t, 2500*time.Second)
		pass(time.Second)
		x.rest()
		if n := len(x.runsOf(w.ID)); n < 2500 {
			t.Errorf("%d runs", n)
		}
		if x.st.books.rowsMax > 9000 { // a plan is never split, and shares its transaction with other work
			t.Errorf("%d rows in one transaction", x.st.books.rowsMax)
		}
	})
}

// TestIfLost: the node crashes during a run whose trigger has if_lost: fail.
func TestIfLost(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(time.Minute))
		d := parsed(t, "name: w\nnamespace: test\ntriggers:\n  - {name: t, every: 10s, if_lost: fail}\ntasks:\n  a: {run: x}\n  b: {run: x}\n  c: {run: x, needs: b}\n")
		w, _, err := x.Apply(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		until(11 * time.Second)
		x.pause(w, "t", false)
		x.crash(t)
		pass(time.Second)
		x.statesAre(w, "1 failed")
		x.whole()
		if v, err := x.Recovered(t.Context(), x.runsOf(w.ID)[0].ID); err != nil || v != dag.Accepted {
			t.Errorf("recover: %v %v", v, err)
		}
		x.rest()
		x.statesAre(w, "1 succeeded")
	})
}

// TestBackfillCrashes kills the node at each commit of a backfill, before and after the write, and loses the
// answer of each commit: every instant has one run.
func TestBackfillCrashes(t *testing.T) {
	for _, how := range []string{"before", "after", "lost", "written"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, x *timed) {
				w := x.set("w", "")
				x.slow.Store(int64(time.Second))
				for k := 1; k < 12; k++ {
					n := 0
					x.st.fails(func(*store.Batch) storetest.Fault {
						if n++; n != k {
							return storetest.NoFault
						}
						x.st.dead.Store(how == "before" || how == "after")
						if how == "after" || how == "written" {
							return storetest.Written
						}
						return storetest.Lost
					})
					b := x.startAnyhow(w, k)
					pass(2 * time.Second)
					if x.st.dead.Load() {
						x.crash(t)
					}
					pass(time.Minute)
					if b.ID == 0 {
						continue
					}
					if f := x.st.books.fill(b.ID); f.State != store.BackfillDone || f.Ended != 4 {
						t.Errorf("commit %d: it is %s, %d ended", k, f.State, f.Ended)
					}
				}
				x.st.fault.Store(nil)
				x.rest()
			})
		})
	}
}

// startAnyhow starts a backfill, and repeats the call if the outcome is unknown.
func (x *timed) startAnyhow(w store.Workflow, k int) store.Backfill {
	at := hours(4)
	b := store.Backfill{Workflow: w.ID, Spec: fmt.Appendf(nil, `{"parallel":2,"priority":"medium","n":%d}`, k), Instants: dag.PackInstants(at),
		Total: 4, Parallel: 2, User: "ada"}
	done := make(chan store.Backfill, 1)
	go func() {
		b, err := x.StartBackfill(x.t.Context(), b, nil)
		if err != nil {
			b.ID = 0
		}
		done <- b
	}()
	select {
	case b = <-done:
	case <-time.After(time.Second):
		b.ID = 0
		go func() { <-done }()
	}
	return b
}

// TestPoisonIsToldOf: a task whose node dies repeatedly fails, and the log and a metric report it.
func TestPoisonIsToldOf(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(time.Hour))
		w, _, err := x.Apply(t.Context(), parsed(t, "name: w\nnamespace: test\ntasks:\n  a: {run: x}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Submit(t.Context(), submission(w)); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			pass(time.Minute)
			if told := x.Stats().Poisoned.Load(); told != 0 {
				x.statesAre(w, "1 failed")
				return
			}
			x.crash(t)
		}
		t.Error("nobody heard of it")
	})
}
