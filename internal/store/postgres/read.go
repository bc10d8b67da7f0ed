package postgres

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// limitDefault is the number of rows of a list without a limit, and the greatest number of runs of a list.
const limitDefault = 1000

func limitOf(limit int) int64 {
	if limit <= 0 {
		return limitDefault
	}
	return int64(limit)
}

// query runs a named statement on a connection for reading.
func (d *DB) query(ctx context.Context, name string, a args, see func(*row) error) error {
	return d.queries(ctx, query{name, a, see})
}

func (d *DB) queries(ctx context.Context, all ...query) error {
	if err := ended(ctx, all[0].name); err != nil {
		return err
	}
	patience := store.Patience(ctx)
	if patience == 0 {
		return d.read(ctx, all)
	}
	within, done := context.WithTimeout(ctx, patience)
	defer done()
	err := d.read(within, all)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w: the database has not answered within %v: %w", all[0].name, store.ErrUnavailable, patience, within.Err())
	}
	return err
}

func (d *DB) read(ctx context.Context, all []query) error {
	c, err := d.readers.take(ctx)
	if err != nil {
		return err
	}
	defer d.readers.give(c)
	return c.queries(ctx, all)
}

// first reads the first row of a statement, or store.ErrNotFound.
func first[T any](ctx context.Context, d *DB, q query, scan func(*row, *T) error) (T, error) {
	var v T
	found := false
	err := d.query(ctx, q.name, q.args, func(r *row) error {
		found = true
		return scan(r, &v)
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", q.name, store.ErrNotFound)
	}
	return v, err
}

// list reads all rows of a statement.
func list[T any](ctx context.Context, d *DB, q query, scan func(*row, *T) error) ([]T, error) {
	var all []T
	err := d.query(ctx, q.name, q.args, into(&all, scan))
	if err != nil {
		return nil, err
	}
	return all, nil
}

// into returns a function that appends each row to a list.
func into[T any](all *[]T, scan func(*row, *T) error) func(*row) error {
	return func(r *row) error {
		var v T
		if err := scan(r, &v); err != nil {
			return err
		}
		*all = append(*all, v)
		return nil
	}
}

// records collects runs, then their packed attempts, then the rows of their attempts. A damaged row affects
// only its own run.
type records struct {
	all    []store.RunRecord
	at     map[dag.RunID]int
	packed map[int][][]byte // the packed attempts of each run, by the index of the run
}

func (c *records) run(r *row) error {
	var rec store.RunRecord
	if err := scanRun(r, &rec.Run); err != nil {
		rec = store.RunRecord{Run: dag.RunRow{Header: dag.Header{ID: rec.Run.ID}}, Bad: err}
	}
	if c.at == nil {
		c.at = map[dag.RunID]int{}
	}
	c.at[rec.Run.ID] = len(c.all)
	c.all = append(c.all, rec)
	return nil
}

func (c *records) attempt(r *row) error {
	var a dag.AttemptRow
	err := scanAttempt(r, &a)
	i, known := c.at[a.Run]
	switch {
	case !known || c.all[i].Bad != nil:
	case err != nil:
		c.all[i].Attempts, c.all[i].Bad = nil, err
	default:
		c.all[i].Attempts = append(c.all[i].Attempts, a)
	}
	return nil
}

func (c *records) hands(r *row) error {
	if i, known := c.at[r.id()]; known {
		if c.packed == nil {
			c.packed = map[int][][]byte{}
		}
		c.packed[i] = append(c.packed[i], r.blob())
	}
	return nil
}

// settle adds the attempts that were assigned but have no row.
func (c *records) settle() []store.RunRecord {
	for i, parts := range c.packed {
		rec := &c.all[i]
		if rec.Bad != nil {
			continue
		}
		rows, err := packed.WithHands(rec.Attempts, rec.Run.ID, parts)
		rec.Run.Weight = packed.Weight(parts...)
		rec.Attempts, rec.Bad = rows, err
	}
	return c.all
}

// Load implements store.Store.
func (d *DB) Load(ctx context.Context, q store.LoadQuery) ([]store.RunRecord, error) {
	runs, hands, attempts := "loadPage", "loadPageHands", "loadPageAttempts"
	a := args{}.int4(int32(q.Shard)).id(q.After).int8(limitOf(q.Limit))
	if q.Moving {
		runs, hands, attempts = "loadMoving", "loadMovingHands", "loadMovingAttempts"
	}
	if q.IDs != nil {
		runs, hands, attempts = "loadNamed", "loadNamedHands", "loadNamedAttempts"
		a = args{}.array(ids(q.IDs))
	}
	var c records
	err := d.queries(ctx, query{"snapshot", nil, nil}, query{runs, a, c.run}, query{hands, a, c.hands}, query{attempts, a, c.attempt},
		query{"done", nil, nil})
	if err != nil {
		return nil, err
	}
	return c.settle(), nil
}

// Run implements store.Store.
func (d *DB) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	return first(ctx, d, query{name: "runById", args: args{}.id(id)}, scanRun)
}

