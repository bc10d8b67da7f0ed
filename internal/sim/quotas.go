package sim

import (
	"context"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// quotasEach is the interval at which a node reads the quotas.
const quotasEach = time.Second

// quotaRuns is the quota of unfinished runs in the namespace.
const quotaRuns = 2

// bound sets the quota of the namespace that holds all workflows.
func bound(w *World) {
	if !w.stage.Quotas {
		return
	}
	_, err := w.st.PutNamespace(context.Background(), store.Namespace{Name: "sim", Revision: 1, Quotas: store.Quotas{Runs: quotaRuns}, By: "eve"})
	must(err)
}

// quotas checks, after each commit, that there are no more unfinished runs than the quota allows, and that
// the store's count for each shard is right.
func (v *witness) quotas(b *store.Batch) {
	w := v.w
	if !w.stage.Quotas {
		return
	}
	ctx := context.Background()
	counted := map[dag.ShardID]int64{}
	rows, err := w.st.UnfinishedOf(ctx, w.allShards())
	must(err)
	total := int64(0)
	for i := range rows {
		counted[rows[i].Shard] += rows[i].Runs
		total += rows[i].Runs
	}
	if total > quotaRuns {
		w.violate("quota", "%d runs are unfinished, and %d may be", total, quotaRuns)
	}
	uses, err := w.st.NamespaceUses(ctx, "sim")
	must(err)
	for i := range uses {
		if u := &uses[i]; u.Runs != counted[u.Shard] {
			w.violate("quota", "shard %d has %d unfinished runs, and its count is %d", u.Shard, counted[u.Shard], u.Runs)
		}
		delete(counted, uses[i].Shard)
	}
	for shard, n := range counted {
		if n > 0 {
			w.violate("quota", "shard %d has %d unfinished runs, and no count", shard, n)
		}
	}
}
