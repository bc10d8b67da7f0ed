package storetest

import (
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// ends covers attempts with a plain end. An engine may pack such ends into other rows.
func ends() []check {
	all := []check{
		{"are read", func(b *bed) { endsAreRead(b, func() {}) }},
		{"are read by the next owner", func(b *bed) { endsAreRead(b, func() { b.take() }) }},
		{"are read after the store was opened again", func(b *bed) {
			if b.e.Reopen != nil {
				endsAreRead(b, func() { b.reopen(); b.take() })
			}
		}},
		{"are one by one", endsOneByOne},
		{"at once with the hand-over", endsAtOnce},
		{"without history", endsWithoutHistory},
		{"that are not plain", endsNotPlain},
		{"a handle of an ended attempt", handlesOfEnded},
		{"twice in one transaction", endsTwiceAtOnce},
	}
	for _, change := range []struct {
		name string
		of   func(u *dag.AttemptUpdate)
	}{
		{"twice", func(*dag.AttemptUpdate) {}},
		{"once more, otherwise", func(u *dag.AttemptUpdate) { u.State, u.Plain = dag.AttemptFailed, false }},
		{"and then are noted", func(u *dag.AttemptUpdate) { u.State, u.Plain, u.Cause = dag.AttemptAssigned, false, "late" }},
		{"and then run", func(u *dag.AttemptUpdate) { u.State, u.Plain, u.Was = dag.AttemptFailed, false, dag.AttemptRunning }},
	} {
		all = append(all, check{change.name, func(b *bed) { endsStay(b, change.of) }})
	}
	return all
}

// plainly returns a plain end of an attempt: an end without outputs, message or other data.
func plainly(a dag.AttemptRow) dag.AttemptUpdate {
	u := ended(a)
	u.Plain, u.Exited = true, true
	u.Started, u.Finished = a.Assigned+5, a.Assigned+2000
	return u
}

// over adds a run that has ended, was recovered and continues. Two of its attempts ended while others were
// running, one ended with the run, one ended after the recovery, and one is open.
func (b *bed) over() (dag.RunRow, []dag.AttemptRow) {
	b.Helper()
	r := b.run(dag.RunRunning)
	var all []dag.AttemptRow
	for t := range dag.TaskID(5) {
		all = append(all, b.attempt(r.ID, t, 1))
	}
	all[1].Assigned, all[4].Generation = 1<<51, 2
	b.put(func(x *store.Batch) {
		x.RunInserts, x.AttemptInserts, x.Events = []dag.RunRow{r}, all[:2:2], []dag.EventRow{event(r.ID, 5)}
	})
	b.put(func(x *store.Batch) {
		x.AttemptUpdates = []dag.AttemptUpdate{plainly(all[0]), plainly(all[1])}
		x.AttemptInserts, x.Events = all[2:4:4], []dag.EventRow{event(r.ID, 6)}
	})
	was := r.State
	r.State, r.FinishedAt = dag.RunFailed, r.Created+5
	b.put(func(x *store.Batch) {
		x.RunUpdates = []dag.RunUpdate{{RunRow: r, Was: was}}
		x.AttemptUpdates, x.Events = []dag.AttemptUpdate{plainly(all[2])}, []dag.EventRow{event(r.ID, 7)}
	})
	r.State, r.FinishedAt, r.Generation = dag.RunRunning, 0, 2
	b.put(func(x *store.Batch) {
		x.RunUpdates = []dag.RunUpdate{{RunRow: r, Was: dag.RunFailed}}
		x.AttemptUpdates = []dag.AttemptUpdate{plainly(all[3])}
		x.AttemptInserts, x.Events = all[4:], []dag.EventRow{event(r.ID, 8)}
	})
	for i := range all[:4] {
		all[i] = plainly(all[i]).AttemptRow
	}
	return r, all
}

func endsAreRead(b *bed, before func()) {
	r, all := b.over()
	before()
	b.finds(store.AttemptQuery{Run: r.ID}, all)
	b.finds(store.AttemptQuery{Run: r.ID, Outputs: true}, all)
	for t := range all {
		b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: dag.TaskID(t)}, all[t:t+1])
		b.finds(store.AttemptQuery{Run: r.ID, One: true, Task: dag.TaskID(t), Token: 1}, all[t:t+1])
	}
	b.same(b.record(r.ID).Attempts, all, "a scan")
	for _, q := range []store.LoadQuery{{IDs: []dag.RunID{r.ID}}, {Limit: 10}, {Limit: 10, Moving: true}} {
		got, err := b.s.Load(b.ctx, q)
		b.ok(err)
		b.same(got, []store.RunRecord{{Run: r, Attempts: all}}, "a load")
	}
	standing, err := b.s.Standing(b.ctx, r.Shard, dag.RunID{}, 10)
	b.ok(err)
	last := &all[4]
	b.same(standing[0].Live, []store.Live{{Task: last.Task, Token: last.Token, Handler: last.Handler, State: last.State, Assigned: last.Assigned}}, "who stands")
	b.same(standing[0].Moved, max(r.Created, all[1].Finished), "when it last moved")
}

