package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func stockOf(b *bed, namespace string) store.NamespaceStock {
	b.Helper()
	all, err := b.s.NamespaceStocks(b.ctx, namespace)
	b.ok(err)
	if len(all) == 0 {
		return store.NamespaceStock{}
	}
	b.same(len(all), 1, "namespaces that keep something")
	return all[0]
}

// beginning adds a run with parameters, like its owner does.
func beginning(b *bed, state dag.RunState, params int) (dag.RunRow, error) {
	r := b.run(state)
	r.Params = bytes.Repeat([]byte("x"), params)
	x := b.batch()
	x.RunInserts = []dag.RunRow{r}
	x.Stocks = []store.StockUpdate{{Namespace: "default", Shard: r.Shard, Bytes: store.StockBytes(r.Params), Check: store.CheckStoredBytes}}
	return r, b.commit(x)
}

func stockCounted(b *bed) {
	of := version(1, 1)
	size := int64(len(of.Source) + len(of.Def) + len(of.Graph) + len(of.Files[0].Data))
	b.put(func(x *store.Batch) {
		flow := workflow(1, "first")
		flow.Version, flow.Latest = 3, 3
		x.WorkflowInserts = []store.Workflow{flow}
		x.Versions = []store.Version{version(1, 1), version(1, 2), version(1, 3)}
		x.TriggerInserts = []store.Trigger{trigger(1, "a", "cron"), trigger(1, "b", "cron")}
	})
	b.same(stockOf(b, "default"), store.NamespaceStock{Namespace: "default", Versions: 3, Triggers: 2, Bytes: 3 * size}, "what was made")
	b.same(stockOf(b, "web"), store.NamespaceStock{}, "what another namespace keeps")
	_, err := beginning(b, dag.RunSucceeded, store.StockParams-1)
	b.ok(err)
	old, err := beginning(b, dag.RunSucceeded, 3000)
	b.ok(err)
	_, err = beginning(b, dag.RunSucceeded, 5000)
	b.ok(err)
	b.same(stockOf(b, "").Bytes, 3*size+8000, "bytes with parameters")
	small, err := beginning(b, dag.RunRunning, 10)
	b.ok(err)
	large, err := beginning(b, dag.RunRunning, 2000)
	b.ok(err)
	// These runs get their parameters later.
	for _, sizes := range [][2]int{{4000, 2500}, {20, 1500}, {0, 0}} {
		x := b.batch()
		for i, r := range []dag.RunRow{small, large} {
			r.Params = bytes.Repeat([]byte("y"), sizes[i])
			x.RunUpdates = append(x.RunUpdates, dag.RunUpdate{RunRow: r, Was: r.State, Filled: true})
		}
		b.ok(b.commit(x))
		want := 3*size + 8000 + store.StockBytes(x.RunUpdates[0].Params) + store.StockBytes(x.RunUpdates[1].Params)
		b.same(stockOf(b, "default").Bytes, want, "bytes with completed parameters")
	}
	x := b.batch()
	x.Fences[0].Epoch++
	x.Stocks = []store.StockUpdate{{Namespace: "default", Bytes: 1}}
	b.fails(x, store.ErrFenced)
	b.put(func(x *store.Batch) {
		x.TriggerDeletes = []store.Trigger{{Workflow: 1, Name: "a", Revision: 1}}
	})
	b.expire(store.Expiry{Workflow: 1, To: b.but(1, 1), Before: 1, Limit: 10})
	_, err = b.s.Run(b.ctx, old.ID)
	b.is(err, store.ErrNotFound)
	b.same(stockOf(b, "default"), store.NamespaceStock{Namespace: "default", Versions: 3, Triggers: 1, Bytes: 3*size + 5000}, "after a deletion")
	n, err := b.s.(store.Retention).ExpireVersions(b.ctx, b.owner, store.VersionExpiry{Workflow: 1, Superseded: 1000, Keep: 1, Limit: 10})
	b.ok(err)
	is := stockOf(b, "default")
	b.same(is, store.NamespaceStock{Namespace: "default", Versions: int64(3 - n), Triggers: 1, Bytes: int64(3-n)*size + 5000}, "after versions have gone")
}

