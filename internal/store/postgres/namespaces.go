package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Namespaces = (*DB)(nil)

// namespaces implements store.Namespaces for the database that embeds it.
type namespaces struct{ d *DB }

// PutNamespace implements store.Namespaces.
func (e namespaces) PutNamespace(ctx context.Context, n store.Namespace) (store.Namespace, error) {
	if err := ended(ctx, "putNamespace"); err != nil {
		return n, err
	}
	var found []store.Namespace
	a := args{}.text(n.Name).int8(n.Revision).int8(n.Runs).int8(n.RunsPerHour).int8(n.Tasks).int8(n.ParamsBytes).text(n.By).int8(store.NamespacesMax).
		int8(n.StoredBytes).int8(n.Versions).int8(n.Triggers).int8(n.Tokens).int8(n.RequestsPerMinute).int8(n.LogsPerDay).text(n.Isolation).
		text(n.AllowRead).text(n.AllowWrite).text(n.Egress).text(n.Locks).text(n.RunAs)
	err := e.d.change(ctx, nil, notedQuery(ctx, query{"putNamespace", a, into(&found, scanNamespace)}))
	if err == nil && len(found) == 0 {
		err = store.ErrFenced
		if all, failed := e.NamespaceList(ctx); failed == nil && n.Revision == 1 && len(all) >= store.NamespacesMax {
			err = fmt.Errorf("there are already %d namespaces, the limit: %w", store.NamespacesMax, store.ErrRefused)
		}
	}
	if err != nil {
		return n, fmt.Errorf("namespace %s: %w", n.Name, err)
	}
	return found[0], nil
}

// NamespaceList implements store.Namespaces.
func (e namespaces) NamespaceList(ctx context.Context) ([]store.Namespace, error) {
	return list(ctx, e.d, query{name: "namespaces"}, scanNamespace)
}

func scanNamespace(r *row, n *store.Namespace) error {
	n.Name, n.Revision, n.Runs, n.RunsPerHour, n.Tasks, n.ParamsBytes = r.text(), r.int(), r.int(), r.int(), r.int(), r.int()
	n.StoredBytes, n.Versions, n.Triggers, n.Tokens, n.RequestsPerMinute = r.int(), r.int(), r.int(), r.int(), r.int()
	n.Modified, n.By, n.LogsPerDay, n.Isolation = r.micros(), r.text(), r.int(), r.text()
	n.AllowRead, n.AllowWrite, n.Egress, n.Locks, n.RunAs = r.text(), r.text(), r.text(), r.text(), r.text()
	return r.damaged("namespace %s", n.Name)
}

// LevelsStand implements store.Namespaces.
func (e namespaces) LevelsStand() bool { return e.d.stands.Load() >= formatLevels }

// NamesStand implements store.Namespaces.
func (e namespaces) NamesStand() bool { return e.d.stands.Load() >= formatNames }

// RunAsStands implements store.Namespaces.
func (e namespaces) RunAsStands() bool { return e.d.stands.Load() >= formatRunAs }

// NamespaceUses implements store.Namespaces.
func (e namespaces) NamespaceUses(ctx context.Context, namespace string) ([]store.NamespaceUse, error) {
	return list(ctx, e.d, query{name: "namespaceUses", args: args{}.text(namespace)}, func(r *row, u *store.NamespaceUse) error {
		u.Namespace, u.Shard, u.Runs, u.Started, u.Since = r.text(), dag.ShardID(r.int()), r.int(), r.int(), r.micros()
		u.Logged, u.Day = r.int(), r.micros()
		return r.damaged("the use of namespace %s", u.Namespace)
	})
}

// NamespaceStocks implements store.Namespaces.
func (e namespaces) NamespaceStocks(ctx context.Context, namespace string) ([]store.NamespaceStock, error) {
	return list(ctx, e.d, query{name: "namespaceStocks", args: args{}.text(namespace)}, func(r *row, s *store.NamespaceStock) error {
		s.Namespace, s.Versions, s.Triggers, s.Bytes = r.text(), r.int(), r.int(), r.int()
		return r.damaged("the stock of namespace %s", s.Namespace)
	})
}