// endsStay checks that no batch changes an ended attempt.
func endsStay(b *bed, change func(u *dag.AttemptUpdate)) {
	r, all := b.over()
	for _, known := range []bool{true, false} {
		if !known {
			b.take()
		}
		for t := range all[:4] {
			open := b.attempt(r.ID, dag.TaskID(t), 1)
			open.Assigned = all[t].Assigned
			u := plainly(open)
			change(&u)
			x := b.batch()
			x.AttemptUpdates, x.Events = []dag.AttemptUpdate{u}, []dag.EventRow{event(r.ID, 9)}
			b.fails(x, store.ErrFenced)
		}
	}
}

// endsTwiceAtOnce checks that a second end is refused even if the first one is not written yet.
func endsTwiceAtOnce(b *bed) {
	r, all := b.over()
	u := plainly(all[4])
	u.Was = dag.AttemptAssigned
	failed := u
	failed.State, failed.Plain = dag.AttemptFailed, false
	for _, second := range []dag.AttemptUpdate{u, failed} {
		for range 2 {
			x := b.batch()
			x.AttemptUpdates, x.Events = []dag.AttemptUpdate{u, second}, []dag.EventRow{event(r.ID, 9)}
			b.fails(x, store.ErrFenced)
			b.take()
		}
	}
}

// endsOneByOne ends the attempts of one run in many transactions, with other transactions in between.
func endsOneByOne(b *bed) {
	r := b.run(dag.RunRunning)
	var all []dag.AttemptRow
	for t := range dag.TaskID(40) {
		all = append(all, b.attempt(r.ID, t, 1))
	}
	b.put(func(x *store.Batch) {
		x.RunInserts, x.AttemptInserts, x.Events = []dag.RunRow{r}, all, []dag.EventRow{event(r.ID, 5)}
	})
	want := slices.Clone(all)
	for i := range all {
		u := plainly(all[i])
		if i%3 == 0 {
			u.Plain = false // an end that is not plain gives the attempt a row of its own
		}
		if i%7 == 0 {
			b.take()
		}
		b.put(func(x *store.Batch) {
			x.AttemptUpdates, x.Events = []dag.AttemptUpdate{u}, []dag.EventRow{event(r.ID, dag.Micros(6+i))}
		})
		want[i] = u.AttemptRow
		b.same(b.record(r.ID).Attempts, want, "all attempts")
	}
}

// endsAtOnce assigns and ends an attempt in one transaction.
func endsAtOnce(b *bed) {
	r := b.run(dag.RunRunning)
	a := b.attempt(r.ID, 0, 1)
	b.put(func(x *store.Batch) {
		x.RunInserts, x.AttemptInserts, x.Events = []dag.RunRow{r}, []dag.AttemptRow{a}, []dag.EventRow{event(r.ID, 5)}
		x.AttemptUpdates = []dag.AttemptUpdate{plainly(a)}
	})
	b.same(b.record(r.ID).Attempts, []dag.AttemptRow{plainly(a).AttemptRow}, "the attempt")
}