// stockOfEnded checks that the bytes of ended runs are part of the stock until the runs are deleted, and that
// a loader finds the weight of a run.
func stockOfEnded(b *bed) {
	b.put(func(x *store.Batch) { x.WorkflowInserts = []store.Workflow{workflow(1, "first")} })
	const kept = int64(0x1_0203_0405_0607)
	var ids []dag.RunID
	for i, n := range []int64{kept, 5000, 0} {
		r := b.run(dag.RunRunning)
		task := b.attempt(r.ID, 0, 1)
		x := b.batch()
		x.RunInserts, x.AttemptInserts = []dag.RunRow{r}, []dag.AttemptRow{task}
		x.Events = []dag.EventRow{{Run: r.ID, At: 5, Records: []byte("begin")}}
		b.ok(b.commit(x))
		x = b.batch()
		end := task
		end.State, end.Started, end.Finished = dag.AttemptSucceeded, task.Assigned+1, task.Assigned+2
		x.AttemptUpdates = []dag.AttemptUpdate{{AttemptRow: end, Was: task.State, Plain: i != 1}}
		x.Events = []dag.EventRow{{Run: r.ID, At: 6, Records: []byte("task"), Weight: 300}}
		b.ok(b.commit(x))
		x = b.batch()
		done := r
		done.State, done.FinishedAt, done.Kept = dag.RunSucceeded, 100, n
		x.RunUpdates = []dag.RunUpdate{{RunRow: done, Was: r.State}}
		x.Events = []dag.EventRow{{Run: r.ID, At: 7, Records: []byte("end"), Weight: n}}
		x.Kept = []store.StockUpdate{{Namespace: "default", Shard: r.Shard, Bytes: n}}
		b.ok(b.commit(x))
		all, err := b.s.Load(b.ctx, store.LoadQuery{IDs: []dag.RunID{r.ID}})
		b.ok(err)
		b.same(len(all), 1, "loaded runs")
		b.same(all[0].Run.Kept, n, "what the run keeps")
		b.same(all[0].Run.Weight, 300+n, "the weight of the run")
		b.same(len(all[0].Attempts), 1, "its attempts")
		b.same(all[0].Attempts[0].State, dag.AttemptSucceeded, "the state of its attempt")
		ids = append(ids, r.ID)
	}
	b.same(stockOf(b, "default").Bytes, kept+5000, "bytes of ended runs")
	x := b.batch()
	x.Fences[0].Epoch++
	x.Kept = []store.StockUpdate{{Namespace: "default", Bytes: 1}}
	b.fails(x, store.ErrFenced)
	b.expire(store.Expiry{Workflow: 1, To: b.but(1, 2), Before: 1, Limit: 10})
	_, err := b.s.Run(b.ctx, ids[0])
	b.is(err, store.ErrNotFound)
	b.same(stockOf(b, "default").Bytes, int64(5000), "bytes after a deletion")
}

func stockRefused(b *bed) {
	b.put(func(x *store.Batch) {
		x.WorkflowInserts = []store.Workflow{workflow(1, "first")}
		x.Versions = []store.Version{version(1, 1)}
		x.TriggerInserts = []store.Trigger{trigger(1, "a", "cron")}
	})
	kept := stockOf(b, "default").Bytes
	_, err := b.s.PutNamespace(b.ctx, store.Namespace{Name: "default", Revision: 1, Quotas: store.Quotas{StoredBytes: kept + 4000, Versions: 1, Triggers: 1}})
	b.ok(err)
	refused := func(err error, quota string, used int64) {
		b.Helper()
		var over *store.QuotaError
		if !errors.As(err, &over) || !errors.Is(err, store.ErrRefused) || over.Quota != quota || over.Namespace != "default" || over.Used != used {
			b.Fatalf("%v, want the quota %s with %d", err, quota, used)
		}
	}
	all := store.CheckStoredBytes | store.CheckVersions | store.CheckTriggers
	x := b.batch()
	x.Versions, x.Stocks = []store.Version{version(1, 2)}, []store.StockUpdate{{Namespace: "default", Check: all}}
	refused(b.commit(x), store.QuotaVersions, 2)
	_, err = b.s.Version(b.ctx, 1, 2)
	b.is(err, store.ErrNotFound)
	x = b.batch()
	x.TriggerInserts, x.Stocks = []store.Trigger{trigger(1, "b", "cron")}, []store.StockUpdate{{Namespace: "default", Check: all}}
	refused(b.commit(x), store.QuotaTriggers, 2)
	_, err = beginning(b, dag.RunRunning, 4000)
	b.ok(err)
	_, err = beginning(b, dag.RunRunning, 2000)
	refused(err, store.QuotaStoredBytes, kept+6000)
	_, err = beginning(b, dag.RunRunning, 10)
	b.ok(err)
	// The quota does not refuse this change.
	b.put(func(x *store.Batch) { x.Versions = []store.Version{version(1, 2)} })
	b.put(func(x *store.Batch) {
		x.Stocks = []store.StockUpdate{{Namespace: "default", Check: store.CheckTriggers}}
	})
	x = b.batch()
	x.Stocks = []store.StockUpdate{{Namespace: "default", Check: store.CheckVersions}}
	refused(b.commit(x), store.QuotaVersions, 2)
}

