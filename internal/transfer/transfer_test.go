package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	driver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
	"skein.dev/skein/internal/store/sqlite"
	"skein.dev/skein/internal/transfer"
)

var server *pgtest.Server // the server of this test binary

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &server, pgtest.Options{NoSync: true})) }

func openPostgres(t *testing.T, schema string, shards int) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func openSQLite(t *testing.T, path string) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

const (
	perTable = 12
)

// rowsOf returns the number of rows that the source everything has for a table.
func rowsOf(t *store.Table) int {
	if t.Name == "sent_head" { // a check permits only one row
		return 1
	}
	return perTable
}

// everything is a source with rows that have a value in every column of every table, and rows that are empty
// where that is permitted.
type everything struct{ shards int }

func runID(i int) []byte {
	id := uuid.UUID{0: 1, 6: 0x70, 8: 0x80, 15: byte(i)}
	return id[:]
}

// words returns a valid value of a column with a check.
func words(table, column string, i int) string {
	states := map[string][]string{
		"workflow.state": {"active", "paused", "deleted"}, "trigger.state": {"active", "paused", "ended"},
		"backfill.state": {"running", "paused", "cancelled", "done"},
		"fire.outcome":   {"fired", "late", "skipped", "merged", "missed"},
		"queue.ordering": {"fifo", "priority"}, "queue.overflow": {"wait", "skip", "fail"}, "queue.state": {"active", "paused", "draining"},
		"run.state": {"running", "succeeded", "submitted", "no such state"}, // a damaged row is copied unchanged
	}
	if all := states[table+"."+column]; all != nil {
		return all[i%len(all)]
	}
	return fmt.Sprintf("%s %s ü %d", table, column, i)
}

func (e everything) Export(ctx context.Context, to store.Rows) error {
	h := store.Head{Cluster: "0197a1b2-0000-7000-8000-000000000001", Created: 77, Isolation: "fence"}
	for i := range e.shards {
		h.Shards = append(h.Shards, store.ShardHead{Epoch: 5, Seq: int64(900 + i), Watermark: dag.Micros(1000 - i)})
	}
	if err := to.Head(h); err != nil {
		return err
	}
	for _, t := range store.Tables() {
		for i := 1; i <= rowsOf(t); i++ {
			if err := to.Row(t, rowOf(t, i)); err != nil {
				return fmt.Errorf("%s %d: %w", t.Name, i, err)
			}
		}
	}
	return nil
}

func rowOf(t *store.Table, i int) []store.Value {
	var values []store.Value
	for k, c := range t.Columns {
		var v store.Value
		switch {
		case c.Null && i%2 == 0:
			v.Null = true
		case c.Name == "shard" || c.Name == "sender" || c.Name == "target" && c.Kind == store.KindInt4:
		case c.Name == "finished" && i%3 != 0:
		case c.Name == "workflow" || c.Name == "id" && t.Name == "workflow":
			v.Int = int64(i)
		case t.Name == "sent_head" && c.Name == "one":
			v.Int = 1
		case c.Kind == store.KindInt4 || c.Kind == store.KindInt8:
			v.Int = int64(i*100 + k)
		case c.Kind == store.KindText:
			v.Bytes = []byte(words(t.Name, c.Name, i))
		case c.Kind == store.KindID:
			v.Bytes = runID(i)
		default:
			v.Bytes = bytes.Repeat([]byte{byte(k), 0, 0xff}, i-1) // the value of the first row is empty, and not NULL
		}
		values = append(values, v)
	}
	return values
}

func (everything) Import(context.Context, func(store.Rows) error) error { panic("a source") }
func (everything) RunStates(context.Context) (map[string]int64, error)  { panic("a source") }
func (everything) Counts(context.Context) (map[string]int64, error)     { panic("a source") }

// dump holds all rows of a store as lines, in order.
type dump struct {
	head  store.Head
	lines map[string][]string
}

func dumpOf(t *testing.T, p store.Portable) dump {
	t.Helper()
	d := dump{lines: map[string][]string{}}
	if err := p.Export(t.Context(), &d); err != nil {
		t.Fatal(err)
	}
	for _, lines := range d.lines {
		slices.Sort(lines)
	}
	return d
}

