package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
	"skein.dev/skein/internal/trigger"
)

// occur delivers an event. If there is an actor, this person fires the trigger.
func (x *timed) occur(w store.Workflow, name, key, actor string) (engine.Occurred, error) {
	return x.Occur(x.t.Context(), store.TriggerKey{Workflow: w.ID, Name: name}, engine.Occurrence{Key: key, Actor: actor, Reason: "it came"})
}

// backfill starts a backfill of a list of instants.
func (x *timed) backfill(w store.Workflow, parallel int32, change func(*trigger.BackfillSpec), at ...dag.Micros) store.Backfill {
	x.t.Helper()
	spec := trigger.BackfillSpec{Instants: at, Listed: len(at), Parallel: parallel, Priority: "medium"}
	if change != nil {
		change(&spec)
	}
	b, err := trigger.Expand(x.t.Context(), spec, nil, x.st.now(), nil)
	if err != nil {
		x.t.Fatal(err)
	}
	b.Workflow, b.User = w.ID, "ada"
	if b, err = x.StartBackfill(x.t.Context(), b, nil); err != nil {
		x.t.Fatal(err)
	}
	return b
}

func hours(n int) []dag.Micros {
	all := make([]dag.Micros, n)
	for i := range all {
		all[i] = dag.Micro(time.Date(1999, 1, 1, i, 0, 0, 0, time.UTC))
	}
	return all
}

func (x *timed) change(b store.Backfill, state string) {
	x.t.Helper()
	if _, err := x.ChangeBackfill(x.t.Context(), b.ID, state, "ada", nil); err != nil {
		x.t.Fatal(err)
	}
}

// TestFireInTheTransactionOfAnEdit: triggers fire in the transaction that makes a new version, which no
// reader can read yet.
func TestFireInTheTransactionOfAnEdit(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.slow.Store(int64(time.Second))
		w := x.set("w", "params: {p: {type: string, default: x}}\n", "name: t, every: 10s, overlap: allow", "name: g, again: {}, overlap: allow")
		b := x.backfill(w, 1, nil, hours(3)...)
		until(time.Second / 2)
		x.submit(w)
		until(9500 * time.Millisecond)
		x.together(func() {
			go func() {
				x.set("w", "description: other\n", "name: t, every: 10s, overlap: allow", "name: g, again: {}, overlap: allow")
			}()
			eventually(t, "the edit waits", func() bool { return x.Waiting() > 0 })
			go func() {
				if _, err := x.occur(w, "t", "k", "ada"); err != nil {
					t.Error(err)
				}
			}()
			time.Sleep(500 * time.Millisecond)
		}, 3)
		pass(5 * time.Second)
		for _, name := range []string{"t", "g"} {
			for _, l := range x.lines(w.ID, name) {
				if l.Outcome == store.OutcomeMissed {
					t.Errorf("%s at %s was %s: %s", name, stamp(l.At), l.Outcome, l.Reason)
				}
			}
		}
		if f := x.st.books.fill(b.ID); f.Failed > 0 || f.State != store.BackfillDone {
			t.Errorf("the backfill: %+v", f)
		}
		x.set("w", "", "name: t, every: 10s")
		x.rest()
	})
}

// TestResumedListener pauses a run_of trigger, lets a run of the other workflow end, and resumes the trigger.
func TestResumedListener(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		a := x.set("a", "")
		b := x.set("b", "", "name: t, run_of: {workflow: a}")
		x.pause(b, "t", false)
		x.submit(a)
		pass(time.Second)
		x.pause(b, "t", true)
		x.submit(a)
		pass(time.Second)
		if n := len(x.runsOf(b.ID)); n != 1 {
			t.Errorf("%d runs after one that it heard of", n)
		}
		x.rest()
	})
}

// TestListenerInTheTransactionOfAnEnd declares a trigger in the transaction in which a run ends. The trigger
// reacts to later ends.
func TestListenerInTheTransactionOfAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		a := x.set("a", "")
		x.slow.Store(int64(time.Second))
		x.submit(a)
		var b store.Workflow
		x.together(func() {
			go func() { b = x.set("b", "", "name: t, run_of: {workflow: a}") }()
			time.Sleep(2 * time.Second)
		}, 2)
		pass(0)
		x.submit(a)
		pass(3 * time.Second)
		if n := len(x.runsOf(b.ID)); n != 1 {
			t.Errorf("%d runs after one that it heard of", n)
		}
		x.rest()
	})
}

