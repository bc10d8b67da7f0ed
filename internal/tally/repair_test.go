package tally_test

import (
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// TestGraphsFail: attempts are counted later if a version cannot be read now, and never if nobody can read it.
func TestGraphsFail(t *testing.T) {
	onStores(t, func(b *bench) {
		fails := func(err *error) {
			b.Helper()
			r := b.run(d(10))
			b.end(&r, dag.RunSucceeded, d(10)+3e6, 100)
			*err = errkind.FromStore("read a version", store.ErrUnavailable)
			if b.folder.Step(b.Context()) == nil {
				b.Fatal("a step that cannot read the version succeeds")
			}
			*err = nil
			b.step()
		}
		fails(&b.broken)
		b.ends(10, "", 1)
		b.ends(10, "load", 0, 1)
		fails(&b.grown)
		b.ends(10, "", 2)
		b.ends(10, "load", 0, 2)
		for _, forever := range []error{errkind.ErrDamaged, errkind.FromStore("read a version", store.ErrNotFound), errkind.ErrPanic} {
			r := b.run(d(11))
			b.end(&r, dag.RunSucceeded, d(11)+3e6, 100)
			b.broken = forever
			b.step()
			b.broken = nil
		}
		b.ends(11, "", 3)
		b.ends(11, "load")
	})
}

// TestClockWasAhead: ends are found in the rows also if the clock was ahead at the mark.
func TestClockWasAhead(t *testing.T) {
	onStores(t, func(b *bench) {
		one, two, three, four := b.run(d(9)), b.run(d(9)), b.run(d(9)), b.run(d(9))
		b.step() // from now on the folder counts what it is told
		b.end(&one, dag.RunSucceeded, d(30), 100)
		b.step()
		b.heard = false
		b.end(&two, dag.RunSucceeded, d(9)+3e6, 100)
		b.fresh()
		b.step()
		b.ends(9, "", 1)
		b.heard = true
		b.end(&three, dag.RunSucceeded, d(30), 100)
		b.step()
		b.end(&four, dag.RunSucceeded, d(9)+3e6, 100)
		b.step()
		marks, err := b.st.TallyMarks(b.Context(), 0)
		b.ok(err)
		if m, _ := store.Counted(marks, 1); m.At != d(9)+3e6 {
			b.Errorf("the mark is at %d, the last end at %d", m.At, d(9)+3e6)
		}
		b.ends(9, "", 2)
		b.ends(30, "", 2)
		b.verified()
	})
}

// stands is a store whose programs do not all know the tally yet.
type stands struct {
	store.Store
	all bool
}

func (s *stands) TallyStands() bool { return s.all }

// TestHeldUntilTallyStands: ends of the time before the tally stands are found in the rows.
func TestHeldUntilTallyStands(t *testing.T) {
	onStores(t, func(b *bench) {
		s := &stands{Store: b.st}
		b.st = s
		b.fresh()
		r := b.run(d(10))
		b.end(&r, dag.RunSucceeded, d(10)+3e6, 100)
		b.step()
		if n := b.folder.Held(); n != 0 {
			b.Errorf("%d ends are held", n)
		}
		s.all = true
		b.step()
		b.ends(10, "", 1)
	})
}
