package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// bounded makes an engine enforce quotas.
func bounded(c *engine.Config) { c.QuotasEach = time.Hour } // Set reads them at once

func (n *node) quotas(q store.Quotas) {
	n.t.Helper()
	if _, err := engine.NamespacesOf(n.Engine).Set(context.Background(), "test", q, "ann"); err != nil {
		n.t.Fatal(err)
	}
}

// tries starts a run, and reports whether it was accepted. Any refusal is one of the quota.
func (n *node) tries(w store.Workflow, quota string, change ...func(*engine.Submission)) (dag.RunID, bool) {
	n.t.Helper()
	s := submission(w)
	for _, c := range change {
		c(&s)
	}
	a, err := n.Submit(context.Background(), s)
	var over *store.QuotaError
	if err != nil && (!errors.As(err, &over) || over.Quota != quota || over.Namespace != "test") {
		n.t.Errorf("refused by %v, want quota %s", err, quota)
	}
	return a.Run, err == nil
}

func (n *node) uses() store.NamespaceUse {
	n.t.Helper()
	all, err := engine.NamespacesOf(n.Engine).Uses(context.Background())
	if err != nil {
		n.t.Fatal(err)
	}
	return all["test"]
}

// TestQuotaOfRuns: a quota of runs is exact for all ways to start and to end a run, also after a restart. It
// includes the runs that existed before the quota.
func TestQuotaOfRuns(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			h := newHands(t)
			h.held = true
			n := start(t, st, h, bounded)
			w := n.apply("w", graph(t, "a"))
			first := n.submit(w)
			n.quotas(store.Quotas{Runs: 5})
			var accepted atomic.Int64
			var wg sync.WaitGroup
			for range 20 { // in the same transaction as the one before
				wg.Go(func() {
					if _, ok := n.tries(w, store.QuotaRuns); ok {
						accepted.Add(1)
					}
				})
			}
			wg.Wait()
			if got := accepted.Load(); got != 4 || n.uses().Runs != 5 {
				t.Fatalf("%d runs were accepted, %+v are in use; want 4 and 5", got, n.uses())
			}
			key := func(s *engine.Submission) { s.Key = "k" }
			if _, ok := n.tries(w, store.QuotaRuns, key); ok {
				t.Error("a run with a key is accepted beyond the quota")
			}
			h.end(h.holding(5)[0], done)
			n.ends(first, dag.RunSucceeded)
			is, ok := n.tries(w, store.QuotaRuns, key)
			if !ok {
				t.Fatal("there is room, and a run is refused")
			}
			if again, ok := n.tries(w, store.QuotaRuns, key); !ok || again != is {
				t.Error("the repetition of an accepted start is refused")
			}
			if err := n.Do(t.Context(), engine.Command{Run: is, Intent: dag.IntentStop}); err != nil {
				t.Fatal(err)
			}
			n.ends(is, dag.RunStopped)
			if got := n.uses().Runs; got != 4 {
				t.Errorf("%d runs in use after a stop, want 4", got)
			}
			if err := n.Do(t.Context(), engine.Command{Run: is, Recover: true}); err != nil { // it is not refused, and the run is counted
				t.Error(err)
			}
			if got := n.uses().Runs; got != 5 {
				t.Errorf("%d runs in use after a recover, want 5", got)
			}
			n.sound()
			n.close()
			h = newHands(t)
			h.held = true
			n = start(t, st, h, bounded)
			before := n.uses().Runs
			for range before {
				if _, ok := n.tries(w, store.QuotaRuns); ok && n.uses().Runs > 5 {
					t.Fatal("after a restart there are more runs than the quota allows")
				}
			}
			if got := n.uses().Runs; got != 5 {
				t.Errorf("%d runs in use after a restart, want 5", got)
			}
			n.quotas(store.Quotas{})
			n.submit(w)
		})
	}
}

// TestQuotaPerHour: runs that begin in an hour of the store's clock are counted, ended ones too.
func TestQuotaPerHour(t *testing.T) {
	st := openMemory(t)
	n := start(t, st, newHands(t), bounded)
	w := n.apply("w", graph(t, "a"))
	n.quotas(store.Quotas{RunsPerHour: 3})
	ok := 0
	for range 6 {
		id, accepted := n.tries(w, store.QuotaRunsPerHour)
		if accepted {
			ok++
			n.ends(id, dag.RunSucceeded)
		}
	}
	if use := n.uses(); ok < 3 || ok > 6 || use.Runs != 0 || ok == 3 && use.Started != 3 { // a new hour may have begun meanwhile
		t.Errorf("%d runs were accepted, %+v", ok, use)
	}
}

