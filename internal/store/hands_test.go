package store

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"skein.dev/skein/internal/dag"
)

// packAll packs what was handed over of a run, as a plan does.
func packAll(all []dag.AttemptRow) (b []byte) {
	var last *dag.AttemptRow
	for i := range all {
		b = packHand(b, &all[i], last)
		last = &all[i]
	}
	return b
}

func unpackAll(run dag.RunID, b []byte) (all []dag.AttemptRow, err error) {
	err = UnpackHands(run, b, func(a *dag.AttemptRow) { all = append(all, *a) })
	return all, err
}

func TestHandsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := dag.RunID{1}
		var all []dag.AttemptRow
		for range rapid.IntRange(1, 40).Draw(t, "hand-overs") {
			all = append(all, dag.AttemptRow{
				Run: run, Task: dag.TaskID(rapid.Int32().Draw(t, "task")), Token: dag.Token(rapid.Int32().Draw(t, "token")),
				Generation: rapid.Int32().Draw(t, "generation"), Handler: dag.HandlerID(rapid.Int64().Draw(t, "handler")),
				Assigned: dag.Micros(rapid.Int64().Draw(t, "instant")),
			})
		}
		if got, err := unpackAll(run, packAll(all)); err != nil || !slices.EqualFunc(got, all, equalHands) {
			t.Fatalf("%v: %+v became %+v", err, all, got)
		}
	})
}

func equalHands(a, b dag.AttemptRow) bool { return handOf(&a) == handOf(&b) && a.Run == b.Run }

// TestHandsAreSmall: a wide layer is handed over in a few bytes for each task.
func TestHandsAreSmall(t *testing.T) {
	var all []dag.AttemptRow
	for i := range 10_000 {
		all = append(all, dag.AttemptRow{Task: dag.TaskID(i), Token: 1, Generation: 1, Handler: 123_456, Assigned: 1_795_386_229_822_806})
	}
	if n := len(packAll(all)); n > 6*len(all) {
		t.Errorf("%d bytes for %d hand-overs", n, len(all))
	}
}

// FuzzUnpackHands: whatever stands in a damaged row is an error of that run or hand-overs that pack again.
func FuzzUnpackHands(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{handForm})
	f.Add([]byte{handForm + 1, 0, 2, 2, 2, 2})
	f.Add([]byte{handForm, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 2, 2, 2, 2})
	f.Add(packAll([]dag.AttemptRow{{Task: -1, Token: 1, Generation: 1, Handler: 7, Assigned: 8}, {Task: 4, Token: 2, Generation: 1, Handler: 7, Assigned: 8}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := unpackAll(dag.RunID{}, b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again, err := unpackAll(dag.RunID{}, packAll(all)); err != nil || !slices.EqualFunc(again, all, equalHands) {
			t.Fatalf("%v: %+v became %+v", err, all, again)
		}
	})
}

func TestHandedOverTwice(t *testing.T) {
	run := dag.RunID{1}
	b := packAll([]dag.AttemptRow{{Run: run, Token: 1, Handler: 7}})
	if _, err := WithHands(nil, run, [][]byte{b, b}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("handed over twice: %v", err)
	}
}

// TestHandedIsBounded: what is forgotten because there is too much of it is read again.
func TestHandedIsBounded(t *testing.T) {
	var h Handed
	run := dag.RunID{1}
	looked := 0
	with := HandPacker{Pack: true, History: func(dag.RunID) bool { return true }}
	var packed []byte
	with.Look = func(runs []dag.RunID, _ func(dag.RunID, dag.TaskID, dag.Token), hands func(dag.RunID, []byte) error) error {
		looked += len(runs)
		return hands(run, packed)
	}
	var b Batch
	for i := range handedMax + 1 {
		b.AttemptInserts = append(b.AttemptInserts, dag.AttemptRow{Run: run, Task: dag.TaskID(i), Token: 1, Handler: 7})
	}
	p, err := h.Plan(&b, with)
	if err != nil {
		t.Fatal(err)
	}
	packed = p.Take(run)
	if _, err := h.Plan(&Batch{}, with); err != nil || len(h.open) != 0 {
		t.Fatalf("%v: it remembers %d", err, len(h.open))
	}
	b.Reset()
	b.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: dag.AttemptRow{Run: run, Task: 5, Token: 1, Handler: 7, State: dag.AttemptSucceeded}}}
	if p, err = h.Plan(&b, with); err != nil || looked != 1 || !p.First[0].Is {
		t.Errorf("%v: %d looked at, %+v", err, looked, p.First)
	}
}
