package storetest

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// tallies covers the counts of ended runs, and how far they have been counted.
func tallies() []check {
	return []check{
		{"counts and marks are written together or not at all", tallySteps},
		{"rows of the tally are read in pages by task and period", tallyPages},
		{"old rows of the tally go", tallyExpires},
		{"a run is deleted once its ends are counted", tallyExpiresRuns},
	}
}

func tallyStep(b *bed, rev, seq int64, rows ...store.TallyRow) store.TallyStep {
	return store.TallyStep{Shard: 0, Epoch: b.fences[0].Epoch, Rev: rev, Seq: seq, At: 77, Rows: rows}
}

func tallyRow(w dag.WorkflowID, span store.TallySpan, at int32, task string, n int64) store.TallyRow {
	return store.TallyRow{TallyKey: store.TallyKey{Workflow: w, Span: span, At: at, Task: task}, N: n, Data: []byte{byte(n), 0, 1}}
}

// tallyOf reads the rows of a span for all tasks.
func tallyOf(b *bed, w dag.WorkflowID, span store.TallySpan) []store.TallyRow {
	b.Helper()
	rows, err := b.s.Tally(b.ctx, store.TallyQuery{Workflow: w, Span: span, To: 1<<31 - 1, Tasks: true})
	b.ok(err)
	return rows
}

func tallyMarks(b *bed) []store.TallyMark {
	b.Helper()
	marks, err := b.s.TallyMarks(b.ctx, 0)
	b.ok(err)
	return marks
}

func tallySteps(b *bed) {
	if !b.s.TallyStands() {
		b.Fatal("a new database does not know the tally")
	}
	b.put(func(*store.Batch) {})
	b.put(func(*store.Batch) {})
	seq := b.fences[0].Seq
	put := func(s store.TallyStep) error { return b.s.PutTally(b.ctx, b.owner, s) }
	one := tallyRow(1, store.TallyDay, 5, "", 3)
	b.is(put(tallyStep(b, 1, seq, one)), store.ErrFenced) // counting has not begun yet
	b.ok(put(tallyStep(b, 0, 0)))
	b.is(put(tallyStep(b, 0, 0)), store.ErrFenced)
	b.is(put(tallyStep(b, 1, seq+1, one)), store.ErrFenced) // beyond the shard's seq
	other := tallyStep(b, 1, seq, one)
	other.Epoch++
	b.is(put(other), store.ErrFenced)
	b.is(b.s.PutTally(b.ctx, b.owner+1, tallyStep(b, 1, seq, one)), store.ErrFenced)
	b.same(tallyOf(b, 1, store.TallyDay), []store.TallyRow(nil), "rows of steps that failed")
	b.ok(put(tallyStep(b, 1, seq, one)))
	// The same step a second time.
	b.is(put(tallyStep(b, 1, seq, tallyRow(1, store.TallyDay, 5, "", 9))), store.ErrFenced)
	b.same(tallyOf(b, 1, store.TallyDay), []store.TallyRow{one}, "rows")
	b.same(tallyMarks(b), []store.TallyMark{{Rev: 2, Seq: seq, At: 77}}, "the mark")

	of := tallyStep(b, 2, -1, tallyRow(1, store.TallyDay, 5, "", 4), tallyRow(2, store.TallyHour, 6, "", 1))
	of.Marks = []store.TallyMark{{Workflow: 2, Seq: 1, At: 8}}
	b.ok(put(of))
	b.same(tallyMarks(b), []store.TallyMark{{Rev: 3, Seq: seq, At: 77}, {Workflow: 2, Seq: 1, At: 8}}, "marks of workflows")
	m, ok := store.Counted(tallyMarks(b), 2)
	b.same(m.Seq, int64(1), "how far the second workflow is counted")
	b.same(ok, true, "it is counted")
	again := tallyStep(b, 3, seq, tallyRow(2, store.TallyDay, 1, "t", 2))
	again.Whole, again.Drop = true, []dag.WorkflowID{2}
	b.ok(put(again))
	b.same(tallyMarks(b), []store.TallyMark{{Rev: 4, Seq: seq, At: 77}}, "marks after all are counted")
	b.same(tallyOf(b, 2, store.TallyHour), []store.TallyRow(nil), "rows that were dropped")
	b.same(tallyOf(b, 2, store.TallyDay), []store.TallyRow{tallyRow(2, store.TallyDay, 1, "t", 2)}, "rows that were made again")
	b.same(tallyOf(b, 1, store.TallyDay), []store.TallyRow{tallyRow(1, store.TallyDay, 5, "", 4)}, "rows of another workflow")
}

