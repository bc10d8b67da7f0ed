package sqlite

import (
	"context"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// take lends a read-only connection; give it back with d.pool.Put.
func (d *DB) take(ctx context.Context) (*sqlite.Conn, error) {
	if d.closed.Load() {
		return nil, fmt.Errorf("the database is closed: %w", store.ErrUnavailable)
	}
	conn, err := d.pool.Take(ctx)
	if err != nil {
		return nil, fmt.Errorf("read: %w: %w", store.ErrUnavailable, err)
	}
	return conn, nil
}

// query runs a named statement on a connection of its own.
func (d *DB) query(ctx context.Context, name string, args []any, see func(*sqlite.Stmt) error) error {
	conn, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer d.pool.Put(conn)
	return d.on(conn, name, args, see)
}

func (d *DB) on(conn *sqlite.Conn, name string, args []any, see func(*sqlite.Stmt) error) error {
	err := sqlitex.Execute(conn, d.read[name], &sqlitex.ExecOptions{Args: args, ResultFunc: see})
	return translate(name, err)
}

// first reads the first row of a statement, or store.ErrNotFound.
func first[T any](d *DB, ctx context.Context, name string, args []any, scan func(*sqlite.Stmt, *T) error) (T, error) {
	var v T
	found := false
	err := d.query(ctx, name, args, func(s *sqlite.Stmt) error {
		found = true
		return scan(s, &v)
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", name, store.ErrNotFound)
	}
	return v, err
}

// list reads all rows of a statement.
func list[T any](d *DB, ctx context.Context, name string, args []any, scan func(*sqlite.Stmt, *T) error) ([]T, error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.pool.Put(conn)
	return listOn(d, conn, name, args, scan)
}

func listOn[T any](d *DB, conn *sqlite.Conn, name string, args []any, scan func(*sqlite.Stmt, *T) error) ([]T, error) {
	var all []T
	err := d.on(conn, name, args, func(s *sqlite.Stmt) error {
		var v T
		if err := scan(s, &v); err != nil {
			return err
		}
		all = append(all, v)
		return nil
	})
	return all, err
}

// Load implements store.Store.
func (d *DB) Load(ctx context.Context, q store.LoadQuery) ([]store.RunRecord, error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.pool.Put(conn)
	var runs []dag.RunRow
	if q.IDs == nil {
		runs, err = listOn(d, conn, "activeRuns", []any{int64(q.Shard), q.After[:], int64(q.Limit)}, scanRun)
	}
	for _, id := range q.IDs {
		var one []dag.RunRow
		if one, err = listOn(d, conn, "runById", []any{id[:]}, scanRun); err != nil {
			break
		}
		runs = append(runs, one...)
	}
	if err != nil {
		return nil, err
	}
	records := make([]store.RunRecord, len(runs))
	for i := range runs {
		records[i].Run = runs[i]
		records[i].Attempts, err = listOn(d, conn, "attemptsOfRun", []any{runs[i].ID[:]}, scanAttemptToKeep)
		if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// Run implements store.Store.
func (d *DB) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	return first(d, ctx, "runById", []any{id[:]}, scanRun)
}

// RunByKey implements store.Store.
func (d *DB) RunByKey(ctx context.Context, w dag.WorkflowID, key string) (dag.RunRow, error) {
	return first(d, ctx, "runByKey", []any{int64(w), key}, scanRun)
}

// lookMax is how many rows one page of runs may look at.
const lookMax = 10_000

// Runs implements store.Store.
func (d *DB) Runs(ctx context.Context, q store.RunQuery) (store.RunPage, error) {
	var page store.RunPage
	limit := min(max(q.Limit, 1), 1000)
	before := q.Before
	if before.IsZero() {
		for i := range before {
			before[i] = 0xff
		}
	}
	name, args := "runsNewest", []any{before[:], int64(lookMax)}
	switch {
	case q.State != "" && !endState(q.State):
		name, args = "activeRunsNewest", []any{int64(theShard), before[:], int64(lookMax)}
	case q.Workflow != 0:
		name, args = "runsOfWorkflow", []any{int64(q.Workflow), before[:], int64(lookMax)}
	case q.User != "":
		name, args = "runsOfUser", []any{q.User, before[:], int64(lookMax)}
	}
	looked := 0
	var last dag.RunID
	err := d.query(ctx, name, args, func(s *sqlite.Stmt) error {
		if len(page.Runs) == limit {
			page.Next = last
			return errPageFull
		}
		looked++
		s.ColumnBytes(colID, last[:])
		if !matches(s, &q) {
			return nil
		}
		var r dag.RunRow
		if err := scanRun(s, &r); err != nil {
			return err
		}
		page.Runs = append(page.Runs, r)
		return nil
	})
	if err != nil && !page.Next.IsZero() && len(page.Runs) == limit {
		err = nil // the page is full
	}
	if looked == lookMax {
		page.Next = last
	}
	return page, err
}

var errPageFull = fmt.Errorf("page full: %w", store.ErrRefused)

func endState(s string) bool {
	state, ok := dag.ParseRunState(s)
	return ok && state.Terminal()
}

// matches applies what the index did not; Since also by the time in the id's rows.
func matches(s *sqlite.Stmt, q *store.RunQuery) bool {
	return (q.Workflow == 0 || dag.WorkflowID(s.ColumnInt64(colWorkflow)) == q.Workflow) &&
		(q.User == "" || s.ColumnText(colUser) == q.User) &&
		(q.State == "" || q.State == "active" || s.ColumnText(colState) == q.State) &&
		(q.Since == 0 || dag.Micros(s.ColumnInt64(colCreated)) >= q.Since)
}

// Attempts implements store.Store.
func (d *DB) Attempts(ctx context.Context, q store.AttemptQuery) ([]dag.AttemptRow, error) {
	scan := scanAttemptBare
	if q.Outputs {
		scan = scanAttempt
	}
	if q.One {
		return list(d, ctx, "attemptsOfTask", []any{q.Run[:], int64(q.Task)}, scan)
	}
	return list(d, ctx, "attemptsOfRun", []any{q.Run[:]}, scan)
}

// Events implements store.Store.
func (d *DB) Events(ctx context.Context, run dag.RunID, after int64, limit int) ([]dag.EventRow, error) {
	return list(d, ctx, "eventsOfRun", []any{run[:], after, int64(limit)}, scanEvent)
}

// Handlers implements store.Store.
func (d *DB) Handlers(ctx context.Context, ids []dag.HandlerID) ([]store.Handler, error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.pool.Put(conn)
	var all []store.Handler
	for _, id := range ids {
		one, err := listOn(d, conn, "handlerById", []any{int64(id)}, scanHandler)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	return all, nil
}

// Workflow implements store.Store.
func (d *DB) Workflow(ctx context.Context, namespace, name string) (store.Workflow, error) {
	return first(d, ctx, "workflowByName", []any{namespace, name}, scanWorkflow)
}

// WorkflowByID implements store.Store.
func (d *DB) WorkflowByID(ctx context.Context, id dag.WorkflowID) (store.Workflow, error) {
	return first(d, ctx, "workflowById", []any{int64(id)}, scanWorkflow)
}

// Workflows implements store.Store.
func (d *DB) Workflows(ctx context.Context, q store.WorkflowQuery) ([]store.Workflow, error) {
	namespace, name := cut(q.After)
	return list(d, ctx, "workflowsOf", []any{q.Namespace, namespace, name, int64(q.Limit)}, scanWorkflow)
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
	return first(d, ctx, "versionOf", []any{int64(w), int64(version)}, scanVersion)
}

// Versions implements store.Store.
func (d *DB) Versions(ctx context.Context, w dag.WorkflowID, before int32, limit int) ([]store.Version, error) {
	if before == 0 {
		before = 1<<31 - 1
	}
	return list(d, ctx, "versionsOf", []any{int64(w), int64(before), int64(limit)}, scanVersionHead)
}

// Files implements store.Store.
func (d *DB) Files(ctx context.Context, w dag.WorkflowID, version int32) ([]store.File, error) {
	return list(d, ctx, "filesOf", []any{int64(w), int64(version)}, scanFile)
}

// Request implements store.Store.
func (d *DB) Request(ctx context.Context, scope, key string) (store.Request, error) {
	return first(d, ctx, "requestByKey", []any{scope, key}, scanRequest)
}

// Messages implements store.Store.
func (d *DB) Messages(ctx context.Context, to dag.ShardID, limit int) ([]store.Message, error) {
	return list(d, ctx, "messagesTo", []any{int64(to), int64(limit)}, scanMessage)
}

// Scan implements store.Store.
func (d *DB) Scan(ctx context.Context, see func(store.RunRecord, []dag.EventRow) error) (err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer d.pool.Put(conn)
	end := sqlitex.Transaction(conn) // one snapshot for all that follows
	defer end(&err)
	return d.on(conn, "allRuns", nil, func(s *sqlite.Stmt) error {
		var rec store.RunRecord
		if err := scanRun(s, &rec.Run); err != nil {
			return err
		}
		id := rec.Run.ID
		if rec.Attempts, err = listOn(d, conn, "attemptsOfRun", []any{id[:]}, scanAttempt); err != nil {
			return err
		}
		events, err := listOn(d, conn, "eventsOfRun", []any{id[:], int64(-1), int64(1 << 31)}, scanEvent)
		if err != nil {
			return err
		}
		return see(rec, events)
	})
}

// Info implements store.Store.
func (d *DB) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Engine: "sqlite", Location: d.path, Cluster: d.cluster, Format: format, Shards: 1, Runs: map[string]int{}}
	for _, f := range []string{d.path, d.path + "-wal"} {
		if st, err := os.Stat(f); err == nil {
			info.Bytes += st.Size()
		}
	}
	err := d.query(ctx, "countActive", []any{int64(theShard)}, func(s *sqlite.Stmt) error {
		info.Runs[s.ColumnText(0)] = s.ColumnInt(1)
		return nil
	})
	return info, err
}
