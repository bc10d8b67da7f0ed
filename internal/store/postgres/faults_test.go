package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

func open(t *testing.T, o postgres.Options) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// through returns the address of the shared server behind a proxy, or at its own port.
func through(addr, user, database string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf("postgres://%s@%s:%s/%s?sslmode=disable", user, host, port, database)
}

func is(t *testing.T, err error, kind error, says string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("got %v, want %v with %q", err, kind, says)
	}
}

// TestCommitInDoubt: the connection is lost while a transaction ends. The answer is always "unknown", and
// taking the shards again shows the outcome.
func TestCommitInDoubt(t *testing.T) {
	for _, c := range []struct {
		name    string
		mode    mode
		written bool
	}{{"the answer is lost", silent, true}, {"the end is lost", cut, false}} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, server.Addr())
			schema := newSchema()
			db := open(t, postgres.Options{URL: through(p.addr(), pgtest.Superuser, "postgres"), Schema: schema, Shards: 4})
			l := newLoad(t, db, 0, 1, 2, 3)
			if err := l.commit(l.batch(5)); err != nil {
				t.Fatal(err)
			}
			b := l.batch(5)
			p.arm(c.mode)
			if err := l.commit(b); !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("got %v", err)
			}
			got, err := db.Acquire(context.Background(), l.owner, []dag.ShardID{0, 1, 2, 3})
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range got {
				if happened := a.Seq == l.fences[i].Seq+1; happened != c.written || !happened && a.Seq != l.fences[i].Seq {
					t.Errorf("seq of shard %d went from %d to %d", a.Shard, l.fences[i].Seq, a.Seq)
				}
				l.fences[i] = a.Fence
			}
			for i := range b.RunInserts {
				if _, err := db.Run(context.Background(), b.RunInserts[i].ID); (err == nil) != c.written {
					t.Errorf("a run of the transaction: %v", err)
				}
			}
			if !c.written {
				if err := l.commit(b); err != nil {
					t.Errorf("the kept transaction: %v", err)
				}
			}
			if err := l.commit(l.batch(0)); err != nil {
				t.Errorf("the end of what it has handed over: %v", err)
			}
			if n := count(t, schema, "attempt WHERE state = 'succeeded'"); n != 10 {
				t.Errorf("%d attempts have ended", n)
			}
		})
	}
}

// TestAcquireEndsAFrozenTransaction: the owner stops in the middle of sending. Its session
// waits for the rest with the shard's row locked, and only the next owner can end that.
func TestAcquireEndsAFrozenTransaction(t *testing.T) {
	t.Run("direct", func(t *testing.T) { acquireFromFrozen(t, server.URL("postgres")) })
	t.Run("pooler", func(t *testing.T) { acquireFromFrozen(t, server.Pooler(t, "session")) })
}

