package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Tallies = (*DB)(nil)

// tallies implements store.Tallies for the database that embeds it.
type tallies struct{ d *DB }

// TallyStands implements store.Tallies.
func (e tallies) TallyStands() bool { return e.d.stands.Load() >= formatTally }

// TallyMarks implements store.Tallies.
func (e tallies) TallyMarks(ctx context.Context, shard dag.ShardID) ([]store.TallyMark, error) {
	return list(ctx, e.d, query{name: "tallyMarks", args: args{}.int4(int32(shard))}, func(r *row, m *store.TallyMark) error {
		m.Shard, m.Workflow, m.Rev, m.Seq, m.At = dag.ShardID(r.int()), dag.WorkflowID(r.int()), r.int(), r.int(), r.micros()
		return r.damaged("a mark of the tally")
	})
}

// PutTally implements store.Tallies. It uses the connection for logs, because writers need the others.
func (e tallies) PutTally(ctx context.Context, owner dag.HandlerID, s store.TallyStep) error {
	if err := ended(ctx, "tally"); err != nil {
		return err
	}
	c, err := e.d.logs.take(ctx)
	if err != nil {
		return err
	}
	defer e.d.logs.give(c)
	shard := int32(s.Shard)
	all := []query{{"tallyHolds", args{}.int4(shard).int8(int64(owner)).int8(s.Epoch).int8(s.Seq), nil}}
	if s.Rev == 0 {
		all = append(all, query{"tallyBegins", args{}.int4(shard).int8(s.Seq).int8(int64(s.At)), nil})
	} else {
		all = append(all, query{"tallyMoves", args{}.int4(shard).int8(s.Seq).int8(int64(s.At)).int8(s.Rev), nil})
	}
	if s.Whole {
		all = append(all, query{"tallyUnmarks", args{}.int4(shard), nil})
	}
	for i := range s.Marks {
		m := &s.Marks[i]
		all = append(all, query{"tallyPutMark", args{}.int4(shard).int8(int64(m.Workflow)).int8(m.Seq).int8(int64(m.At)), nil})
	}
	for _, w := range s.Drop {
		all = append(all, query{"tallyDrops", args{}.int8(int64(w)), nil})
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		all = append(all, query{"tallyPut", args{}.int8(int64(r.Workflow)).int4(int32(r.Span)).int4(r.At).text(r.Task).int8(r.N).blob(r.Data), nil})
	}
	if err := c.change(ctx, all); err != nil {
		return fmt.Errorf("tally of shard %d: %w", s.Shard, err)
	}
	return nil
}

// Tally implements store.Tallies.
func (e tallies) Tally(ctx context.Context, q store.TallyQuery) ([]store.TallyRow, error) {
	after, task := q.After.At, q.After.Task
	if q.After == (store.TallyKey{}) {
		after, task = -1, ""
	}
	a := args{}.int8(int64(q.Workflow)).int4(int32(q.Span)).int4(q.From).int4(q.To).int4(after).text(task).flag(q.Tasks).text(q.Task).int8(int64(limitOf(q.Limit)))
	return list(ctx, e.d, query{name: "tallyRows", args: a}, func(r *row, t *store.TallyRow) error {
		t.Workflow, t.Span, t.At, t.Task, t.N, t.Data = dag.WorkflowID(r.int()), store.TallySpan(r.int()), int32(r.int()), r.text(), r.int(), r.blob()
		return r.damaged("the tally of workflow %d", t.Workflow)
	})
}

// ExpireTally implements store.Tallies.
func (e tallies) ExpireTally(ctx context.Context, owner dag.HandlerID, x store.TallyExpiry) (int, error) {
	return count(ctx, e.d, x.Shard, owner, query{name: "tallyExpires", args: args{}.int8(int64(x.Workflow)).int4(x.Days).int4(x.Hours).int8(int64(x.Limit))})
}
