package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// atSecond returns the instant n seconds after the beginning of the test.
func atSecond(n int) dag.Micros {
	return dag.Micro(time.Date(2000, 1, 1, 0, 0, n, 0, time.UTC))
}

func (x *timed) plan(w store.Workflow, name string, p engine.Pause) error {
	p.Actor = "ada"
	return x.PauseTrigger(x.t.Context(), store.TriggerKey{Workflow: w.ID, Name: name}, p, nil)
}

// TestPlannedPause plans pauses of a trigger, ends one before it begins and one after it has begun, and edits
// the workflow during a third.
func TestPlannedPause(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 10s")
		for _, p := range []engine.Pause{
			{From: atSecond(20), Until: atSecond(40)},
			{From: atSecond(50), Until: atSecond(55)},
			{From: atSecond(80), Until: atSecond(100)},
			{From: atSecond(120), Until: atSecond(300)},
			{From: atSecond(20), Until: atSecond(40)}, // planned already
		} {
			if err := x.plan(w, "t", p); err != nil {
				t.Fatal(err)
			}
		}
		for i, p := range []engine.Pause{{From: atSecond(30), Until: atSecond(60)}, {Until: atSecond(90)}} {
			if err := x.plan(w, "t", p); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("%d, overlapping: %v", i, err)
			}
		}
		for i, p := range []engine.Pause{{From: atSecond(60), Until: atSecond(60)}, {From: atSecond(0), Until: x.st.now(), Reason: "past"}} {
			if err := x.plan(w, "t", p); !errors.Is(err, errkind.ErrInvalid) {
				t.Errorf("%d, empty: %v", i, err)
			}
		}
		if err := x.plan(w, "t", engine.Pause{Resume: true, From: atSecond(80), Until: atSecond(100)}); err != nil {
			t.Fatal(err)
		}
		if err := x.plan(w, "t", engine.Pause{Resume: true, Until: atSecond(100)}); !errors.Is(err, errkind.ErrNothing) {
			t.Errorf("twice: %v", err)
		}
		pass(125 * time.Second)
		w = x.set("w", "", "name: t, every: 20s")
		pass(20 * time.Second)
		if err := x.plan(w, "t", engine.Pause{Resume: true, Until: atSecond(300)}); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		want := "0:10 fired\n0:20..0:30 2 skipped\n0:40 fired\n0:50 skipped\n1:00 fired\n1:10 fired\n1:20 fired\n1:30 fired\n" +
			"1:40 fired\n1:50 fired\n2:00..2:20 2 skipped\n2:40 fired"
		if got := x.ledger(w, "t"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		x.rest()
	})
}

// TestPlannedPauseOfAPausedTrigger: the trigger stays without a next instant, so that it is not due.
func TestPlannedPauseOfAPausedTrigger(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 10s")
		x.pause(w, "t", false)
		pass(15 * time.Second)
		if err := x.plan(w, "t", engine.Pause{From: atSecond(20), Until: atSecond(40)}); err != nil {
			t.Fatal(err)
		}
		if row := x.row(w, "t"); row.State != store.TriggerPaused || row.Next != 0 {
			t.Errorf("%s, next %s", row.State, stamp(row.Next))
		}
		pass(15 * time.Second)
		x.pause(w, "t", true)
		pass(15 * time.Second)
		if got := x.ledger(w, "t"); got != "0:10 skipped\n0:20 skipped\n0:30 skipped\n0:40 fired" && got != "0:10..0:30 3 skipped\n0:40 fired" {
			t.Errorf("ledger:\n%s", got)
		}
		x.rest()
	})
}

// TestPlannedPausesAreBounded: their number, and the bytes that they take.
func TestPlannedPausesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 10s", "name: hook, webhook: {secret: s}")
		if err := x.plan(w, "hook", engine.Pause{Until: atSecond(60)}); !errors.Is(err, errkind.ErrInvalid) {
			t.Errorf("a webhook: %v", err)
		}
		var err error
		n := 0
		for ; n < 2*engine.PlannedPausesMax && err == nil; n++ {
			err = x.plan(w, "t", engine.Pause{From: atSecond(100 + 10*n), Until: atSecond(105 + 10*n), Reason: fmt.Sprint("reason ", n)})
		}
		if n != engine.PlannedPausesMax+1 || !errors.Is(err, errkind.ErrConflict) {
			t.Errorf("after %d: %v", n, err)
		}
		w = x.set("v", "", "name: t, every: 10s")
		err = nil
		for n = 0; n < engine.PlannedPausesMax && err == nil; n++ {
			err = x.plan(w, "t", engine.Pause{From: atSecond(100 + 10*n), Until: atSecond(105 + 10*n), Reason: strings.Repeat("\"", 4000)})
		}
		if n == engine.PlannedPausesMax || !errors.Is(err, errkind.ErrInvalid) {
			t.Errorf("after %d long reasons: %v", n, err)
		}
		if row := x.row(w, "t"); len(row.Data) > store.DataBytesMax {
			t.Errorf("%d bytes", len(row.Data))
		}
		x.rest()
	})
}
