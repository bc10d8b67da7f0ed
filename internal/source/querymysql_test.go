//go:build linux

package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/kind/sql/sqltest"
	"skein.dev/skein/internal/workflow"
)

// looks counts how often a source asks for open transactions.
type looks struct {
	Table
	n *atomic.Int64
}

func (l looks) Open(ctx context.Context) ([]uint64, error) {
	l.n.Add(1)
	return l.Table.Open(ctx)
}

// followed returns a source of a table of MariaDB.
func followed(s *sqltest.Server, q *workflow.Query, start Start, n *atomic.Int64) Source {
	c := connection.Config{MySQL: &connection.MySQL{Host: "127.0.0.1", Port: s.Port, User: sqltest.User, Database: sqltest.Database, TLS: connection.TLSDisable}}
	return &Query{Config: q, Start: start, Open: func(ctx context.Context) (Table, error) {
		t, err := follow(ctx, &c, sqltest.Password, plainDial(), q)
		return looks{t, n}, err
	}}
}

// TestQueryMySQL reads rows of a real MariaDB.
func TestQueryMySQL(t *testing.T) {
	s := sqltest.MariaDB(t)
	for name, test := range map[string]func(*testing.T, *sqltest.Server){"Dies": mysqlDies, "LateCommit": mysqlLateCommit, "Beginning": mysqlBeginning, "Faults": mysqlFaults} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// mysqlDies lets the owner die before and after transactions, and the server end sessions. Each row must be
// one event, in order.
func mysqlDies(t *testing.T, s *sqltest.Server) {
	s.MySQL(t, "CREATE TABLE dies (id bigint unsigned PRIMARY KEY, n int); INSERT INTO dies SELECT seq + 1, seq FROM seq_0_to_9")
	q := &workflow.Query{Query: "SELECT id, n FROM dies WHERE id > :cursor ORDER BY id LIMIT 500", Cursor: "id", Every: workflow.Duration(10 * time.Millisecond)}
	l := newLedger()
	l.dies()
	l.running(t, func() Source { return mended{followed(s, q, Start{}, new(atomic.Int64))} })
	l.until(t, "begins", func() bool { return l.cursor != nil })
	for n := 10; n < 3010; n += 1000 {
		s.MySQL(t, fmt.Sprintf("INSERT INTO dies SELECT seq + 1, seq FROM seq_%d_to_%d", n, n+999))
		if id := s.MySQL(t, "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() LIMIT 1"); id != "" {
			s.MySQL(t, "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; KILL "+id+"; END") // it may have ended
		}
	}
	l.until(t, "all come", func() bool { return len(l.values) == 3000 })
	var want []string
	for n := 10; n < 3010; n++ {
		want = append(want, fmt.Sprintf(`{"id":%d,"n":%d}`, n+1, n))
	}
	if got := l.got(); !slices.Equal(got, want) || l.again != 0 {
		t.Errorf("%d, %d again, the first is %.60q", len(got), l.again, got[0])
	}
}

// mysqlLateCommit: a transaction that began first commits last, within the time settle. Its row is not
// skipped.
func mysqlLateCommit(t *testing.T, s *sqltest.Server) {
	s.MySQL(t, "CREATE TABLE late (id int AUTO_INCREMENT PRIMARY KEY, n int)")
	q := &workflow.Query{Query: "SELECT id, n FROM late WHERE id > :cursor ORDER BY id LIMIT 500", Cursor: "id", Every: workflow.Duration(10 * time.Millisecond), Settle: workflow.Duration(2 * time.Second)}
	l, n := newLedger(), &atomic.Int64{}
	l.running(t, func() Source { return followed(s, q, Start{}, n) })
	l.until(t, "begins", func() bool { return l.cursor != nil })
	c := connection.MySQL{Host: "127.0.0.1", Port: s.Port, User: sqltest.User, Database: sqltest.Database, TLS: connection.TLSDisable}
	first, err := c.Open(t.Context(), sqltest.Password, plainDial())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	exec := func(text string) {
		t.Helper()
		if _, err := first.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	exec("START TRANSACTION")
	exec("INSERT INTO late (n) VALUES (0)")
	s.MySQL(t, "INSERT INTO late (n) VALUES (1)")
	for began := time.Now(); n.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("the source does not wait")
		}
	}
	exec("COMMIT")
	l.until(t, "both come", func() bool { return len(l.values) == 2 })
	if got := l.got(); !slices.Equal(got, []string{`{"id":1,"n":0}`, `{"id":2,"n":1}`}) {
		t.Errorf("%q", got)
	}
	s.MySQL(t, "INSERT INTO late (n) VALUES (2)")
	seen := n.Load()
	l.until(t, "the third comes", func() bool { return len(l.values) == 3 })
	if n.Load() == seen {
		t.Error("later rows were not waited for")
	}
}

