package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// queues writes the changes of a transaction to named queues.
func (d *DB) queues(b *store.Batch) error {
	c := &b.QueueChanges
	if err := c.Check(b.Fences); err != nil {
		return err
	}
	for i := range c.QueueInserts {
		q := &c.QueueInserts[i]
		s := d.stmts.insertQueue.row().text(q.Name).int(int64(q.Limit)).text(q.PerKey).text(q.Order).text(q.Overflow).int(int64(q.Rate)).
			int(int64(q.Each)).text(q.State).text(q.Actor).text(q.Reason).int(int64(q.Until)).int(int64(q.Paced)).int(q.Revision).
			int(int64(q.Created)).int(int64(q.Modified))
		if _, err := s.exec(d.conn); err != nil {
			return err
		}
	}
	for i := range c.QueueUpdates {
		q := &c.QueueUpdates[i]
		s := d.stmts.updateQueue.row().text(q.Name).int(int64(q.Limit)).text(q.PerKey).text(q.Order).text(q.Overflow).int(int64(q.Rate)).
			int(int64(q.Each)).text(q.State).text(q.Actor).text(q.Reason).int(int64(q.Until)).int(q.Revision).int(int64(q.Modified))
		if err := s.one(d.conn); err != nil {
			return err
		}
	}
	for i := range c.QueueDeletes {
		q := &c.QueueDeletes[i]
		if err := d.stmts.deleteQueue.row().text(q.Name).int(q.Revision).one(d.conn); err != nil {
			return err
		}
	}
	for _, p := range c.QueuePaces {
		if err := d.stmts.paceQueue.row().text(p.Name).int(int64(p.Paced)).one(d.conn); err != nil {
			return err
		}
	}
	return nil
}

func scanQueue(s *sqlite.Stmt, q *store.Queue) error {
	c := row{s: s}
	q.Name, q.Limit, q.PerKey, q.Order, q.Overflow = c.text(), int32(c.int()), c.text(), c.text(), c.text()
	q.Rate, q.Each, q.State, q.Actor, q.Reason = int32(c.int()), c.micros(), c.text(), c.text(), c.text()
	q.Until, q.Paced, q.Revision, q.Created, q.Modified = c.micros(), c.micros(), c.int(), c.micros(), c.micros()
	return nil
}

func scanClaimant(s *sqlite.Stmt, r *store.Claimant) error {
	c := row{s: s}
	r.Run, r.Shard, r.Workflow = c.id(), dag.ShardID(c.int()), dag.WorkflowID(c.int())
	r.Priority, r.Created = word(&c, dag.ParsePriority), c.micros()
	claim, shares, err := dag.UnpackClaims(c.blob())
	if err != nil {
		c.bad = err
	} else if r.Shares = shares; claim != nil {
		r.Claim = *claim
	}
	if c.bad != nil {
		return fmt.Errorf("run %s: %w: %w", r.Run, store.ErrCorrupt, c.bad)
	}
	return nil
}

// Queue implements store.Claims.
func (d *DB) Queue(ctx context.Context, name string) (store.Queue, error) {
	return first(d, ctx, "queueByName", []any{name}, scanQueue)
}

// Queues implements store.Claims.
func (d *DB) Queues(ctx context.Context, after string, limit int) ([]store.Queue, error) {
	return list(d, ctx, "queuesOf", []any{after, limitOf(limit)}, scanQueue)
}

// Holding implements store.Claims. It reads the unfinished runs that hold queue slots or locks and are not in
// a line.
func (d *DB) Holding(ctx context.Context, after dag.RunID, limit int) (_ []store.Claimant, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	from := int64(0)
	if !after.IsZero() {
		if from, _, err = d.numberOf(conn, after); err != nil {
			return nil, err
		}
	}
	limit = int(limitOf(limit))
	var found []store.Claimant
	var page []byte // numbers of runs, as a JSON list
	pages := 0
	look := func() error {
		some, err := listOn(d, conn, "claimsByNumber", []any{string(append(page, ']'))}, func(s *sqlite.Stmt, c *store.Claimant) error {
			if err := scanClaimant(s, c); !errors.Is(err, store.ErrCorrupt) {
				return err
			}
			*c = store.Claimant{} // the owner of the run will quarantine it
			return nil
		})
		found = append(found, slices.DeleteFunc(some, func(c store.Claimant) bool { return !c.Holds() })...)
		page, pages = page[:0], 0
		return err
	}
	err = d.walkMoving(conn, from+1, func(n int64) (bool, error) {
		page = strconv.AppendInt(append(page, map[bool]byte{true: '[', false: ','}[pages == 0]), n, 10)
		if pages++; pages < limit-len(found) {
			return true, nil
		}
		err := look()
		return len(found) < limit, err
	})
	if err == nil && pages > 0 {
		err = look()
	}
	return found, err
}

