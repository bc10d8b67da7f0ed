package cluster

import (
	"context"
	"time"

	"skein.dev/skein/internal/store"
)

// Compare compares the shards that were read with the states that the store had confirmed before the read
// began. It reports whether the store has gone back to an earlier state. If it has, Compare raises the era.
type Compare func(ctx context.Context, read []store.Fence) (back bool, err error)

// readMembers reads the members and the owners of shards, and compares the shards with the rows that were
// confirmed before. If the store has gone back, the rows are still valid; only their era is a new one.
func (n *Node) readMembers(ctx context.Context) ([]store.Member, []store.ShardRow, error) {
	if n.cfg.Look == nil {
		return n.cfg.Store.Members(ctx)
	}
	look := n.cfg.Look()
	members, shards, err := n.cfg.Store.Members(ctx)
	if err != nil {
		return nil, nil, err
	}
	marks := make([]store.Fence, len(shards))
	for i, s := range shards {
		marks[i] = store.Fence{Shard: s.ID, Epoch: s.Epoch, Seq: s.Seq}
	}
	if _, err := look(ctx, marks); err != nil {
		return nil, nil, err
	}
	if era := store.EraOf(marks); era != n.watch.era { // the owners in the rows may be those of an earlier state
		n.watch.era, n.watch.settled = era, false
	}
	return members, shards, nil
}

// Beaten returns the time at which this node sent the newest renewal that the store has confirmed. It returns
// the zero time if there is none.
func (n *Node) Beaten() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.beaten
}
