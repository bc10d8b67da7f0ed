package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
	"skein.dev/skein/internal/trigger"
)

// batch returns the batch of the events from one number to another, which a source has read after the
// previous event.
func batch(from, to int) engine.Batch {
	b := engine.Batch{After: fmt.Append(nil, from-1), Cursor: fmt.Append(nil, to)}
	if from == 1 {
		b.After = nil
	}
	for n := from; n <= to; n++ {
		b.Events = append(b.Events, engine.Event{Key: fmt.Sprintf("e%05d", n), Value: fmt.Appendf(nil, `{"n":%d}`, n), Reason: "an event"})
	}
	return b
}

func (x *timed) take(w store.Workflow, b engine.Batch) (engine.Taken, error) {
	return engine.IntakeOf(x.Engine).Take(x.t.Context(), store.TriggerKey{Workflow: w.ID, Name: "e"}, b)
}

// taken gives a batch to a trigger, and requires that the trigger takes it.
func (x *timed) taken(w store.Workflow, b engine.Batch) engine.Taken {
	x.t.Helper()
	got, err := x.take(w, b)
	if err != nil {
		x.t.Fatal(err)
	}
	return got
}

func (x *timed) position(w store.Workflow) engine.Position {
	x.t.Helper()
	row := x.row(w, "e")
	pos, err := trigger.New(x.st).Position(&row)
	if err != nil {
		x.t.Fatal(err)
	}
	return pos
}

const eventsParams = "params: {n: {type: int, default: 0}}\n"

func TestBatchIsTakenOnce(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", eventsParams, `name: e, event: {type: a, filter: "event.n % 2 == 1"}, overlap: allow, params: {n: "${{ trigger.event.n }}"}`)
		if got := x.taken(w, batch(1, 6)); got != (engine.Taken{Fired: 3, Filtered: 3}) {
			t.Errorf("%+v", got)
		}
		for _, b := range []engine.Batch{batch(1, 6), batch(3, 9), batch(8, 9)} {
			if got, err := x.take(w, b); !errors.Is(err, engine.ErrStale) {
				t.Errorf("after %s: %+v %v", b.After, got, err)
			}
		}
		b := batch(7, 8)
		b.Events = append(b.Events, batch(1, 1).Events...) // the event comes a second time
		if got := x.taken(w, b); got != (engine.Taken{Fired: 1, Filtered: 1, Existing: 1}) {
			t.Errorf("%+v", got)
		}
		if got := x.taken(w, engine.Batch{After: []byte("8"), Cursor: []byte("20")}); got != (engine.Taken{}) {
			t.Errorf("%+v", got)
		}
		if pos := x.position(w); string(pos.Cursor) != "20" || pos.Filtered != 4 || pos.From != "now" {
			t.Errorf("%+v", pos)
		}
		x.rest()
		if runs := x.runsOf(w.ID); len(runs) != 4 || string(runs[3].Params) != `{"n":7}` || runs[3].Origin != dag.OriginSensor {
			t.Errorf("%+v", runs)
		}
		if row := x.row(w, "e"); row.Fired != 4 {
			t.Errorf("%d", row.Fired)
		}
	})
}

func TestBatchBounds(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: e, event: a", "name: c, every: 1h")
		large := batch(1, 2)
		large.Events[0].Value = bytes.Repeat([]byte("1"), engine.BatchBytesMax)
		unnamed := batch(1, 2)
		unnamed.Events[1].Key = ""
		lost := batch(1, 2)
		lost.Lost = 1
		for _, b := range []engine.Batch{batch(1, engine.BatchEventsMax+1), large, unnamed, lost, {}, {Cursor: make([]byte, engine.CursorBytesMax+1)}} {
			if got, err := x.take(w, b); !errors.Is(err, errkind.ErrInvalid) {
				t.Errorf("%d events: %+v %v", len(b.Events), got, err)
			}
		}
		for name, want := range map[string]error{"c": errkind.ErrInvalid, "none": errkind.ErrNotFound} {
			if _, err := engine.IntakeOf(x.Engine).Take(t.Context(), store.TriggerKey{Workflow: w.ID, Name: name}, batch(1, 1)); !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		x.rest()
	})
}