func (d *dump) Head(h store.Head) error { d.head = h; return nil }

func (d *dump) Row(t *store.Table, values []store.Value) error {
	var b strings.Builder
	for i, v := range values {
		switch {
		case v.Null:
			fmt.Fprintf(&b, "%s=NULL ", t.Columns[i].Name)
		case t.Columns[i].Kind > store.KindInt8:
			fmt.Fprintf(&b, "%s=%q ", t.Columns[i].Name, v.Bytes)
		default:
			fmt.Fprintf(&b, "%s=%d ", t.Columns[i].Name, v.Int)
		}
	}
	d.lines[t.Name] = append(d.lines[t.Name], b.String())
	return nil
}

func (d *dump) Bad(t *store.Table, which, why string) error {
	return fmt.Errorf("%s %s: %s", t.Name, which, why)
}

func (d *dump) equal(t *testing.T, other dump) {
	t.Helper()
	for _, table := range store.Tables() {
		a, b := d.lines[table.Name], other.lines[table.Name]
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) || a[i] != b[i] {
				t.Errorf("%s: row %d of %d and %d differs:\n%s\n%s", table.Name, i, len(a), len(b), slices.Concat(a, make([]string, i+1))[i], slices.Concat(b, make([]string, i+1))[i])
				break
			}
		}
	}
}

