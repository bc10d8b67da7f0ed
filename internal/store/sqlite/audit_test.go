package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/store/storetest"
)

// TestAuditListIsARange: the list of audit rows since an instant reads the index of times, between the
// cursor and that instant, and sorts nothing.
func TestAuditListIsARange(t *testing.T) {
	d, path := openTemp(t)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	plan := ""
	err = sqlitex.Execute(conn, "EXPLAIN QUERY PLAN "+strings.TrimSuffix(d.read["auditRows"], ";"), &sqlitex.ExecOptions{
		Args: []any{int64(9), int64(9), int64(1), "", "", "*", int64(10)},
		ResultFunc: func(s *sqlite.Stmt) error {
			plan += s.ColumnText(3) + "\n"
			return nil
		}})
	if err != nil || !strings.Contains(plan, "INDEX audit_at (at>? AND") || strings.Contains(plan, "B-TREE") {
		t.Errorf("%v, %s", err, plan)
	}
}

// BenchmarkAuditedChange measures a change of a class without an audit row, a change with one, and the step
// that later gives the row its index.
func BenchmarkAuditedChange(b *testing.B) {
	d, err := Open(filepath.Join(b.TempDir(), "skein.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	storetest.BenchAudited(b, d)
}