// RunsByKeys implements store.Store.
func (d *DB) RunsByKeys(ctx context.Context, keys []store.RunKey) ([]dag.RunRow, error) {
	workflows, names := make([]dag.WorkflowID, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		workflows[i], names[i] = k.Workflow, k.Key
	}
	return list(ctx, d, query{name: "runsByKeys", args: args{}.array(int8s(workflows)).array(texts(names))}, scanRun)
}

// outputsNone as a bound leaves out all outputs, because no output is shorter than 0 bytes.
const outputsNone = -1

// Attempts implements store.Store.
func (d *DB) Attempts(ctx context.Context, q store.AttemptQuery) ([]dag.AttemptRow, error) {
	outputs := int32(outputsNone)
	if q.Outputs {
		outputs = valueMax
	}
	of := query{name: "attemptsOfRun", args: args{}.id(q.Run).int4(outputs)}
	if q.One {
		of.name, of.args = "attemptsOfTask", of.args.int4(int32(q.Task))
	}
	if q.Sparing {
		return list(ctx, d, of, scanAttempt)
	}
	if q.One && q.Token != 0 {
		return attemptsUpTo(ctx, d, &q, of)
	}
	var rows []dag.AttemptRow
	var parts [][]byte
	of.see = into(&rows, scanAttempt)
	hands := query{"loadNamedHands", args{}.array(ids([]dag.RunID{q.Run})), func(r *row) error {
		r.col++ // skip the id of the run
		if b := r.next(); !q.One || packed.MayHave(b, q.Task) {
			parts = append(parts, slices.Clone(b))
		}
		return nil
	}}
	err := d.queries(ctx, query{"snapshot", nil, nil}, of, hands, query{"done", nil, nil})
	switch {
	case err != nil:
		return nil, err
	case q.One:
		return packed.WithHandsOf(rows, q.Run, q.Task, parts)
	}
	return packed.WithHands(rows, q.Run, parts)
}

// The numbers of packed transactions that one exchange reads. The first exchanges read few, because most runs
// have no more.
const (
	packedPageMin = 500
	packedPageMax = 4000
)

// attemptsUpTo reads the attempts of a task up to the end of the attempt that the query names, because a run
// of 100,000 tasks has thousands of packed transactions. Each exchange reads packed attempts first and rows
// after them. If an attempt gets its row in between, the row is used. The parameter of is the query that
// reads the rows.
func attemptsUpTo(ctx context.Context, d *DB, q *store.AttemptQuery, of query) ([]dag.AttemptRow, error) {
	var rows []dag.AttemptRow
	var parts [][]byte
	found := false
	take := func(b []byte) {
		if !found && packed.MayHave(b, q.Task) {
			parts = append(parts, slices.Clone(b))
			found = packed.HasEnd(b, q.Task, q.Token)
		}
	}
	of.see = into(&rows, scanAttempt)
	all := []query{{"packedOfRun", args{}.id(q.Run), func(r *row) error {
		take(r.next())
		return nil
	}}}
	for after, page := int64(-1), int64(packedPageMin); ; page = packedPageMax {
		read := int64(0)
		rows = nil
		all = append(all, query{"packedBetween", args{}.id(q.Run).int8(after).int8(page), func(r *row) error {
			if read = r.int(); read > 0 {
				after = r.int()
				for _, b := range r.blobs() {
					take(b)
				}
			}
			return r.damaged("event of run %s", q.Run)
		}}, of)
		if err := d.queries(ctx, all...); err != nil {
			return nil, err
		}
		if found || read < page {
			return packed.WithHandsOf(rows, q.Run, q.Task, parts)
		}
		all = all[:0]
	}
}

// Events implements store.Store.
func (d *DB) Events(ctx context.Context, run dag.RunID, after int64, limit int) ([]dag.EventRow, error) {
	return list(ctx, d, query{name: "eventsOfRun", args: args{}.id(run).int8(after).int8(limitOf(limit))}, scanEvent)
}

// Handlers implements store.Store.
func (d *DB) Handlers(ctx context.Context, ids []dag.HandlerID) ([]store.Handler, error) {
	return list(ctx, d, query{name: "handlersById", args: args{}.array(int8s(ids))}, scanHandler)
}

