package engine

import (
	"context"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// The store maintains, for each namespace, the stocks of versions and triggers, and subtracts deleted runs
// from the stocks. When a run ends, the writer adds what the run keeps (dag.Weigh). The writer adds the
// parameters of a run when the run begins, and not when its row is inserted. The reason is that another node,
// or a caller of skein_enqueue in a long transaction, may have inserted the row, and must not lock the count
// of the shard.

// stocksOf reads the stock of one namespace, or of all namespaces if the name is "".
func stocksOf(ctx context.Context, st store.Store, namespace string) (map[string]store.NamespaceStock, error) {
	all, err := st.NamespaceStocks(ctx, namespace)
	if err != nil {
		return nil, errkind.FromStore("read what namespaces keep", err)
	}
	of := map[string]store.NamespaceStock{}
	for _, is := range all {
		of[is.Namespace] = is
	}
	return of, nil
}

// keep adds to the stock of a namespace in a shard, in the transaction being made.
func (q *quotas) keep(u store.StockUpdate) { addStock(&q.txn().recount.stocks, u) }

// keepRun counts what a run that ends keeps as stored bytes of its namespace. If the run has ended before, it
// counts the difference. The run's row says what was counted, and a deletion of the row subtracts it.
func (q *quotas) keepRun(r *dag.Run) {
	n := dag.Weigh(r)
	if n == r.Kept || !q.known.on {
		return
	}
	if wf, err := q.defs.workflow(r.Workflow); err == nil {
		addStock(&q.txn().recount.keeps, store.StockUpdate{Namespace: wf.Namespace, Shard: r.Shard, Bytes: n - r.Kept})
		r.Kept = n
	}
}

func addStock(all *[]store.StockUpdate, u store.StockUpdate) {
	i := slices.IndexFunc(*all, func(o store.StockUpdate) bool { return o.Namespace == u.Namespace && o.Shard == u.Shard })
	if i < 0 {
		*all = append(*all, u)
		return
	}
	(*all)[i].Bytes += u.Bytes
	(*all)[i].Check |= u.Check
}

// keepParams counts the parameters of a run that begins as stored bytes of its namespace.
func (q *quotas) keepParams(r *dag.Run) {
	n := store.StockBytes(r.Params)
	if n == 0 || !q.known.on {
		return
	}
	if wf, err := q.defs.workflow(r.Workflow); err == nil {
		q.keep(store.StockUpdate{Namespace: wf.Namespace, Shard: r.Shard, Bytes: n})
	}
}

// checkParams makes the store compare the stored bytes of a namespace with the quota when the transaction is
// written. It is called when a run begins that adds to these bytes and can still be refused.
func (q *quotas) checkParams(r *dag.Run) {
	if !q.loaded || store.StockBytes(r.Params) == 0 {
		return
	}
	wf, err := q.defs.workflow(r.Workflow)
	if bounds := q.set.of[wf.Namespace]; err == nil && bounds.StoredBytes > 0 {
		q.keep(store.StockUpdate{Namespace: wf.Namespace, Shard: r.Shard, Check: store.CheckStoredBytes})
	}
}

// mayKeep returns a QuotaError if a namespace may not store more. It compares only the quotas of the given
// amounts. If it returns nil, the store compares again in the transaction, with the stocks of all shards.
func (q *quotas) mayKeep(wf *store.Workflow, bounds *store.Quotas, more store.NamespaceStock) error {
	check := store.StockCheck(0)
	for _, one := range [...]struct {
		grows bool
		check store.StockCheck
	}{{more.Bytes > 0, store.CheckStoredBytes}, {more.Versions > 0, store.CheckVersions}, {more.Triggers > 0, store.CheckTriggers}} {
		if one.grows {
			check |= one.check
		}
	}
	if check == 0 {
		return nil
	}
	if over := q.full[wf.Namespace]; over != nil {
		return over
	}
	all, err := stocksOf(context.Background(), q.store, wf.Namespace)
	if err != nil {
		return err
	}
	is := all[wf.Namespace]
	is.Namespace, is.Bytes, is.Versions, is.Triggers = wf.Namespace, is.Bytes+more.Bytes, is.Versions+more.Versions, is.Triggers+more.Triggers
	if over := bounds.Overstocked(&is, check); over != nil {
		return over
	}
	q.keep(store.StockUpdate{Namespace: wf.Namespace, Shard: wf.Shard, Check: check})
	return nil
}

// versionBytes returns the bytes that a version adds to the stock of its namespace.
func versionBytes(v *store.Version) int64 {
	n := len(v.Source) + len(v.Def) + len(v.Graph)
	for i := range v.Files {
		n += len(v.Files[i].Data)
	}
	return int64(n)
}

// roomToKeep refuses a submission whose parameters exceed the quota, so that it does not reach the writer. It
// leaves a submission with a key to the writer, because the submission may repeat an earlier one.
func roomToKeep(ctx context.Context, e *Engine, s *Submission, bounds *store.Quotas) error {
	n := store.StockBytes(s.Params)
	if bounds.StoredBytes == 0 || n == 0 || s.Key != "" || s.named {
		return nil
	}
	all, err := stocksOf(ctx, e.store, s.Workflow.Namespace)
	if err != nil {
		return err
	}
	is := all[s.Workflow.Namespace]
	is.Namespace = s.Workflow.Namespace
	is.Bytes += n
	if over := bounds.Overstocked(&is, store.CheckStoredBytes); over != nil {
		return over
	}
	return nil
}

// overstocked returns the quota of stored bytes if a namespace exceeds it, or nil. No run of such a namespace
// may begin.
func overstocked(ctx context.Context, e *Engine, n *store.Namespace) (*store.QuotaError, error) {
	if n.StoredBytes == 0 {
		return nil, nil
	}
	all, err := stocksOf(ctx, e.store, n.Name)
	if err != nil {
		return nil, err
	}
	is := all[n.Name]
	is.Namespace = n.Name
	return n.Overstocked(&is, store.CheckStoredBytes), nil
}

// Stocks returns the stocks of namespaces, by name.
func (n Namespaces) Stocks(ctx context.Context) (map[string]store.NamespaceStock, error) {
	return stocksOf(ctx, n.e.store, "")
}

// RequestsPerMinute returns the quota of calls of a namespace, as last read. 0 means no limit.
func (n Namespaces) RequestsPerMinute(namespace string) int64 {
	bounds := n.e.quotas.quotasOf(namespace)
	return bounds.RequestsPerMinute
}