// Holders implements store.Claims. If a run also holds other queue slots or locks, Holders reads only the
// part that the query is about.
func (d *DB) Holders(ctx context.Context, q store.HolderQuery) (_ []store.Claimant, _ int, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer d.give(ctx, conn, &err)
	found, about := store.FirstHolders[int64]{Most: q.First}, q.About()
	var page []byte // numbers of runs, as a JSON list
	numbers := 0
	look := func() error {
		err := d.on(conn, "claimsAbout", []any{string(append(page, ']')), about}, func(s *sqlite.Stmt) error {
			c := row{s: s}
			n := c.int()
			// a damaged claim is ignored: the owner will quarantine the run
			if claim, _, err := dag.UnpackClaims(c.blob()); err == nil && q.Of(claim) {
				found.Add(claim.Grant, n)
			}
			return nil
		})
		page, numbers = page[:0], 0
		return err
	}
	err = d.walkMoving(conn, 1, func(n int64) (bool, error) {
		page = strconv.AppendInt(append(page, map[bool]byte{true: '[', false: ','}[numbers == 0]), n, 10)
		if numbers++; numbers < holdersPage {
			return true, nil
		}
		return true, look()
	})
	if err == nil && numbers > 0 {
		err = look()
	}
	var first []store.Claimant
	for _, n := range found.First {
		some, err := listOn(d, conn, "claimsByNumber", []any{"[" + strconv.FormatInt(n, 10) + "]"}, scanClaimant)
		if err != nil {
			return nil, 0, err
		}
		first = append(first, some...)
	}
	return first, found.Count, err
}

// holdersPage is the number of runs that one statement examines.
const holdersPage = 2000

// Lines implements store.Claims.
func (d *DB) Lines(ctx context.Context) ([]store.Line, error) {
	return list(d, ctx, "lines", nil, func(s *sqlite.Stmt, l *store.Line) error {
		l.Name, l.Level, l.Runs = s.ColumnText(0), dag.Priority(s.ColumnInt64(1)), s.ColumnInt64(2)
		return nil
	})
}

// InLine implements store.Claims.
func (d *DB) InLine(ctx context.Context, line string, level dag.Priority, from dag.Micros, limit int) ([]store.Claimant, error) {
	return legible(d, ctx, "inLine", []any{line, int64(level), int64(from), limitOf(limit)}, scanClaimant)
}

// Places implements store.Claims.
func (d *DB) Places(ctx context.Context, q *store.SeatQuery) (_ []store.Place, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	numbers := make(map[dag.RunID]int64, len(q.Seats))
	for i := range q.Seats {
		err := d.on(conn, "numberOf", []any{q.Seats[i].Run[:]}, func(s *sqlite.Stmt) error {
			numbers[q.Seats[i].Run] = s.ColumnInt64(0)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	byNumber := func(a, b *store.Seat) int { return cmp.Compare(numbers[a.Run], numbers[b.Run]) }
	return store.CountSeats(q, byNumber, func(spans []store.Span) ([]int, error) {
		counts := make([]int, len(spans))
		for i := range spans {
			s := &spans[i]
			args := []any{s.Line, int64(s.From.Level), int64(s.From.Asked), numbers[s.From.Run],
				int64(s.To.Level), int64(s.To.Asked), numbers[s.To.Run], s.Most}
			err := d.on(conn, "countSpan", args, func(s *sqlite.Stmt) error {
				counts[i] = min(s.ColumnInt(0), spans[i].Most) // the count may end with a whole row, and so exceed the bound
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		return counts, nil
	})
}
