package postgres_test

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// load is a writer's stream of transactions: each transaction starts some runs of one task, and ends the runs
// that the previous transaction has started.
type load struct {
	db     *postgres.DB
	fences []store.Fence
	owner  dag.HandlerID
	now    dag.Micros
	before []dag.RunRow
	plain  bool // attempts plainly end
}

func newLoad(tb testing.TB, db *postgres.DB, shards ...dag.ShardID) *load {
	tb.Helper()
	ctx := context.Background()
	h, err := db.Register(ctx, uuid.NewString(), "bench")
	if err != nil {
		tb.Fatal(err)
	}
	got, err := db.Acquire(ctx, h.ID, shards)
	if err != nil {
		tb.Fatal(err)
	}
	l := &load{db: db, owner: h.ID, now: got[0].Now}
	for _, a := range got {
		l.fences = append(l.fences, a.Fence)
	}
	return l
}

// takeAgain takes the shards again.
func (l *load) takeAgain(tb testing.TB) {
	tb.Helper()
	for i := range l.fences {
		got, err := l.db.Acquire(tb.Context(), l.owner, []dag.ShardID{l.fences[i].Shard})
		if err != nil {
			tb.Fatal(err)
		}
		l.fences[i] = got[0].Fence
	}
}

// batch returns a batch that starts n runs and ends the runs of the previous batch.
func (l *load) batch(n int) *store.Batch {
	b := &store.Batch{Fences: l.fences}
	for i := range l.before {
		r := l.before[i]
		r.State, r.FinishedAt, r.Final = dag.RunSucceeded, l.now, []byte{5, 1}
		b.RunUpdates = append(b.RunUpdates, dag.RunUpdate{RunRow: r, Was: dag.RunRunning})
		a := l.attempt(r.ID, r.StartedAt)
		a.State, a.Exited, a.Started, a.Finished = dag.AttemptSucceeded, true, l.now-50+dag.Micros(i%7), l.now-20+dag.Micros(i%11)
		b.AttemptUpdates = append(b.AttemptUpdates, dag.AttemptUpdate{AttemptRow: a, Was: dag.AttemptAssigned, Plain: l.plain})
		b.Events = append(b.Events, dag.EventRow{Run: r.ID, At: l.now, Records: dag.PackRecords([]dag.Record{
			{Kind: dag.RecEnded, Token: 1, Handler: l.owner, State: dag.Succeeded, Exited: true},
			{Kind: dag.RecState, Task: dag.LeaderTask, Text: "succeeded"}})})
	}
	l.before = l.before[:0]
	for i := range n {
		id := dag.RunID(uuid.Must(uuid.NewV7()))
		r := dag.RunRow{Header: dag.Header{ID: id, Shard: l.fences[0].Shard, Workflow: 7, Version: 1, Priority: dag.Medium,
			Origin: dag.OriginAPI, User: "ada", Params: []byte(`{"n":1}`), Created: l.now + dag.Micros(i)},
			State: dag.RunRunning, Generation: 1, SplitAt: l.now, StartedAt: l.now, Leader: l.owner, LeaderAt: l.now}
		l.before = append(l.before, r)
		b.RunInserts = append(b.RunInserts, r)
		b.AttemptInserts = append(b.AttemptInserts, l.attempt(id, l.now))
		b.Events = append(b.Events, dag.EventRow{Run: id, At: l.now, Records: dag.PackRecords([]dag.Record{
			{Kind: dag.RecSubmitted, Task: dag.LeaderTask, Actor: "ada", Text: "api"}, {Kind: dag.RecSplit, Task: dag.LeaderTask, Count: 1},
			{Kind: dag.RecAssigned, Token: 1, Handler: l.owner}})})
	}
	return b
}

func (l *load) attempt(run dag.RunID, assigned dag.Micros) dag.AttemptRow {
	return dag.AttemptRow{Run: run, Token: 1, Generation: 1, Handler: l.owner, State: dag.AttemptAssigned, Assigned: assigned}
}

func (l *load) commit(b *store.Batch) error {
	now, err := l.db.Commit(context.Background(), b)
	if err != nil {
		return err
	}
	for i := range l.fences {
		l.fences[i].Seq++
	}
	l.now = now
	return nil
}

// durable returns a server that syncs its writes, as benchmarks require.
func durable(b *testing.B) *pgtest.Server {
	b.Helper()
	s, err := pgtest.Start(pgtest.Options{Settings: map[string]string{"shared_buffers": "1GB", "max_wal_size": "8GB"}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkCommit measures the cost of a run of one task for the store: two inserted rows, two updated rows,
// and the history.
func BenchmarkCommit(b *testing.B) {
	s := durable(b)
	for _, c := range []struct {
		name    string
		writers int
		runs    int
	}{{"1 writer, 1 run", 1, 1}, {"1 writer, 1000 runs", 1, 1000}, {"1 writer, 2000 runs", 1, 2000}, {"2 writers, 1000 runs", 2, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			db, err := postgres.Open(context.Background(), postgres.Options{URL: s.URL("postgres"), Schema: newSchema()})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			var loads []*load
			for w := range c.writers {
				var mine []dag.ShardID
				for shard := w; shard < 32; shard += c.writers {
					mine = append(mine, dag.ShardID(shard))
				}
				loads = append(loads, newLoad(b, db, mine...))
			}
			cpu, own := s.CPU(), ownCPU()
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, l := range loads {
				wg.Go(func() {
					for range b.N {
						if err := l.commit(l.batch(c.runs)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			runs := float64(b.N * c.runs * c.writers)
			b.ReportMetric(runs/b.Elapsed().Seconds(), "runs/s")
			b.ReportMetric(4*runs/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64((s.CPU()-cpu).Microseconds())/runs, "µs-server/run")
			b.ReportMetric(float64((ownCPU()-own).Microseconds())/runs, "µs-client/run")
		})
	}
}

// ownCPU returns the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
