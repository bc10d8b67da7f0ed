package storetest

import (
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// hands covers attempts that have been assigned and have not changed since. An engine may pack such attempts
// into other rows.
func hands() []check {
	guard := func(change func(u *dag.AttemptUpdate)) func(b *bed) {
		return func(b *bed) {
			_, all := b.handedOver(false)
			// If known is set, the owner that assigned the attempt gets the report. Otherwise an owner gets
			// it that has only read the attempt.
			for _, known := range []bool{true, false} {
				if !known {
					b.take()
				}
				for _, a := range all {
					u := ended(a)
					change(&u)
					x := b.batch()
					x.AttemptUpdates = []dag.AttemptUpdate{u}
					b.fails(x, store.ErrFenced)
				}
			}
		}
	}
	return []check{
		{"are read", func(b *bed) { handsAreRead(b, false) }},
		{"are read of a run that waited", func(b *bed) { handsAreRead(b, true) }},
		{"end with the next owner", func(b *bed) { handsEnd(b, false, func() { b.take() }) }},
		{"end with the next owner, of a run that waited", func(b *bed) { handsEnd(b, true, func() { b.take() }) }},
		{"end after the store was opened again", func(b *bed) {
			if b.e.Reopen != nil {
				handsEnd(b, false, func() { b.reopen(); b.take() })
			}
		}},
		{"end after a failed commit", func(b *bed) {
			handsEnd(b, false, func() {
				x := b.batch()
				x.Consumed = []int64{999}
				b.fails(x, store.ErrFenced)
			})
		}},
		{"are changed and stay handed over", handsChange},
		{"of another handler", guard(func(u *dag.AttemptUpdate) { u.Handler++ })},
		{"of another task", guard(func(u *dag.AttemptUpdate) { u.Task += 50 })},
		{"of an older token", guard(func(u *dag.AttemptUpdate) { u.Token-- })},
		{"of a newer token", guard(func(u *dag.AttemptUpdate) { u.Token++ })},
		{"in another state", guard(func(u *dag.AttemptUpdate) { u.Was = dag.AttemptRunning })},
		{"of a run that ends", handsAtTheEnd},
	}
}

// handedOver adds a run with four attempts. They were assigned in three transactions, and one of them has
// ended. If waited is set, the run existed before and waited. Otherwise the first transaction also begins the
// run.
func (b *bed) handedOver(waited bool) (dag.RunRow, []dag.AttemptRow) {
	b.Helper()
	r := b.run(dag.RunRunning)
	if waited {
		was := r
		was.State = dag.RunWaiting
		b.put(func(x *store.Batch) {
			x.RunInserts = []dag.RunRow{was}
			x.Events = []dag.EventRow{event(r.ID, 4)}
		})
	}
	first, second, over, last := b.attempt(r.ID, 0, 3), b.attempt(r.ID, 1, 7), b.attempt(r.ID, 2, 1), b.attempt(r.ID, 0, 6)
	leader := b.attempt(r.ID, dag.LeaderTask, 1)
	second.Handler, second.Generation, second.Assigned = b.owner+9, 3, 1<<52
	b.put(func(x *store.Batch) {
		if waited {
			x.RunUpdates = []dag.RunUpdate{{RunRow: r, Was: dag.RunWaiting}}
		} else {
			x.RunInserts = []dag.RunRow{r}
		}
		x.AttemptInserts = []dag.AttemptRow{first, leader}
		x.Events = []dag.EventRow{event(r.ID, 5)}
	})
	b.put(func(x *store.Batch) {
		x.AttemptInserts = []dag.AttemptRow{second, over}
		x.Events = []dag.EventRow{event(r.ID, 6)}
	})
	b.put(func(x *store.Batch) {
		x.AttemptUpdates = []dag.AttemptUpdate{ended(over)}
		x.AttemptInserts = []dag.AttemptRow{last}
		x.Events = []dag.EventRow{event(r.ID, 7)}
	})
	return r, []dag.AttemptRow{leader, first, last, second}
}

func handsAreRead(b *bed, waited bool) {
	r, open := b.handedOver(waited)
	over := ended(b.attempt(r.ID, 2, 1)).AttemptRow
	all := append(slices.Clone(open), over)
	b.finds(store.AttemptQuery{Run: r.ID}, all)
	b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: 0}, open[1:3])
	b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: 1}, open[3:])
	b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: dag.LeaderTask}, open[:1])
	b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: 2}, all[4:])
	b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: 2, Sparing: true}, all[4:])
	b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: 0, Token: 6}, open[1:3])
	b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: 1, Token: 7}, open[3:])
	b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: 2, Token: 1}, all[4:])
	b.same(b.contents().Runs[0].Attempts, all, "a scan")
	for _, q := range []store.LoadQuery{{IDs: []dag.RunID{r.ID}}, {Limit: 10}, {Limit: 10, Moving: true}} {
		got, err := b.s.Load(b.ctx, q)
		b.ok(err)
		b.same(got, []store.RunRecord{{Run: r, Attempts: all}}, "a load")
	}
	standing, err := b.s.Standing(b.ctx, r.Shard, dag.RunID{}, 10)
	b.ok(err)
	var live []store.Live
	for _, a := range open {
		live = append(live, store.Live{Task: a.Task, Token: a.Token, Handler: a.Handler, State: a.State, Assigned: a.Assigned})
	}
	b.same(standing[0].Live, live, "who stands")
	events, err := b.s.Events(b.ctx, r.ID, -1, 10)
	b.ok(err)
	var at []dag.Micros
	for i := range events {
		at = append(at, events[i].At)
	}
	want := []dag.Micros{event(r.ID, 5).At, event(r.ID, 6).At, event(r.ID, 7).At}
	if waited {
		want = append([]dag.Micros{event(r.ID, 4).At}, want...)
	}
	b.same(at, want, "rows of history")
}

