package sqlite

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Portable = (*DB)(nil)

// Export implements store.Portable.
func (d *DB) Export(ctx context.Context, to store.Rows) (err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return err
	}
	defer d.give(ctx, conn, &err)
	end := sqlitex.Transaction(conn) // one snapshot for all following reads
	defer end(&err)
	sql := statements("transfer")
	head, err := readHead(conn, sql)
	if err != nil {
		return err
	}
	if err := to.Head(head); err != nil {
		return err
	}
	for _, t := range store.Tables() {
		if err := exportTable(conn, sql["export "+t.Name], t, to); err != nil {
			return err
		}
	}
	return nil
}

func readHead(conn *sqlite.Conn, sql map[string]string) (h store.Head, err error) {
	err = each(conn, "head", sql["head"], func(s *sqlite.Stmt) error {
		h.Cluster, h.Created, h.Isolation = s.ColumnText(0), dag.Micros(s.ColumnInt64(1)), s.ColumnText(2)
		return nil
	})
	if err != nil {
		return h, err
	}
	err = each(conn, "shards", sql["shards"], func(s *sqlite.Stmt) error {
		h.Shards = append(h.Shards, store.ShardHead{Epoch: s.ColumnInt64(0), Seq: s.ColumnInt64(1), Watermark: dag.Micros(s.ColumnInt64(2))})
		return nil
	})
	return h, err
}

// each calls the function see for the rows of a statement. It returns the errors of see without changes.
func each(conn *sqlite.Conn, name, sql string, see func(*sqlite.Stmt) error) error {
	var own error
	err := sqlitex.Execute(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		own = see(s)
		return own
	}})
	if own != nil {
		return own
	}
	return translate(name, err)
}

func exportTable(conn *sqlite.Conn, sql string, t *store.Table, to store.Rows) error {
	values := make([]store.Value, len(t.Columns))
	return each(conn, t.Name, sql, func(s *sqlite.Stmt) error {
		for i := range t.Columns {
			if why := readValue(s, i, &t.Columns[i], &values[i]); why != "" {
				return to.Bad(t, whichRow(s, t), "column "+t.Columns[i].Name+" "+why)
			}
		}
		return to.Row(t, values)
	})
}

// readValue reads a column. why describes a wrong value: SQLite stores any value in any column, so a damaged
// file may hold values of another kind.
func readValue(s *sqlite.Stmt, i int, c *store.Column, v *store.Value) (why string) {
	is := s.ColumnType(i)
	v.Null = is == sqlite.TypeNull
	v.Bytes = v.Bytes[:0]
	switch {
	case v.Null && c.Null:
		return ""
	case v.Null:
		return "is empty"
	case c.Kind == store.KindInt4 || c.Kind == store.KindInt8:
		if v.Int = s.ColumnInt64(i); is != sqlite.TypeInteger {
			return "is no integer"
		}
		if c.Kind == store.KindInt4 && int64(int32(v.Int)) != v.Int {
			return fmt.Sprintf("is out of range (%d)", v.Int)
		}
		return ""
	}
	n := s.ColumnLen(i)
	if cap(v.Bytes) < n {
		v.Bytes = make([]byte, n)
	}
	v.Bytes = v.Bytes[:n]
	s.ColumnBytes(i, v.Bytes)
	switch {
	case c.Kind == store.KindText && is != sqlite.TypeText:
		return "is not text"
	case c.Kind == store.KindText && (strings.IndexByte(string(v.Bytes), 0) >= 0 || !utf8.Valid(v.Bytes)):
		return "has a NUL or invalid UTF-8"
	case c.Kind != store.KindText && is != sqlite.TypeBlob:
		return "is no blob"
	case c.Kind == store.KindID && n != len(dag.RunID{}):
		return fmt.Sprintf("is an id of %d bytes", n)
	}
	return ""
}

// whichRow describes a damaged row by its first columns.
func whichRow(s *sqlite.Stmt, t *store.Table) string {
	var parts []string
	for i := range min(4, len(t.Columns)) {
		text := "?"
		switch s.ColumnType(i) {
		case sqlite.TypeInteger:
			text = fmt.Sprint(s.ColumnInt64(i))
		case sqlite.TypeText:
			text = fmt.Sprintf("%.40q", s.ColumnText(i))
		case sqlite.TypeBlob:
			var id dag.RunID
			if s.ColumnBytes(i, id[:]); s.ColumnLen(i) == len(id) {
				text = id.String()
			}
		}
		parts = append(parts, t.Columns[i].Name+" "+text)
	}
	return strings.Join(parts, ", ")
}

// Counts implements store.Portable.
func (d *DB) Counts(ctx context.Context) (_ map[string]int64, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	return counts(conn)
}

func counts(conn *sqlite.Conn) (map[string]int64, error) {
	n := map[string]int64{}
	err := each(conn, "count", statements("transfer")["counts"], func(s *sqlite.Stmt) error {
		for i, t := range store.Tables() {
			n[t.Name] = s.ColumnInt64(i)
		}
		return nil
	})
	return n, err
}

// RunStates implements store.Portable.
func (d *DB) RunStates(ctx context.Context) (_ map[string]int64, err error) {
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	n := map[string]int64{}
	return n, each(conn, "count runs", statements("transfer")["runStates"], func(s *sqlite.Stmt) error {
		n[s.ColumnText(0)] = s.ColumnInt64(1)
		return nil
	})
}

