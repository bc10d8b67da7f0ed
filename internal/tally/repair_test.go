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