// finds reads the attempts of a query and compares them with want.
func (b *bed) finds(q store.AttemptQuery, want []dag.AttemptRow) {
	b.Helper()
	got, err := b.s.Attempts(b.ctx, q)
	b.ok(err)
	b.same(got, want, "attempts")
}

// handsEnd assigns attempts, calls the function between, and ends the attempts. The store may lose its memory
// in between.
func handsEnd(b *bed, waited bool, between func()) {
	r, open := b.handedOver(waited)
	between()
	var want []dag.AttemptRow
	b.put(func(x *store.Batch) {
		for _, a := range open {
			x.AttemptUpdates = append(x.AttemptUpdates, ended(a))
			want = append(want, ended(a).AttemptRow)
		}
		x.Events = []dag.EventRow{event(r.ID, 9)}
	})
	want = append(want, ended(b.attempt(r.ID, 2, 1)).AttemptRow)
	b.same(b.record(r.ID).Attempts, want, "what has ended")
	for _, a := range open { // no attempt may end twice
		x := b.batch()
		x.AttemptUpdates = []dag.AttemptUpdate{ended(a)}
		b.fails(x, store.ErrFenced)
	}
}

// handsChange checks that an assigned attempt can change several times before it ends.
func handsChange(b *bed) {
	r, open := b.handedOver(false)
	for _, why := range []dag.Cause{"first", "second"} {
		for i := range open {
			was := open[i]
			open[i].Cause = why
			b.put(func(x *store.Batch) {
				x.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: open[i], Was: was.State}}
			})
		}
		b.take()
	}
	b.same(b.record(r.ID).Attempts[:len(open)], open, "what was noted")
	b.put(func(x *store.Batch) {
		for _, a := range open {
			x.AttemptUpdates = append(x.AttemptUpdates, ended(a))
		}
	})
	once := b.attempt(r.ID, 20, 1)
	b.put(func(x *store.Batch) {
		x.AttemptInserts = []dag.AttemptRow{once}
		x.Events = []dag.EventRow{event(r.ID, 20)}
	})
	noted := once
	noted.Cause = "both at once"
	b.put(func(x *store.Batch) {
		x.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: noted, Was: once.State}, ended(noted)}
	})
	b.same(b.record(r.ID).Attempts[0], ended(open[0]).AttemptRow, "the first")
}

// handsAtTheEnd checks that a run keeps its assigned attempts even if the transaction writes no row of
// history into which an engine could pack them.
func handsAtTheEnd(b *bed) {
	r, open := b.handedOver(false)
	end := dag.RunUpdate{RunRow: r, Was: r.State}
	end.State, end.FinishedAt = dag.RunFailed, r.Created+5
	late := b.attempt(r.ID, 9, 1)
	b.put(func(x *store.Batch) {
		x.RunUpdates = []dag.RunUpdate{end}
		x.AttemptInserts = []dag.AttemptRow{late}
		x.Events = []dag.EventRow{event(r.ID, 9)}
	})
	want := append(slices.Clone(open), ended(b.attempt(r.ID, 2, 1)).AttemptRow, late)
	b.same(b.record(r.ID).Attempts, want, "all attempts")
	b.put(func(x *store.Batch) { x.AttemptUpdates = []dag.AttemptUpdate{ended(late)} })
	b.same(b.record(r.ID).Attempts[5], ended(late).AttemptRow, "the late one")
}
