package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Acquire implements store.Store.
func (d *DB) Acquire(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	if err := ended(ctx, "acquire shards"); err != nil {
		return nil, err
	}
	for _, id := range shards {
		if !d.hasShard(id) {
			return nil, fmt.Errorf("acquire shard %d: %w", id, store.ErrNotFound)
		}
	}
	d.Unstage()
	got := make(map[dag.ShardID]store.Acquired, len(shards))
	q := query{"acquire", args{}.shards(numbers(shards)).int8(int64(owner)), func(r *row) error {
		var a store.Acquired
		err := scanAcquired(r, &a)
		got[a.Shard] = a
		return err
	}}
	err := d.change(ctx, d.endBlockers, q, unpackOwned(owner, shards))
	d.handed.Forget()
	d.waves.forget(shards)
	if err != nil {
		return nil, fmt.Errorf("acquire shards: %w", err)
	}
	d.warm(ctx)
	all := make([]store.Acquired, len(shards))
	for i, id := range shards {
		a, found := got[id]
		if !found {
			return nil, fmt.Errorf("acquire shard %d: it has no row: %w", id, store.ErrCorrupt)
		}
		d.era.see(a.Epoch)
		all[i] = a
	}
	return all, nil
}

func scanAcquired(r *row, a *store.Acquired) error {
	a.Shard, a.Epoch, a.Seq = dag.ShardID(r.int()), r.int(), r.int()
	a.Watermark, a.Previous, a.Now = r.micros(), dag.HandlerID(r.int()), r.micros()
	return r.damaged("shard %d", a.Shard)
}

// Register implements store.Store.
func (d *DB) Register(ctx context.Context, id, node string) (store.Handler, error) {
	var h store.Handler
	if err := ended(ctx, "register"); err != nil {
		return h, err
	}
	err := d.change(ctx, nil, query{"insertHandler", args{}.text(id).text(node), func(r *row) error { return scanHandler(r, &h) }})
	return h, err
}

// blockedMax is how long Acquire waits for a transaction of the previous owner before it ends that
// transaction. If a process stops while it sends a transaction, its session keeps the locks and waits for the
// rest, and no setting of the database bounds that wait.
const blockedMax = 2 * time.Second

// change runs statements that write, in one transaction. Each time the statements have waited for another
// blockedMax, change calls blocked with the number of the session, if blocked is not nil.
func (d *DB) change(ctx context.Context, blocked func(ctx context.Context, pid uint32), all ...query) error {
	c, err := writerOf(ctx, d, d.writers.take)
	if err != nil {
		return err
	}
	defer d.writers.give(c)
	return changeOver(ctx, c, blocked, all...)
}

// changeOver does the same as change, on a connection that the caller already has.
func changeOver(ctx context.Context, c *conn, blocked func(ctx context.Context, pid uint32), all ...query) error {
	if blocked != nil {
		var watch sync.WaitGroup
		defer watch.Wait()
		watching, stop := context.WithCancel(ctx)
		defer stop()
		watch.Go(func() {
			for {
				select {
				case <-watching.Done():
					return
				case <-time.After(blockedMax):
					blocked(watching, c.backend)
				}
			}
		})
	}
	return c.change(ctx, all)
}

// endBlockers ends the sessions for which a session waits. It ignores errors, because the wait has its own
// bound.
func (d *DB) endBlockers(ctx context.Context, pid uint32) {
	_ = d.query(ctx, "endBlockers", args{}.int4(int32(pid)), nil)
}
