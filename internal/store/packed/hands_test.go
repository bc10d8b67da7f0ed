package packed

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// packAll packs attempts of a run, as a plan does.
func packAll(all []dag.AttemptRow) []byte {
	var p runHands
	for i := range all {
		if all[i].State.Ended() {
			p.end(&all[i], &AttemptWrite{Generation: all[i].Generation, Assigned: all[i].Assigned})
		} else {
			p.hand(&all[i])
		}
	}
	return p.bytes()
}

// plain returns an attempt that was assigned, or one with a plain end.
func plain(a *dag.AttemptRow, ended bool, started, finished dag.Micros, exited bool) dag.AttemptRow {
	if ended {
		a.State, a.Started, a.Finished, a.Exited = dag.AttemptSucceeded, started, finished, exited
	}
	return *a
}

func unpackAll(run dag.RunID, b []byte) (all []dag.AttemptRow, err error) {
	err = UnpackHands(run, b, func(a *dag.AttemptRow) { all = append(all, *a) })
	return all, err
}

func TestHandsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := dag.RunID{1}
		var all []dag.AttemptRow
		ends := rapid.IntRange(0, 10).Draw(t, "ends")
		span := rapid.Int64Range(-1<<60, 1<<60)
		for i := range ends + rapid.IntRange(0, 40).Draw(t, "hand-overs") {
			a := dag.AttemptRow{
				Run: run, Task: dag.TaskID(rapid.Int32().Draw(t, "task")), Token: dag.Token(rapid.Int32().Draw(t, "token")),
				Generation: rapid.Int32().Draw(t, "generation"), Handler: dag.HandlerID(rapid.Int64().Draw(t, "handler")),
				Assigned: dag.Micros(rapid.Int64().Draw(t, "instant")),
			}
			started := dag.Micros(span.Draw(t, "started"))
			all = append(all, plain(&a, i < ends, started, started+dag.Micros(span.Draw(t, "ran")), rapid.Bool().Draw(t, "exited")))
		}
		if got, err := unpackAll(run, packAll(all)); err != nil || !slices.EqualFunc(got, all, equal) {
			t.Fatalf("%v: %+v became %+v", err, all, got)
		}
		other := dag.TaskID(rapid.Int32().Draw(t, "another task"))
		for b := packAll(all); len(b) > 0; b = b[:len(b)-1] {
			got, err := unpackAll(run, b)
			for _, task := range append([]dag.TaskID{other}, tasksOf(all)...) {
				has := slices.Contains(tasksOf(got), task)
				if may := MayHave(b, task); may != has && (err == nil || !may) {
					t.Fatalf("%x may have task %d: %t, has it: %t, %v", b, task, may, has, err)
				}
			}
		}
	})
}

func tasksOf(all []dag.AttemptRow) (tasks []dag.TaskID) {
	for i := range all {
		tasks = append(tasks, all[i].Task)
	}
	return tasks
}

func equal(a, b dag.AttemptRow) bool { return reflect.DeepEqual(a, b) }

// TestHandsAreSmall: the assignments and ends of a wide layer take a few bytes for each task.
func TestHandsAreSmall(t *testing.T) {
	for _, ended := range []bool{false, true} {
		var all []dag.AttemptRow
		for i := range 10_000 {
			const now = 1_795_386_229_822_806
			a := dag.AttemptRow{Task: dag.TaskID(i), Token: 1, Generation: 1, Handler: 123_456, Assigned: now}
			all = append(all, plain(&a, ended, now+1_500, now+4_000+dag.Micros(i%1000), true))
		}
		if n := len(packAll(all)); n > 10*len(all) {
			t.Errorf("%d bytes for %d of them", n, len(all))
		}
	}
}

// FuzzUnpackHands: a damaged row gives an error, or attempts that can be packed again.
func FuzzUnpackHands(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{handForm})
	f.Add([]byte{endForm + 1, 0, 2, 2, 2, 2})
	f.Add([]byte{endForm, 0})
	f.Add([]byte{endForm, 200, 1, 2, 2, 2})
	f.Add([]byte{endForm, 7, 0, 2, 2, 2, 2, 5, 5, handForm, 0, 2, 2, 2, 2})
	f.Add([]byte{endForm, 6, 0, 2, 2, 2, 2, 5})
	f.Add([]byte{handForm, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 2, 2, 2, 2})
	f.Add(packAll([]dag.AttemptRow{{Task: -1, Token: 1, Generation: 1, Handler: 7, Assigned: 8}, {Task: 4, Token: 2, Generation: 1, Handler: 7, Assigned: 8}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := unpackAll(dag.RunID{}, b)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again, err := unpackAll(dag.RunID{}, packAll(all)); err != nil || !slices.EqualFunc(again, all, equal) {
			t.Fatalf("%v: %+v became %+v", err, all, again)
		}
	})
}