// stockAtOnce makes several owners add versions of one namespace concurrently.
func stockAtOnce(b *bed, _ store.Cluster) {
	const tries, bound = 10, 12
	if len(b.fences)*tries <= bound {
		b.Skip("too few shards")
	}
	for i, f := range b.fences {
		b.put(func(x *store.Batch) {
			flow := workflow(dag.WorkflowID(i+1), fmt.Sprint("w", i))
			flow.Shard, flow.Namespace = f.Shard, "shop"
			x.WorkflowInserts = []store.Workflow{flow}
		})
	}
	_, err := b.s.PutNamespace(b.ctx, store.Namespace{Name: "shop", Revision: 1, Quotas: store.Quotas{Versions: bound}})
	b.ok(err)
	var made, full atomic.Int64
	var wg sync.WaitGroup
	for i, f := range b.fences {
		wg.Go(func() {
			for n := range int32(tries) {
				x := &store.Batch{Fences: []store.Fence{f}, Versions: []store.Version{version(dag.WorkflowID(i+1), n+1)},
					Stocks: []store.StockUpdate{{Namespace: "shop", Shard: f.Shard, Check: store.CheckVersions}}}
				_, err := b.s.Commit(b.ctx, x)
				switch {
				case err == nil:
					f.Seq++
					made.Add(1)
				case errors.Is(err, store.ErrRefused):
					full.Add(1)
				default:
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.same(made.Load(), int64(bound), "versions that were made")
	b.same(full.Load(), int64(len(b.fences)*tries-bound), "versions that were refused")
	b.same(stockOf(b, "shop").Versions, int64(bound), "counted versions")
}

func tokensWithin(b *bed) {
	s := b.s.(store.Tokens)
	add := func(n int, kind, namespaces string) error {
		_, err := s.AddToken(b.ctx, store.Token{Kind: kind, Name: fmt.Sprint("t", n), Hash: hashOf(n), Verbs: "*", Namespaces: namespaces})
		return err
	}
	refused := func(err error) {
		b.Helper()
		var over *store.QuotaError
		if !errors.As(err, &over) || over.Quota != store.QuotaTokens || over.Namespace != "shop" || over.Used != 2 {
			b.Fatal(err)
		}
	}
	_, err := b.s.PutNamespace(b.ctx, store.Namespace{Name: "shop", Revision: 1, Quotas: store.Quotas{Tokens: 2}})
	b.ok(err)
	b.ok(add(1, store.TokenAPI, "shop web"))
	b.ok(add(2, store.TokenAPI, "*")) // this token is not limited to a namespace
	b.ok(add(3, store.TokenInvite, "shop"))
	refused(add(4, store.TokenAPI, "web shop"))
	refused(add(4, store.TokenInvite, "shop"))
	b.ok(add(4, store.TokenCertificate, "shop"))
	b.ok(add(5, store.TokenAPI, "web"))
	all, err := s.TokenList(b.ctx)
	b.ok(err)
	b.same(len(all), 5, "tokens")
	b.ok(s.RevokeToken(b.ctx, all[0].ID))
	b.ok(add(6, store.TokenAPI, "shop"))
	_, err = b.s.PutNamespace(b.ctx, store.Namespace{Name: "web", Revision: 1, Quotas: store.Quotas{Tokens: 1}})
	b.ok(err)
	refused(add(7, store.TokenAPI, "shop"))
}