// acquireFromFrozen freezes an owner, and makes the next owner connect by url.
func acquireFromFrozen(t *testing.T, url string) {
	p := newProxy(t, server.Addr())
	schema := newSchema()
	frozen := open(t, postgres.Options{URL: through(p.addr(), pgtest.Superuser, "postgres"), Schema: schema, Shards: 2})
	l := newLoad(t, frozen, 0, 1)
	if err := l.commit(l.batch(3)); err != nil {
		t.Fatal(err)
	}
	p.arm(hold)
	var wg sync.WaitGroup
	wg.Go(func() { is(t, l.commit(l.batch(3)), store.ErrUnknown, "") })
	next := open(t, postgres.Options{URL: url, Schema: schema})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	h, err := next.Register(ctx, uuid.NewString(), "next")
	if err != nil {
		t.Fatal(err)
	}
	for held := false; !held; { // until the transaction has locked the row
		text := "SELECT 1/count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND wait_event = 'ClientRead' AND query LIKE '%insertAttempt%' OR query LIKE 'SELECT (extract%' AND backend_xid IS NOT NULL"
		held = server.SQL("postgres", text) == nil
	}
	got, err := next.Acquire(ctx, h.ID, []dag.ShardID{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Seq != l.fences[0].Seq || got[0].Previous != l.owner {
		t.Errorf("took %+v, the frozen owner held %+v", got[0], l.fences[0])
	}
	wg.Wait()
	is(t, l.commit(l.batch(0)), store.ErrFenced, "a shard is not as its owner believes")
}

// TestServerKilled: the server dies again and again under two writers. After its return, acknowledged
// commits are there and refused ones are not, and the pool recovers.
func TestServerKilled(t *testing.T) {
	s, err := pgtest.Start(pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db := open(t, postgres.Options{URL: s.URL("postgres"), Shards: 2})
	for round := range 3 {
		var wg sync.WaitGroup
		started := make(chan struct{}, 2)
		for shard := range dag.ShardID(2) {
			l := newLoad(t, db, shard)
			wg.Go(func() { killedUnder(t, l, started) })
		}
		<-started
		<-started
		end := s.Kill
		if round == 2 {
			end = s.Stop
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		_, err := db.Info(context.Background())
		is(t, err, store.ErrUnavailable, "")
		for { // processes of the server may outlive the server for a moment, so a transaction that was sent to one is in doubt
			if _, err = db.Commit(context.Background(), &store.Batch{}); !errors.Is(err, store.ErrUnknown) {
				break
			}
		}
		is(t, err, store.ErrUnavailable, "connect to postgres in")
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Info(context.Background()); err != nil {
			t.Errorf("after the start: %v", err)
		}
		wg.Wait()
	}
}

// killedUnder commits until the server is killed, and checks the rows after the server has returned.
func killedUnder(t *testing.T, l *load, started chan struct{}) {
	answered := map[dag.RunID]bool{}
	for n := 0; ; n++ {
		b := l.batch(50)
		err := l.commit(b)
		if err != nil {
			if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("a server that dies: %v", err)
			}
			verifyAfter(t, l, answered, b, errors.Is(err, store.ErrUnknown))
			return
		}
		for i := range b.RunInserts {
			answered[b.RunInserts[i].ID] = true
		}
		if n == 10 {
			started <- struct{}{}
		}
	}
}

// verifyAfter waits for the server, and compares the rows with the answers.
func verifyAfter(t *testing.T, l *load, answered map[dag.RunID]bool, b *store.Batch, doubt bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shard := l.fences[0].Shard
	var got []store.Acquired
	var err error
	for got == nil && ctx.Err() == nil { // until the server has returned
		got, err = l.db.Acquire(ctx, l.owner, []dag.ShardID{shard})
	}
	if err != nil {
		t.Errorf("the shard of a server that came back: %v", err)
		return
	}
	happened := got[0].Seq == l.fences[0].Seq+1
	if happened && !doubt || !happened && got[0].Seq != l.fences[0].Seq {
		t.Errorf("seq went from %d to %d, in doubt: %v", l.fences[0].Seq, got[0].Seq, doubt)
	}
	read := func(id dag.RunID) (err error) { // a session of the dying server may answer one more time
		for {
			if _, err = l.db.Run(ctx, id); !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
				return err
			}
		}
	}
	for i := range b.RunInserts {
		if err := read(b.RunInserts[i].ID); (err == nil) != happened {
			t.Errorf("happened: %v, a run of the last transaction: %v", happened, err)
		}
	}
	for id := range answered {
		if err := read(id); err != nil {
			t.Errorf("an answered run: %v", err)
			return
		}
	}
}

// TestFrozenServer: a database that does not answer blocks no caller for longer than its timeout.
func TestFrozenServer(t *testing.T) {
	s, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	db := open(t, postgres.Options{URL: s.URL("postgres"), Shards: 1})
	l := newLoad(t, db, 0)
	if err := l.commit(l.batch(3)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Info(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err = db.Commit(ctx, l.batch(3))
	is(t, err, store.ErrUnknown, "")
	ctx, cancel = context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err = db.Info(ctx)
	is(t, err, store.ErrUnavailable, "")
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Acquire(context.Background(), l.owner, []dag.ShardID{0}); err != nil {
		t.Error(err)
	}
}

// TestReadsHaveAnEnd: a database that accepts a read and never answers blocks no caller for longer than its
// timeout.
func TestReadsHaveAnEnd(t *testing.T) {
	p := newProxy(t, server.Addr())
	db := open(t, postgres.Options{URL: through(p.addr(), pgtest.Superuser, "postgres"), Schema: newSchema(), Readers: 1})
	if _, err := db.Runs(t.Context(), store.RunQuery{}); err != nil {
		t.Fatal(err)
	}
	within := store.Within(t.Context(), 50*time.Millisecond)
	p.arm(hold)
	_, err := db.Runs(within, store.RunQuery{})
	is(t, err, store.ErrUnavailable, "the database has not answered within 50ms")
	is(t, err, context.DeadlineExceeded, "")
	p.arm(pass) // on a slow machine, the time was over before anything was sent
	if _, err := db.Runs(store.Within(t.Context(), time.Minute), store.RunQuery{}); err != nil {
		t.Errorf("it answers again: %v", err)
	}
}
