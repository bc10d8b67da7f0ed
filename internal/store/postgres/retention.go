package postgres

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Retention = (*DB)(nil)

// FinishedBut implements store.Retention.
func (d *DB) FinishedBut(ctx context.Context, w dag.WorkflowID, keep int) (pos store.RunPos, err error) {
	err = d.query(ctx, "finishedBut", args{}.int8(int64(w)).int8(int64(keep)), func(r *row) error {
		pos = store.RunPos(r.id())
		return r.damaged("a run's id")
	})
	return pos, err
}

// Expire implements store.Retention. It uses the connection for logs, because writers need the others.
func (d *DB) Expire(ctx context.Context, owner dag.HandlerID, x store.Expiry) (did store.Expired, err error) {
	a := args{}.int8(int64(x.Workflow)).id(dag.RunID(x.To)).int8(int64(x.Before)).int8(int64(x.Keyed)).int8(int64(x.Limit)).
		int8(int64(store.ExpireLooks * x.Limit)).int8(int64(x.Once)).id(dag.RunID(x.KeyedTo)).id(dag.RunID(x.After)).
		flag(x.Tallied).int8(x.Counted)
	err = expireAs(ctx, d, x.Shard, owner, query{"expire", a, func(r *row) error {
		id, next, old := r.id(), r.bool(), r.bool()
		if next {
			did.Next, did.Old = store.RunPos(id), old
		} else {
			did.Runs = append(did.Runs, id)
		}
		return r.damaged("a run's id")
	}})
	if err != nil {
		return store.Expired{}, err
	}
	return did, nil
}

// ExpireVersions implements store.Retention.
func (d *DB) ExpireVersions(ctx context.Context, owner dag.HandlerID, x store.VersionExpiry) (int, error) {
	if err := ended(ctx, "expire versions"); err != nil {
		return 0, err
	}
	c, err := d.logs.take(ctx)
	if err != nil {
		return 0, err
	}
	defer d.logs.give(c)
	var gone []int64
	a := args{}.int8(int64(x.Workflow)).int8(int64(x.Superseded)).int8(int64(x.Limit)).int8(store.VersionRunsMax).int4(int32(max(x.Keep, 1)))
	err = c.change(ctx, []query{{"holds", args{}.int4(int32(x.Shard)).int8(int64(owner)), nil}, {"expireVersions", a, into(&gone, func(r *row, v *int64) error {
		*v = r.int()
		return r.damaged("a version")
	})}})
	return len(gone), err
}
