package postgres

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var (
	_ store.Eras  = (*DB)(nil)
	_ store.Lined = (*DB)(nil)
)

// eras implements store.Eras for the database that embeds it.
type eras struct{ d *DB }

// Marks implements store.Eras.
func (e eras) Marks(ctx context.Context) ([]store.Fence, error) {
	d := e.d
	return list(ctx, d, query{"marks", nil, nil}, func(r *row, f *store.Fence) error {
		f.Shard, f.Epoch, f.Seq = dag.ShardID(r.int()), r.int(), r.int()
		d.era.see(f.Epoch)
		return r.damaged("shard %d", f.Shard)
	})
}

// EndOf implements store.Eras.
func (e eras) EndOf(ctx context.Context, era dag.Era) ([]store.Fence, error) {
	return list(ctx, e.d, query{"endOfEra", args{}.int8(int64(era)), nil}, func(r *row, f *store.Fence) error {
		f.Shard, f.Epoch, f.Seq = dag.ShardID(r.int()), r.int(), r.int()
		return r.damaged("shard %d at the end of era %d", f.Shard, era)
	})
}

// Raise implements store.Eras.
func (e eras) Raise(ctx context.Context, from, to dag.Era, letter []byte) (is dag.Era, err error) {
	d := e.d
	if len(letter) == 0 {
		letter = nil
	}
	raise := query{"raise", args{}.int8(int64(from)).int8(int64(to)).blob(letter), func(r *row) error {
		era := r.int()
		d.era.see(era * store.EpochsOfEra)
		is = dag.Era(era)
		return r.damaged("the era")
	}}
	if err := d.alter(ctx, "begin the next era of the database", d.endBlockers, raise); err != nil {
		return 0, err
	}
	return is, nil
}

// Know implements store.Lined.
func (e eras) Know(era dag.Era) { e.d.era.see(int64(era) * store.EpochsOfEra) }

// Lineage implements store.Lined. Fields that the server does not report are zero.
func (e eras) Lineage(ctx context.Context) (l store.Lineage, err error) {
	d := e.d
	return l, d.query(ctx, "lineage", nil, func(r *row) error {
		l.System, l.Timeline, l.Position, l.Replayed = r.text(), r.int(), r.int(), r.int()
		return r.damaged("the server's lineage")
	})
}
