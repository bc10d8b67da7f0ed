// Package transfer copies all data from one store to another one. The stores may use different engines. Ids,
// runs, attempts, history, definitions, triggers and their ledger do not change. Shards are assigned again
// only if the stores have different numbers of them.
//
// The source is read in one snapshot, and the target is written in one transaction. So the copy is complete,
// or there is none.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// ErrIncomplete means that the target cannot store some rows. Nothing was copied.
var ErrIncomplete = errors.New("there are rows that the target cannot hold")

// badMax bounds the number of rows that are named.
const badMax = 100

// Options of a copy.
type Options struct {
	// Shards is the number of shards in the target.
	Shards int
	// LeaveOut copies the other rows if the target cannot store some rows.
	LeaveOut bool
	// Forward divides a message by the new shards of its workflows. Only the receiver of a message can read
	// its content. If Forward is nil, messages are copied only if the shards do not change.
	Forward func(payload []byte, home func(dag.WorkflowID) dag.ShardID) (map[dag.ShardID][]byte, error)
	// Progress, if not nil, is called at intervals and at the end of a table, with the number of copied rows
	// of the table.
	Progress func(table string, rows int64, done bool)
}

// Report is the result of a copy.
type Report struct {
	Rows map[string]int64 // number of rows of each table
	From int              // shards of the source
	To   int              // shards of the target
	// Bad names the rows that were left out, with the reasons, at most badMax of them.
	Bad []string
	// LeftOut counts the rows that were left out, by table.
	LeftOut map[string]int64
}

// Copy copies from into to, which must be empty.
func Copy(ctx context.Context, from, to store.Portable, o Options) (Report, error) {
	m := &mover{ctx: ctx, o: o, homes: map[dag.WorkflowID]int64{}, marks: newMarks(),
		report: Report{To: o.Shards, Rows: map[string]int64{}, LeftOut: map[string]int64{}}}
	err := to.Import(ctx, func(into store.Rows) error {
		m.into = into
		if err := from.Export(ctx, m); err != nil {
			return err
		}
		if err := m.keepMarks(); err != nil {
			return err
		}
		m.progress(true)
		if len(m.report.LeftOut) > 0 && !o.LeaveOut {
			return fmt.Errorf("%w; nothing was copied", ErrIncomplete)
		}
		return nil
	})
	if err != nil {
		return m.report, err
	}
	is, err := to.Counts(ctx)
	if err != nil {
		return m.report, fmt.Errorf("all rows were copied, but the rows of the new database could not be counted: %w", err)
	}
	for _, t := range store.Tables() {
		if is[t.Name] != m.report.Rows[t.Name] {
			return m.report, fmt.Errorf("table %s: %d rows were copied, and the copy has %d", t.Name, m.report.Rows[t.Name], is[t.Name])
		}
	}
	return m.report, nil
}

// progressRows is the number of rows between two reports of progress.
const progressRows = 50_000

// mover copies rows, with the shards that the target assigns.
type mover struct {
	ctx    context.Context
	o      Options
	into   store.Rows
	report Report

	homes    map[dag.WorkflowID]int64 // shards of workflows
	next     int64                    // the number of workflows with an assigned shard
	messages int64                    // the number of written messages, which get new numbers
	marks    marks

	table           *store.Table
	shard, workflow int // columns of the table; -1 if there is none
}

// Head implements store.Rows.
func (m *mover) Head(h store.Head) error {
	m.report.From = len(h.Shards)
	if m.moving() {
		// The entries of a run's history have the numbers of its shard's transactions, and due work before
		// the watermark of a shard is never found. So every shard continues from the greatest numbers of all
		// shards.
		var most store.ShardHead
		for _, s := range h.Shards {
			most.Epoch, most.Seq, most.Watermark = max(most.Epoch, s.Epoch), max(most.Seq, s.Seq), max(most.Watermark, s.Watermark)
		}
		h.Shards = make([]store.ShardHead, m.o.Shards)
		for i := range h.Shards {
			h.Shards[i] = most
		}
	}
	return m.into.Head(h)
}

