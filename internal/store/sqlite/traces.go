package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Traces = (*DB)(nil)

// traces implements store.Traces for the database that embeds it.
type traces struct{ d *DB }

// TraceMark implements store.Traces.
func (e traces) TraceMark(ctx context.Context, shard dag.ShardID) (store.TraceMark, error) {
	all, err := list(e.d, ctx, "traceMark", []any{int64(shard)}, func(s *sqlite.Stmt, m *store.TraceMark) error {
		r := row{s: s}
		m.Shard, m.Seq, m.At = dag.ShardID(r.int()), r.int(), r.micros()
		return nil
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("trace mark of shard %d: %w", shard, store.ErrNotFound)
	}
	if err != nil {
		return store.TraceMark{}, err
	}
	return all[0], nil
}

// PutTraceMark implements store.Traces.
func (e traces) PutTraceMark(ctx context.Context, owner dag.HandlerID, m store.TraceMark) error {
	return e.d.changeBeside(ctx, "trace mark", func() error {
		n, err := drop(e.d, "putTraceMark", int64(m.Shard), int64(owner), m.Epoch, m.Seq, int64(m.At))
		if err == nil && n == 0 {
			err = fmt.Errorf("trace mark of shard %d: %w", m.Shard, store.ErrFenced)
		}
		return err
	})
}
