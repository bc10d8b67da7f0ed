package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Traces = (*DB)(nil)

// traces implements store.Traces for the database that embeds it.
type traces struct{ d *DB }

// TraceMark implements store.Traces.
func (e traces) TraceMark(ctx context.Context, shard dag.ShardID) (store.TraceMark, error) {
	all, err := list(ctx, e.d, query{name: "traceMark", args: args{}.int4(int32(shard))}, func(r *row, m *store.TraceMark) error {
		m.Shard, m.Seq, m.At = dag.ShardID(r.int()), r.int(), r.micros()
		return r.damaged("the trace mark of shard %d", shard)
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("trace mark of shard %d: %w", shard, store.ErrNotFound)
	}
	if err != nil {
		return store.TraceMark{}, err
	}
	return all[0], nil
}

// PutTraceMark implements store.Traces. It uses the connection for logs, because writers need the others.
func (e traces) PutTraceMark(ctx context.Context, owner dag.HandlerID, m store.TraceMark) error {
	if err := ended(ctx, "trace mark"); err != nil {
		return err
	}
	c, err := e.d.logs.take(ctx)
	if err != nil {
		return err
	}
	defer e.d.logs.give(c)
	row := args{}.int4(int32(m.Shard)).int8(int64(owner)).int8(m.Epoch).int8(m.Seq).int8(int64(m.At))
	if err := c.change(ctx, []query{{"putTraceMark", row, nil}}); err != nil {
		return fmt.Errorf("trace mark of shard %d: %w", m.Shard, err)
	}
	return nil
}