// TestBackfillEndsWhilePaused pauses a backfill whose last runs are under way.
func TestBackfillEndsWhilePaused(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "")
		x.slow.Store(int64(time.Second))
		b := x.backfill(w, 5, nil, hours(3)...)
		x.change(b, store.BackfillPaused)
		pass(5 * time.Second)
		if f := x.st.books.fill(b.ID); f.State == store.BackfillPaused {
			x.change(b, store.BackfillRunning)
		}
		pass(5 * time.Second)
		if f := x.st.books.fill(b.ID); f.State != store.BackfillDone {
			t.Errorf("it is %s, %d of %d ended", f.State, f.Ended, f.Total)
		}
		x.rest()
	})
}

// TestBackfillRunRecovered recovers a failed run of a backfill. The backfill counts one end of the run.
func TestBackfillRunRecovered(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		fail := true
		x.result = func(engine.Assignment) dag.Result {
			if fail {
				fail = false
				return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
			}
			return success()
		}
		w := x.set("w", "")
		x.slow.Store(int64(time.Second))
		b := x.backfill(w, 1, nil, hours(4)...)
		pass(1500 * time.Millisecond)
		first := x.runsOf(w.ID)[0]
		if first.State != dag.RunFailed {
			t.Fatalf("the first run is %s", first.State)
		}
		if f := x.st.books.fill(b.ID); f.Failed != 1 || f.Ended != 1 {
			t.Errorf("%d ended, %d failed", f.Ended, f.Failed)
		}
		if v, err := x.Recovered(t.Context(), first.ID); err != nil || v != dag.Accepted {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		if f := x.st.books.fill(b.ID); f.State != store.BackfillDone || f.Ended != 4 || f.Started != 4 || f.Failed != 0 {
			t.Errorf("it is %s: %d started, %d ended, %d failed", f.State, f.Started, f.Ended, f.Failed)
		}
		x.rest()
	})
}

// TestBackfillRunQuarantined: a run of a backfill is quarantined, and the others continue.
func TestBackfillRunQuarantined(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.st.books.allowed = true
		w := x.set("w", "")
		x.slow.Store(int64(time.Second))
		b := x.backfill(w, 1, nil, hours(3)...)
		first := x.runsOf(w.ID)[0].ID
		x.st.fails(func(b *store.Batch) storetest.Fault {
			for i := range b.AttemptUpdates {
				if b.AttemptUpdates[i].Run == first && len(b.AttemptUpdates[i].Message) == 0 {
					return storetest.Refused
				}
			}
			for i := range b.AttemptUpdates {
				if b.AttemptUpdates[i].Run == first {
					return storetest.Refused
				}
			}
			return storetest.NoFault
		})
		pass(20 * time.Second)
		if f := x.st.books.fill(b.ID); f.State != store.BackfillDone || f.Failed != 1 {
			t.Errorf("it is %s: %d started, %d ended, %d failed; quarantined %d", f.State, f.Started, f.Ended, f.Failed, x.Stats().Quarantined.Load())
		}
		x.whole()
	})
}

// TestEditWithMoreThanOnePlan edits and removes a trigger that owes more than one plan starts.
func TestEditWithMoreThanOnePlan(t *testing.T) {
	for _, how := range []string{"edit", "remove", "pause"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, x *timed) {
				x.slow.Store(int64(time.Millisecond))
				w := x.set("w", "", "name: t, every: 1s, catchup: all, catchup_limit: 5000, overlap: allow")
				until(2 * time.Second)
				x.together(func() {
					time.Sleep(1500 * time.Second)
					switch how {
					case "edit":
						go func() { x.set("w", "", "name: t, every: 2s, overlap: allow") }()
					case "remove":
						go func() { x.set("w", "") }()
					case "pause":
						go func() { x.pause(w, "t", false) }()
					}
				}, 1)
				pass(3 * time.Second)
				if how == "pause" {
					x.pause(w, "t", true)
				}
				x.set("w", "") // delete the workflow
				x.rest()
			})
		})
	}
}

