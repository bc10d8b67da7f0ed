package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// take lends a read-only connection; give takes it back.
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

// give returns a connection to the pool. It returns when everything that the connection may have read is on
// the disk. If that fails or takes longer than ctx, give reports an error for the read.
func (d *DB) give(ctx context.Context, conn *sqlite.Conn, err *error) {
	d.pool.Put(conn)
	if failed := d.syncs.wait(ctx); *err == nil {
		*err = failed
	}
}

// query runs a named statement on a connection for reading.
func (d *DB) query(ctx context.Context, name string, args []any, see func(*sqlite.Stmt) error) (err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer d.give(ctx, conn, &err)
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
func list[T any](d *DB, ctx context.Context, name string, args []any, scan func(*sqlite.Stmt, *T) error) (_ []T, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
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

// numbered is a run with its number.
type numbered struct {
	dag.RunRow
	n      int64
	packed [][]byte // the packed attempts of the transactions whose history is in the run's row
	bad    error    // the row could not be read
}

// take reads the packed parts of the row: hands, ends and hands_begun.
func (r *numbered) take(c row) {
	for range 3 {
		if b := c.blob(); b != nil {
			r.packed = append(r.packed, b)
		}
	}
}

func scanNumbered(s *sqlite.Stmt, r *numbered) error {
	r.n = s.ColumnInt64(colNumber)
	r.take(row{s: s, col: colHands})
	r.bad = scanRun(s, &r.RunRow)
	return nil
}

// Load implements store.Store.
func (d *DB) Load(ctx context.Context, q store.LoadQuery) (_ []store.RunRecord, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	var runs []numbered
	if q.IDs == nil && q.Shard == theShard {
		after := int64(0)
		if !q.After.IsZero() {
			if after, _, err = d.numberOf(conn, q.After); err != nil {
				return nil, err
			}
		}
		walk := d.walkActive
		if q.Moving {
			walk = d.walkMoving
		}
		err = walk(conn, after+1, func(n int64) (bool, error) {
			one, err := listOn(d, conn, "runByNumber", []any{n}, scanNumbered)
			runs = append(runs, one...)
			return len(runs) < limitOf(q.Limit), err
		})
	}
	for _, id := range q.IDs {
		var one []numbered
		if one, err = listOn(d, conn, "runById", []any{id[:]}, scanNumbered); err != nil {
			break
		}
		runs = append(runs, one...)
	}
	if err != nil {
		return nil, err
	}
	records := make([]store.RunRecord, len(runs))
	for i := range runs {
		r := &runs[i]
		records[i].Run, records[i].Bad = r.RunRow, r.bad
		if r.bad != nil {
			continue
		}
		records[i].Attempts, err = d.attemptsOn(conn, r, scanAttemptToKeep)
		records[i].Run.Weight = r.Weight
		if errors.Is(err, store.ErrCorrupt) {
			records[i].Bad = err
		} else if err != nil {
			return nil, err
		}
	}
	return records, nil
}

// numberOf returns the number of a run. If the run was deleted, the result there is false, and n is the
// number of the newest run with a smaller id, or 0.
func (d *DB) numberOf(conn *sqlite.Conn, id dag.RunID) (n int64, there bool, err error) {
	err = d.on(conn, "numberBefore", []any{id[:]}, func(s *sqlite.Stmt) error {
		n, there = s.ColumnInt64(0), s.ColumnInt64(1) != 0
		return nil
	})
	return n, there, err
}

// Run implements store.Store.
func (d *DB) Run(ctx context.Context, id dag.RunID) (dag.RunRow, error) {
	return first(d, ctx, "runById", []any{id[:]}, scanRun)
}

// RunsByKeys implements store.Store.
func (d *DB) RunsByKeys(ctx context.Context, keys []store.RunKey) (rows []dag.RunRow, err error) {
	if d.newKeys(keys) {
		return nil, nil
	}
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	for i := range keys {
		k := &keys[i]
		looks := make([]keyLook, 0, 4)
		if d.readOnly {
			looks = append(looks, keyLook{"runByLateKey", 0})
		}
		if n, late := d.keys.find(*k); late {
			looks = append(looks, keyLook{"lateRunByKey", n})
		}
		looks = append(looks, keyLook{"runByHash", hashOf(k)}, keyLook{"runByKey", 0}) // last, because late keys move there
		for found := len(rows); len(looks) > 0 && len(rows) == found; looks = looks[1:] {
			if rows, err = looks[0].add(d, conn, k, rows); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// keyLook is a statement that finds the run of a key. n is its third parameter, or 0 if it has only two.
type keyLook struct {
	name string
	n    int64
}

// add adds the run of a key to rows, if the statement finds it.
func (l keyLook) add(d *DB, conn *sqlite.Conn, k *store.RunKey, rows []dag.RunRow) ([]dag.RunRow, error) {
	s, err := conn.Prepare(d.read[l.name])
	if err != nil {
		return rows, translate(l.name, err)
	}
	s.BindInt64(1, int64(k.Workflow))
	s.BindText(2, k.Key)
	if s.BindParamCount() > 2 {
		s.BindInt64(3, l.n)
	}
	found, err := s.Step()
	if err == nil && found {
		var row dag.RunRow
		if err = scanRun(s, &row); err == nil {
			rows = append(rows, row)
		}
	}
	return rows, translate(l.name, errors.Join(err, s.Reset()))
}

// limitDefault is the number of rows of a list without a limit, and the greatest number of runs of a list.
const limitDefault = 1000

func limitOf(limit int) int {
	if limit <= 0 {
		return limitDefault
	}
	return limit
}

// Attempts implements store.Store.
func (d *DB) Attempts(ctx context.Context, q store.AttemptQuery) ([]dag.AttemptRow, error) {
	scan := scanAttemptBare
	if q.Outputs {
		scan = scanAttempt
	}
	give := d.give
	if q.Sparing { // the owner asks only for rows that it knows to be on the disk
		give = func(_ context.Context, conn *sqlite.Conn, _ *error) { d.pool.Put(conn) }
	}
	return ofRun(d, ctx, q.Run, give, func(conn *sqlite.Conn, r *numbered) ([]dag.AttemptRow, error) {
		if !q.One {
			return d.attemptsOn(conn, r, scan)
		}
		var parts [][]byte
		var err error
		if !q.Sparing {
			parts, err = packedOf(d, conn, r, &q)
		}
		if err != nil {
			return nil, err
		}
		rows, err := listOn(d, conn, "attemptsOfTask", []any{r.n, q.Run[:], int64(q.Task)}, scan)
		if err != nil || len(parts) == 0 {
			return rows, err
		}
		return packed.WithHandsOf(rows, r.ID, q.Task, parts)
	})
}

// attemptsOn reads the attempts of a run, and its weight. It reads the packed attempts first. If an attempt
// gets its row in between, the row is used.
func (d *DB) attemptsOn(conn *sqlite.Conn, r *numbered, scan func(*sqlite.Stmt, *dag.AttemptRow) error) ([]dag.AttemptRow, error) {
	parts, err := d.packedOn(conn, r)
	if err != nil {
		return nil, err
	}
	r.Weight = packed.Weight(parts...)
	rows, err := listOn(d, conn, "attemptsOfRun", []any{r.n, r.ID[:]}, scan)
	if err != nil {
		return nil, err
	}
	return packed.WithHands(rows, r.ID, parts)
}

// packedOn reads the packed attempts of a run.
func (d *DB) packedOn(conn *sqlite.Conn, r *numbered) ([][]byte, error) {
	between, err := listOn(d, conn, "packedBetween", []any{r.n}, func(s *sqlite.Stmt, b *[]byte) error {
		*b = (&row{s: s}).blob()
		return nil
	})
	return append(between, r.packed...), err
}

// packedOf does the same as packedOn, for the task of a query. A run of 100,000 tasks has thousands of packed
// transactions, so packedOf leaves out most of those without the task. It stops at the end of the attempt
// that the query names.
func packedOf(d *DB, conn *sqlite.Conn, r *numbered, q *store.AttemptQuery) ([][]byte, error) {
	ends := func(b []byte) bool { return q.Token != 0 && packed.HasEnd(b, q.Task, q.Token) }
	if slices.ContainsFunc(r.packed, ends) {
		return r.packed, nil
	}
	var of [][]byte
	var room []byte
	err := d.on(conn, "packedBetween", []any{r.n}, func(s *sqlite.Stmt) error {
		n := s.ColumnLen(0)
		room = slices.Grow(room[:0], n)[:n]
		if s.ColumnBytes(0, room); !packed.MayHave(room, q.Task) {
			return nil
		}
		of = append(of, slices.Clone(room))
		if ends(room) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return append(of, r.packed...), err
}

// Events implements store.Store.
func (d *DB) Events(ctx context.Context, run dag.RunID, after int64, limit int) ([]dag.EventRow, error) {
	return ofRun(d, ctx, run, d.give, func(conn *sqlite.Conn, r *numbered) ([]dag.EventRow, error) {
		return listOn(d, conn, "eventsOfRun", []any{r.n, run[:], after, limitOf(limit)}, scanEvent)
	})
}

// ofRun reads rows that refer to the number of a run. If the run does not exist, it returns none.
func ofRun[T any](d *DB, ctx context.Context, id dag.RunID, give func(context.Context, *sqlite.Conn, *error), read func(*sqlite.Conn, *numbered) ([]T, error)) (_ []T, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer give(ctx, conn, &err)
	r := numbered{RunRow: dag.RunRow{Header: dag.Header{ID: id}}}
	err = d.on(conn, "numberOfRun", []any{id[:]}, func(s *sqlite.Stmt) error {
		r.n = s.ColumnInt64(0)
		r.take(row{s: s, col: 1})
		return nil
	})
	if err != nil || r.n == 0 {
		return nil, err
	}
	return read(conn, &r)
}

// Handlers implements store.Store.
func (d *DB) Handlers(ctx context.Context, ids []dag.HandlerID) (_ []store.Handler, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
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
	lines, err := json.Marshal(slices.AppendSeq([]string{}, q.Tags.Lines()))
	if err != nil {
		return nil, err
	}
	return list(d, ctx, "workflowsOf", []any{q.Namespace, namespace, name, limitOf(q.Limit), q.Not, string(lines)}, scanWorkflow)
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
	return list(d, ctx, "versionsOf", []any{int64(w), int64(before), limitOf(limit)}, scanVersionHead)
}

// Files implements store.Store.
func (d *DB) Files(ctx context.Context, q store.FileQuery) ([]store.File, error) {
	of := []any{int64(q.Workflow), int64(q.Version)}
	if q.Heads {
		return list(d, ctx, "fileHeadsOf", of, scanFileHead)
	}
	return list(d, ctx, "filesOf", of, scanFile)
}

// Request implements store.Store.
func (d *DB) Request(ctx context.Context, scope, key string) (store.Request, error) {
	return first(d, ctx, "requestByKey", []any{scope, key}, scanRequest)
}

// Messages implements store.Store.
func (d *DB) Messages(ctx context.Context, to dag.ShardID, limit int) ([]store.Message, error) {
	return list(d, ctx, "messagesTo", []any{int64(to), limitOf(limit)}, scanMessage)
}

// Scan implements store.Store.
func (d *DB) Scan(ctx context.Context, see func(store.RunRecord, []dag.EventRow) error) (err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer d.give(ctx, conn, &err)
	end := sqlitex.Transaction(conn) // one snapshot for all following reads
	defer end(&err)
	return d.on(conn, "allRuns", nil, func(s *sqlite.Stmt) error {
		var r numbered
		if _ = scanNumbered(s, &r); r.bad != nil {
			return see(store.RunRecord{Run: r.RunRow, Bad: r.bad}, nil)
		}
		attempts, err := d.attemptsOn(conn, &r, scanAttempt)
		if errors.Is(err, store.ErrCorrupt) {
			return see(store.RunRecord{Run: r.RunRow, Bad: err}, nil)
		}
		if err != nil {
			return err
		}
		events, err := listOn(d, conn, "eventsOfRun", []any{r.n, r.ID[:], int64(-1), int64(1 << 31)}, scanEvent)
		if err != nil {
			return err
		}
		return see(store.RunRecord{Run: r.RunRow, Attempts: attempts}, events)
	})
}

// Info implements store.Store.
func (d *DB) Info(ctx context.Context) (_ store.Info, err error) {
	info := store.Info{Engine: "sqlite", Location: d.path, Cluster: d.cluster, Isolation: d.isolation, Format: format, Known: format, Shards: 1}
	for _, f := range []string{d.path, d.path + "-wal"} {
		if st, err := os.Stat(f); err == nil {
			info.Bytes += st.Size()
		}
	}
	conn, err := d.take(ctx) // succeeds if the database answers
	if err != nil {
		return info, err
	}
	defer d.give(ctx, conn, &err)
	return info, d.on(conn, "meta", nil, func(*sqlite.Stmt) error { return nil })
}

// Unfinished implements store.Store.
func (d *DB) Unfinished(ctx context.Context) (_ map[string]int, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	runs := map[string]int{}
	err = d.walkUp(conn, activeList, 0, func(n int64) (bool, error) {
		return true, d.on(conn, "stateByNumber", []any{n}, func(s *sqlite.Stmt) error {
			runs[s.ColumnText(0)]++
			return nil
		})
	})
	return runs, err
}
