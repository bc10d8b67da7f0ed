package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// tamperer changes the database of a stopped node, as the owner of the database can.
type tamperer interface {
	// begin restores the rows that the node left when it stopped, and executes statements.
	begin(t *testing.T, sql string)
}

const forgedRow = "INSERT INTO audit (id, key, idx, hash, at, last, count, principal, kind, token, session, address, verb, action, object, namespace, outcome, request, detail) " +
	"SELECT 99, %s, 6, hash, at, last, count, 'eve', kind, token, session, address, verb, action, object, namespace, outcome, request, detail FROM audit WHERE idx = 2"

// TestAuditTampering changes the rows of a node that has stopped, and finds each change after the next
// start, on both engines.
func TestAuditTampering(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		c := testConfig(t, nil)
		tampering(t, c, "randomblob(16)", func(t *testing.T) tamperer { return newFileTamperer(t, c.Data) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		pg, err := pgtest.Start(pgtest.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pg.Close() }()
		c := testConfig(t, map[string]string{"db": pg.URL("postgres"), "name": "n1"})
		tampering(t, c, "gen_random_uuid()", func(t *testing.T) tamperer { return newServerTamperer(t, pg, c.Data) })
	})
}

func tampering(t *testing.T, c *config.Config, random string, by func(*testing.T) tamperer) {
	n, _, stop := startNode(t, c)
	b := &auditBed{t, n}
	for i := range 6 {
		b.must("PUT", "/classes/c"+fmt.Sprint(i), `{"cpu":1}`)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	eve := by(t)
	for _, x := range []struct {
		name, sql, kind string
		from            int64
	}{
		{"nothing", "SELECT 1", "", 0},
		{"changed row", "UPDATE audit SET principal = 'eve' WHERE idx = 2", audit.Changed, 2},
		{"changed row with the hash of another", "UPDATE audit SET principal = 'eve', hash = (SELECT hash FROM audit WHERE idx = 3) WHERE idx = 2", audit.Changed, 2},
		{"removed row", "DELETE FROM audit WHERE idx = 2", audit.Removed, 2},
		{"forged row at the next index", fmt.Sprintf(forgedRow, random), audit.Inserted, 6},
		{"forged row as part of the tree", fmt.Sprintf(forgedRow, random) + "; UPDATE audit_tree SET size = 7", audit.Changed, 6},
		{"cut tail", "DELETE FROM audit WHERE idx >= 4; UPDATE audit_tree SET size = 4", audit.CutOff, 4},
		{"everything cut", "DELETE FROM audit; DELETE FROM audit_tree", audit.CutOff, 0},
		{"swapped rows", "UPDATE audit SET idx = 1000 WHERE idx = 2; UPDATE audit SET idx = 2 WHERE idx = 3; UPDATE audit SET idx = 3 WHERE idx = 1000", audit.Replaced, 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			eve.begin(t, x.sql)
			n, _, stop := startNode(t, c)
			defer stop()
			got := auditVerified(&auditBed{t, n}, c)
			switch {
			case x.kind == "" && (!got.Good() || got.Covered != 6):
				t.Errorf("%+v", got)
			case x.kind != "" && (got.Good() || got.Findings[0].Kind != x.kind || !begins(&got.Findings[0], x.from)):
				t.Errorf("found %+v, want %s from %d", got.Findings, x.kind, x.from)
			}
		})
	}
	t.Run("a forged row stops the tree until it is removed", func(t *testing.T) {
		eve.begin(t, fmt.Sprintf(forgedRow, random))
		heard := &saidLines{}
		n, err := Open(t.Context(), c, slog.New(slog.NewTextHandler(heard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		<-n.Ready()
		b := &auditBed{t, n}
		b.must("PUT", "/classes/more", `{"cpu":1}`) // changes continue
		for end := time.Now().Add(patience); !strings.Contains(heard.text(), "audit_behind"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the log does not say that the tree stands still: %s", heard.text())
			}
		}
		if got := auditVerified(b, c); got.Good() || got.Size != 6 {
			t.Errorf("%+v", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		eve.begin(t, "SELECT 1") // restores the rows, without the forged row and the waiting row
		n, _, stop := startNode(t, c)
		defer stop()
		b = &auditBed{t, n}
		b.must("PUT", "/classes/most", `{"cpu":1}`)
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			got := auditVerified(b, c)
			if got.Good() && got.Size == 7 && got.Fresh == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%+v", got)
			}
		}
	})
}

// auditVerified compares the rows that a node exports with its checkpoints.
func auditVerified(b *auditBed, c *config.Config) audit.Report {
	b.Helper()
	key, err := audit.PublicKey(c.AuditKey() + audit.PublicSuffix)
	if err != nil {
		b.Fatal(err)
	}
	export := b.must("GET", "/audit:export", "")
	points, invalid, err := audit.Checkpoints(c.AuditCheckpoints(), note.VerifierList(key))
	if err != nil || invalid > 0 || len(points) == 0 {
		b.Fatal(len(points), invalid, err)
	}
	got, err := audit.Read(bytes.NewBufferString(export), func(h audit.Head) (*audit.Verifier, error) {
		return audit.NewVerifier(h.Tree, points, h.Keep, time.Now()), nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// begins reports whether a finding begins with a row. A finding about replaced rows begins at the last
// checkpoint before them, so the row may be inside of its range.
func begins(f *audit.Finding, row int64) bool {
	return f.From == row || f.Kind == audit.Replaced && f.From < row && row < f.To
}

// folder is the data folder of a node, and a copy of it. What the node signs and confirms in one case must
// not be valid in the next.
type folder struct{ path, saved string }

func saveFolder(t *testing.T, path string) folder {
	t.Helper()
	f := folder{path, filepath.Join(t.TempDir(), "saved")}
	f.copy(t, f.path, f.saved)
	return f
}

func (f folder) copy(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (f folder) restore(t *testing.T) {
	t.Helper()
	f.copy(t, f.saved, f.path)
}

// fileTamperer is a tamperer of a SQLite file.
type fileTamperer struct{ folder }

func newFileTamperer(t *testing.T, data string) tamperer {
	t.Helper()
	return &fileTamperer{saveFolder(t, data)}
}

func (f *fileTamperer) begin(t *testing.T, sql string) {
	t.Helper()
	f.restore(t)
	conn, err := sqlite.OpenConn(filepath.Join(f.path, "skein.db"), sqlite.OpenReadWrite)
	if err == nil {
		err = sqlitex.ExecuteScript(conn, sql+";", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// serverTamperer is a tamperer of a PostgreSQL server.
type serverTamperer struct {
	folder
	pg *pgtest.Server
}

func newServerTamperer(t *testing.T, pg *pgtest.Server, data string) tamperer {
	t.Helper()
	if err := pg.SQL("postgres", "CREATE SCHEMA saved; CREATE TABLE saved.audit AS TABLE skein.audit; CREATE TABLE saved.audit_tree AS TABLE skein.audit_tree"); err != nil {
		t.Fatal(err)
	}
	return &serverTamperer{saveFolder(t, data), pg}
}

func (s *serverTamperer) begin(t *testing.T, sql string) {
	t.Helper()
	s.restore(t)
	err := s.pg.SQL("postgres", "SET search_path = skein; TRUNCATE audit, audit_tree; INSERT INTO audit SELECT * FROM saved.audit; INSERT INTO audit_tree SELECT * FROM saved.audit_tree; "+sql)
	if err != nil {
		t.Fatal(err)
	}
}

// saidLines keeps the lines that a node writes to its log.
type saidLines struct {
	mu  sync.Mutex // protects following fields
	all bytes.Buffer
}

func (s *saidLines) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *saidLines) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}
