package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func openTemp(t *testing.T) (*DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "skein.db")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, path
}

// script runs statements on a file without the engine.
func script(t *testing.T, path, text string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteScript(conn, text, nil); err != nil {
		t.Fatal(err)
	}
}

// TestSQLiteIsNewEnough: before 3.51.3, a checkpoint concurrent with the writer could damage the database. The driver asks for less, so a
// line of go.mod that nothing else needs holds it (record 002).
func TestSQLiteIsNewEnough(t *testing.T) {
	if sqlite.VersionNumber < 3_051_003 {
		t.Errorf("this is SQLite %s", sqlite.Version)
	}
}

// TestEveryStatementPrepares checks all SQL against the schema.
func TestEveryStatementPrepares(t *testing.T) {
	_, path := openTemp(t)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := hashing(conn); err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, set := range []map[string]string{statements("read", "schedules_read", "claims", "alerts", "connections", "git", "tally", "traces", "sent"), statements("write", "schedules_write", "claims_write", "alerts_write", "connections_write", "git_write")} {
		for name, text := range set {
			s, trailing, err := conn.PrepareTransient(text)
			if err != nil || trailing != 0 {
				t.Errorf("%s: %v, %d bytes left over", name, err, trailing)
				continue
			}
			_ = s.Finalize()
			used++
		}
	}
	if used < 30 {
		t.Errorf("only %d statements found", used)
	}
}

// TestNoStatementIsPreparedTwice checks that limits have the form for which SQLite keeps the compiled
// statement. If a parameter is the whole LIMIT, SQLite compiles the statement again each time the parameter
// is bound. That takes 20 times as long as a short list itself. LIMIT +?1 is an expression, which SQLite does
// not look into.
func TestNoStatementIsPreparedTwice(t *testing.T) {
	for name, text := range statements("read", "schedules_read", "claims", "past", "write", "schedules_write", "claims_write", "alerts", "alerts_write", "connections", "connections_write", "git", "git_write", "transfer", "tally", "traces", "sent") {
		if strings.Contains(text, "LIMIT ?") {
			t.Errorf("%s: write LIMIT +? in place of LIMIT ?", name)
		}
	}
}

// TestEveryStatementIsUsed: code names every statement, because an unnamed one is dead.
func TestEveryStatementIsUsed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	for _, set := range []map[string]string{statements("read", "schedules_read", "claims", "alerts", "connections", "git", "tally", "traces", "sent"), statements("write", "schedules_write", "claims_write", "alerts_write", "connections_write", "git_write")} {
		for name := range set {
			if !strings.Contains(code.String(), `"`+name+`"`) {
				t.Errorf("statement %s is never used", name)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	newer := func(path string) { script(t, path, fmt.Sprintf("PRAGMA user_version = %d", format+1)) }
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		kind error
		says string
	}{
		{"a newer format", func(t *testing.T, path string) {
			d, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			_ = d.Close()
			newer(path)
		}, store.ErrFormat, "use a newer skein"},
		{"another program's database", func(t *testing.T, path string) {
			script(t, path, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
		}, store.ErrFormat, "another program"},
		{"no database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database. ", 600)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, store.ErrFormat, "not a database"},
		{"a long text", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("\n234567\n", 2048)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, store.ErrFormat, "not a database"},
		{"the first bytes are others", spoil(0, 16), store.ErrDamaged, "skein db restore"},
		{"the header is another", spoil(0, 100), store.ErrDamaged, "skein db restore"},
		{"the first page is another", spoil(0, 4096), store.ErrDamaged, "skein db restore"},
		{"the page size is another", spoil(16, 18), store.ErrDamaged, "skein db restore"},
		{"the schema is another", spoil(100, 4096), store.ErrDamaged, "malformed"},
		{"all but the header is another", spoil(100, 1<<20), store.ErrDamaged, "malformed"},
		{"the second half is gone", shorten(func(size int64) int64 { return size / 2 }), store.ErrDamaged, "malformed"},
		{"only the header is there", shorten(func(int64) int64 { return 100 }), store.ErrDamaged, "skein db restore"},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, store.ErrUnavailable, path0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "skein.db")
			c.make(t, path)
			before, _ := os.ReadFile(path)
			d, err := Open(path)
			if err == nil {
				_ = d.Close()
				t.Fatal("opened")
			}
			says := c.says
			if says == path0 {
				says = path
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want %v with %q", err, c.kind, says)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
			switch d, err := OpenReadOnly(path); {
			case err == nil:
				_ = d.Close()
				t.Error("opened to look at it")
			case !errors.Is(err, c.kind) || !strings.Contains(err.Error(), says):
				t.Errorf("to look at it: %v, want %v with %q", err, c.kind, says)
			}
		})
	}
}

