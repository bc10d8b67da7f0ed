package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// queueing is a store with two transactions. A row that another session has locked blocks the first one.
type queueing struct {
	*testing.T
	*load
	schema        string
	first, second *store.Batch
	firstRuns     []dag.RunRow // runs that the transaction first ends
	secondRuns    []dag.RunRow // runs that the transaction second ends
	started       []dag.RunRow // runs that the transaction second starts
	lock, look    *pgx.Conn    // two connections, because a transaction sees the list of sessions as it was at its first read
	answer        chan error   // the answer to the commit of first
}

const aheadRuns = 40

func newQueueing(t *testing.T) *queueing {
	t.Helper()
	q := &queueing{T: t, schema: newSchema(), answer: make(chan error, 1)}
	q.load = newLoad(t, open(t, postgres.Options{URL: server.URL("postgres"), Schema: q.schema, Application: q.schema, Shards: 2}), 0, 1)
	q.plain = true
	q.firstRuns, q.secondRuns = q.start(), q.start()
	q.before = slices.Clone(q.firstRuns)
	q.first = q.batch(0)
	q.before = slices.Clone(q.secondRuns)
	q.second = q.batch(aheadRuns)
	q.started = slices.Clone(q.before)
	q.second.Fences = slices.Clone(q.fences)
	for i := range q.second.Fences {
		q.second.Fences[i].Seq++
	}
	for _, c := range []**pgx.Conn{&q.lock, &q.look} {
		var err error
		if *c, err = pgx.Connect(q.Context(), server.URL("postgres")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*c).Close(context.Background()) })
	}
	return q
}

// start commits new runs.
func (q *queueing) start() []dag.RunRow {
	q.Helper()
	q.before = nil
	if err := q.commit(q.batch(aheadRuns)); err != nil {
		q.Fatal(err)
	}
	return slices.Clone(q.before)
}

func (q *queueing) sql(text string, a ...any) {
	q.Helper()
	if _, err := q.lock.Exec(q.Context(), text, a...); err != nil {
		q.Fatal(err)
	}
}

// depart begins the commit of first, which blocks, and stages second.
func (q *queueing) depart() {
	q.Helper()
	q.sql("BEGIN")
	q.sql("SELECT FROM "+q.schema+".run WHERE id = $1 FOR UPDATE", [16]byte(q.firstRuns[7].ID))
	q.db.Stage(q.first)
	go func() {
		_, err := q.db.Commit(context.Background(), q.first)
		q.answer <- err
	}()
	q.db.Stage(q.second)
}

// carriedOut waits until the database, too, has executed second: its session then waits for the end of the
// transaction.
func (q *queueing) carriedOut() {
	q.Helper()
	if !q.db.WrittenAhead(q.second) {
		q.Fatal("the second is not written ahead")
	}
	for waiting := 0; waiting == 0; {
		waiting = q.sessions("wait_event = 'ClientRead' AND backend_xid IS NOT NULL")
	}
}

// sessions counts the sessions of the store that a condition selects.
func (q *queueing) sessions(where string) (n int) {
	q.Helper()
	text := "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND " + where
	if err := q.look.QueryRow(q.Context(), text, q.schema).Scan(&n); err != nil {
		q.Fatal(err)
	}
	return n
}

// arrive lets the first transaction continue.
func (q *queueing) arrive() error {
	q.Helper()
	q.sql("COMMIT")
	return <-q.answer
}

// ended requires that all of the runs have ended, or that none has.
func (q *queueing) ended(want bool, runs []dag.RunRow) {
	q.Helper()
	for i := range runs {
		if r, err := q.db.Run(q.Context(), runs[i].ID); err != nil || r.State.Terminal() != want {
			q.Fatalf("run %d is %s (%v), want ended: %v", i, r.State, err, want)
		}
	}
}

// nothingOf requires that none of the runs exists.
func (q *queueing) nothingOf(runs []dag.RunRow) {
	q.Helper()
	for i := range runs {
		if _, err := q.db.Run(q.Context(), runs[i].ID); !errors.Is(err, store.ErrNotFound) {
			q.Fatalf("run %d: %v", i, err)
		}
	}
}

// TestWrittenAhead: the second transaction is executed while the first waits. Its changes are not visible,
// and both commit in their order.
func TestWrittenAhead(t *testing.T) {
	q := newQueueing(t)
	q.depart()
	q.carriedOut()
	q.ended(false, q.secondRuns)
	q.nothingOf(q.started)
	if err := q.arrive(); err != nil {
		t.Fatal(err)
	}
	q.ended(true, q.firstRuns)
	q.ended(false, q.secondRuns)
	if _, err := q.db.Commit(t.Context(), q.second); err != nil {
		t.Fatal(err)
	}
	q.ended(true, q.secondRuns)
	q.ended(false, q.started)
	q.goOn(2)
}