// Import implements store.Portable.
func (d *DB) Import(ctx context.Context, fill func(store.Rows) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := importer{db: d, ctx: ctx, stmts: map[string]*stmt{}}
	defer in.finalize()
	err := d.transact(func() error {
		is, err := counts(d.conn)
		if err != nil {
			return err
		}
		for _, t := range store.Tables() {
			if is[t.Name] > 0 {
				return fmt.Errorf("%s is not empty (table %s: %d rows): %w", d.path, t.Name, is[t.Name], store.ErrRefused)
			}
		}
		if err := in.prepare(); err != nil {
			return err
		}
		if err := fill(&in); err != nil {
			return err
		}
		if _, err := in.stmts["importStock"].row().exec(d.conn); err != nil { // triggers of the database count the other rows
			return err
		}
		if _, err := in.stmts["importKeyed"].row().exec(d.conn); err != nil {
			return err
		}
		return d.writeRolls()
	})
	if err == nil {
		err = d.keys.load(d.conn)
	}
	return err
}

// importer writes rows in the transaction of an Import.
type importer struct {
	db    *DB
	ctx   context.Context
	stmts map[string]*stmt
}

func (in *importer) prepare() error {
	sql := statements("transfer")
	names := []string{"importHead", "importShard", "importStock", "importKeyed"}
	for _, t := range store.Tables() {
		names = append(names, "import "+t.Name)
	}
	for _, name := range names {
		s, err := prepare(in.db.conn, name, sql)
		if err != nil {
			return err
		}
		in.stmts[name] = s
	}
	return nil
}

func (in *importer) finalize() {
	for _, s := range in.stmts {
		_ = s.Finalize()
	}
}

// Head implements store.Rows.
func (in *importer) Head(h store.Head) error {
	if len(h.Shards) != 1 {
		return fmt.Errorf("the copy has %d shards, and an SQLite database has one: %w", len(h.Shards), store.ErrFormat)
	}
	if err := in.stmts["importHead"].row().text(h.Cluster).int(int64(h.Created)).text(h.Isolation).one(in.db.conn); err != nil {
		return err
	}
	in.db.cluster, in.db.isolation = h.Cluster, h.Isolation
	s := h.Shards[0]
	return in.stmts["importShard"].row().int(int64(theShard)).int(s.Epoch).int(s.Seq).int(int64(s.Watermark)).one(in.db.conn)
}

// Row implements store.Rows.
func (in *importer) Row(t *store.Table, values []store.Value) error {
	if err := in.ctx.Err(); err != nil {
		return err
	}
	s := in.stmts["import "+t.Name].row()
	for i := range values {
		v, c := &values[i], &t.Columns[i]
		switch {
		// the value is the id of a run, and the column has the run's number
		case c.Name == "run" && (t.Name == "attempt" || t.Name == "event" || t.Name == "line"):
			n, err := in.number(v.Bytes)
			if err != nil {
				return err
			}
			s.int(n)
		case v.Null:
			s.null()
		case c.Kind == store.KindInt4 || c.Kind == store.KindInt8:
			s.int(v.Int)
		case c.Kind == store.KindText:
			s.text(string(v.Bytes))
		case v.Bytes == nil:
			s.blob([]byte{})
		default:
			s.blob(v.Bytes)
		}
	}
	if _, err := s.exec(in.db.conn); err != nil {
		_ = s.Reset()
		return err
	}
	switch t.Name {
	case "run":
		return in.list(t, values)
	case "line":
		if values[t.Index("kept")].Int != 0 {
			return nil
		}
		n, err := in.number(values[t.Index("run")].Bytes)
		if err != nil {
			return err
		}
		return in.db.enlist(lineList, n, true)
	}
	return nil
}

func (in *importer) number(id []byte) (int64, error) {
	n, err := in.db.number(dag.RunID(id))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	return n, nil
}

// list puts a run that was just inserted on its lists.
func (in *importer) list(t *store.Table, values []store.Value) error {
	n := in.db.conn.LastInsertRowID()
	in.db.numbers.put(dag.RunID(values[t.Index("id")].Bytes), n)
	key := string(values[t.Index("key")].Bytes)
	if key != "" {
		k := store.RunKey{Workflow: dag.WorkflowID(values[t.Index("workflow")].Int), Key: key}
		if err := treeOf(in.db).list(&lateKey{k, hashOf(&k), n}); err != nil {
			return err
		}
	}
	lists := []string{workflowList(dag.WorkflowID(values[t.Index("workflow")].Int)), userList(string(values[t.Index("user")].Bytes))}
	if values[t.Index("finished")].Int == 0 {
		lists = append(lists, activeList)
	}
	if state := string(values[t.Index("state")].Bytes); store.UnsuccessfulName(state) {
		lists = append(lists, stateList(state))
	}
	for tag := range tagsIn(values[t.Index("fire")].Bytes).Lines() {
		lists = append(lists, tagList(tag))
	}
	for _, list := range lists {
		if err := in.db.enlist(list, n, true); err != nil {
			return err
		}
	}
	if len(in.db.rolls.dirty) >= rollPagesMax {
		return in.db.writeRolls()
	}
	return nil
}

// Bad implements store.Rows. It writes nothing.
func (in *importer) Bad(*store.Table, string, string) error { return nil }