func copyAll(t *testing.T, from, to store.Portable, shards int) transfer.Report {
	t.Helper()
	r, err := transfer.Copy(t.Context(), from, to, transfer.Options{Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range store.Tables() {
		if r.Rows[table.Name] != int64(rowsOf(table)) {
			t.Errorf("%s: %d rows, want %d", table.Name, r.Rows[table.Name], rowsOf(table))
		}
	}
	return r
}

// noMessages is everything without messages, because those are copied only if the shards stay the same.
type noMessages struct{ everything }

func (n noMessages) Export(ctx context.Context, to store.Rows) error {
	return n.everything.Export(ctx, skipping{to})
}

type skipping struct{ store.Rows }

func (s skipping) Row(t *store.Table, v []store.Value) error {
	if t.Name == "message" {
		return nil
	}
	return s.Rows.Row(t, v)
}

// TestThereAndBack: rows that are copied from SQLite to PostgreSQL and back stay the same, byte by byte.
func TestThereAndBack(t *testing.T) {
	first := openSQLite(t, filepath.Join(t.TempDir(), "a.db"))
	copyAll(t, everything{shards: 1}, first, 1)
	there := openPostgres(t, "one_shard", 1)
	copyAll(t, first, there, 1)
	second := openSQLite(t, filepath.Join(t.TempDir(), "b.db"))
	copyAll(t, there, second, 1)
	a, p, b := dumpOf(t, first), dumpOf(t, there), dumpOf(t, second)
	a.equal(t, p)
	a.equal(t, b)
	for _, d := range []dump{a, p, b} {
		if d.head.Cluster != "0197a1b2-0000-7000-8000-000000000001" || d.head.Created != 77 || d.head.Isolation != "fence" || len(d.head.Shards) != 1 ||
			d.head.Shards[0] != (store.ShardHead{Epoch: 5, Seq: 900, Watermark: 1000}) {
			t.Errorf("head %+v", d.head)
		}
	}
	for _, c := range []interface {
		Check(context.Context) ([]string, error)
	}{there, second} {
		bad, err := c.Check(t.Context())
		// The values of the test are neither JSON nor claims.
		bad = slices.DeleteFunc(bad, func(s string) bool {
			return strings.Contains(s, "listen") || strings.Contains(s, "is in a line") || strings.Contains(s, "is in the line")
		})
		if err != nil || len(bad) > 0 {
			t.Errorf("%v, %v", bad, err)
		}
	}
	kept, err := first.NamespaceStocks(t.Context(), "")
	if err != nil || len(kept) == 0 {
		t.Fatal(kept, err)
	}
	for _, db := range []store.Namespaces{there, second} {
		if is, err := db.NamespaceStocks(t.Context(), ""); err != nil || !slices.Equal(is, kept) {
			t.Errorf("what namespaces keep: %v, %v; want %v", is, err, kept)
		}
	}
	h, err := there.Register(t.Context(), uuid.NewString(), "next")
	if err != nil || h.ID <= perTable*100 {
		t.Errorf("the next handler is %d, %v", h.ID, err)
	}
	if info, err := there.Info(t.Context()); err != nil || info.Cluster != a.head.Cluster {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestShards: if the number of shards changes, workflows are spread evenly, the rows of a workflow get its
// shard, and every shard continues after the greatest numbers of all shards.
func TestShards(t *testing.T) {
	there := openPostgres(t, "four_shards", 4)
	if _, err := transfer.Copy(t.Context(), noMessages{everything{shards: 3}}, there, transfer.Options{Shards: 4}); err != nil {
		t.Fatal(err)
	}
	d := dumpOf(t, there)
	if len(d.head.Shards) != 4 || d.head.Shards[3] != (store.ShardHead{Epoch: 5, Seq: 902, Watermark: 1000}) {
		t.Errorf("head %+v", d.head)
	}
	count, home := map[string]int{}, map[string]string{}
	for _, line := range d.lines["workflow"] {
		shard := field(line, "shard")
		count[shard]++
		home[field(line, "id")] = shard
	}
	if len(count) != 4 || count["0"] != perTable/4 || count["3"] != perTable/4 {
		t.Errorf("workflows by shard: %v", count)
	}
	for _, table := range []string{"run", "trigger", "backfill"} {
		for _, line := range d.lines[table] {
			if field(line, "shard") != home[field(line, "workflow")] {
				t.Errorf("%s is in another shard than its workflow: %s", table, line)
			}
		}
	}
	_, err := transfer.Copy(t.Context(), everything{shards: 3}, openPostgres(t, "messages", 4), transfer.Options{Shards: 4})
	if err == nil || !strings.Contains(err.Error(), "messages between shards") {
		t.Errorf("messages went to other shards: %v", err)
	}
	// Each message concerns the workflows 1 and 2, which get other shards. One of the messages cannot be read.
	n := 0
	forward := func(payload []byte, home func(dag.WorkflowID) dag.ShardID) (map[dag.ShardID][]byte, error) {
		if n++; n == 3 {
			return nil, errors.New("no letter")
		}
		return map[dag.ShardID][]byte{home(1): []byte("one"), home(2): []byte("two")}, nil
	}
	to := openPostgres(t, "forwarded", 4)
	r, err := transfer.Copy(t.Context(), everything{shards: 3}, to, transfer.Options{Shards: 4, Forward: forward, LeaveOut: true})
	if err != nil || r.LeftOut["message"] != 1 || r.Rows["message"] != 2*(perTable-1) {
		t.Fatalf("%+v, %v", r, err)
	}
	for w, want := range map[dag.WorkflowID]string{1: "one", 2: "two"} {
		wf, err := to.WorkflowByID(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := to.Messages(t.Context(), wf.Shard, 100); err != nil || len(got) != perTable-1 || string(got[0].Payload) != want {
			t.Errorf("%d messages, %v", len(got), err)
		}
	}
}

// marked is everything, with workflow i in shard i%3. The ends of the shards 0 and 2, and of workflow 3, are
// counted up to transactions of their own.
type marked struct{ noMessages }

func (m marked) Export(ctx context.Context, to store.Rows) error {
	return m.noMessages.Export(ctx, marking{to})
}

type marking struct{ store.Rows }

func (m marking) Row(t *store.Table, v []store.Value) error {
	switch {
	case t.Name == "workflow":
		v[t.Index("shard")].Int = v[t.Index("id")].Int % 3
	case t.Name == "tally_mark" && v[t.Index("workflow")].Int > 1:
		return nil
	case t.Name == "tally_mark":
		for _, mark := range [][]int64{{0, 0, 7, 100, 11}, {0, 3, 0, 50, 12}, {2, 0, 9, 300, 13}} {
			row := make([]store.Value, len(t.Columns))
			for i, name := range []string{"shard", "workflow", "rev", "seq", "at"} {
				row[t.Index(name)].Int = mark[i]
			}
			if err := m.Rows.Row(t, row); err != nil {
				return err
			}
		}
		return nil
	}
	return m.Rows.Row(t, v)
}

// TestMarksOfShards: if the number of shards changes, the ends of each workflow are counted up to the same
// transaction as before. None is counted twice, and none is left out.
func TestMarksOfShards(t *testing.T) {
	var want []string
	for w := range int64(perTable + 1) {
		switch {
		case w == 3:
			want = append(want, "workflow=3 rev=0 seq=50 at=12 ")
		case w > 0 && w%3 == 0:
			want = append(want, fmt.Sprintf("workflow=%d rev=0 seq=100 at=11 ", w))
		case w%3 == 2:
			want = append(want, fmt.Sprintf("workflow=%d rev=0 seq=300 at=13 ", w))
		}
	}
	slices.Sort(want)
	for shards, to := range map[int]store.Portable{1: openSQLite(t, filepath.Join(t.TempDir(), "a.db")), 4: openPostgres(t, "marks", 4)} {
		r, err := transfer.Copy(t.Context(), marked{noMessages{everything{shards: 3}}}, to, transfer.Options{Shards: shards})
		if err != nil {
			t.Fatal(shards, err, r.Bad)
		}
		d, home := dumpOf(t, to), map[string]string{}
		for _, line := range d.lines["workflow"] {
			home[field(line, "id")] = field(line, "shard")
		}
		var is []string
		for _, line := range d.lines["tally_mark"] {
			shard, rest, _ := strings.Cut(line, " ")
			if is = append(is, rest); shard != "shard="+home[field(line, "workflow")] {
				t.Errorf("of %d shards: %s is in another shard than its workflow", shards, line)
			}
		}
		if slices.Sort(is); !slices.Equal(is, want) {
			t.Errorf("of %d shards: the marks are\n%s\nwant\n%s", shards, strings.Join(is, "\n"), strings.Join(want, "\n"))
		}
	}
}

func field(line, name string) string {
	_, rest, _ := strings.Cut(" "+line, " "+name+"=")
	value, _, _ := strings.Cut(rest, " ")
	return value
}

// TestNotEmpty: a target that is not empty is not changed.
func TestNotEmpty(t *testing.T) {
	for name, to := range map[string]store.Portable{
		"sqlite": openSQLite(t, filepath.Join(t.TempDir(), "a.db")), "postgres": openPostgres(t, "not_empty", 1),
	} {
		if _, err := to.(store.Store).Register(t.Context(), uuid.NewString(), "node"); err != nil {
			t.Fatal(err)
		}
		before := dumpOf(t, to)
		_, err := transfer.Copy(t.Context(), everything{shards: 1}, to, transfer.Options{Shards: 1})
		if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "table handler") {
			t.Errorf("%s: %v", name, err)
		}
		after := dumpOf(t, to)
		before.equal(t, after)
	}
}

// broken is a source that fails in the middle of a table.
type broken struct{ everything }

func (b broken) Export(ctx context.Context, to store.Rows) error {
	if err := b.everything.Export(ctx, skipping{to}); err != nil {
		return err
	}
	return errors.New("the source has failed")
}

// TestAllOrNothing: a failed copy leaves no rows, and can be repeated.
func TestAllOrNothing(t *testing.T) {
	for name, to := range map[string]store.Portable{
		"sqlite": openSQLite(t, filepath.Join(t.TempDir(), "a.db")), "postgres": openPostgres(t, "nothing", 1),
	} {
		_, err := transfer.Copy(t.Context(), broken{everything{shards: 1}}, to, transfer.Options{Shards: 1})
		if err == nil || !strings.Contains(err.Error(), "the source has failed") {
			t.Errorf("%s: %v", name, err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := transfer.Copy(gone, everything{shards: 1}, to, transfer.Options{Shards: 1}); err == nil {
			t.Errorf("%s: copied after the end", name)
		}
		if d := dumpOf(t, to); len(d.lines) != 0 || d.head.Shards[0].Seq != 0 {
			t.Errorf("%s: %v", name, d)
		}
		copyAll(t, everything{shards: 1}, to, 1)
	}
}

// TestDamaged: rows that only a damaged SQLite file can hold are named, and are left out only on request.
func TestDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	from := openSQLite(t, path)
	copyAll(t, everything{shards: 1}, from, 1)
	conn, err := driver.OpenConn(path, driver.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.ExecuteScript(conn, `UPDATE run SET created = 'never' WHERE n = 2; UPDATE run SET id = x'01' WHERE n = 3;
		UPDATE request SET key = CAST(x'ff00' AS TEXT) WHERE created = (SELECT min(created) FROM request);
		UPDATE attempt SET run = 999 WHERE run = 4; UPDATE workflow SET version = 1 << 40 WHERE id = 5`, nil)
	if err != nil {
		t.Fatal(err)
	}
	to := openPostgres(t, "damaged", 1)
	r, err := transfer.Copy(t.Context(), from, to, transfer.Options{Shards: 1})
	if !errors.Is(err, transfer.ErrIncomplete) {
		t.Fatalf("%v", err)
	}
	text := strings.Join(r.Bad, "\n")
	for _, want := range []string{"column created is no integer", "column id is an id of 1 bytes", "column key has a NUL",
		"column run is empty", "column version is out of range", "01000000-0000-7000-8000-000000000002"} {
		if !strings.Contains(text, want) {
			t.Errorf("nobody says %q:\n%s", want, text)
		}
	}
	if d := dumpOf(t, to); len(d.lines) != 0 {
		t.Errorf("%v", d.lines)
	}
	r, err = transfer.Copy(t.Context(), from, to, transfer.Options{Shards: 1, LeaveOut: true})
	if err != nil || r.LeftOut["run"] != 2 || r.Rows["run"] != perTable-2 || r.LeftOut["attempt"] == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestColumns: a copy contains every column of every table, except the columns that an engine derives itself.
func TestColumns(t *testing.T) {
	own := map[string]bool{"meta": true, "shard": true, "roll": true, "run_key": true, "run_hash": true, "active": true, "unsuccessful": true, "run_tag": true, "wave": true, "unfinished": true, "submitted": true, "sqlite_sequence": true,
		// The processes that work on a database are not copied.
		"member": true, "member_lost": true, "node_order": true, "shift": true, "trace_mark": true, "namespace_use": true, "namespace_stock": true, "era": true,
		"run_kept": true, // a view of run
		"run.n":    true, "token": true, "session": true, "password": true, "log": true,
		// Their tokens are not copied, either.
		"rights": true, "principal": true, "role": true, "binding": true, "identity": true,
		"line.first": true, "line.count": true, "line.runs": true, // copied one by one, see view stander
		// Copied as rows of event.
		"run.hands_begun": true, "run.begun_seq": true, "run.begun_at": true, "run.events_begun": true}
	path := filepath.Join(t.TempDir(), "a.db")
	openSQLite(t, path)
	conn, err := driver.OpenConn(path, driver.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var got []string
	err = sqlitex.Execute(conn, `SELECT DISTINCT replace(t.name, 'stander', 'line') || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type IN ('table', 'view')`,
		&sqlitex.ExecOptions{ResultFunc: func(s *driver.Stmt) error { got = append(got, s.ColumnText(0)); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	compareColumns(t, "sqlite", got, own)

	openPostgres(t, "columns", 1)
	if got, err = columnsOf(t.Context(), "columns"); err != nil {
		t.Fatal(err)
	}
	compareColumns(t, "postgres", got, own)
}

func compareColumns(t *testing.T, engine string, got []string, own map[string]bool) {
	t.Helper()
	want := map[string]bool{}
	for _, table := range store.Tables() {
		for _, c := range table.Columns {
			want[table.Name+"."+c.Name] = true
		}
	}
	for _, name := range got {
		name = strings.Replace(name, ".username", ".user", 1)
		table, _, _ := strings.Cut(name, ".")
		if !want[name] && !own[table] && !own[name] {
			t.Errorf("%s: column %s does not travel: add it to store.Tables and transfer.sql, or to the list here", engine, name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s: there is no column %s", engine, name)
	}
}

func columnsOf(ctx context.Context, schema string) (all []string, err error) {
	c, err := pgconn.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	got := c.ExecParams(ctx, "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = $1",
		[][]byte{[]byte(schema)}, nil, nil, nil).Read()
	for _, row := range got.Rows {
		all = append(all, string(row[0]))
	}
	return all, got.Err
}
