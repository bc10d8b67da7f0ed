package memory

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Traces = (*Store)(nil)

// traces implements store.Traces for the store that embeds it.
type traces struct {
	s        *Store
	exported map[dag.ShardID]store.TraceMark
}

// TraceMark implements store.Traces.
func (e *traces) TraceMark(ctx context.Context, shard dag.ShardID) (m store.TraceMark, err error) {
	return m, e.s.read(ctx, Read, func() error {
		known := false
		if m, known = e.exported[shard]; !known {
			return fmt.Errorf("trace mark of shard %d: %w", shard, store.ErrNotFound)
		}
		m.Epoch = 0
		return nil
	})
}

// PutTraceMark implements store.Traces.
func (e *traces) PutTraceMark(ctx context.Context, owner dag.HandlerID, m store.TraceMark) error {
	return e.s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		if !hasShard(e.s, m.Shard) {
			return fmt.Errorf("shard %d: %w", m.Shard, store.ErrFenced)
		}
		if h := &e.s.shards[m.Shard]; h.owner != owner || h.epoch != m.Epoch || h.seq < m.Seq {
			return fmt.Errorf("trace mark of shard %d: %w", m.Shard, store.ErrFenced)
		}
		e.exported[m.Shard] = m
		return nil
	})
}
