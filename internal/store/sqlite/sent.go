package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.SentEvents = (*DB)(nil)

// sentEvents implements store.SentEvents for the database that embeds it.
type sentEvents struct{ d *DB }

// AddEvents implements store.SentEvents.
func (e sentEvents) AddEvents(ctx context.Context, events []store.SentEvent) (added []store.EventAdded, err error) {
	d := e.d
	err = d.changeBeside(ctx, "events", func() error {
		for i := range events {
			ev := &events[i]
			is, err := sentOf(d, ev)
			if err != nil {
				return err
			}
			if !is.Existing {
				if _, err := drop(d, "moveSent", int64(wall())); err != nil {
					return err
				}
				if _, err := drop(d, "insertSent", ev.Namespace, ev.Source, ev.ID, ev.Type, some(ev.Data)); err != nil {
					return err
				}
				if is, err = sentOf(d, ev); err != nil {
					return err
				}
				is.Existing = false
			}
			added = append(added, is)
		}
		return nil
	})
	return added, err
}

// sentOf finds an event over the connection of the writer.
func sentOf(d *DB, ev *store.SentEvent) (is store.EventAdded, err error) {
	err = sqlitex.Execute(d.conn, d.read["sentOf"], &sqlitex.ExecOptions{Args: []any{ev.Namespace, ev.Source, ev.ID}, ResultFunc: func(s *sqlite.Stmt) error {
		is = store.EventAdded{Seq: s.ColumnInt64(0), Received: dag.Micros(s.ColumnInt64(1)), Existing: true}
		return nil
	}})
	return is, translate("sentOf", err)
}

// EventsAfter implements store.SentEvents.
func (e sentEvents) EventsAfter(ctx context.Context, seq int64, limit, size int) ([]store.SentEvent, error) {
	// A page is read in parts, so that a page of large events does not use much memory.
	var all []store.SentEvent
	for len(all) < limit {
		part, err := list(e.d, ctx, "sentAfter", []any{seq, int64(min(limit-len(all), sentPart))}, scanSent)
		if err != nil {
			return all, err
		}
		for i := range part {
			if size -= len(part[i].Data); size < 0 && len(all) > 0 {
				return all, nil
			}
			all = append(all, part[i])
			seq = part[i].Seq
		}
		if len(part) < sentPart {
			break
		}
	}
	return all, nil
}

// sentPart is the number of events that are read at once.
const sentPart = 20

func scanSent(s *sqlite.Stmt, ev *store.SentEvent) error {
	r := row{s: s}
	ev.Seq, ev.Received, ev.Namespace, ev.Source, ev.ID, ev.Type, ev.Data = r.int(), r.micros(), r.text(), r.text(), r.text(), r.text(), r.blob()
	return nil
}

// EventLog implements store.SentEvents.
func (e sentEvents) EventLog(ctx context.Context) (first, last int64, err error) {
	ends, err := one(e.d, ctx, "sentLog", nil)
	return ends[0], ends[1], err
}

// EventsUntil implements store.SentEvents.
func (e sentEvents) EventsUntil(ctx context.Context, at dag.Micros) (int64, error) {
	ends, err := one(e.d, ctx, "sentUntil", []any{int64(at)})
	return ends[0], err
}

// one runs a statement that returns up to two numbers.
func one(d *DB, ctx context.Context, name string, args []any) ([2]int64, error) {
	return first(d, ctx, name, args, func(s *sqlite.Stmt, n *[2]int64) error {
		for i := range s.ColumnCount() {
			n[i] = s.ColumnInt64(i)
		}
		return nil
	})
}