// TestAgainKeepsItsMemory edits a trigger of kind again that waits for max_per_hour.
func TestAgainKeepsItsMemory(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, again: {max_per_hour: 3}")
		x.slow.Store(int64(time.Minute))
		x.submit(w)
		until(30 * time.Minute)
		if n := len(x.runsOf(w.ID)); n != 4 {
			t.Fatalf("%d runs", n)
		}
		x.set("w", "", "name: t, priority: high, again: {max_per_hour: 3}")
		until(50 * time.Minute)
		if n := len(x.runsOf(w.ID)); n != 4 {
			t.Errorf("%d runs: an edit forgave those of the last hour", n)
		}
		until(70 * time.Minute)
		if n := len(x.runsOf(w.ID)); n < 5 || n > 7 {
			t.Errorf("%d runs: an edit ended the round", n)
		}
		x.set("w", "")
		x.rest()
	})
}

// TestStartAfterRetake fires many triggers of kind start although the first commit of the
// node's life is lost.
func TestStartAfterRetake(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		const flows, each = 2, 900
		var all []store.Workflow
		for f := range flows {
			var lines []string
			for i := range each {
				lines = append(lines, fmt.Sprintf("name: t%d, at: start", i))
			}
			all = append(all, x.set(fmt.Sprint("w", f), "", lines...))
		}
		x.close()
		first := true
		x.st.fails(func(*store.Batch) storetest.Fault {
			if first {
				first = false
				return storetest.Lost
			}
			return storetest.NoFault
		})
		x.start(t)
		if err := x.Greet(t.Context(), "again"); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		n := 0
		for _, w := range all {
			n += len(x.runsOf(w.ID))
		}
		if n != flows*each {
			t.Errorf("%d of %d fired", n, flows*each)
		}
	})
}

// TestDamagedTrigger: the declaration of a trigger cannot be read. Other triggers fire, and the workflow can
// be edited and deleted.
func TestDamagedTrigger(t *testing.T) {
	for _, how := range []string{"edit", "delete"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, x *timed) {
				w := x.set("w", "", "name: t, every: 10s", "name: u, every: 10s")
				x.damage(w, "t")
				pass(0)
				x.restart(t, time.Second)
				until(25 * time.Second)
				x.ledgerIs(w, "u", `
					0:10 fired
					0:20 fired`)
				if row := x.row(w, "t"); row.State != store.TriggerPaused || !strings.Contains(row.Reason, "cannot be read") {
					t.Errorf("the damaged one is %s: %s", row.State, row.Reason)
				}
				x.ledgerIs(w, "t", "0:10 missed")
				calls := x.st.clocks.Load()
				pass(10 * time.Second)
				if n := x.st.clocks.Load() - calls; n > 30 {
					t.Errorf("%d looks in ten seconds", n)
				}
				switch how {
				case "edit":
					if _, _, err := x.Apply(t.Context(), flow(t, "w", "", "name: t, every: 7s")); err != nil {
						t.Errorf("edit: %v", err)
					}
					if row := x.row(w, "t"); row.State != store.TriggerActive || row.Next == 0 {
						t.Errorf("replaced, it is %s, next %d", row.State, row.Next)
					}
				case "delete":
					if _, err := x.SetState(t.Context(), w, store.WorkflowDeleted, 0, nil); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			})
		})
	}
}

// damage writes nonsense into a declaration, past the engine.
func (x *timed) damage(w store.Workflow, name string) {
	x.t.Helper()
	row := x.row(w, name)
	row.Spec = []byte("{")
	row.Revision++
	info, err := x.st.Store.Acquire(context.Background(), x.Handler().ID, []dag.ShardID{0})
	if err != nil {
		x.t.Fatal(err)
	}
	var b store.Batch
	b.Fences = []store.Fence{info[0].Fence}
	b.TriggerUpdates = []store.Trigger{row}
	if _, err := x.st.Store.Commit(context.Background(), &b); err != nil && !errors.Is(err, store.ErrRefused) {
		x.t.Fatal(err)
	}
}

