package engine_test

import (
	"fmt"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// BenchmarkExplain explains a run of 100,000 tasks of which half have ended, some run, some wait for their next
// try, and the others wait for a slot. SKEIN_TASKS sets another number of tasks. In addition to the time it
// reports the processor time of this process and of PostgreSQL. Other load on the machine hardly changes
// them. PostgreSQL counts in steps of 10 ms, so its figure needs many operations.
func BenchmarkExplain(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkExplain(b, openSQLite(b), nil) })
	b.Run("postgres", func(b *testing.B) {
		server, err := pgtest.Start(pgtest.Options{NoSync: true}) // only the making of the run writes
		if err != nil {
			b.Skip(err)
		}
		defer server.Close()
		db, err := postgres.Open(b.Context(), postgres.Options{URL: server.URL("postgres"), Shards: 1})
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		benchmarkExplain(b, oneNode{db, db}, server)
	})
}

func benchmarkExplain(b *testing.B, st store.Store, server *pgtest.Server) {
	tasks := number("SKEIN_TASKS", 100_000)
	spec := dag.GraphSpec{Tasks: make([]dag.TaskSpec, tasks)}
	for i := range spec.Tasks {
		spec.Tasks[i].Name = fmt.Sprint("t", i)
		if i >= 100 && i%2 == 0 {
			spec.Tasks[i].Needs = []string{fmt.Sprint("t", i-100)}
		}
	}
	h := newHands(b)
	h.held = true
	n := start(b, st, h)
	defer n.close()
	a, err := n.Submit(b.Context(), submission(n.apply("big", build(b, spec))))
	if err != nil {
		b.Fatal(err)
	}
	var order []dag.TaskID
	for len(order) < tasks/2 {
		for _, k := range h.holding(8) {
			h.end(k, dag.Result{State: dag.AttemptSucceeded, Exited: true})
			order = append(order, k.task)
		}
		h.mu.Lock()
		h.order = h.order[:0]
		for k := range h.live {
			h.order = append(h.order, k)
		}
		h.mu.Unlock()
	}
	h.holding(8)
	if err := n.Barrier(b.Context()); err != nil { // all ends are written
		b.Fatal(err)
	}
	ended := func(i int) string { return fmt.Sprint("t", order[i]) }
	for _, c := range []struct{ name, task string }{
		{"run", ""}, {"ready", fmt.Sprint("t", tasks-1)}, {"pending", fmt.Sprint("t", tasks-2)},
		{"ended-first", ended(0)}, {"ended-middle", ended(len(order) / 2)}, {"ended-last", ended(len(order) - 1)},
	} {
		b.Run(c.name, func(b *testing.B) {
			measured(b, server, func() error {
				_, err := n.Explain(b.Context(), a.Run, c.task)
				return err
			})
		})
	}
	for _, c := range []struct {
		name string
		q    store.AttemptQuery
	}{
		{"attempts/of-task", store.AttemptQuery{Run: a.Run, One: true}},
		{"attempts/of-task-sparing", store.AttemptQuery{Run: a.Run, One: true, Sparing: true}},
		{"attempts/all", store.AttemptQuery{Run: a.Run}},
	} {
		b.Run(c.name, func(b *testing.B) {
			measured(b, server, func() error {
				_, err := st.Attempts(b.Context(), c.q)
				return err
			})
		})
	}
}

// measured runs an operation again and again, and reports its processor time. server may be nil.
func measured(b *testing.B, server *pgtest.Server, do func() error) {
	b.ReportAllocs()
	used := func() (own, db int64) {
		if server != nil {
			db = server.CPU().Nanoseconds()
		}
		return processor(b).Nanoseconds(), db
	}
	own, db := used()
	for b.Loop() {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	ownAfter, dbAfter := used()
	b.ReportMetric(float64(ownAfter-own)/float64(b.N), "cpu-ns/op")
	if server != nil {
		b.ReportMetric(float64(dbAfter-db)/float64(b.N), "postgres-ns/op")
	}
}
