package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// TestGreet: when the scheduler starts, triggers of kind start fire once. Paused ones get a ledger line that
// says so, and those outside of their span do nothing.
func TestGreet(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: plain, at: start", "name: paused, at: start", "name: early, at: start, start: 2000-01-02",
			"name: over, at: start, end: 1999-12-30", "name: ends, at: start, end: 2000-01-01T00:02:00Z", "name: clock, every: 1h")
		x.pause(w, "paused", false)
		until(time.Minute)
		greet := func(life string) {
			t.Helper()
			if err := x.Greet(t.Context(), life); err != nil {
				t.Fatal(err)
			}
			pass(0)
		}
		greet("first")
		greet("first") // by another node that started together with this one
		until(3 * time.Minute)
		greet("later")
		for name, want := range map[string]int{"plain": 2, "paused": 2, "early": 0, "over": 0, "ends": 1, "clock": 0} {
			lines := x.lines(w.ID, name)
			if len(lines) != want {
				t.Errorf("%s: %d lines, want %d: %+v", name, len(lines), want, lines)
			}
			for _, l := range lines {
				fired := l.Outcome == store.OutcomeFired && !l.Run.IsZero()
				skipped := l.Outcome == store.OutcomeSkipped && l.Run.IsZero() && l.Reason.String() == "the scheduler started; paused by ada: because"
				if name == "paused" && !skipped || name != "paused" && !fired {
					t.Errorf("%s: %+v", name, l)
				}
			}
		}
		for _, name := range []string{"over", "ends"} {
			if r := x.row(w, name); r.State != store.TriggerEnded {
				t.Errorf("%s is %s", name, r.State)
			}
		}
		x.pause(w, "paused", true)
		greet("last")
		if n := len(x.lines(w.ID, "paused")); n != 3 {
			t.Errorf("resumed: %d lines", n)
		}
		x.rest()
	})
}

// TestByHand: while only people start runs, due instants are left to the next engine. An edit or a pause
// starts none of them either.
func TestByHand(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: kept, every: 10s", "name: edited, every: 10s", "name: paused, every: 10s")
		pass(0)
		x.close()
		var hand atomic.Bool
		hand.Store(true)
		x.start(t, func(c *engine.Config) { c.ByHand = hand.Load })
		until(5 * time.Minute)
		x.pause(w, "paused", false)
		x.set("w", "", "name: kept, every: 10s", "name: edited, every: 1h", "name: paused, every: 10s")
		if runs := x.runsOf(w.ID); len(runs) != 0 {
			t.Fatalf("%d runs", len(runs))
		}
		for _, name := range []string{"edited", "paused"} {
			lines := x.lines(w.ID, name)
			if len(lines) != 1 || lines[0].Outcome != store.OutcomeSkipped || lines[0].Count != 30 ||
				lines[0].Reason.String() != "no server ran to start it, and then the trigger was changed" {
				t.Errorf("%s: %+v", name, lines)
			}
		}
		if done, err := x.occur(w, "paused", "manual/1", "ada"); err != nil || done.Run.IsZero() {
			t.Errorf("by hand: %+v, %v", done, err)
		}
		pass(time.Second)
		calls := x.st.clocks.Load()
		pass(time.Minute)
		if n := x.st.clocks.Load() - calls; n != 0 {
			t.Errorf("the clock was read %d times in a minute", n)
		}
		hand.Store(false)
		pass(20 * time.Second)
		lines := x.lines(w.ID, "kept")
		if len(lines) < 2 || lines[0].Outcome != store.OutcomeMerged || lines[1].Outcome != store.OutcomeLate && lines[1].Outcome != store.OutcomeFired {
			t.Errorf("kept: %+v", lines)
		}
		x.rest()
	})
}

// nobody implements the peers of a cluster without other nodes.
type nobody struct{}

func (nobody) Alive(dag.HandlerID) bool                  { return false }
func (nobody) Pending(engine.AttemptID) bool             { return false }
func (nobody) Report(engine.Report)                      {}
func (nobody) Cancel(dag.HandlerID, []dag.Cancel)        {}
func (nobody) Nudge(dag.ShardID)                         {}
func (nobody) Confirm(dag.HandlerID, []engine.AttemptID) {}

// TestSensorsMoveWithShards: the owner of sensors is notified when it owns other shards.
func TestSensorsMoveWithShards(t *testing.T) {
	st := memory.New(memory.Options{Shards: 4})
	defer st.Close()
	var told atomic.Int32
	n := start(t, st, newHands(t), func(c *engine.Config) {
		c.Peers, c.Declared = nobody{}, func() { told.Add(1) }
	})
	if err := st.Join(t.Context(), store.Member{Handler: n.Handler().ID, UUID: n.Handler().UUID, Name: "n", Address: "http://n", State: store.MemberActive}); err != nil {
		t.Fatal(err)
	}
	for i, own := range [][]dag.ShardID{{0, 1}, {1, 2, 3}, {1, 2, 3}, {}} {
		before := told.Load()
		if got, err := n.Own(t.Context(), own); err != nil || len(got) != len(own) {
			t.Fatalf("%d: %v, %v", i, got, err)
		}
		if moved := i != 2; (told.Load() > before) != moved {
			t.Errorf("%d: told %d times", i, told.Load()-before)
		}
	}
	n.close()
}
