package storetest

import (
	"errors"
	"sync"
	"sync/atomic"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// namespaces covers quotas, and each shard's use of them.
func namespaces() []check {
	return []check{
		{"the settings of a namespace change revision by revision", namespaceRevisions},
		{"the use of a namespace is written with the batch or not at all", usesWithBatch},
		{"a batch beyond a quota is refused", quotaRefuses},
		{"shards that start runs at once stay within a quota", clustered(quotaAtOnce)},
		{"unfinished runs are counted by workflow", unfinishedCounted},
		{"what a namespace keeps is counted as it comes and goes", stockCounted},
		{"what an ended run keeps is counted until it is deleted", stockOfEnded},
		{"a batch by which a namespace keeps more than a quota is refused", stockRefused},
		{"shards that make versions at once stay within a quota", clustered(stockAtOnce)},
		{"tokens beyond the quota of a namespace are refused", tokensWithin},
	}
}

func namespaceRevisions(b *bed) {
	n := store.Namespace{Name: "shop", Revision: 2, Quotas: store.Quotas{Runs: 5, RunsPerHour: 6, Tasks: 7, ParamsBytes: 8,
		StoredBytes: 9, Versions: 10, Triggers: 11, Tokens: 12, RequestsPerMinute: 13, LogsPerDay: 14}, Isolation: "box", By: "ann·",
		Demands: store.Demands{AllowRead: "/srv/a\n/srv/b", AllowWrite: "/srv/c", Egress: "public,10.0.0.0/8", Locks: store.LocksShared, RunAs: "shop"}}
	_, err := b.s.PutNamespace(b.ctx, n)
	b.is(err, store.ErrFenced)
	n.Revision = 1
	one, err := b.s.PutNamespace(auditing(b, "set-namespace"), n)
	b.ok(err)
	if one.Modified == 0 {
		b.Error("no time of the change")
	}
	n.Modified = one.Modified
	b.same(one, n, "the namespace")
	b.same(len(freshAudits(b)), 1, "audit rows")
	_, err = b.s.PutNamespace(b.ctx, n)
	b.is(err, store.ErrFenced)
	n.Revision, n.Quotas, n.Isolation, n.Demands = 2, store.Quotas{Tasks: 1}, "", store.Demands{}
	two, err := b.s.PutNamespace(b.ctx, n)
	b.ok(err)
	other, err := b.s.PutNamespace(b.ctx, store.Namespace{Name: "a", Revision: 1})
	b.ok(err)
	all, err := b.s.NamespaceList(b.ctx)
	b.ok(err)
	b.same(all, []store.Namespace{other, two}, "the list")
	b.same(b.s.LevelsStand(), true, "whether all programs know the levels")
	b.same(b.s.NamesStand(), true, "whether all programs know queues and classes of namespaces")
	b.same(b.s.RunAsStands(), true, "whether all programs know the users of namespaces")
}

func useOf(b *bed, runs, started int64, check bool) store.UseUpdate {
	return store.UseUpdate{NamespaceUse: store.NamespaceUse{Namespace: "shop", Shard: b.fences[0].Shard, Runs: runs, Started: started, Since: 3600e6, Logged: 10 * runs, Day: 86400e6}, Check: check}
}

func usesOf(b *bed, namespace string) []store.NamespaceUse {
	b.Helper()
	all, err := b.s.NamespaceUses(b.ctx, namespace)
	b.ok(err)
	return all
}

func usesWithBatch(b *bed) {
	b.put(func(x *store.Batch) { x.Uses = append(x.Uses, useOf(b, 3, 4, true)) }) // there is no quota
	b.same(usesOf(b, "shop"), []store.NamespaceUse{useOf(b, 3, 4, false).NamespaceUse}, "the use")
	b.put(func(x *store.Batch) { x.Uses = append(x.Uses, useOf(b, 2, 5, false)) })
	b.same(usesOf(b, ""), []store.NamespaceUse{useOf(b, 2, 5, false).NamespaceUse}, "the use of all")
	b.same(len(usesOf(b, "web")), 0, "the use of another namespace")
	x := b.batch()
	x.Uses = append(x.Uses, useOf(b, 9, 9, false))
	x.Fences[0].Epoch++
	b.fails(x, store.ErrFenced)
	guest := &store.Batch{Uses: []store.UseUpdate{useOf(b, 9, 9, false)}}
	_, err := b.send(guest)
	b.is(err, store.ErrFenced)
	b.same(usesOf(b, "shop")[0].Runs, int64(2), "runs after batches that failed")
}

func quotaRefuses(b *bed) {
	_, err := b.s.PutNamespace(b.ctx, store.Namespace{Name: "shop", Revision: 1, Quotas: store.Quotas{Runs: 2, RunsPerHour: 3}})
	b.ok(err)
	refused := func(runs, started int64, quota string) {
		b.Helper()
		x := b.batch()
		x.Uses = append(x.Uses, useOf(b, runs, started, true))
		x.Requests = append(x.Requests, store.Request{Scope: "s", Key: "k", Hash: []byte{1}, Answer: []byte{2}, Created: 1})
		err := b.commit(x)
		var over *store.QuotaError
		if !errors.As(err, &over) || !errors.Is(err, store.ErrRefused) || over.Quota != quota || over.Namespace != "shop" {
			b.Fatalf("%d runs, %d begun: %v", runs, started, err)
		}
		if quota == store.QuotaRunsPerHour && over.Until != 2*3600e6 {
			b.Errorf("until %d", over.Until)
		}
		_, err = b.s.Request(b.ctx, "s", "k")
		b.is(err, store.ErrNotFound)
	}
	b.put(func(x *store.Batch) { x.Uses = append(x.Uses, useOf(b, 2, 3, true)) })
	refused(3, 3, store.QuotaRuns)
	refused(2, 4, store.QuotaRunsPerHour)
	// The quota does not refuse these runs.
	b.put(func(x *store.Batch) { x.Uses = append(x.Uses, useOf(b, 3, 4, false)) })
	refused(3, 3, store.QuotaRuns)
	b.put(func(x *store.Batch) { // the next hour begins
		u := useOf(b, 1, 1, true)
		u.Since = 2 * 3600e6
		x.Uses = append(x.Uses, u)
	})
}

// quotaAtOnce makes several owners start runs of one namespace concurrently, each in its own shards.
func quotaAtOnce(b *bed, _ store.Cluster) {
	const tries, bound = 20, 25
	if len(b.fences)*tries <= bound {
		b.Skip("too few shards")
	}
	_, err := b.s.PutNamespace(b.ctx, store.Namespace{Name: "shop", Revision: 1, Quotas: store.Quotas{Runs: bound}})
	b.ok(err)
	var accepted, full atomic.Int64
	var wg sync.WaitGroup
	for _, f := range b.fences {
		wg.Go(func() {
			runs := int64(0)
			for range tries {
				u := store.UseUpdate{NamespaceUse: store.NamespaceUse{Namespace: "shop", Shard: f.Shard, Runs: runs + 1}, Check: true}
				_, err := b.s.Commit(b.ctx, &store.Batch{Fences: []store.Fence{f}, Uses: []store.UseUpdate{u}})
				switch {
				case err == nil:
					runs++
					f.Seq++
					accepted.Add(1)
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
	b.same(accepted.Load(), int64(bound), "runs that have begun")
	b.same(full.Load(), int64(len(b.fences)*tries-bound), "runs that were refused")
	sum, _ := store.Sum(usesOf(b, "shop"), 0)
	b.same(sum, int64(bound), "the sum of the use")
}

func unfinishedCounted(b *bed) {
	rows := []dag.RunRow{b.run(dag.RunRunning), b.run(dag.RunWaiting), b.run(dag.RunSucceeded), b.run(dag.RunRunning), b.run(dag.RunSubmitted)}
	rows[3].Workflow = 2
	b.add(rows...)
	all, err := b.s.UnfinishedOf(b.ctx, []dag.ShardID{0})
	b.ok(err)
	seq := b.fences[0].Seq
	b.same(all, []store.WorkflowRuns{{Seq: seq}, {Workflow: 1, Runs: 2, Seq: seq}, {Workflow: 2, Runs: 1, Seq: seq}}, "unfinished runs")
	all, err = b.s.UnfinishedOf(b.ctx, nil)
	b.ok(err)
	b.same(len(all), 0, "unfinished runs of no shard")
}
