package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Acquire implements store.Store.
func (d *DB) Acquire(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	if err := ended(ctx, "acquire shards"); err != nil {
		return nil, err
	}
	numbers := make([]int32, len(shards))
	for i, id := range shards {
		if !d.hasShard(id) {
			return nil, fmt.Errorf("acquire shard %d: %w", id, store.ErrNotFound)
		}
		numbers[i] = int32(id)
	}
	got := make(map[dag.ShardID]store.Acquired, len(shards))
	err := d.change(ctx, "acquire", args{}.shards(numbers).int8(int64(owner)), func(r *row) error {
		var a store.Acquired
		a.Shard, a.Epoch, a.Seq = dag.ShardID(r.int()), r.int(), r.int()
		a.Watermark, a.Previous, a.Now = r.micros(), dag.HandlerID(r.int()), r.micros()
		got[a.Shard] = a
		return r.bad
	})
	if err != nil {
		return nil, fmt.Errorf("acquire shards: %w", err)
	}
	all := make([]store.Acquired, len(shards))
	for i, id := range shards {
		a, found := got[id]
		if !found {
			return nil, fmt.Errorf("acquire shard %d: it has no row: %w", id, store.ErrCorrupt)
		}
		all[i] = a
	}
	return all, nil
}

// Register implements store.Store.
func (d *DB) Register(ctx context.Context, id, node string) (store.Handler, error) {
	var h store.Handler
	if err := ended(ctx, "register"); err != nil {
		return h, err
	}
	err := d.change(ctx, "insertHandler", args{}.text(id).text(node), func(r *row) error { return scanHandler(r, &h) })
	return h, err
}

// change runs one statement that writes.
func (d *DB) change(ctx context.Context, name string, a args, see func(*row) error) error {
	c, err := d.writers.take(ctx)
	if err != nil {
		return err
	}
	defer d.writers.give(c)
	return c.change(ctx, query{name, a, see})
}
