package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

//go:embed namespaces.sql
var namespacesSQL string

var _ store.Namespaces = (*DB)(nil)

// namespaces implements store.Namespaces for the database that embeds it.
type namespaces struct{ d *DB }

// PutNamespace implements store.Namespaces.
func (e namespaces) PutNamespace(ctx context.Context, n store.Namespace) (store.Namespace, error) {
	if err := ended(ctx, "putNamespace"); err != nil {
		return n, err
	}
	var found []store.Namespace
	a := args{}.text(n.Name).int8(n.Revision).int8(n.Runs).int8(n.RunsPerHour).int8(n.Tasks).int8(n.ParamsBytes).text(n.By).int8(store.NamespacesMax)
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
	n.Name, n.Revision, n.Runs, n.RunsPerHour, n.Tasks, n.ParamsBytes, n.Modified, n.By = r.text(), r.int(), r.int(), r.int(), r.int(), r.int(), r.micros(), r.text()
	return r.damaged("namespace %s", n.Name)
}

// NamespaceUses implements store.Namespaces.
func (e namespaces) NamespaceUses(ctx context.Context, namespace string) ([]store.NamespaceUse, error) {
	return list(ctx, e.d, query{name: "namespaceUses", args: args{}.text(namespace)}, func(r *row, u *store.NamespaceUse) error {
		u.Namespace, u.Shard, u.Runs, u.Started, u.Since = r.text(), dag.ShardID(r.int()), r.int(), r.int(), r.micros()
		return r.damaged("the use of namespace %s", u.Namespace)
	})
}

// UnfinishedOf implements store.Namespaces.
func (e namespaces) UnfinishedOf(ctx context.Context, shards []dag.ShardID) ([]store.WorkflowRuns, error) {
	numbers := make([]int32, len(shards))
	for i, s := range shards {
		numbers[i] = int32(s)
	}
	return list(ctx, e.d, query{name: "unfinishedOf", args: args{}.array(int4s(numbers))}, func(r *row, n *store.WorkflowRuns) error {
		n.Workflow, n.Shard, n.Runs = dag.WorkflowID(r.int()), dag.ShardID(r.int()), r.int()
		return r.damaged("the unfinished runs of a workflow")
	})
}

// uses sends what namespaces use after the transaction. The checks come last, in the order of the names:
// each of them holds the transactions of other shards up that start runs of the namespace, until this one
// has ended.
func (x *tx) uses(b *store.Batch) {
	for i := range b.Uses {
		u := &b.Uses[i]
		if _, fenced := x.seq(u.Shard); !fenced {
			x.fail = fmt.Errorf("the use of namespace %s is of shard %d, which has no fence: %w", u.Namespace, u.Shard, store.ErrFenced)
			return
		}
		x.send("putUse", args{}.text(u.Namespace).int4(int32(u.Shard)).int8(u.Runs).int8(u.Started).int8(int64(u.Since)))
	}
	for i := range b.Uses {
		if u := &b.Uses[i]; u.Check {
			x.send("withinQuotas", args{}.text(u.Namespace).int8(int64(u.Since)))
		}
	}
}

// codeQuota is the code that the function within_quotas of the database raises.
const codeQuota = "SK002"

// overQuota reads the message of within_quotas. hour is that of the transaction.
func overQuota(message string, hour dag.Micros) *store.QuotaError {
	parts := strings.SplitN(message, " ", 3)
	if len(parts) != 3 {
		return nil
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return nil
	}
	q := store.Quotas{Runs: n}
	if parts[0] == store.QuotaRunsPerHour {
		q = store.Quotas{RunsPerHour: n}
	}
	return q.Exceeded(parts[2], n+1, n+1, hour)
}
