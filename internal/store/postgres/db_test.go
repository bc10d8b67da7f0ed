package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/store/postgres/pgtest"
)

// TestEveryStatementPrepares checks all SQL against the schema, and that every plan uses an index. This
// includes plans that were made on an empty table, because a session keeps its plans.
func TestEveryStatementPrepares(t *testing.T) {
	// These statements read a table of one row, or the few members and shards.
	small := map[string]bool{"sentLog": true, "sentUntil": true, "expireSent": true, "addSent": true, "meta": true, "lockMeta": true, "rise": true, "statesListed": true, "dropIdentities": true, "listStates": true,
		"missingUnsuccessful": true, "strayUnsuccessful": true, "strayTags": true, "missingTags": true, "wrongStocks": true,
		"expireHandlers": true, "stocked": true, "marks": true, "raise": true, "beginEra": true, "firstEra": true, "begun": true, "nodeKey": true, "dropOverSessions": true, "dropSessionsOf": true, "dropAllSessionsOf": true, "secretKey": true, "setSecretKey": true,
		"setSecretKey" + notedSuffix: true, "lockTokens": true, "auditTree": true, "moveAuditTree": true,
		"expireSilences": true, "putSilence": true, "putSilence" + notedSuffix: true, "silences": true, "alertRules": true, "lostMembers": true, "depose": true, "watched": true,
		"shards": true, "shift": true, "reshift": true, "traceMark": true}
	s, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	d, err := Open(ctx, Options{URL: s.URL("postgres")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := d.readers.take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer d.readers.give(c)
	for name, text := range c.sql {
		if strings.Count(text, ";") != 1 || !strings.HasSuffix(text, ";") {
			t.Errorf("%s is not one statement", name)
		}
		if err := c.prepare(ctx, name); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if plan := explain(t, c, name); strings.Contains(plan, "Seq Scan") && !small[name] {
			t.Errorf("%s reads a whole table:\n%s", name, plan)
		}
	}
	n := 0
	for _, set := range []string{"read", "write", "members", "logs", "tokens", "claims", "classes", "past", "access", "sessions", "secrets", "audit", "alerts", "connections", "git", "namespaces", "tally", "traces", "sent"} {
		n += len(statements(set))
	}
	n += len(notedNames)
	for _, name := range writeNames {
		if singular(c.sql[name]) != "" {
			n++
		}
	}
	if len(c.sql) != n || n < 60 {
		t.Errorf("%d statements: one name twice?", len(c.sql))
	}
	checkTriggers(t, c)
}

// checkTriggers finds triggers of run, and triggers that are called for each row. A trigger for updates of run
// makes every update read the row before again, whichever columns it names.
func checkTriggers(t *testing.T, c *conn) {
	t.Helper()
	results, err := c.Exec(context.Background(), `SELECT tgrelid::regclass || '.' || tgname FROM pg_trigger
		WHERE NOT tgisinternal AND (tgrelid = 'run'::regclass
		OR tgrelid IN ('version'::regclass, 'version_file'::regclass, 'trigger'::regclass) AND tgtype::int & 1 > 0)`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range results[0].Rows {
		t.Errorf("%s is a trigger of runs, or is called for each row", row[0])
	}
}

func explain(t *testing.T, c *conn, name string) string {
	t.Helper()
	if name == "snapshot" || name == "done" {
		return "" // no query
	}
	call := `EXPLAIN (COSTS OFF) EXECUTE "` + name + `"`
	if n := len(c.prepared[name].ParamOIDs); n > 0 {
		call += "(NULL" + strings.Repeat(", NULL", n-1) + ")"
	}
	results, err := c.Exec(context.Background(), call).ReadAll()
	if err != nil {
		t.Errorf("%s: %v", call, err)
		return ""
	}
	var plan strings.Builder
	for _, row := range results[0].Rows {
		plan.Write(row[0])
		plan.WriteByte('\n')
	}
	return plan.String()
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
	for _, set := range []string{"read", "write", "members", "logs", "tokens", "claims", "upgrade", "past", "access", "sessions", "secrets", "audit", "alerts", "connections", "git"} {
		for name := range statements(set) {
			if !strings.Contains(code.String(), `"`+name+`"`) {
				t.Errorf("statement %s is never used", name)
			}
		}
	}
}

// TestMigrationsAreNumbered: each migration has its own number. If two had one number, a node could apply one
// of them and take the other for applied.
func TestMigrationsAreNumbered(t *testing.T) {
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if want := fmt.Sprintf("migrations/%04d_", i+1); !strings.HasPrefix(f, want) {
			t.Errorf("%s: want %s…", f, want)
		}
	}
	if len(files) != format {
		t.Errorf("%d migrations, format %d", len(files), format)
	}
}