// moving reports whether workflows get other shards.
func (m *mover) moving() bool { return m.report.From != m.report.To }

// Row implements store.Rows.
func (m *mover) Row(t *store.Table, values []store.Value) error {
	if err := m.enter(t); err != nil {
		return err
	}
	if m.moving() {
		switch t.Name {
		case "message":
			return m.forward(values)
		case "tally_mark":
			return m.mark(values)
		case "workflow":
			m.marks.shard[dag.WorkflowID(values[t.Index("id")].Int)] = values[m.shard].Int
		}
		m.rehome(values)
	}
	return m.write(values)
}

// write copies a row.
func (m *mover) write(values []store.Value) error {
	t := m.table
	err := m.into.Row(t, values)
	if errors.Is(err, store.ErrRefused) && m.ctx.Err() == nil {
		return m.bad(fmt.Sprintf("%s: %v", t.Name, err))
	}
	if err != nil {
		return err
	}
	m.report.Rows[t.Name]++
	if m.report.Rows[t.Name]%progressRows == 0 {
		m.progress(false)
	}
	return nil
}

// Bad implements store.Rows.
func (m *mover) Bad(t *store.Table, which, why string) error {
	if err := m.enter(t); err != nil {
		return err
	}
	return m.bad(fmt.Sprintf("%s (%s): %s", t.Name, which, why))
}

func (m *mover) bad(what string) error {
	m.report.LeftOut[m.table.Name]++
	if len(m.report.Bad) < badMax {
		m.report.Bad = append(m.report.Bad, what)
	}
	return m.ctx.Err()
}

// enter records the table of the following rows.
func (m *mover) enter(t *store.Table) error {
	if m.table == nil || m.table.Name != t.Name {
		if err := m.keepMarks(); err != nil {
			return err
		}
		m.progress(true)
		m.table, m.shard, m.workflow = t, t.Index("shard"), t.Index("workflow")
	}
	return m.ctx.Err()
}

func (m *mover) progress(done bool) {
	if m.table != nil && m.o.Progress != nil {
		m.o.Progress(m.table.Name, m.report.Rows[m.table.Name], done)
	}
}

// rehome assigns a row to the shard of its workflow. Workflows are assigned to the shards in turn. A row
// without a workflow goes to the first shard.
func (m *mover) rehome(values []store.Value) {
	switch {
	case m.table.Name == "workflow":
		home := m.next % int64(m.o.Shards)
		m.next++
		m.homes[dag.WorkflowID(values[m.table.Index("id")].Int)] = home
		values[m.shard].Int = home
	case m.shard >= 0 && m.workflow >= 0:
		values[m.shard].Int = m.homes[dag.WorkflowID(values[m.workflow].Int)]
	}
}

// forward copies a message after the workflows that the message concerns.
func (m *mover) forward(values []store.Value) error {
	if m.o.Forward == nil {
		return fmt.Errorf("messages between shards are waiting, and the target has other shards: %w", store.ErrFormat)
	}
	number, sender, target, payload := m.table.Index("id"), m.table.Index("sender"), m.table.Index("target"), m.table.Index("payload")
	parts, err := m.o.Forward(values[payload].Bytes, func(w dag.WorkflowID) dag.ShardID { return dag.ShardID(m.homes[w]) })
	if err != nil { // the receiver would also drop this message
		return m.bad(fmt.Sprintf("message %d: %v", values[number].Int, err))
	}
	for _, to := range slices.Sorted(maps.Keys(parts)) {
		m.messages++
		values[number].Int, values[sender].Int, values[target].Int = m.messages, int64(to), int64(to)
		values[payload].Bytes = parts[to]
		if err := m.write(values); err != nil {
			return err
		}
	}
	return nil
}