// Workflow implements store.Store.
func (d *DB) Workflow(ctx context.Context, namespace, name string) (store.Workflow, error) {
	return first(ctx, d, query{name: "workflowByName", args: args{}.text(namespace).text(name)}, scanWorkflow)
}

// WorkflowByID implements store.Store.
func (d *DB) WorkflowByID(ctx context.Context, id dag.WorkflowID) (store.Workflow, error) {
	return first(ctx, d, query{name: "workflowById", args: args{}.int8(int64(id))}, scanWorkflow)
}

// Workflows implements store.Store.
func (d *DB) Workflows(ctx context.Context, q store.WorkflowQuery) ([]store.Workflow, error) {
	namespace, name := cut(q.After)
	a := args{}.text(q.Namespace).text(namespace).text(name).int8(limitOf(q.Limit)).text(q.Not).array(texts(slices.Collect(q.Tags.Lines())))
	return list(ctx, d, query{name: "workflowsOf", args: a}, scanWorkflow)
}

func cut(after string) (namespace, name string) {
	for i := range after {
		if after[i] == '/' {
			return after[:i], after[i+1:]
		}
	}
	return after, ""
}

// Version implements store.Store.
func (d *DB) Version(ctx context.Context, w dag.WorkflowID, version int32) (store.Version, error) {
	return first(ctx, d, query{name: "versionOf", args: args{}.int8(int64(w)).int4(version)}, scanVersion)
}

// Versions implements store.Store.
func (d *DB) Versions(ctx context.Context, w dag.WorkflowID, before int32, limit int) ([]store.Version, error) {
	if before == 0 {
		before = 1<<31 - 1
	}
	a := args{}.int8(int64(w)).int4(before).int8(limitOf(limit))
	return list(ctx, d, query{name: "versionsOf", args: a}, scanVersionHead)
}

// Files implements store.Store.
func (d *DB) Files(ctx context.Context, q store.FileQuery) ([]store.File, error) {
	of := args{}.int8(int64(q.Workflow)).int4(q.Version)
	if q.Heads {
		return list(ctx, d, query{name: "fileHeadsOf", args: of}, scanFileHead)
	}
	return list(ctx, d, query{name: "filesOf", args: of}, scanFile)
}

// Request implements store.Store.
func (d *DB) Request(ctx context.Context, scope, key string) (store.Request, error) {
	return first(ctx, d, query{name: "requestByKey", args: args{}.text(scope).text(key)}, scanRequest)
}

// Messages implements store.Store.
func (d *DB) Messages(ctx context.Context, to dag.ShardID, limit int) ([]store.Message, error) {
	return list(ctx, d, query{name: "messagesTo", args: args{}.int4(int32(to)).int8(limitOf(limit))}, scanMessage)
}

const (
	// scanPage is the number of runs in one round trip of a scan.
	scanPage = 200
	// scanIdleMax bounds the time for which the caller of a scan may process a page.
	scanIdleMax = "600000"
)

// Scan implements store.Store.
func (d *DB) Scan(ctx context.Context, see func(store.RunRecord, []dag.EventRow) error) error {
	if err := ended(ctx, "scan"); err != nil {
		return err
	}
	c, err := d.readers.take(ctx)
	if err != nil {
		return err
	}
	defer d.readers.give(c) // give closes the connection if the transaction is still open
	err = c.queries(ctx, []query{{"snapshot", nil, nil}, {"patience", args{}.text(scanIdleMax), nil}})
	if err != nil {
		return err
	}
	for after, more := (dag.RunID{}), true; more; {
		if after, more, err = scanOn(ctx, c, after, see); err != nil {
			return err
		}
	}
	return c.query(ctx, "done", nil, nil)
}

// scanOn passes one page of runs to a function.
func scanOn(ctx context.Context, c *conn, after dag.RunID, see func(store.RunRecord, []dag.EventRow) error) (last dag.RunID, more bool, err error) {
	var page records
	events := map[dag.RunID][]dag.EventRow{}
	a := args{}.id(after).int8(scanPage)
	err = c.queries(ctx, []query{{"scanRuns", a, page.run}, {"scanHands", a, page.hands}, {"scanAttempts", a.int4(valueMax), page.attempt}, {"scanEvents", a, func(r *row) error {
		var e dag.EventRow
		if err := scanEvent(r, &e); err != nil {
			return err
		}
		events[e.Run] = append(events[e.Run], e)
		return nil
	}}})
	if err != nil {
		return after, false, err
	}
	for _, rec := range page.settle() {
		last = rec.Run.ID
		if err := see(rec, events[last]); err != nil {
			return last, false, err
		}
	}
	return last, len(page.all) == scanPage, nil
}
