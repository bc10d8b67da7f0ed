package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// life covers contexts, Close, and calls after Close.
func life() []check {
	return []check{
		{"a context that is over writes nothing", contextOver},
		{"a context that ends during a commit", contextEnds},
		{"reads with a context that is over", contextOverReads},
		{"closed: every method says so", closed},
		{"closed while others read and write", closedInUse},
		{"closed twice", func(b *bed) {
			b.ok(b.s.Close())
			b.ok(b.s.Close())
		}},
		{"opened again: everything is there", reopened},
		{"opened again after refusals and an unknown commit", reopenedAfterFaults},
		{"info", info},
	}
}

func contextOver(b *bed) {
	w := b.world()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	before := b.contents()
	x := b.full(&w)
	_, err := b.s.Commit(over, x)
	b.is(err, store.ErrUnavailable)
	if _, err := b.s.Acquire(over, b.owner, []dag.ShardID{0}); err == nil {
		b.Fatal("acquired with a context that is over")
	}
	b.same(b.contents(), before, "contents")
	b.ok(b.commit(x)) // the writer is still the owner
}

// contextEnds checks that the answer is true, whenever the caller's context ends. nil means that the batch
// was written. Any error except ErrUnknown means that the batch was not written. The shard's seq must agree.
func contextEnds(b *bed) {
	for n := range 40 {
		ctx, cancel := context.WithCancel(context.Background())
		r := b.run(dag.RunRunning)
		x := b.batch()
		x.RunInserts = []dag.RunRow{r}
		x.Events = []dag.EventRow{event(r.ID, 1)}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range n % 13 {
				runtime.Gosched()
			}
			cancel()
		})
		_, err := b.s.Commit(ctx, x)
		wg.Wait()
		held := b.fences[0].Seq
		happened := b.take()[0].Seq == held+1
		_, missing := b.s.Run(b.ctx, r.ID)
		if happened == (missing != nil) {
			b.Fatalf("seq says written: %v; the run: %v", happened, missing)
		}
		if err == nil && !happened || err != nil && happened && !errors.Is(err, store.ErrUnknown) {
			b.Fatalf("answer %v, written: %v", err, happened)
		}
	}
}

func contextOverReads(b *bed) {
	w := b.world()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	b.ctx = over
	for name, read := range reads(b, &w) {
		if err := read(); err != nil && !errors.Is(err, store.ErrUnavailable) {
			b.Errorf("%s: %v", name, err)
		}
	}
	b.ctx = context.Background()
	b.ok(readAll(b, &w))
	b.ok(b.commit(b.full(&w)))
}

func closed(b *bed) {
	w := b.world()
	x := b.full(&w)
	b.ok(b.s.Close())
	all := reads(b, &w)
	all["Commit"] = func() error { return b.commit(x) }
	all["Acquire"] = func() error { _, err := b.s.Acquire(b.ctx, b.owner, []dag.ShardID{0}); return err }
	all["Register"] = func() error { _, err := b.s.Register(b.ctx, uuid(9), "node"); return err }
	for name, use := range all {
		if err := use(); !errors.Is(err, store.ErrUnavailable) {
			b.Errorf("%s on a closed store: %v", name, err)
		}
	}
}

// closedInUse checks that Close waits for running calls and breaks none.
func closedInUse(b *bed) {
	w := b.world()
	var wg, under sync.WaitGroup
	for range 3 {
		under.Add(1)
		wg.Go(func() {
			if err := readAll(b, &w); err != nil {
				b.Errorf("before the end: %v", err)
			}
			under.Done()
			for {
				if err := readAll(b, &w); err != nil {
					if !errors.Is(err, store.ErrUnavailable) {
						b.Errorf("at the end: %v", err)
					}
					return
				}
			}
		})
	}
	wg.Go(func() {
		for n := uint32(5000); ; n++ {
			x := &store.Batch{}
			x.RunInserts = []dag.RunRow{{Header: dag.Header{ID: runID(n), Workflow: 1}}}
			if _, err := b.s.Commit(b.ctx, x); err != nil {
				if !errors.Is(err, store.ErrUnavailable) {
					b.Errorf("commit at the end: %v", err)
				}
				return
			}
		}
	})
	under.Wait()
	b.ok(b.s.Close())
	wg.Wait()
}

// reopen closes the store, and opens it again with the same data.
func (b *bed) reopen() {
	b.Helper()
	inner := b.s
	if f, ok := inner.(*Faulty); ok {
		inner = f.Store
	}
	b.ok(inner.Close())
	b.s = b.e.Reopen(b.T, inner)
}

func reopened(b *bed) {
	if b.e.Reopen == nil {
		return // the engine keeps no such rows
	}
	w := b.world()
	b.ok(b.commit(b.full(&w)))
	r := b.fullRun()
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = []dag.AttemptRow{b.fullAttempt(r.ID)}
	})
	for range 2 {
		held, before := slices.Clone(b.fences), b.contents()
		was, err := b.s.Info(b.ctx)
		b.ok(err)
		b.reopen()
		b.same(b.contents(), before, "contents")
		is, err := b.s.Info(b.ctx)
		b.ok(err)
		was.Bytes, is.Bytes = 0, 0
		if was.Cluster != is.Cluster || was.Format != is.Format || was.Shards != is.Shards {
			b.Fatalf("info was %+v, is %+v", was, is)
		}
		lives, err := b.s.Handlers(b.ctx, []dag.HandlerID{b.owner})
		b.ok(err)
		b.same(len(lives), 1, "handlers")
		b.ok(b.commit(b.batch())) // reopening the store does not take shards from their owner
		for i, a := range b.take() {
			b.same(a.Fence, store.Fence{Shard: held[i].Shard, Epoch: held[i].Epoch + 1, Seq: held[i].Seq + 1}, "the fence")
			b.same(a.Previous, b.owner, "the previous owner")
		}
		b.add(b.run(dag.RunRunning))
	}
}

func reopenedAfterFaults(b *bed) {
	if b.e.Reopen == nil {
		return
	}
	w := b.world()
	bad := b.full(&w)
	bad.RunInserts = append(bad.RunInserts, w.run)
	b.fails(bad, store.ErrRefused)
	x := b.full(&w)
	b.next(Written)
	b.is(b.commit(x), store.ErrUnknown)
	before := b.contents()
	b.reopen()
	b.same(b.contents(), before, "contents")
	b.take()
	b.same(len(b.contents().Runs), 2, "runs")
	b.add(b.run(dag.RunRunning))
}

func info(b *bed) {
	b.mixed()
	got, err := b.s.Info(b.ctx)
	b.ok(err)
	want := map[string]int{}
	for _, r := range b.pages(store.RunQuery{States: []string{"active"}}, nil) {
		want[r.State.String()]++
	}
	runs, err := b.s.Unfinished(b.ctx)
	b.ok(err)
	b.same(runs, want, "unfinished runs by state")
	if got.Engine == "" || len(got.Cluster) != 36 || got.Shards < 1 || got.Format < 1 || got.Bytes <= 0 {
		b.Fatalf("info %+v", got)
	}
}