// TestClockBack sets the clock back an hour: no trigger fires twice, and no loop spins.
func TestClockBack(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 1s, overlap: allow", "name: u, every: 1s, overlap: allow")
		until(10*time.Second + 999_990*time.Microsecond)
		x.pause(w, "u", false) // decides the instants up to now
		x.st.ahead.Store(-3600e6)
		x.submit(w)
		pass(40 * time.Second)
		if d := x.sleeps(); d < 100*time.Millisecond {
			t.Errorf("the writer sleeps %s at a time", d)
		}
		if n := len(x.lines(w.ID, "t")); n != 10 {
			t.Errorf("%d lines", n)
		}
		until(time.Hour + 20*time.Second)
		if n := len(x.lines(w.ID, "t")); n < 18 || n > 21 {
			t.Errorf("%d lines", n)
		}
		x.set("w", "")
		x.rest()
	})
}

// sleeps returns how long the writer would sleep now.
func (x *timed) sleeps() (d time.Duration) {
	_ = x.Ask(context.Background(), func() error { d = x.DueWait(); return nil })
	return d
}

// TestRemovedAndBack removes a trigger and declares it again in one transaction.
func TestRemovedAndBack(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 10s", "name: u, every: 20s")
		until(15 * time.Second)
		x.together(func() {
			for i, lines := range [][]string{{"name: u, every: 20s"}, {"name: t, every: 4s"}, {}, {"name: u, every: 5s", "name: t, every: 4s"}} {
				go x.Apply(t.Context(), flow(t, "w", fmt.Sprintf("description: v%d\n", i), lines...))
				eventually(t, "it waits", func() bool { return x.Waiting() > i })
			}
		}, 4)
		pass(5 * time.Second)
		x.ledgerIs(w, "t", `
			0:10 fired
			0:16 fired
			0:20 fired`)
		x.ledgerIs(w, "u", "0:20 fired")
		x.rest()
	})
}

// TestHearingDelaysNothing: a trigger listens to runs that end all the time, while its own instant is due.
// So the row that a look has read has always changed when its plan is applied.
func TestHearingDelaysNothing(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		a := x.set("a", "")
		b := x.set("b", "", "name: t, timezone: UTC, absent: {run_of: {workflow: c}, by: '00:01'}")
		c := x.set("c", "")
		until(time.Minute - time.Second)
		read := func() { // called between the read of the due instants and their decision
			x.submit(c)
			x.submit(a)
			synctest.Wait()
		}
		x.st.read.Store(&read)
		pass(2 * time.Second)
		x.st.read.Store(nil)
		x.ledgerIs(b, "t", "1:00 skipped")
		x.rest()
	})
}

// TestDeafTrigger: if runs end to which a trigger does not react, the trigger's row is not written.
func TestDeafTrigger(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		a := x.set("a", "")
		b := x.set("b", "", "name: t, run_of: {workflow: a, require: failed}")
		for range 5 {
			x.submit(a)
			pass(time.Second)
		}
		if row := x.row(b, "t"); row.Revision != 1 {
			t.Errorf("the row was written %d times", row.Revision-1)
		}
		x.rest()
	})
}

// TestBackfillWithoutParameters: no instant of a backfill has valid parameters. All instants fail, in
// transactions that also contain other work.
func TestBackfillWithoutParameters(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "params: {n: {type: int}}\n")
		b := x.backfill(w, 2, func(s *trigger.BackfillSpec) { s.Params = []byte(`{"n": "no"}`) }, hours(5000)...)
		pass(time.Second)
		if f := x.st.books.fill(b.ID); f.State != store.BackfillDone || f.Failed != 5000 || len(x.runsOf(w.ID)) > 0 {
			t.Errorf("it is %s, %d failed", f.State, f.Failed)
		}
		if n := x.st.commits.Load(); n < 5 {
			t.Errorf("5000 instants were tried in %d transactions", n)
		}
		x.rest()
	})
}
