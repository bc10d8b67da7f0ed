package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Eras = (*DB)(nil)

// eras implements store.Eras for the database that embeds it.
type eras struct{ d *DB }

// Marks implements store.Eras.
func (e eras) Marks(ctx context.Context) ([]store.Fence, error) {
	d := e.d
	f := store.Fence{Shard: theShard}
	err := d.query(ctx, "shard", []any{int64(theShard)}, func(s *sqlite.Stmt) error {
		f.Epoch, f.Seq = s.ColumnInt64(0), s.ColumnInt64(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return []store.Fence{f}, nil
}

// EndOf implements store.Eras. No era begins quietly in a file.
func (e eras) EndOf(context.Context, dag.Era) ([]store.Fence, error) { return nil, nil }

// Raise implements store.Eras.
func (e eras) Raise(ctx context.Context, from, to dag.Era, letter []byte) (is dag.Era, err error) {
	d := e.d
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("begin the next era of the database: %w: %w", store.ErrUnavailable, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.transact(func() error {
		var at store.Acquired
		if err := d.readShard(theShard, &at); err != nil {
			return err
		}
		if is = at.Era(); is != from || to == from && at.Floor() == to {
			return nil
		}
		epoch := int64(to) * store.EpochsOfEra
		if to == from { // this happens only if the data was copied from a PostgreSQL database
			epoch = store.EpochOf(to, to)
		}
		is = to
		if err := d.stmts.raise.row().int(int64(theShard)).int(epoch).one(d.conn); err != nil || len(letter) == 0 {
			return err
		}
		return d.stmts.insertMessage.row().int(int64(theShard)).int(int64(theShard)).blob(letter).int(int64(wall())).one(d.conn)
	})
	d.handed.Forget()
	if err != nil {
		return 0, fmt.Errorf("begin the next era of the database: %w", err)
	}
	return is, nil
}