// UnfinishedOf implements store.Namespaces.
func (e namespaces) UnfinishedOf(ctx context.Context, shards []dag.ShardID) ([]store.WorkflowRuns, error) {
	numbers := make([]int32, len(shards))
	for i, s := range shards {
		numbers[i] = int32(s)
	}
	return list(ctx, e.d, query{name: "unfinishedOf", args: args{}.array(int4s(numbers))}, func(r *row, n *store.WorkflowRuns) error {
		n.Workflow, n.Shard, n.Runs, n.Seq = dag.WorkflowID(r.int()), dag.ShardID(r.int()), r.int(), r.int()
		return r.damaged("the unfinished runs of a workflow")
	})
}

// The parts of namespace_stock that have the sums of ended runs. Transactions that are written at the same
// time have different parts.
const (
	keptPart  = 16
	keptParts = 16
)

// uses sends the uses and stocks of namespaces after the transaction. The comparisons with quotas are the
// last statements of the transaction, in the order of the namespaces. The reason is that each comparison
// blocks the transactions of other shards that change the same namespace until this transaction has ended.
func (x *tx) uses(b *store.Batch) {
	checks := map[string]func(){}
	for i := range b.Uses {
		u := &b.Uses[i]
		if !x.counts(u.Namespace, u.Shard) {
			return
		}
		x.send("putUse", args{}.text(u.Namespace).int4(int32(u.Shard)).int8(u.Runs).int8(u.Started).int8(int64(u.Since)).int8(u.Logged).int8(int64(u.Day)))
		if u.Check {
			checks[u.Namespace] = func() { x.send("withinQuotas", args{}.text(u.Namespace).int8(int64(u.Since))) }
		}
	}
	for i := range b.Kept {
		u := &b.Kept[i]
		if !x.keeps {
			break
		}
		if !x.counts(u.Namespace, u.Shard) {
			return
		}
		seq, _ := x.seq(u.Shard)
		x.send("putStock", args{}.text(u.Namespace).int4(int32(u.Shard)).int8(u.Bytes).int4(int32(keptPart+seq%keptParts)))
	}
	kept := map[string]store.StockCheck{}
	for i := range b.Stocks {
		u := &b.Stocks[i]
		if !x.counts(u.Namespace, u.Shard) {
			return
		}
		if u.Bytes != 0 {
			x.send("putStock", args{}.text(u.Namespace).int4(int32(u.Shard)).int8(u.Bytes).int4(0))
		}
		if kept[u.Namespace] |= u.Check; kept[u.Namespace] != 0 && checks[u.Namespace] == nil {
			checks[u.Namespace] = func() {}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if checks[name](); kept[name] != 0 {
			x.send("withinStock", args{}.text(name).int4(int32(kept[name])))
		}
	}
}

// counts reports whether this transaction may write the counts of a namespace in a shard. It fails the
// transaction if there is no fence of the shard.
func (x *tx) counts(namespace string, shard dag.ShardID) bool {
	if _, fenced := x.seq(shard); !fenced {
		x.fail = fmt.Errorf("the use of namespace %s is of shard %d, which has no fence: %w", namespace, shard, store.ErrFenced)
		return false
	}
	return true
}

// codeQuota is the code that the function within_quotas of the database raises.
const codeQuota = "SK002"

// overQuota reads the message of a database function that compares quotas: the quota, its bound, the
// namespace and, unless the quota is one of runs, the present use. hour is the hour of the transaction.
func overQuota(message string, hour dag.Micros) *store.QuotaError {
	parts := strings.Fields(message)
	if len(parts) < 3 {
		return nil
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return nil
	}
	if len(parts) > 3 {
		used, err := strconv.ParseInt(parts[3], 10, 64)
		if err != nil {
			return nil
		}
		return &store.QuotaError{Namespace: parts[2], Quota: parts[0], Bound: n, Used: used}
	}
	q := store.Quotas{Runs: n}
	if parts[0] == store.QuotaRunsPerHour {
		q = store.Quotas{RunsPerHour: n}
	}
	return q.Exceeded(parts[2], n+1, n+1, hour)
}

// hourOf returns the start of the hour in which a batch counts runs of namespaces, or 0 if it counts none.
func hourOf(b *store.Batch) dag.Micros {
	if len(b.Uses) == 0 {
		return 0
	}
	return b.Uses[0].Since
}
