package postgres_test

import (
	"context"
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// TestFoldedStatements: the database accepts folded statements, with each single part and with all parts.
func TestFoldedStatements(t *testing.T) {
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: newSchema(), Shards: 1})
	if err := db.PrepareFolded(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSmall: a transaction that is sent as one statement writes all its rows, or none. In the conformance
// suite, such transactions have the fences of all shards. Here they have the fence of one.
func TestSmall(t *testing.T) {
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: newSchema(), Shards: 2})
	l, other := newLoad(t, db, 0), newLoad(t, db, 1)
	for _, x := range []*load{l, other} {
		if err := x.commit(x.batch(1)); err != nil {
			t.Fatal(err)
		}
	}
	run, foreign := l.before[0].ID, other.before[0].ID
	ended := l.attempt(run, l.before[0].StartedAt)
	ended.State, ended.Finished = dag.AttemptSucceeded, l.now
	begun := l.attempt(run, l.now)
	begun.Task = 1
	hop := func() *store.Batch {
		b := &store.Batch{Fences: slices.Clone(l.fences)}
		b.AttemptInserts = []dag.AttemptRow{begun}
		b.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: ended, Was: dag.AttemptAssigned}}
		b.Events = []dag.EventRow{{Run: run, At: l.now, Records: dag.PackRecords([]dag.Record{{Kind: dag.RecAssigned, Task: 1, Token: 1}})}}
		return b
	}
	again := hop() // as long as the name of the statement is known; after a failed commit it is not searched
	again.AttemptInserts[0].Task = 0
	is(t, l.commit(again), store.ErrRefused, "exists")
	for name, c := range map[string]struct {
		spoil func(b *store.Batch)
		kind  error
	}{
		"an epoch of before": {func(b *store.Batch) { b.Fences[0].Epoch-- }, store.ErrFenced},
		"a seq of before":    {func(b *store.Batch) { b.Fences[0].Seq-- }, store.ErrFenced},
		"a fence that misses, an attempt that is there": {func(b *store.Batch) { b.Fences[0].Seq++; b.AttemptInserts[0].Task = 0 }, store.ErrFenced},
		"an attempt in another state":                   {func(b *store.Batch) { b.AttemptUpdates[0].Was = dag.AttemptRunning }, store.ErrFenced},
		"history of another shard":                      {func(b *store.Batch) { b.Events[0].Run = foreign }, store.ErrFenced},
		"a cause with a NUL":                            {func(b *store.Batch) { b.AttemptUpdates[0].Message = "\x00" }, store.ErrRefused},
	} {
		b := hop()
		c.spoil(b)
		is(t, l.commit(b), c.kind, "")
		if rec := load1(t, db, run); len(rec.Attempts) != 1 || rec.Attempts[0].State != dag.AttemptAssigned {
			t.Errorf("%s: something was written: %+v", name, rec.Attempts)
		}
	}
	both := hop() // inserted and changed in one transaction
	both.AttemptInserts[0].Task, both.AttemptInserts[0].Token = 5, 9
	both.AttemptUpdates[0].AttemptRow.Task, both.AttemptUpdates[0].Token = 5, 9
	if err := l.commit(both); err != nil {
		t.Fatal(err)
	}
	if rec := load1(t, db, run); len(rec.Attempts) != 2 || rec.Attempts[1].State != dag.AttemptSucceeded {
		t.Errorf("inserted and changed at once: %+v", rec.Attempts)
	}
	before := l.fences[0].Seq
	if err := l.commit(hop()); err != nil {
		t.Fatal(err)
	}
	rec := load1(t, db, run)
	if len(rec.Attempts) != 3 || rec.Attempts[0].State != dag.AttemptSucceeded || rec.Attempts[1].State != dag.AttemptAssigned {
		t.Errorf("after the hop: %+v", rec.Attempts)
	}
	events, err := db.Events(t.Context(), run, 0, 10)
	if err != nil || len(events) != 3 || events[2].Seq != before+1 {
		t.Errorf("its history: %+v, %v; want the third row to be of transaction %d", events, err, before+1)
	}
	got, err := db.Acquire(t.Context(), l.owner, []dag.ShardID{0})
	if err != nil || got[0].Seq != before+1 {
		t.Errorf("the shard is at %+v, %v", got, err)
	}
}

func load1(t *testing.T, db *postgres.DB, run dag.RunID) store.RunRecord {
	t.Helper()
	recs, err := db.Load(context.Background(), store.LoadQuery{IDs: []dag.RunID{run}})
	if err != nil || len(recs) != 1 {
		t.Fatalf("%+v, %v", recs, err)
	}
	return recs[0]
}
