package postgres

import (
	"context"
	"math"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Retention = (*DB)(nil)

// Expire implements store.Retention. It has the connection of logs: writers need theirs.
func (d *DB) Expire(ctx context.Context, owner dag.HandlerID, x store.Expiry) ([]dag.RunID, error) {
	if err := ended(ctx, "expire runs"); err != nil {
		return nil, err
	}
	c, err := d.logs.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.logs.give(c)
	var gone []dag.RunID
	keyedKeep := x.KeyedKeep
	if keyedKeep == 0 {
		keyedKeep = math.MaxInt32
	}
	a := args{}.int8(int64(x.Workflow)).int8(int64(max(x.Keep, 1))).int8(int64(x.Before)).int8(int64(x.Keyed)).int8(int64(x.Limit)).int8(lookMax).int8(int64(x.Once)).int8(int64(keyedKeep))
	err = c.change(ctx, []query{{"holds", args{}.int4(int32(x.Shard)).int8(int64(owner)), nil}, {"expire", a, into(&gone, scanID)}})
	if err != nil {
		return nil, err
	}
	return gone, nil
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
