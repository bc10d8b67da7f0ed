package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// logWriters is the number of connections that write logs. Transactions of writers do not use them, so the
// output of tasks does not delay a transaction.
const logWriters = 1

var _ store.Logs = (*DB)(nil)

// AppendLogs implements store.Logs. An attempt without a row may have been assigned. The database cannot find
// it in the packed form, so the statement gets it as a parameter.
func (d *DB) AppendLogs(ctx context.Context, parts []store.LogPart, keep int64) ([]store.LogSpan, error) {
	handed := map[store.LogID]bool{}
	for i := range parts {
		if d.handed.Knows(parts[i].LogID) {
			handed[parts[i].LogID] = true
		}
	}
	spans, err := d.appendLogs(ctx, parts, handed, keep)
	if err == nil {
		err = d.appendHanded(ctx, parts, spans, handed, keep)
	}
	if err != nil {
		return nil, fmt.Errorf("append to logs: %w", err)
	}
	return spans, nil
}

// appendHanded repeats the parts whose attempts have no row and have been assigned.
func (d *DB) appendHanded(ctx context.Context, parts []store.LogPart, spans []store.LogSpan, handed map[store.LogID]bool, keep int64) error {
	if err := d.handedOver(ctx, parts, spans, handed); err != nil {
		return err
	}
	var again []store.LogPart
	var at []int
	for i := range spans {
		if !spans[i].Known && handed[parts[i].LogID] {
			again, at = append(again, parts[i]), append(at, i)
		}
	}
	if len(again) == 0 {
		return nil
	}
	now, err := d.appendLogs(ctx, again, handed, keep)
	for i := range now {
		spans[at[i]] = now[i]
	}
	return err
}

// handedOver reads which attempts without a row have been assigned.
func (d *DB) handedOver(ctx context.Context, parts []store.LogPart, spans []store.LogSpan, handed map[store.LogID]bool) error {
	wanted, runs := map[store.LogID]bool{}, map[dag.RunID]bool{}
	for i := range spans {
		if !spans[i].Known {
			wanted[parts[i].LogID], runs[parts[i].Run] = true, true
		}
	}
	if len(runs) == 0 {
		return nil
	}
	a := args{}.array(ids(slices.Collect(maps.Keys(runs))))
	return d.query(ctx, "loadNamedHands", a, func(r *row) error {
		return packed.UnpackHands(r.id(), r.next(), func(a *dag.AttemptRow) {
			if id := (store.LogID{Run: a.Run, Task: a.Task, Token: a.Token}); wanted[id] {
				handed[id] = true
			}
		})
	})
}

func (d *DB) appendLogs(ctx context.Context, parts []store.LogPart, handed map[store.LogID]bool, keep int64) ([]store.LogSpan, error) {
	runs, tasks, tokens, at := newColumn(oidUUID), make([]int32, len(parts)), make([]int32, len(parts)), make([]int64, len(parts))
	sizes, data, cuts := make([]int32, len(parts)), newColumn(oidBytea), make([]int32, len(parts))
	for i := range parts {
		p := &parts[i]
		runs.add(p.Run[:])
		data.add(p.Data)
		tasks[i], tokens[i], at[i], sizes[i] = int32(p.Task), int32(p.Token), p.Offset, p.Size
		if p.Cut {
			cuts[i] = 1
		}
		if handed[p.LogID] {
			cuts[i] |= 2
		}
	}
	spans := make([]store.LogSpan, 0, len(parts))
	a := args{}.array(runs).array(int4s(tasks)).array(int4s(tokens)).array(int8s(at)).array(int4s(sizes)).array(data).
		array(int4s(cuts)).int4(store.LogBlockMax).int8(keep)
	err := d.writeLogs(ctx, query{"appendLogs", a, into(&spans, func(r *row, s *store.LogSpan) error {
		s.Known, s.First, s.End = r.bool(), r.int(), r.int()
		return r.damaged("log")
	})})
	if err == nil && len(spans) != len(parts) {
		err = fmt.Errorf("append %d parts of logs: the database answered for %d: %w", len(parts), len(spans), store.ErrCorrupt)
	}
	return spans, err
}

func (d *DB) writeLogs(ctx context.Context, q query) error {
	if err := ended(ctx, q.name); err != nil {
		return err
	}
	c, err := d.logs.take(ctx)
	if err != nil {
		return err
	}
	defer d.logs.give(c)
	return c.change(ctx, []query{q})
}

func logArgs(id store.LogID) args {
	return args{}.id(id.Run).int4(int32(id.Task)).int4(int32(id.Token))
}

// LogSpan implements store.Logs.
func (d *DB) LogSpan(ctx context.Context, id store.LogID) (store.LogSpan, error) {
	return first(ctx, d, query{"logSpan", logArgs(id), nil}, func(r *row, s *store.LogSpan) error {
		s.Known, s.First, s.End = true, r.int(), r.int()
		return r.damaged("log of run %s", id.Run)
	})
}

// LogBlock implements store.Logs.
func (d *DB) LogBlock(ctx context.Context, id store.LogID, at int64) (store.LogPart, error) {
	return first(ctx, d, query{"logBlock", logArgs(id).int8(at), nil}, func(r *row, p *store.LogPart) error {
		p.LogID = id
		p.Offset, p.Size, p.Data = r.int(), int32(r.int()), r.blob()
		return r.damaged("log of run %s", id.Run)
	})
}

// DeleteLogs implements store.Logs.
func (d *DB) DeleteLogs(ctx context.Context, runs []dag.RunID) error {
	return d.writeLogs(ctx, query{"deleteLogs", args{}.array(ids(runs)), nil})
}