// TestThereTwice: an attempt is assigned once and ends once. Its assignment and its end may be read in any
// order.
func TestThereTwice(t *testing.T) {
	run := dag.RunID{1}
	hand := dag.AttemptRow{Run: run, Token: 1, Handler: 7}
	a := hand
	end := plain(&a, true, 5, 9, true)
	h, e := packAll([]dag.AttemptRow{hand}), packAll([]dag.AttemptRow{end})
	for _, packed := range [][][]byte{{h, e}, {e, h}, {e}} {
		if got, err := WithHands(nil, run, packed); err != nil || len(got) != 1 || !equal(got[0], end) {
			t.Errorf("%v: %+v", err, got)
		}
	}
	for _, packed := range [][][]byte{{h, h}, {e, e}, {e, h, h}, {h, e, e}} {
		if got, err := WithHands(nil, run, packed); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%v: %+v", err, got)
		}
	}
	for _, row := range []dag.AttemptRow{hand, end} {
		if got, err := WithHands([]dag.AttemptRow{row}, run, [][]byte{h}); err != nil || len(got) != 1 || !equal(got[0], row) {
			t.Errorf("%v: %+v", err, got)
		}
		if got, err := WithHands([]dag.AttemptRow{row}, run, [][]byte{h, e}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

// TestHandedIsBounded: attempts that were dropped because of the bound are read again.
func TestHandedIsBounded(t *testing.T) {
	var h Handed
	run := dag.RunID{1}
	looked := 0
	with := HandPacker{Hands: true, History: func(dag.RunID) bool { return true }}
	var packed []byte
	with.Look = func(runs []dag.RunID, _ func(dag.RunID, dag.TaskID, dag.Token), hands func(dag.RunID, []byte) error) error {
		looked += len(runs)
		return hands(run, packed)
	}
	var b store.Batch
	for i := range handedMax + 1 {
		b.AttemptInserts = append(b.AttemptInserts, dag.AttemptRow{Run: run, Task: dag.TaskID(i), Token: 1, Handler: 7})
	}
	p, err := h.Plan(&b, with)
	if err != nil {
		t.Fatal(err)
	}
	packed = p.Take(run)
	if _, err := h.Plan(&store.Batch{}, with); err != nil || len(h.open) != 0 {
		t.Fatalf("%v: it remembers %d", err, len(h.open))
	}
	b.Reset()
	b.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: dag.AttemptRow{Run: run, Task: 5, Token: 1, Handler: 7, State: dag.AttemptSucceeded}}}
	if p, err = h.Plan(&b, with); err != nil || looked != 1 || p.Changes[0].Form != FormFirst {
		t.Errorf("%v: %d looked at, %+v", err, looked, p.Changes)
	}
}

// TestTakenInAnyOrder: the packed data of a run is returned once, in any order of the reads.
func TestTakenInAnyOrder(t *testing.T) {
	orders := [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {1, 1, 0, 2, 0}, {2, 2, 2, 0, 1}}
	for _, order := range orders {
		var h Handed
		var b store.Batch
		for i := range 3 {
			b.AttemptInserts = append(b.AttemptInserts, dag.AttemptRow{Run: dag.RunID{byte(i)}, Task: dag.TaskID(i), Token: 1, Handler: 7})
		}
		p, err := h.Plan(&b, HandPacker{Hands: true, History: func(dag.RunID) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		taken := map[int]bool{}
		for _, i := range order {
			var want []byte
			if !taken[i] {
				want = packAll(b.AttemptInserts[i : i+1])
			}
			if got := p.Take(dag.RunID{byte(i)}); !bytes.Equal(got, want) {
				t.Errorf("%v: run %d: %v, not %v", order, i, got, want)
			}
			taken[i] = true
		}
		if got := p.Take(dag.RunID{9}); got != nil {
			t.Errorf("of a run without any: %v", got)
		}
	}
}

// TestFieldsAfter compares fieldsAfter with a count of the fields byte by byte.
func TestFieldsAfter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		from, fields := r.IntN(len(b)+1), r.IntN(12)
		want, left := from, fields
		for ; left > 0 && want < len(b); want++ {
			if b[want] < 0x80 {
				left--
			}
		}
		if left > 0 {
			want = -1
		}
		if got := fieldsAfter(b, from, fields); got != want {
			t.Fatalf("%d fields of %x from %d: %d, want %d", fields, b, from, got, want)
		}
	}
}

func BenchmarkMayHave(b *testing.B) {
	var all []dag.AttemptRow
	for i := range 16 {
		a := dag.AttemptRow{Run: dag.RunID{1}, Task: dag.TaskID(1000 + i), Token: 1, Generation: 1, Handler: 7, Assigned: 1e15}
		all = append(all, plain(&a, i < 8, 1e15+dag.Micros(i), 1e15+900+dag.Micros(i), true))
	}
	packed := packAll(all)
	for b.Loop() {
		if MayHave(packed, 7) {
			b.Fatal("it has")
		}
	}
}
