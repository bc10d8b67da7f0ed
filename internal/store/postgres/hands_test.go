package postgres_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// count counts rows of a schema.
func count(t *testing.T, schema, from string) int {
	t.Helper()
	c, err := pgconn.Connect(context.Background(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	got, err := c.Exec(context.Background(), "SELECT count(*) FROM "+schema+"."+from).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(got[0].Rows[0][0]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHandsByFormat: a node migrates the database for packed assignments and ends while an earlier node runs.
// It packs nothing until the format has risen, and can read and end attempts of both forms.
func TestHandsByFormat(t *testing.T) {
	const noEnds = "ALTER TABLE run DROP ends; " + noWaves
	for _, of := range []struct {
		format     int // the format before which they are not written
		undo       string
		packed     string
		plain      bool
		rows, runs []int // the number of attempts that have rows, and of runs that have packed attempts, after each of five transactions
	}{
		{12, "ALTER TABLE run DROP hands; ALTER TABLE event DROP hands; " + noEnds, "hands", false, []int{2, 4, 4, 7, 8}, []int{0, 0, 3, 4, 4}},
		{13, noEnds, "ends", true, []int{0, 2, 2, 2, 2}, []int{0, 0, 2, 5, 6}},
	} {
		t.Run(of.packed, func(t *testing.T) {
			before := of.format - 1
			schema := newSchema()
			o := postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1}
			older := open(t, o)
			h, err := older.Register(t.Context(), uuid.NewString(), "older")
			if err != nil {
				t.Fatal(err)
			}
			// The earlier node joins while the tables that its program knows exist.
			is, err := older.Info(t.Context())
			if err == nil {
				err = older.Join(t.Context(), store.Member{Handler: h.ID, UUID: h.UUID, Name: "older", State: store.MemberActive, Format: is.Known})
			}
			if err != nil {
				t.Fatal(err)
			}
			raw(t, schema)(fmt.Sprintf("%s; UPDATE meta SET format = %d, applied = %[2]d; UPDATE member SET format = %[2]d WHERE handler = %d", of.undo, before, h.ID))
			db := open(t, o)
			l := newLoad(t, db, 0)
			l.plain = of.plain
			step := 0
			next := func(n int) {
				t.Helper()
				batch := l.batch(n)
				if err := l.commit(batch); err != nil {
					t.Fatal(err)
				}
				if a, p := count(t, schema, "attempt"), count(t, schema, "run WHERE "+of.packed+" IS NOT NULL"); a != of.rows[step] || p != of.runs[step] {
					t.Errorf("step %d: %d attempts have rows, %d runs packed; want %d and %d", step, a, p, of.rows[step], of.runs[step])
				}
				step++
				for i := range batch.RunInserts {
					if rec := load1(t, db, batch.RunInserts[i].ID); rec.Bad != nil || len(rec.Attempts) != 1 || rec.Attempts[0].Handler != l.owner {
						t.Errorf("a run that was started: %+v", rec)
					}
				}
				for i := range batch.AttemptUpdates {
					u := &batch.AttemptUpdates[i]
					rec := load1(t, db, u.Run)
					if rec.Bad != nil || len(rec.Attempts) != 1 || !reflect.DeepEqual(rec.Attempts[0], u.AttemptRow) {
						t.Errorf("a run that has ended: %+v, want %+v", rec, u.AttemptRow)
					}
				}
			}
			rise := func(want bool) {
				t.Helper()
				if is, err := db.Rise(t.Context()); err != nil || is > before != want {
					t.Fatalf("format %d, %v", is, err)
				}
			}
			next(2)
			rise(false)
			next(2)
			if err := older.Leave(t.Context(), h.ID); err != nil {
				t.Fatal(err)
			}
			rise(true)
			l.takeAgain(t) // an era begins when the format has risen
			next(3)
			next(1)
			next(0)
		})
	}
}

// TestHandsTakenOver: the next owner ends attempts that exist only in packed form, once. The former owner
// is fenced.
func TestHandsTakenOver(t *testing.T) {
	o := postgres.Options{URL: server.URL("postgres"), Schema: newSchema(), Shards: 1}
	l := newLoad(t, open(t, o), 0)
	for range 2 { // some are in the rows of runs, and some in a row of history
		if err := l.commit(l.batch(1)); err != nil {
			t.Fatal(err)
		}
	}
	run := l.before[0].ID
	late := l.attempt(run, l.now)
	late.Task = 3
	b := &store.Batch{Fences: l.fences}
	b.AttemptInserts = []dag.AttemptRow{late}
	b.Events = []dag.EventRow{{Run: run, At: l.now, Records: []byte{}}}
	if err := l.commit(b); err != nil {
		t.Fatal(err)
	}
	end := func(fences []store.Fence) *store.Batch {
		x := &store.Batch{Fences: fences}
		for _, a := range load1(t, l.db, run).Attempts {
			a.State, a.Finished = dag.AttemptSucceeded, l.now
			x.AttemptUpdates = append(x.AttemptUpdates, dag.AttemptUpdate{AttemptRow: a, Was: dag.AttemptAssigned})
		}
		return x
	}
	stale := end(l.fences)
	if len(stale.AttemptUpdates) != 2 {
		t.Fatalf("handed over: %+v", stale.AttemptUpdates)
	}
	next := newLoad(t, open(t, o), 0)
	foreign := end(next.fences)
	foreign.AttemptUpdates[1].Handler = next.owner
	is(t, next.commit(foreign), store.ErrFenced, "")
	if err := next.commit(end(next.fences)); err != nil {
		t.Fatal(err)
	}
	is(t, l.commit(stale), store.ErrFenced, "a shard is not as its owner believes")
	is(t, next.commit(end(next.fences)), store.ErrFenced, "an attempt is not as its owner believes")
	again := newLoad(t, l.db, 0)
	for range 2 {
		is(t, again.commit(end(again.fences)), store.ErrFenced, "an attempt is not as its owner believes")
	}
	one := end(again.fences) // this is a small transaction
	one.AttemptUpdates = one.AttemptUpdates[:1]
	is(t, again.commit(one), store.ErrFenced, "an attempt is not as its owner believes")
	for _, a := range load1(t, l.db, run).Attempts {
		if a.State != dag.AttemptSucceeded || a.Assigned == 0 || a.Generation != 1 {
			t.Errorf("%+v", a)
		}
	}
}

// TestHandsMeetARow: if an attempt has a row although it should have none, its owner is fenced, in small and
// in other transactions.
func TestHandsMeetARow(t *testing.T) {
	for _, runs := range []int{1, 2} {
		schema := newSchema()
		l := newLoad(t, open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1}), 0)
		if err := l.commit(l.batch(runs)); err != nil {
			t.Fatal(err)
		}
		raw(t, schema)(`INSERT INTO attempt (run, task, token, handler, assigned, started, finished, retry_at, retry_wait, generation, state, cause, message, signal)
			SELECT id, 0, 1, 1, 1, 1, 1, 0, 0, 1, 'succeeded', '', '', '' FROM run`)
		is(t, l.commit(l.batch(0)), store.ErrFenced, "it has a row")
	}
}

// TestHandsPrint: an attempt without a row has a log, through any node. An attempt that was never assigned
// has none.
func TestHandsPrint(t *testing.T) {
	o := postgres.Options{URL: server.URL("postgres"), Schema: newSchema(), Shards: 1}
	l := newLoad(t, open(t, o), 0)
	if err := l.commit(l.batch(2)); err != nil {
		t.Fatal(err)
	}
	for i, db := range []*postgres.DB{l.db, open(t, o)} {
		id := store.LogID{Run: l.before[i].ID, Token: 1}
		other := id
		other.Token = 2
		got, err := db.AppendLogs(t.Context(), []store.LogPart{{LogID: id, Size: 3, Data: []byte("one")}, {LogID: other, Size: 1, Data: []byte("x")},
			{LogID: id, Offset: 3, Size: 3, Data: []byte("two")}, {LogID: id, Offset: 9, Size: 1, Data: []byte("x")}}, 1<<20)
		if want := []store.LogSpan{{End: 3, Known: true}, {}, {End: 6, Known: true}, {End: 6, Known: true}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

// TestHandsDamaged: damaged packed attempts affect only their own run.
func TestHandsDamaged(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	l := newLoad(t, db, 0)
	if err := l.commit(l.batch(3)); err != nil {
		t.Fatal(err)
	}
	bad := l.before[1].ID
	sql(t, "UPDATE "+schema+".run SET hands = '\\x01ff' WHERE id = '"+bad.String()+"'")
	recs, err := db.Load(t.Context(), store.LoadQuery{Limit: 10})
	standing, also := db.Standing(t.Context(), 0, dag.RunID{}, 10)
	if err != nil || also != nil || len(recs) != 3 || len(standing) != 3 {
		t.Fatalf("%d and %d runs, %v, %v", len(recs), len(standing), err, also)
	}
	for i := range recs {
		if broken := recs[i].Run.ID == bad; broken != (recs[i].Bad != nil) || !broken && len(recs[i].Attempts) != 1 {
			t.Errorf("loaded: %+v", recs[i])
		}
		if broken := standing[i].Run == bad; broken != (standing[i].Bad != nil) || !broken && len(standing[i].Live) != 1 {
			t.Errorf("standing: %+v", standing[i])
		}
	}
	_, err = db.Attempts(t.Context(), store.AttemptQuery{Run: bad})
	is(t, err, store.ErrCorrupt, "")
}

// TestAttemptsUpToAnEnd: a query that names the newest attempt reads the packed transactions up to its end,
// over several exchanges.
func TestAttemptsUpToAnEnd(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	l := newLoad(t, db, 0)
	if err := l.commit(l.batch(1)); err != nil {
		t.Fatal(err)
	}
	run := l.before[0].ID
	// Task 7 is assigned in thousands of transactions. Task 3 has ended in transaction 4000. The row of the next
	// transaction is damaged.
	sql(t, "INSERT INTO "+schema+".event (run, seq, at, records, hands) SELECT '"+run.String()+`', n, 1, '', CASE n WHEN 4000
		THEN '\x020706020202000006'::bytea WHEN 4001 THEN '\x01ff' ELSE '\x010e02020200' END FROM generate_series(1000, 6000) n`)
	q := store.AttemptQuery{Run: run, Task: 3, One: true, Token: 1}
	got, err := db.Attempts(t.Context(), q)
	if err != nil || len(got) != 1 || got[0].Task != 3 || got[0].State != dag.AttemptSucceeded {
		t.Errorf("%+v, %v", got, err)
	}
	for _, token := range []dag.Token{0, 2} { // the end of this attempt is not found
		q.Token = token
		_, err = db.Attempts(t.Context(), q)
		is(t, err, store.ErrCorrupt, "")
	}
	sql(t, "UPDATE "+schema+`.event SET hands = '\x010e02020200' WHERE seq = 4001`)
	for _, token := range []dag.Token{0, 1, 2} {
		q.Token = token
		if got, err = db.Attempts(t.Context(), q); err != nil || len(got) != 1 {
			t.Errorf("token %d: %+v, %v", token, got, err)
		}
	}
}