// TestBatchWithoutStarts: an event that cannot be evaluated has a line, and the other events start runs. Lost
// events have one line with their number, and pause the trigger unless it says lost: skip.
func TestBatchWithoutStarts(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", eventsParams, `name: e, event: {type: a, filter: "event.n > 0"}, overlap: allow, params: {n: "${{ trigger.event.n }}"}`)
		b := batch(1, 4)
		b.Events[0].Value, b.Events[0].Reason = nil, "it is not JSON, at offset 17"
		b.Events[1].Value = json.RawMessage(`{"m":1}`)
		b.Events[2].Value = json.RawMessage(`{"n":1.5}`) // not an int, which the parameter requires
		if got := x.taken(w, b); got != (engine.Taken{Fired: 1, Missed: 3}) {
			t.Errorf("%+v", got)
		}
		if got := x.taken(w, engine.Batch{After: []byte("4"), Cursor: []byte("1004"), Lost: 1000, Why: "the log was cut"}); !got.Paused {
			t.Errorf("%+v", got)
		}
		if _, err := x.take(w, batch(1005, 1006)); !errors.Is(err, errkind.ErrConflict) {
			t.Errorf("paused: %v", err)
		}
		x.pause(w, "e", true)
		if got := x.taken(w, batch(1005, 1006)); got.Fired != 2 {
			t.Errorf("%+v", got)
		}
		w = x.set("w", eventsParams, `name: e, event: {type: b, lost: skip}, overlap: allow`) // the source is still the log of events
		if got := x.taken(w, engine.Batch{After: []byte("1006"), Cursor: []byte("1009"), Lost: 3}); got.Paused {
			t.Errorf("%+v", got)
		}
		if pos := x.position(w); pos.Lost != 1003 || string(pos.Cursor) != "1009" {
			t.Errorf("%+v", pos)
		}
		x.rest()
		x.ledgerIs(w, "e", `0:00 e00001 missed
			0:00 e00002 missed
			0:00 e00003 missed
			0:00 e00004 fired
			0:00 e01005 fired
			0:00 e01006 fired
			0:00..0:00 3 lost/478 missed
			0:00..0:00 1000 lost/4b2 missed`)
	})
}

// TestBatchWaits: with overlap: wait, a batch is not taken while a run of the trigger is unfinished. All
// events of a batch that is taken start runs.
func TestBatchWaits(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", `name: e, event: a`)
		x.slow.Store(int64(5 * time.Second))
		if got := x.taken(w, batch(1, 3)); got.Fired != 3 {
			t.Errorf("%+v", got)
		}
		for range 2 {
			if _, err := x.take(w, batch(4, 4)); !errors.Is(err, engine.ErrGateFull) {
				t.Errorf("while runs are active: %v", err)
			}
			if _, err := x.take(w, engine.Batch{After: []byte("3"), Cursor: []byte("3")}); err != nil {
				t.Errorf("a batch without events starts nothing: %v", err)
			}
			x.restart(t, 0)
		}
		pass(20 * time.Second)
		if got := x.taken(w, batch(4, 4)); got.Fired != 1 {
			t.Errorf("%+v", got)
		}
		x.become(w, store.WorkflowPaused)
		if _, err := x.take(w, batch(5, 5)); !errors.Is(err, errkind.ErrConflict) {
			t.Errorf("of a paused workflow: %v", err)
		}
		x.rest()
		w = x.set("w", "", `name: e, event: a, overlap: skip`)
		x.become(w, store.WorkflowActive)
		if got := x.taken(w, batch(5, 7)); got.Fired != 1 || got.Skipped != 2 {
			t.Errorf("%+v", got)
		}
		x.rest()
	})
}

// TestBatchAsOneRun: with batch, one run is started for many events.
func TestBatchAsOneRun(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", eventsParams, `name: e, event: {type: a, filter: "event.n != 4", batch: {max: 5}}, params: {n: "${{ size(trigger.event.items) }}"}, overlap: allow`)
		if got := x.taken(w, batch(1, 12)); got != (engine.Taken{Fired: 3, Filtered: 1}) {
			t.Errorf("%+v", got)
		}
		x.rest()
		var sizes []string
		for _, r := range x.runsOf(w.ID) {
			sizes = append(sizes, string(r.Params))
		}
		if got := strings.Join(sizes, " "); got != `{"n":5} {"n":5} {"n":1}` {
			t.Error(got)
		}
	})
}