func tallyPages(b *bed) {
	var all []store.TallyRow
	for _, task := range []string{"", "a", "a b"} {
		for at := int32(3); at < 6; at++ {
			all = append(all, tallyRow(1, store.TallyDay, at, task, int64(at)))
		}
	}
	b.ok(b.s.PutTally(b.ctx, b.owner, tallyStep(b, 0, 0, append(all, tallyRow(1, store.TallyHour, 4, "", 7), tallyRow(2, store.TallyDay, 4, "", 7))...)))
	var got []store.TallyRow
	q := store.TallyQuery{Workflow: 1, Span: store.TallyDay, To: 100, Tasks: true, Limit: 2}
	for {
		page, err := b.s.Tally(b.ctx, q)
		b.ok(err)
		if got = append(got, page...); len(page) < 2 {
			break
		}
		q.After = page[1].TallyKey
	}
	b.same(got, all, "all pages")
	some, err := b.s.Tally(b.ctx, store.TallyQuery{Workflow: 1, Span: store.TallyDay, From: 4, To: 5, Task: "a"})
	b.ok(err)
	b.same(some, all[4:6], "two days of a task")
}

func tallyExpires(b *bed) {
	rows := []store.TallyRow{tallyRow(1, store.TallyDay, 9, "", 1), tallyRow(1, store.TallyDay, 10, "", 1), tallyRow(1, store.TallyDay, 9, "t", 1),
		tallyRow(1, store.TallyHour, 230, "", 1), tallyRow(1, store.TallyHour, 240, "", 1), tallyRow(2, store.TallyDay, 9, "", 1)}
	b.ok(b.s.PutTally(b.ctx, b.owner, tallyStep(b, 0, 0, rows...)))
	x := store.TallyExpiry{Workflow: 1, Days: 10, Hours: 240, Limit: 2}
	_, err := b.s.ExpireTally(b.ctx, b.owner+1, x)
	b.is(err, store.ErrFenced)
	for _, want := range []int{2, 1, 0} {
		n, err := b.s.ExpireTally(b.ctx, b.owner, x)
		b.ok(err)
		b.same(n, want, "rows that are gone")
	}
	b.same(tallyOf(b, 1, store.TallyDay), rows[1:2], "days that are left")
	b.same(tallyOf(b, 1, store.TallyHour), rows[4:5], "hours that are left")
	b.same(tallyOf(b, 2, store.TallyDay), rows[5:], "days of another workflow")
}

// endOn adds a run and ends it on a day. Both changes write history.
func endOn(b *bed, state dag.RunState, at dag.Micros, generation int32) (dag.RunRow, int64) {
	b.Helper()
	r := b.run(dag.RunRunning)
	b.put(func(x *store.Batch) { x.RunInserts, x.Events = []dag.RunRow{r}, []dag.EventRow{event(r.ID, 1)} })
	r.State, r.FinishedAt, r.Generation = state, at, generation
	b.put(func(x *store.Batch) {
		x.RunUpdates, x.Events = []dag.RunUpdate{{RunRow: r, Was: dag.RunRunning}}, []dag.EventRow{event(r.ID, at)}
	})
	return r, b.fences[0].Seq
}

func tallyExpiresRuns(b *bed) {
	first, seq := endOn(b, dag.RunSucceeded, 2*day, 1)
	failed, _ := endOn(b, dag.RunFailed, 2*day+1, 1)
	again, last := endOn(b, dag.RunSucceeded, 3*day, 1)
	// The run begins and ends again.
	again.State, again.FinishedAt, again.Generation = dag.RunRunning, 0, 2
	b.put(func(x *store.Batch) {
		x.RunUpdates, x.Events = []dag.RunUpdate{{RunRow: again, Was: dag.RunSucceeded}}, []dag.EventRow{event(again.ID, 3*day+1)}
	})
	again.State, again.FinishedAt = dag.RunStopped, 4*day
	b.put(func(x *store.Batch) {
		x.RunUpdates, x.Events = []dag.RunUpdate{{RunRow: again, Was: dag.RunRunning}}, []dag.EventRow{event(again.ID, 4*day)}
	})
	x := store.Expiry{Workflow: 1, Before: 100 * day, Limit: 10, Tallied: true}
	b.same(b.expire(x), []dag.RunID(nil), "runs of which nothing is counted")
	x.Counted = seq
	b.same(b.expire(x), []dag.RunID{first.ID}, "the run that is counted")
	x.Counted = last
	b.same(b.expire(x), []dag.RunID{failed.ID}, "a run stays whose second end is not counted")
	x.Counted = last + 2
	b.same(b.expire(x), []dag.RunID{again.ID}, "both ends are counted")
	gone := func(at int32, state string) store.TallyRow {
		return store.TallyRow{TallyKey: store.TallyKey{Workflow: 1, Span: store.TallyGone, At: at, Task: state}, N: 1}
	}
	b.same(tallyOf(b, 1, store.TallyGone), []store.TallyRow{gone(4, store.TallyAgain), gone(2, "failed"), gone(4, "stopped"), gone(2, "succeeded")}, "runs that are gone")
	endOn(b, dag.RunSucceeded, 2*day, 1)
	b.same(len(b.expire(store.Expiry{Workflow: 1, Before: 100 * day, Limit: 10})), 1, "a run where nothing is tallied")
	b.same(len(tallyOf(b, 1, store.TallyGone)), 4, "its count")
}