// mysqlBeginning: the source can begin before all rows, whatever the type of the position, and it tells
// close positions apart.
func mysqlBeginning(t *testing.T, s *sqltest.Server) {
	for column, values := range map[string]string{
		"bigint":          "(-9223372036854775807), (9007199254740993), (9007199254740992), (9223372036854775807)",
		"bigint unsigned": "(0), (18446744073709551614), (18446744073709551615)",
		"datetime(6)":     "('1000-01-01 00:00:00.000001'), ('2027-01-01 00:00:00.000001'), ('2027-01-01 00:00:00.000002')",
		"timestamp(3)":    "('2027-01-01 00:00:00.001'), ('2027-01-01 00:00:00.002')",
		"date":            "('2027-01-01'), ('2027-01-02')",
		"varchar(20)":     "('a'), ('b'), ('it''s')",
	} {
		s.MySQL(t, "CREATE TABLE beginning (at "+column+" PRIMARY KEY); INSERT INTO beginning VALUES "+values)
		q := &workflow.Query{Query: "SELECT at FROM beginning WHERE at > :cursor AND at >= :cursor ORDER BY at LIMIT 1", Cursor: "at", Every: workflow.Duration(time.Hour)}
		l := newLedger()
		stop := l.running(t, func() Source { return followed(s, q, Start{Beginning: true}, new(atomic.Int64)) })
		want := strings.Count(values, "(")
		l.until(t, column, func() bool { return len(l.values) == want })
		_ = stop()
		if l.again != 0 {
			t.Errorf("%s: %q", column, l.got())
		}
		s.MySQL(t, "DROP TABLE beginning")
	}
}

// mysqlFaults: the error says what is wrong with a query, and the session changes nothing.
func mysqlFaults(t *testing.T, s *sqltest.Server) {
	s.MySQL(t, "CREATE TABLE faults (id int, at date, price decimal(10,2), big longtext); INSERT INTO faults SELECT seq, '2027-01-01', 1, 'x' FROM seq_1_to_1200; "+
		"CREATE FUNCTION removes() RETURNS int MODIFIES SQL DATA BEGIN DELETE FROM faults; RETURN 1; END")
	for query, want := range map[string]any{
		"id: SELECT id FROM nothing WHERE id > :cursor":                                        uint16(1146),
		"no: SELECT id FROM faults WHERE id > :cursor":                                         connection.ErrColumn,
		"at: SELECT id, at FROM faults WHERE at > :cursor ORDER BY at LIMIT 700":               errTies,
		"id: SELECT id FROM faults WHERE id >= :cursor ORDER BY id":                            errStays,
		"id: SELECT a.id FROM faults a, faults b WHERE a.id > :cursor":                         connection.ErrNoEnd,
		"id: SELECT IF(:cursor IS NULL, 1, NULLIF(id, id)) AS id FROM faults":                  connection.ErrNull,
		"id: SELECT id, id FROM faults WHERE id > :cursor":                                     nil,
		"price: SELECT price FROM faults WHERE price > :cursor":                                nil,
		"id: SELECT id FROM faults WHERE id > :cursor; DROP TABLE faults":                      uint16(1064),
		"id: SELECT id FROM faults WHERE id > :cursor AND removes() = 1":                       uint16(1792),
		"id: SELECT id FROM faults WHERE id > :cursor AND SLEEP(100) = 0":                      errSlow,
		"id: SELECT id, REPEAT('x', 9000000) AS big FROM faults WHERE id > :cursor AND id = 1": connection.ErrNoEnd,
	} {
		column, text, _ := strings.Cut(query, ": ")
		if lookMax = time.Minute; want == any(errSlow) {
			lookMax = 300 * time.Millisecond
		}
		q := &workflow.Query{Query: text, Cursor: column, Every: workflow.Duration(time.Hour)}
		l := newLedger()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := followed(s, q, Start{Beginning: true}, new(atomic.Int64)).Run(ctx, nil, l.give)
		cancel()
		var of *mysql.MySQLError
		switch w := want.(type) {
		case error:
			if !errors.Is(err, w) {
				t.Errorf("%s: %v", query, err)
			}
		case uint16:
			if !errors.As(err, &of) || of.Number != w {
				t.Errorf("%s: %v", query, err)
			}
		case nil:
			if err == nil || errors.Is(err, errSlow) {
				t.Errorf("%s: %v", query, err)
			}
		}
	}
	lookMax = time.Minute
	if n := s.MySQL(t, "SELECT count(*) FROM faults"); n != "1200" {
		t.Errorf("%s rows are left", n)
	}
}