func TestSeek(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", `name: e, event: a, overlap: allow`, `name: c, every: 1h`)
		k := store.TriggerKey{Workflow: w.ID, Name: "e"}
		x.taken(w, batch(1, 3))
		seek := func(to engine.Seek) {
			if pos, err := engine.IntakeOf(x.Engine).Seek(t.Context(), k, to, nil); err != nil || !bytes.Equal(pos.Cursor, to.Cursor) {
				t.Errorf("%+v %v", pos, err)
			}
		}
		seek(engine.Seek{Cursor: []byte("1"), From: "now"})
		if _, err := x.take(w, batch(4, 4)); !errors.Is(err, engine.ErrStale) {
			t.Errorf("%v", err)
		}
		if got := x.taken(w, batch(2, 4)); got != (engine.Taken{Fired: 1, Existing: 2}) {
			t.Errorf("%+v", got)
		}
		seek(engine.Seek{From: "beginning"})
		if pos := x.position(w); pos.Cursor != nil || pos.From != "beginning" {
			t.Errorf("%+v", pos)
		}
		if got := x.taken(w, batch(1, 5)); got != (engine.Taken{Fired: 1, Existing: 4}) {
			t.Errorf("%+v", got)
		}
		if _, err := engine.IntakeOf(x.Engine).Seek(t.Context(), store.TriggerKey{Workflow: w.ID, Name: "c"}, engine.Seek{From: "now"}, nil); !errors.Is(err, errkind.ErrInvalid) {
			t.Errorf("a schedule has no cursor: %v", err)
		}
		x.rest()
	})
}

// TestSeekWithoutCursor: a batch that was read from now is stale after a seek to the beginning, though no
// batch was taken before.
func TestSeekWithoutCursor(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", `name: e, event: a, overlap: allow`)
		b := batch(1, 1)
		b.Since = x.position(w).Since
		pass(time.Second)
		pos, err := engine.IntakeOf(x.Engine).Seek(t.Context(), store.TriggerKey{Workflow: w.ID, Name: "e"}, engine.Seek{From: "beginning"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.take(w, b); !errors.Is(err, engine.ErrStale) {
			t.Errorf("%+v %v", got, err)
		}
		b.Since = pos.Since
		if got := x.taken(w, b); got.Fired != 1 {
			t.Errorf("%+v", got)
		}
		x.rest()
	})
}

// TestBatchCrashes gives numbered events while commits fail in every way and the process dies at them. Each
// event has one line and one run.
func TestBatchCrashes(t *testing.T) {
	const events, size = 400, 10
	bubble(t, func(t *testing.T, x *timed) {
		x.st.books.allowed = true
		w := x.set("w", eventsParams, `name: e, event: a, overlap: allow, params: {n: "${{ trigger.event.n }}"}`)
		dice := newDice(7)
		x.st.fails(func(*store.Batch) storetest.Fault {
			switch n := dice.n(100); {
			case n < 8:
				return storetest.Lost
			case n < 16:
				return storetest.Written
			case n < 20:
				return storetest.Unavailable
			case n < 24:
				x.st.dead.Store(true)
				return []storetest.Fault{storetest.Lost, storetest.Written}[n%2]
			}
			return storetest.NoFault
		})
		for given := 0; given < events; {
			if x.st.dead.Load() {
				x.crash(t)
			}
			from := 0
			if c := x.position(w).Cursor; c != nil {
				_, _ = fmt.Sscan(string(c), &from)
			}
			if from < given {
				t.Fatalf("the cursor went back from %d to %d", given, from)
			}
			if given = from; given == events {
				break
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			_, err := engine.IntakeOf(x.Engine).Take(ctx, store.TriggerKey{Workflow: w.ID, Name: "e"}, batch(from+1, from+size))
			cancel()
			if err != nil && !errors.Is(err, errkind.ErrUnavailable) && !errors.Is(err, engine.ErrStale) {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		x.st.fails(func(*store.Batch) storetest.Fault { return storetest.NoFault })
		x.crash(t)
		x.rest()
		lines, runs := x.lines(w.ID, "e"), x.runsOf(w.ID)
		if len(lines) != events || len(runs) != events {
			t.Fatalf("%d lines and %d runs for %d events", len(lines), len(runs), events)
		}
		seen := map[string]bool{}
		for _, r := range runs {
			seen[string(r.Params)] = true
		}
		for _, l := range lines {
			if l.Outcome != store.OutcomeFired {
				t.Errorf("%+v", l)
			}
		}
		if len(seen) != events {
			t.Errorf("%d different runs", len(seen))
		}
	})
}