// TestIncidentsWrittenAhead: the second transaction changes the incident that the first one opens. The rows
// of its runs are written ahead, and the incident is written when the first transaction has committed.
func TestIncidentsWrittenAhead(t *testing.T) {
	q := newQueueing(t)
	is := store.Incident{ID: uuid.New(), Workflow: q.firstRuns[0].Workflow, Namespace: "test", Rule: "r", State: store.IncidentOpen, Revision: 1, Created: 1, Modified: 1}
	q.first.Incidents = []store.Incident{is}
	next := is
	next.Revision, next.Modified = 2, 2
	q.second.Incidents = []store.Incident{next}
	q.second.Notices = []store.Notice{{Incident: is.ID, Seq: 1, Channel: "ops", Namespace: "test", Workflow: is.Workflow, State: store.NoticePending, Due: 1, Created: 1}}
	q.depart()
	q.carriedOut()
	if err := q.arrive(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.db.Commit(t.Context(), q.second); err != nil {
		t.Fatal(err)
	}
	q.ended(true, q.secondRuns)
	if got, err := q.db.Incident(t.Context(), is.ID); err != nil || got.Revision != 2 {
		t.Errorf("the incident is %+v, %v", got, err)
	}
	if all, err := q.db.Notices(t.Context(), is.ID); err != nil || len(all) != 1 {
		t.Errorf("%d notices, %v", len(all), err)
	}
	q.goOn(2)
}

// TestHistoryWrittenAhead: history that is written ahead in the middle of a run has the numbers of its
// transaction.
func TestHistoryWrittenAhead(t *testing.T) {
	q := newQueueing(t)
	q.second.RunUpdates, q.second.AttemptUpdates = nil, nil // the runs continue
	q.depart()
	q.carriedOut()
	if err := q.arrive(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.db.Commit(t.Context(), q.second); err != nil {
		t.Fatal(err)
	}
	for _, runs := range [][]dag.RunRow{q.secondRuns, q.started} {
		rows, err := q.db.Events(t.Context(), runs[5].ID, 0, 10)
		if err != nil || len(rows) == 0 || rows[len(rows)-1].Seq != q.second.Fences[0].Seq+1 {
			t.Errorf("%+v, %v, want the last to be %d", rows, err, q.second.Fences[0].Seq+1)
		}
	}
	q.goOn(2)
}

// goOn requires that the shards are that number of transactions behind the fences, and writes another one.
func (q *queueing) goOn(further int64) {
	q.Helper()
	for i := range q.fences {
		q.fences[i].Seq += further
	}
	if err := q.commit(q.batch(1)); err != nil {
		q.Error(err)
	}
	if bad, err := q.db.Check(q.Context()); err != nil || bad != nil {
		q.Errorf("check: %q, %v", bad, err)
	}
}

// TestNotWrittenAhead: a batch about rows of the transaction under way waits for it. So does a batch about
// more than runs.
func TestNotWrittenAhead(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(q *queueing)
	}{
		{"one run of both", func(q *queueing) {
			q.second.Events = append(q.second.Events, dag.EventRow{Run: q.firstRuns[3].ID, At: q.now, Records: q.second.Events[0].Records})
		}},
		{"a request", func(q *queueing) {
			q.second.Requests = append(q.second.Requests, store.Request{Scope: "s", Key: "k", Hash: []byte{1}, Created: q.now})
		}},
		{"a key", func(q *queueing) {
			q.second.RunInserts[0].Key, q.second.RunInserts[0].KeyHash = "k", []byte{1}
		}},
		{"completed parameters, which count among the stored bytes of a namespace", func(q *queueing) {
			q.second.RunUpdates[0].Filled = true
		}},
		{"a first that lists runs which nobody knows", func(q *queueing) {
			_, err := q.db.Commit(q.Context(), &store.Batch{Fences: q.fences, Consumed: []int64{999}}) // after this, the waves are not known
			is(q.T, err, store.ErrFenced, "")
		}},
		{"a run that leaves a wave of the first", func(q *queueing) {
			// The first transaction ends most runs of a wave, so the remaining ones are listed. The second one ends
			// one of these.
			q.first.RunUpdates, q.first.AttemptUpdates, q.first.Events = q.first.RunUpdates[1:], q.first.AttemptUpdates[1:], q.first.Events[1:]
			alone := q.firstRuns[0]
			alone.State, alone.FinishedAt = dag.RunStopped, q.now
			q.second.RunUpdates = append(q.second.RunUpdates, dag.RunUpdate{RunRow: alone, Was: dag.RunRunning})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueueing(t)
			c.make(q)
			q.depart()
			wait := make(chan bool)
			go func() { wait <- q.db.WrittenAhead(q.second) }()
			if err := q.arrive(); err != nil {
				t.Fatal(err)
			}
			if <-wait {
				t.Error("it was written ahead")
			}
			if _, err := q.db.Commit(t.Context(), q.second); err != nil {
				t.Fatal(err)
			}
			q.ended(true, q.secondRuns)
			q.goOn(2)
		})
	}
}

// TestUnstagedAhead: the first transaction is refused, so the second is unstaged. It leaves neither rows nor
// locks.
func TestUnstagedAhead(t *testing.T) {
	q := newQueueing(t)
	q.first.RunUpdates[9].Was = dag.RunWaiting // the run is not in this state
	q.depart()
	q.carriedOut()
	is(t, q.arrive(), store.ErrFenced, "a run is not as its owner believes")
	q.db.Unstage()
	q.nothingOf(q.started)
	q.second.Fences = q.fences // the numbers of first are free again
	if _, err := q.db.Commit(t.Context(), q.second); err != nil {
		t.Fatal(err)
	}
	q.ended(true, q.secondRuns)
	q.ended(false, q.firstRuns)
	q.goOn(1)
}

// TestSecondThatIsRefused: the commit of a transaction that was written ahead returns the database's error.
func TestSecondThatIsRefused(t *testing.T) {
	q := newQueueing(t)
	q.second.RunUpdates[9].Was = dag.RunWaiting
	q.depart()
	if !q.db.WrittenAhead(q.second) {
		t.Fatal("the second is not written ahead")
	}
	if err := q.arrive(); err != nil {
		t.Fatal(err)
	}
	_, err := q.db.Commit(t.Context(), q.second)
	is(t, err, store.ErrFenced, "a run is not as its owner believes")
	q.ended(true, q.firstRuns)
	q.ended(false, q.secondRuns)
	q.nothingOf(q.started)
	q.before = nil
	q.goOn(1)
}

// TestTakenOverAhead: another node takes the shards while a transaction is written ahead. The other node
// waits for that transaction as for any other. If the owner is frozen, the other node ends the transaction.
// No row of the transaction is ever committed.
func TestTakenOverAhead(t *testing.T) {
	q := newQueueing(t)
	q.second.RunInserts, q.second.AttemptInserts, q.second.RunUpdates = nil, nil, nil // without a wave, so that the node waits only for hold
	q.second.Events = q.second.Events[:aheadRuns]
	q.depart()
	q.carriedOut()
	if err := q.arrive(); err != nil { // here the owner stops
		t.Fatal(err)
	}
	next := open(t, postgres.Options{URL: server.URL("postgres"), Schema: q.schema})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	h, err := next.Register(ctx, uuid.NewString(), "next")
	if err != nil {
		t.Fatal(err)
	}
	got, err := next.Acquire(ctx, h.ID, []dag.ShardID{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range got {
		if a.Seq != q.fences[i].Seq+1 {
			t.Errorf("shard %d is at %d, the first left %d", a.Shard, a.Seq, q.fences[i].Seq+1)
		}
	}
	if _, err := q.db.Commit(t.Context(), q.second); err == nil || errors.Is(err, store.ErrFenced) {
		t.Errorf("who took the shards did not wait for it, nor end it: %v", err)
	}
	q.ended(false, q.secondRuns)
	q.nothingOf(q.started)
	q.db.Unstage()
	_, err = q.db.Commit(t.Context(), q.second)
	is(t, err, store.ErrFenced, "a shard is not as its owner believes")
}

// TestHoldNeedsTheEpoch: a former owner gets the error with its first batch ahead, and blocks no other
// owner.
func TestHoldNeedsTheEpoch(t *testing.T) {
	q := newQueueing(t)
	q.first.Fences = q.fences[:1]
	q.second.Fences[1] = q.fences[1]
	q.sql("UPDATE " + q.schema + ".shard SET epoch = epoch + 1 WHERE id = 1")
	q.depart()
	if !q.db.WrittenAhead(q.second) {
		t.Fatal("the second is not written ahead")
	}
	for q.sessions("wait_event = 'ClientRead' AND state = 'active'") == 0 {
	}
	if n := q.sessions("wait_event = 'ClientRead' AND backend_xid IS NOT NULL"); n != 0 {
		t.Error("it has written all the same")
	}
	if err := q.arrive(); err != nil {
		t.Fatal(err)
	}
	_, err := q.db.Commit(t.Context(), q.second)
	is(t, err, store.ErrFenced, "a shard is not as its owner believes")
	q.nothingOf(q.started)
}

// TestNeverCommittedAhead: a staged and forgotten batch blocks neither later batches nor the Close of the
// store.
func TestNeverCommittedAhead(t *testing.T) {
	q := newQueueing(t)
	q.db.Stage(q.first)
	q.db.Stage(q.second) // waits until the runs of the first batch are known
	q.second.Fences = slices.Clone(q.fences)
	if _, err := q.db.Commit(t.Context(), q.second); err != nil {
		t.Fatal(err)
	}
	q.ended(true, q.secondRuns)
}

// TestClosedAhead: a batch that was written ahead and was not committed, or cannot be, does not keep its
// connection.
func TestClosedAhead(t *testing.T) {
	q := newQueueing(t)
	q.depart()
	q.carriedOut()
	if err := q.arrive(); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.db.Commit(gone, q.second); !errors.Is(err, context.Canceled) {
		t.Errorf("a commit of who is gone: %v", err)
	}
	q.nothingOf(q.started)
	q.second.Fences = slices.Clone(q.second.Fences)
	again := &store.Batch{Fences: q.second.Fences}
	again.RunUpdates, again.AttemptUpdates, again.Events = q.second.RunUpdates, q.second.AttemptUpdates, q.second.Events[:aheadRuns]
	q.db.Stage(again)
	q.db.Stage(q.second)
	if err := q.db.Close(); err != nil {
		t.Error(err)
	}
}
