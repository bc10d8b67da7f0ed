package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// queues writes the changes of a transaction to named queues.
func (x *tx) queues(b *store.Batch) {
	c := &b.QueueChanges
	for i := range c.QueueInserts {
		q := &c.QueueInserts[i]
		x.one(queueState(x.conn.room("insertQueue").row(), q).int8(int64(q.Paced)).int8(q.Revision).int8(int64(q.Created)).int8(int64(q.Modified)))
	}
	for i := range c.QueueUpdates {
		q := &c.QueueUpdates[i]
		x.one(queueState(x.conn.room("updateQueue").row(), q).int8(q.Revision).int8(int64(q.Modified)))
	}
	for i := range c.QueueDeletes {
		q := &c.QueueDeletes[i]
		x.one(x.conn.room("deleteQueue").row().text(q.Name).int8(q.Revision))
	}
	for _, p := range c.QueuePaces {
		x.one(x.conn.room("paceQueue").row().text(p.Name).int8(int64(p.Paced)))
	}
}

// queueState appends the columns of a queue that can change.
func queueState(r *rows, q *store.Queue) *rows {
	return r.text(q.Name).int4(q.Limit).text(q.PerKey).text(q.Order).text(q.Overflow).int4(q.Rate).int8(int64(q.Each)).
		text(q.State).text(q.Actor).text(q.Reason).int8(int64(q.Until))
}

func scanQueue(c *row, q *store.Queue) error {
	q.Name, q.Limit, q.PerKey, q.Order, q.Overflow = c.text(), int32(c.int()), c.text(), c.text(), c.text()
	q.Rate, q.Each, q.State, q.Actor, q.Reason = int32(c.int()), c.micros(), c.text(), c.text(), c.text()
	q.Until, q.Paced, q.Revision, q.Created, q.Modified = c.micros(), c.micros(), c.int(), c.micros(), c.micros()
	return c.damaged("queue %s", q.Name)
}

func scanClaimant(c *row, r *store.Claimant) error {
	r.Run, r.Shard, r.Workflow = c.id(), dag.ShardID(c.int()), dag.WorkflowID(c.int())
	r.Priority, r.Created = word(c, dag.ParsePriority), c.micros()
	claim, shares, err := dag.UnpackClaims(c.next())
	if err != nil {
		c.fail("%v", err)
	} else if r.Shares = shares; claim != nil {
		r.Claim = *claim
	}
	return c.damaged("run %s", r.Run)
}

// claimants reads claims, and leaves out damaged rows: the owner of such a row quarantines the run.
func (d *DB) claimants(ctx context.Context, q query) ([]store.Claimant, error) {
	var all []store.Claimant
	err := d.query(ctx, q.name, q.args, func(r *row) error {
		var c store.Claimant
		err := scanClaimant(r, &c)
		if errors.Is(err, store.ErrCorrupt) {
			return nil
		}
		all = append(all, c)
		return err
	})
	return all, err
}

// Queue implements store.Claims.
func (d *DB) Queue(ctx context.Context, name string) (store.Queue, error) {
	return first(ctx, d, query{name: "queueByName", args: args{}.text(name)}, scanQueue)
}

// Queues implements store.Claims.
func (d *DB) Queues(ctx context.Context, after string, limit int) ([]store.Queue, error) {
	return list(ctx, d, query{name: "queuesOf", args: args{}.text(after).int8(limitOf(limit))}, scanQueue)
}

// Holding implements store.Claims.
func (d *DB) Holding(ctx context.Context, after dag.RunID, limit int) ([]store.Claimant, error) {
	for {
		all, err := d.claimants(ctx, query{name: "holding", args: args{}.id(after).int8(limitOf(limit))})
		if err != nil || len(all) == 0 {
			return nil, err
		}
		after = all[len(all)-1].Run
		found := slices.DeleteFunc(all, func(c store.Claimant) bool { return !c.Holds() })
		if len(found) > 0 { // a page can have fewer rows than its limit and still have a next page
			return found, nil
		}
	}
}

// Holders implements store.Claims.
func (d *DB) Holders(ctx context.Context, q store.HolderQuery) ([]store.Claimant, int, error) {
	all, err := d.claimants(ctx, query{name: "holders", args: args{}.blob(q.About())})
	found := store.FirstHolders[store.Claimant]{Most: q.First}
	for i := range all {
		if q.Of(&all[i].Claim) {
			found.Add(all[i].Claim.Grant, all[i])
		}
	}
	return found.First, found.Count, err
}

// Lines implements store.Claims.
func (d *DB) Lines(ctx context.Context) ([]store.Line, error) {
	return list(ctx, d, query{name: "lines"}, func(r *row, l *store.Line) error {
		l.Name, l.Level, l.Runs = r.text(), dag.Priority(r.int()), r.int()
		return r.damaged("a line")
	})
}

// InLine implements store.Claims.
func (d *DB) InLine(ctx context.Context, line string, level dag.Priority, from dag.Micros, limit int) ([]store.Claimant, error) {
	return d.claimants(ctx, query{name: "inLine", args: args{}.text(line).int8(int64(level)).int8(int64(from)).int8(limitOf(limit))})
}

// Places implements store.Claims.
func (d *DB) Places(ctx context.Context, q *store.SeatQuery) ([]store.Place, error) {
	return store.CountSeats(q, nil, func(spans []store.Span) ([]int, error) {
		var lines []string
		var levels, ends []int32
		var asked, until []dag.Micros
		var from, to []dag.RunID
		for i := range spans {
			first, last := &spans[i].From, &spans[i].To
			lines = append(lines, spans[i].Line)
			levels, asked, from = append(levels, int32(first.Level)), append(asked, first.Asked), append(from, first.Run)
			ends, until, to = append(ends, int32(last.Level)), append(until, last.Asked), append(to, last.Run)
		}
		q := query{name: "countSpans", args: args{}.array(texts(lines)).array(int4s(levels)).array(int8s(asked)).array(ids(from)).
			array(int4s(ends)).array(int8s(until)).array(ids(to)).int8(int64(spans[0].Most))}
		counts, err := list(ctx, d, q, func(r *row, n *int) error {
			*n = int(r.int())
			return r.damaged("a count")
		})
		if err == nil && len(counts) != len(spans) {
			err = fmt.Errorf("%d counts of %d spans: %w", len(counts), len(spans), store.ErrCorrupt)
		}
		return counts, err
	})
}