// spoil makes a database and overwrites some of its bytes.
func spoil(from, to int) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		shorten(func(size int64) int64 { return size })(t, path)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := from; i < min(to, len(b)); i++ {
			b[i] ^= 0xa5
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shorten makes a database file and cuts it to the given size.
func shorten(left func(size int64) int64) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		d, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, left(size(t, path))); err != nil {
			t.Fatal(err)
		}
	}
}

// path0 stands for the path of the case.
const path0 = "\x00path"

func TestOpenMakesOfAnEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skein.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := d.Info(context.Background())
	if err != nil || info.Cluster == "" || info.Format != format {
		t.Errorf("info %+v, %v", info, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if after, _ := again.Info(context.Background()); after.Cluster != info.Cluster {
		t.Errorf("the cluster's id changed from %s to %s", info.Cluster, after.Cluster)
	}
}

func TestOnlyTheOwnerReads(t *testing.T) {
	d, path := openTemp(t)
	accept(t, d, 1)
	for _, f := range []string{path, path + "-wal", path + "-shm"} {
		st, err := os.Stat(f)
		if err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, st, err)
		}
	}
}

func TestReadOnlyBesideTheWriter(t *testing.T) {
	d, path := openTemp(t)
	id := accept(t, d, 3)[1]
	ro, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if r, err := ro.Run(context.Background(), id); err != nil || r.ID != id {
		t.Errorf("read %v, %v", r.ID, err)
	}
	if _, err := ro.Commit(context.Background(), &store.Batch{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a write through a read-only database: %v", err)
	}
	if _, err := OpenReadOnly(path + ".not"); err == nil {
		t.Error("opened a file that is not there")
	}
}

// accept writes runs of one workflow in one transaction.
func accept(t *testing.T, d *DB, n int) []dag.RunID {
	t.Helper()
	ctx := context.Background()
	h, err := d.Register(ctx, uuid.NewString(), "test")
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Acquire(ctx, h.ID, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	b := store.Batch{Fences: []store.Fence{got[0].Fence}}
	var ids []dag.RunID
	for range n {
		id := dag.RunID(uuid.Must(uuid.NewV7()))
		ids = append(ids, id)
		b.RunInserts = append(b.RunInserts, dag.RunRow{Header: dag.Header{ID: id, Workflow: 7, Version: 1, Priority: dag.Medium,
			Origin: dag.OriginAPI, User: "ada", Created: 1}, Generation: 1})
	}
	if _, err := d.Commit(ctx, &b); err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestCheckFindsWrongLists: Check reports each kind of wrong list, so it does not always succeed.
func TestCheckFindsWrongLists(t *testing.T) {
	for name, damage := range map[string]string{
		"missing from the active list": "DELETE FROM roll WHERE list = 'active'",
		"missing from a user's list":   "DELETE FROM roll WHERE list = 'u/ada'",
		"on a list it is not of":       "INSERT INTO roll SELECT 'w/8', page, bits FROM roll WHERE list = 'w/7'",
		"ended but listed as active":   "UPDATE run SET finished = 5 WHERE n = 2",
		"not to be found by its key":   "UPDATE run SET key = 'k', key_hash = x'01' WHERE n = 2; UPDATE meta SET keyed = 5",
		"new, with the key of a run":   "UPDATE run SET key = 'k', key_hash = x'01' WHERE n IN (2, 3)",
		"new, with a key in the index": "UPDATE run SET key = 'k', key_hash = x'01' WHERE n IN (2, 3); INSERT INTO run_key VALUES (7, 'k', 2)",
		"listed by a hash it has not":  "INSERT INTO run_hash VALUES (5, 2)",
		"listed by a key it has not":   "INSERT INTO run_key VALUES (7, 'k', 2)",
		"aside in a line, not listed":  "INSERT INTO line VALUES ('q/', 0, 1, 2, 0, 1, '[0]')",
		"a line that miscounts":        "INSERT INTO line VALUES ('q/', 0, 1, 2, 1, 2, '[0]')",
		"a line that begins nowhere":   "INSERT INTO line VALUES ('q/', 0, 1, 2, 1, 1, '[1]')",
		"a line that is no list":       "INSERT INTO line VALUES ('q/', 0, 1, 2, 1, 1, '[0')",
	} {
		t.Run(name, func(t *testing.T) {
			d, path := openTemp(t)
			accept(t, d, 5)
			if bad, err := d.Check(context.Background()); err != nil || len(bad) != 0 {
				t.Fatalf("before: %q, %v", bad, err)
			}
			script(t, path, damage)
			if bad, err := d.Check(context.Background()); err != nil || len(bad) == 0 {
				t.Errorf("after: %q, %v", bad, err)
			}
		})
	}
}

// TestDamagedRowsAreReported: a damaged row is reported, and the other rows are loaded.
func TestDamagedRowsAreReported(t *testing.T) {
	d, path := openTemp(t)
	ids := accept(t, d, 3)
	script(t, path, "UPDATE run SET state = 'confused' WHERE n = 2")
	recs, err := d.Load(context.Background(), store.LoadQuery{Limit: 10})
	if err != nil || len(recs) != 3 {
		t.Fatalf("%d records, %v", len(recs), err)
	}
	for i, rec := range recs {
		if rec.Run.ID != ids[i] || (rec.Bad != nil) != (i == 1) || i == 1 && !errors.Is(rec.Bad, store.ErrCorrupt) {
			t.Errorf("record %d: run %s, bad %v", i, rec.Run.ID, rec.Bad)
		}
	}
	page, err := d.Runs(context.Background(), store.RunQuery{User: "ada", Limit: 10})
	if err != nil || len(page.Runs) != 2 {
		t.Errorf("the list shows %d runs, %v", len(page.Runs), err)
	}
	script(t, path, "INSERT INTO attempt (run, task, token, generation, handler, assigned, state, cause, message, signal, started, finished, retry_at, retry_wait) "+
		"VALUES (3, 0, 1, 1, 1, 1, 'dancing', '', '', '', 0, 0, 0, 0)")
	bad := 0
	err = d.Scan(context.Background(), func(rec store.RunRecord, _ []dag.EventRow) error {
		if errors.Is(rec.Bad, store.ErrCorrupt) {
			bad++
		}
		return nil
	})
	if err != nil || bad != 2 {
		t.Errorf("a scan finds %d damaged runs, %v", bad, err)
	}
}

// TestLogStartsOver: the write-ahead log does not grow with history.
func TestLogStartsOver(t *testing.T) {
	d, path := openTemp(t)
	d.checkpoints.long.Store(true) // as if the log had exceeded its bound
	accept(t, d, 2000)
	d.checkpoints.long.Store(true)
	before := size(t, path+"-wal")
	accept(t, d, 1)
	accept(t, d, 1)
	if after := size(t, path+"-wal"); after > before {
		t.Errorf("the log grew from %d to %d bytes", before, after)
	}
}

// TestDeletionsAreCopied: rows that are changed outside of commits are counted for the copy of the log, too.
// Before they were counted, the log of a database with 1,000 hourly workflows grew to 600 MB.
func TestDeletionsAreCopied(t *testing.T) {
	const runs = 2000
	d, _ := openTemp(t)
	accept(t, d, runs)
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.checkpoints.rows
	err := d.transact(func() error { return sqlitex.ExecuteTransient(d.conn, "UPDATE run SET created = created + 1", nil) })
	if got := d.checkpoints.rows - before; err != nil || got < runs {
		t.Errorf("%d of %d changed rows count, %v", got, runs, err)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}