// endsWithoutHistory ends attempts in a transaction that writes no history of the run. The ends then need
// rows of their own.
func endsWithoutHistory(b *bed) {
	r, open := b.handedOver(false)
	b.put(func(x *store.Batch) {
		for _, a := range open {
			x.AttemptUpdates = append(x.AttemptUpdates, plainly(a))
		}
	})
	for _, a := range b.record(r.ID).Attempts[:len(open)] {
		b.same(a.State, dag.AttemptSucceeded, "an attempt")
	}
}

// endsNotPlain checks that an end with more data keeps all of it, even if its owner calls the end plain.
func endsNotPlain(b *bed) {
	for _, tell := range []func(a *dag.AttemptRow){
		func(a *dag.AttemptRow) { a.State = dag.AttemptFailed },
		func(a *dag.AttemptRow) { a.State = dag.AttemptRunning },
		func(a *dag.AttemptRow) { a.ExitCode = 3 },
		func(a *dag.AttemptRow) { a.Cause = "why" },
		func(a *dag.AttemptRow) { a.Message = "what" },
		func(a *dag.AttemptRow) { a.Signal = "killed" },
		func(a *dag.AttemptRow) { a.Outputs = []byte(`{"n":1}`) },
		func(a *dag.AttemptRow) { a.RetryAt, a.RetryWait = 5, 1000 },
		func(a *dag.AttemptRow) { a.Exited = false },
		func(a *dag.AttemptRow) { a.Started, a.Finished = 9, 3 },
	} {
		r := b.run(dag.RunRunning)
		a := b.attempt(r.ID, 0, 1)
		b.put(func(x *store.Batch) {
			x.RunInserts, x.AttemptInserts, x.Events = []dag.RunRow{r}, []dag.AttemptRow{a}, []dag.EventRow{event(r.ID, 5)}
		})
		u := plainly(a)
		tell(&u.AttemptRow)
		b.put(func(x *store.Batch) {
			x.AttemptUpdates, x.Events = []dag.AttemptUpdate{u}, []dag.EventRow{event(r.ID, 6)}
		})
		got, err := b.s.Attempts(b.ctx, store.AttemptQuery{Run: r.ID, Outputs: true})
		b.ok(err)
		b.same(got, []dag.AttemptRow{u.AttemptRow}, "the attempt")
	}
}

// handlesOfEnded checks the handle of an ended attempt, which a row stores in the column of the outputs. It
// changes and disappears under the guards of the row, and both a load and the list of the task's attempts
// return it.
func handlesOfEnded(b *bed) {
	r := b.run(dag.RunRunning)
	a := b.attempt(r.ID, 0, 1)
	b.put(func(x *store.Batch) {
		x.RunInserts, x.AttemptInserts, x.Events = []dag.RunRow{r}, []dag.AttemptRow{a}, []dag.EventRow{event(r.ID, 5)}
	})
	lost := a
	was := a.State
	for i, text := range []string{`{"handle":"x","state":"held"}`, `{"handle":"x","state":"releasing","since":7}`, `{"handle":"x","state":"orphan"}`, ""} {
		lost.State, lost.Cause, lost.Outputs = dag.AttemptLost, dag.CauseLost, []byte(text)
		if text == "" {
			lost.Outputs = nil
		}
		b.put(func(x *store.Batch) {
			x.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: lost, Was: was}}
			x.Events = []dag.EventRow{event(r.ID, 6+dag.Micros(i))}
		})
		was = dag.AttemptLost
		b.same(b.record(r.ID).Attempts[0].Outputs, lost.Outputs, "the handle of a loaded attempt")
		got, err := b.s.Attempts(b.ctx, store.AttemptQuery{Run: r.ID, Task: 0, One: true, Outputs: true, Sparing: true})
		b.ok(err)
		b.same(got, []dag.AttemptRow{lost}, "the attempt of the task")
	}
	late := lost
	late.Outputs = []byte(`{"handle":"y","state":"held"}`)
	x := b.batch()
	x.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: late, Was: dag.AttemptRunning}}
	b.fails(x, store.ErrFenced)
}
