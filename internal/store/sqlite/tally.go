package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Tallies = (*DB)(nil)

// tallies implements store.Tallies for the database that embeds it.
type tallies struct{ d *DB }

// TallyStands implements store.Tallies. Only one program opens the database.
func (e tallies) TallyStands() bool { return true }

// TallyMarks implements store.Tallies.
func (e tallies) TallyMarks(ctx context.Context, shard dag.ShardID) ([]store.TallyMark, error) {
	return list(e.d, ctx, "tallyMarks", []any{int64(shard)}, func(s *sqlite.Stmt, m *store.TallyMark) error {
		r := row{s: s}
		m.Shard, m.Workflow, m.Rev, m.Seq, m.At = dag.ShardID(r.int()), dag.WorkflowID(r.int()), r.int(), r.int(), r.micros()
		return nil
	})
}

// PutTally implements store.Tallies.
func (e tallies) PutTally(ctx context.Context, owner dag.HandlerID, s store.TallyStep) error {
	d, shard := e.d, int64(s.Shard)
	one := func(name string, args ...any) error {
		n, err := drop(d, name, args...)
		if err == nil && n == 0 {
			err = fmt.Errorf("%s: %w", name, store.ErrFenced)
		}
		return err
	}
	err := d.changeBeside(ctx, "tally", func() error {
		if err := one("tallyHolds", shard, int64(owner), s.Epoch, s.Seq); err != nil {
			return err
		}
		err := error(nil)
		if s.Rev == 0 {
			err = one("tallyBegins", shard, s.Seq, int64(s.At))
		} else {
			err = one("tallyMoves", shard, s.Seq, int64(s.At), s.Rev)
		}
		if err == nil && s.Whole {
			_, err = drop(d, "tallyUnmarks", shard)
		}
		for i := 0; i < len(s.Marks) && err == nil; i++ {
			m := &s.Marks[i]
			_, err = drop(d, "tallyPutMark", shard, int64(m.Workflow), m.Seq, int64(m.At))
		}
		for i := 0; i < len(s.Drop) && err == nil; i++ {
			_, err = drop(d, "tallyDrops", int64(s.Drop[i]))
		}
		for i := 0; i < len(s.Rows) && err == nil; i++ {
			r := &s.Rows[i]
			_, err = drop(d, "tallyPut", int64(r.Workflow), int64(r.Span), int64(r.At), r.Task, r.N, r.Data)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("tally of shard %d: %w", s.Shard, err)
	}
	return nil
}

// Tally implements store.Tallies.
func (e tallies) Tally(ctx context.Context, q store.TallyQuery) ([]store.TallyRow, error) {
	after, task := int64(q.After.At), q.After.Task
	if q.After == (store.TallyKey{}) {
		after, task = -1, ""
	}
	args := []any{int64(q.Workflow), int64(q.Span), int64(q.From), int64(q.To), after, task, q.Tasks, q.Task, limitOf(q.Limit)}
	return list(e.d, ctx, "tallyRows", args, func(s *sqlite.Stmt, t *store.TallyRow) error {
		r := row{s: s}
		t.Workflow, t.Span, t.At, t.Task, t.N, t.Data = dag.WorkflowID(r.int()), store.TallySpan(r.int()), int32(r.int()), r.text(), r.int(), r.blob()
		return nil
	})
}

// ExpireTally implements store.Tallies.
func (e tallies) ExpireTally(ctx context.Context, owner dag.HandlerID, x store.TallyExpiry) (n int, err error) {
	may, err := owns(ctx, e.d, "tallyHasOld", []any{int64(x.Shard), int64(x.Workflow), int64(x.Days), int64(x.Hours)}, owner)
	if err != nil || !may {
		return 0, err
	}
	err = expireAs(ctx, e.d, x.Shard, owner, "expire the tally", func() error {
		n, err = drop(e.d, "tallyExpires", int64(x.Workflow), int64(x.Days), int64(x.Hours), x.Limit)
		return err
	})
	return n, err
}