// TestQuotaOfParams: too large parameters are refused before anything else.
func TestQuotaOfParams(t *testing.T) {
	n := start(t, openMemory(t), newHands(t), bounded)
	w := n.apply("w", graph(t, "a"))
	n.quotas(store.Quotas{ParamsBytes: 10})
	if _, ok := n.tries(w, store.QuotaParamsBytes, func(s *engine.Submission) { s.Params = []byte(`{"a":"123456789"}`) }); ok {
		t.Error("large parameters are accepted")
	}
	if _, ok := n.tries(w, store.QuotaParamsBytes, func(s *engine.Submission) { s.Params = []byte(`{"a":1}`) }); !ok {
		t.Error("small parameters are refused")
	}
}

// TestQuotaOfSeveralOwners: nodes that own different shards start runs of one namespace at once. Together
// they start exactly as many runs as the quota allows. Then one node takes over all shards, and counts all
// these runs.
func TestQuotaOfSeveralOwners(t *testing.T) {
	a, b := pair(t, bounded)
	a.own(0, 1)
	of := a.homes(names{})
	a.quotas(store.Quotas{Runs: 11})
	if err := engine.NamespacesOf(b.Engine).Changed(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.own(0)
	b.own(1)
	var accepted atomic.Int64
	var wg sync.WaitGroup
	for i, n := range []*node{a, b} {
		for range 3 {
			wg.Go(func() {
				for k := range 10 {
					key := func(s *engine.Submission) { s.Key = fmt.Sprint(i, k, "k", accepted.Load()) } // with a key, Submit does not check the quota before the writer gets the submission
					if _, ok := n.tries(of[i], store.QuotaRuns, key); ok {
						accepted.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	sum := a.uses().Runs
	if sum != 11 {
		t.Fatalf("%d runs are in use, want 11", sum)
	}
	b.own()
	a.own(0, 1)
	if _, ok := a.tries(of[1], store.QuotaRuns); ok {
		t.Error("the next owner starts a run beyond the quota")
	}
	k := a.hands.holding(1)[0]
	a.hands.end(k, done)
	a.ends(k.run, dag.RunSucceeded)
	if _, ok := a.tries(of[1], store.QuotaRuns); !ok {
		t.Error("there is room, and the next owner refuses a run")
	}
	if _, ok := a.tries(of[0], store.QuotaRuns); ok {
		t.Error("a run is accepted beyond the quota")
	}
}

// TestQuotaWhileUnderWay sets a quota while the store writes the start of a run. The quota includes this run,
// and a run that is submitted after the quota is set.
func TestQuotaWhileUnderWay(t *testing.T) {
	st, armed, under, goOn := underWay(t, memory.OK)
	defer goOn()
	h := newHands(t)
	h.held = true
	n := start(t, st, h, bounded, func(c *engine.Config) { c.AheadRows = 1 })
	w := n.apply("w", graph(t, "a"))
	var wg sync.WaitGroup
	armed.Store(true)
	wg.Go(func() { n.submit(w) })
	<-under
	set := make(chan struct{})
	go func() {
		defer close(set)
		n.quotas(store.Quotas{Runs: 2}) // returns when the writer enforces the quota
	}()
	eventually(t, "the quota is set", func() bool {
		rows, err := engine.NamespacesOf(n.Engine).List(context.Background())
		return err == nil && len(rows) == 1
	})
	goOn()
	<-set
	var accepted atomic.Int64
	for range 3 {
		wg.Go(func() {
			if _, ok := n.tries(w, store.QuotaRuns); ok {
				accepted.Add(1)
			}
		})
	}
	wg.Wait()
	if use := n.uses(); accepted.Load() != 1 || use.Runs != 2 {
		t.Errorf("%d runs were accepted after the quota, %+v; want 1 and 2", accepted.Load(), use)
	}
	n.sound()
}

// BenchmarkStart starts runs of one task on SQLite from many callers at once: without quotas, with quotas of
// another namespace, and with quotas of its own namespace.
func BenchmarkStart(b *testing.B) {
	for _, c := range []struct {
		name, namespace string
	}{{"none", ""}, {"another namespace", "other"}, {"own", "test"}} {
		b.Run(c.name, func(b *testing.B) {
			x := &echo{c: make(chan []engine.Assignment, 1000)}
			e, err := engine.New(b.Context(), engine.Config{Store: openSQLite(b), Executor: x, Compile: compile, Slots: 1 << 20, QuotasEach: 2 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			x.e = e
			ctx, stop := context.WithCancel(b.Context())
			ended, looped := make(chan error, 1), make(chan struct{})
			go func() { x.loop(); close(looped) }()
			go func() { ended <- e.Run(ctx) }()
			<-e.Ready()
			g := graph(b, "a")
			w, _, err := e.Apply(ctx, engine.Definition{Namespace: "test", Name: "w", Graph: g.Pack(), Digest: []byte("x")})
			if err == nil && c.namespace != "" {
				_, err = engine.NamespacesOf(e).Set(ctx, c.namespace, store.Quotas{Runs: 1 << 40, RunsPerHour: 1 << 40}, "ann")
			}
			if err != nil {
				b.Fatal(err)
			}
			b.SetParallelism(200)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := e.Submit(ctx, submission(w)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
			close(x.c)
			<-looped
		})
	}
}
