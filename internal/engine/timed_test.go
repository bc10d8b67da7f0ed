package engine_test

import (
	"testing"
	"time"
)

// TestFires: triggers fire at their instants, and not in between.
func TestFires(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 3s", "name: c, cron: '*/20 * * * * *'")
		until(10 * time.Second)
		x.ledgerIs(w, "t", `
			0:03 fired
			0:06 fired
			0:09 fired`)
		until(41 * time.Second)
		x.ledgerIs(w, "c", `
			0:20 fired
			0:40 fired`)
		x.rest()
		for _, r := range x.runsOf(w.ID) {
			if r.Created != r.Fire.Instant {
				t.Errorf("the run of %s was made at %s", stamp(r.Fire.Instant), stamp(r.Created))
			}
		}
	})
}

// TestEditWhenDue edits a trigger at the instant of a fire. Instants that are due by then follow the old
// declaration, with the old version.
func TestEditWhenDue(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		w := x.set("w", "", "name: t, every: 10s")
		until(10 * time.Second)
		x.together(func() {
			time.Sleep(10 * time.Second)
			go func() { x.set("w", "", "name: t, every: 4s") }()
		}, 1)
		pass(0)
		x.ledgerIs(w, "t", `
			0:10 fired
			0:20 fired`)
		pass(5 * time.Second)
		x.ledgerIs(w, "t", `
			0:10 fired
			0:20 fired
			0:24 fired`)
		x.rest()
		if n := len(x.runsOf(w.ID)); n != 3 {
			t.Errorf("%d runs", n)
		}
	})
}
