package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// oneNode is a store of PostgreSQL for one node.
type oneNode struct {
	store.Store
	store.Stager
}

// TestSessionsEndAhead: runs go through PostgreSQL, and the next transaction is written ahead on a second
// session. Meanwhile the server ends one session after another in the middle of a transaction, preferably
// sessions that wait for the end of theirs. Every acknowledged run succeeds, no attempt is started twice, and
// the rows are as if no session had ended.
func TestSessionsEndAhead(t *testing.T) {
	server, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	db, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL("postgres"), Application: "victim"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	h := newHands(t)
	n := start(t, oneNode{db, db}, h, func(c *engine.Config) { c.AheadRows, c.Slots = 8, 500 })
	defer n.close()
	over, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	acknowledged := make(chan []dag.RunID, 40) // one list from each goroutine that starts runs
	for _, g := range []string{"a", "a; b: a; c: a; d: b c"} {
		w := n.apply("w"+g[len(g)-1:], graph(t, g))
		for range 20 {
			wg.Go(func() { acknowledged <- submitUntil(over, n, w) })
		}
	}
	waiting := endSessions(n, server.URL("postgres"))
	stop()
	wg.Wait()
	close(acknowledged)
	n.quiet()
	for runs := range acknowledged {
		for _, id := range runs {
			if is := n.state(id); is != dag.RunSucceeded {
				t.Errorf("run %s is %s", id, is)
			}
		}
	}
	if bad, err := db.Check(t.Context()); err != nil || bad != nil {
		t.Errorf("check: %q, %v", bad, err)
	}
	if waiting < 3 || n.Stats().Retaken.Load() < 6 {
		t.Errorf("%d sessions were ended that waited for their end, shards were taken again %d times", waiting, n.Stats().Retaken.Load())
	}
}

// submitUntil starts runs one after another and returns the acknowledged ones.
func submitUntil(over context.Context, n *node, w store.Workflow) (runs []dag.RunID) {
	for over.Err() == nil {
		a, err := n.Submit(context.Background(), submission(w))
		if err != nil {
			time.Sleep(5 * time.Millisecond) // the shards are taken again meanwhile
			continue
		}
		runs = append(runs, a.Run)
	}
	return runs
}

// endSessions ends sessions in the middle of a transaction, with a few transactions in between. It ends
// twelve sessions, or more until three of the ended sessions were waiting for the end of their transaction.
// It returns the number of those that were waiting.
func endSessions(n *node, url string) (waiting int) {
	n.t.Helper()
	conn, err := pgx.Connect(n.t.Context(), url)
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for ended := 0; ended < 12 || waiting < 3 && ended < 100; ended++ {
		was := n.Stats().Ahead.Load()
		eventually(n.t, "it goes on", func() bool { return n.Stats().Ahead.Load() > was+20 })
		eventually(n.t, "one is in the middle of a transaction", func() bool {
			var waits bool
			err := conn.QueryRow(n.t.Context(), `SELECT a.waits FROM (
				SELECT pid, coalesce(wait_event = 'ClientRead', false) AS waits FROM pg_stat_activity
				WHERE application_name = 'victim' AND backend_xid IS NOT NULL ORDER BY waits DESC, random() LIMIT 1) a
				WHERE pg_terminate_backend(a.pid)`).Scan(&waits)
			if err == nil && waits {
				waiting++
			}
			return err == nil
		})
	}
	return waiting
}
