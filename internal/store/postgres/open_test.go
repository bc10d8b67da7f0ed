package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

func sql(t *testing.T, statements string) {
	t.Helper()
	if err := server.SQL("postgres", statements); err != nil {
		t.Fatal(err)
	}
}

// TestOpenTogether: nodes that start at once make one database.
func TestOpenTogether(t *testing.T) {
	schema := newSchema()
	clusters := make([]string, 8)
	var wg sync.WaitGroup
	for i := range clusters {
		wg.Go(func() {
			db, err := postgres.Open(context.Background(), postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 3 + i})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			info, err := db.Info(context.Background())
			if err != nil {
				t.Error(err)
			}
			clusters[i] = fmt.Sprintf("%s with %d shards", info.Cluster, info.Shards)
		})
	}
	wg.Wait()
	for _, c := range clusters[1:] {
		if c != clusters[0] {
			t.Errorf("one node sees %s, another %s", clusters[0], c)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	known := newSchema()
	open(t, postgres.Options{URL: server.URL("postgres"), Schema: known})
	newer, foreign := newSchema(), newSchema()
	open(t, postgres.Options{URL: server.URL("postgres"), Schema: newer})
	sql(t, "UPDATE "+newer+".meta SET format = format + 1")
	sql(t, "CREATE SCHEMA "+foreign+"; CREATE TABLE "+foreign+".run (theirs int)")
	sql(t, "CREATE ROLE fleeting LOGIN CONNECTION LIMIT 0")
	if err := server.SQL("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
	loopback := func(user, password string) string {
		return through(server.Addr(), user+":"+password, "postgres")
	}
	for _, c := range []struct {
		name string
		o    postgres.Options
		kind error
		says string
	}{
		{"a newer format", postgres.Options{URL: server.URL("postgres"), Schema: newer}, store.ErrFormat, "use a newer skein"},
		{"another program's tables", postgres.Options{URL: server.URL("postgres"), Schema: foreign}, store.ErrFormat, `relation "run" already exists`},
		{"a database that is not there", postgres.Options{URL: server.URL("nowhere")}, store.ErrUnavailable, `database "nowhere" does not exist`},
		{"a database that is not UTF-8", postgres.Options{URL: server.URL("latin")}, store.ErrFormat, "Skein needs UTF8"},
		{"a wrong password", postgres.Options{URL: loopback(pgtest.Locked, "wrong"), Schema: known}, store.ErrUnavailable, "password authentication failed"},
		{"a user who may not", postgres.Options{URL: loopback(pgtest.Locked, "right")}, store.ErrUnavailable, "permission denied"},
		{"too many connections", postgres.Options{URL: loopback("fleeting", "")}, store.ErrUnavailable, "too many connections"},
		{"nobody there", postgres.Options{URL: "postgres://skein@127.0.0.1:1/x?sslmode=disable"}, store.ErrUnavailable, "dial tcp 127.0.0.1:1: connect: connection refused"},
		{"no address", postgres.Options{URL: "postgres://%zz"}, store.ErrUnavailable, "the address of the database"},
		{"a schema that needs quotes", postgres.Options{URL: server.URL("postgres"), Schema: `a"b`}, store.ErrUnavailable, "a schema is a name"},
		{"too many shards", postgres.Options{URL: server.URL("postgres"), Shards: 5000}, store.ErrUnavailable, "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db, err := postgres.Open(context.Background(), c.o)
			if err == nil {
				_ = db.Close()
			}
			is(t, err, c.kind, c.says)
			if strings.Contains(fmt.Sprint(err), "wrong") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
}

// TestOpenPatiently: a start survives a database that disconnects or is temporarily unavailable, and says
// why it waits. A permanent error is returned at once.
func TestOpenPatiently(t *testing.T) {
	sql(t, "CREATE ROLE patient LOGIN SUPERUSER")
	sql(t, "ALTER ROLE patient NOSUPERUSER CONNECTION LIMIT 0")
	sql(t, "CREATE ROLE recovering LOGIN SUPERUSER; ALTER ROLE recovering SET default_transaction_read_only = on")
	there := newSchema()
	if err := open(t, postgres.Options{URL: server.URL("postgres"), Schema: there, Shards: 1}).Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, says string
		arm        func(p *proxy)
		user       string
		mend       func()
	}{
		{"the connection breaks", "unexpected EOF", func(p *proxy) { p.arm(cut) }, pgtest.Superuser, func() {}},
		{"an answer is lost", "unexpected EOF", func(p *proxy) { p.arm(silent) }, pgtest.Superuser, func() {}},
		{"too many connections", "too many connections", func(*proxy) {}, "patient", func() { sql(t, "ALTER ROLE patient SUPERUSER") }},
		{"no writes yet", "takes no writes", func(*proxy) {}, "recovering", func() { sql(t, "ALTER ROLE recovering RESET default_transaction_read_only") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, server.Addr())
			c.arm(p)
			var why []string
			schema := newSchema()
			if c.user == "recovering" {
				schema = there // the schema exists, so nothing has to be made
			}
			db, err := postgres.Open(context.Background(), postgres.Options{URL: through(p.addr(), c.user, "postgres"), Schema: schema, Shards: 1,
				Patience: time.Hour, Waiting: func(err error) {
					why = append(why, err.Error())
					c.mend()
				}})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if len(why) != 1 || !strings.Contains(why[0], c.says) {
				t.Errorf("it waited because of %q", why)
			}
		})
	}
	_, err := postgres.Open(context.Background(), postgres.Options{URL: server.URL("nowhere"), Patience: time.Hour})
	is(t, err, store.ErrUnavailable, `database "nowhere" does not exist`)
	_, err = postgres.Open(context.Background(), postgres.Options{URL: through(server.Addr(), pgtest.Locked+":wrong", "postgres"), Patience: time.Hour})
	is(t, err, store.ErrUnavailable, "password authentication failed")
}

// TestReadOnlyDatabase: existing rows can be read, and the error of a commit names the reason.
func TestReadOnlyDatabase(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	l := newLoad(t, db, 0)
	b := l.batch(3)
	if err := l.commit(b); err != nil {
		t.Fatal(err)
	}
	sql(t, "CREATE ROLE reader LOGIN SUPERUSER; ALTER ROLE reader SET default_transaction_read_only = on")
	ro := open(t, postgres.Options{URL: strings.Replace(server.URL("postgres"), pgtest.Superuser+"@", "reader@", 1), Schema: schema})
	if _, err := ro.Run(context.Background(), b.RunInserts[0].ID); err != nil {
		t.Error(err)
	}
	_, err := ro.Commit(context.Background(), l.batch(1))
	is(t, err, store.ErrUnavailable, "read-only transaction")
	_, err = postgres.Open(context.Background(), postgres.Options{URL: strings.Replace(server.URL("postgres"), pgtest.Superuser+"@", "reader@", 1), Schema: newSchema()})
	is(t, err, store.ErrUnavailable, "read-only transaction")
}

// TestOutOfConnections: a call without a free connection gets an error, and succeeds when a connection is
// free again.
func TestOutOfConnections(t *testing.T) {
	schema := newSchema()
	sql(t, "CREATE ROLE few LOGIN SUPERUSER")
	url := strings.Replace(server.URL("postgres"), pgtest.Superuser+"@", "few@", 1)
	one := open(t, postgres.Options{URL: url, Schema: schema, Shards: 1})
	l := newLoad(t, one, 0)
	sql(t, "ALTER ROLE few NOSUPERUSER CONNECTION LIMIT 1; GRANT ALL ON SCHEMA "+schema+" TO few; GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO few")
	_, err := one.Info(context.Background()) // this call needs a second connection
	is(t, err, store.ErrUnavailable, "too many connections")
	if err := l.commit(l.batch(2)); err != nil {
		t.Errorf("on the connection that it has: %v", err)
	}
	sql(t, "ALTER ROLE few CONNECTION LIMIT 5")
	if _, err := one.Info(context.Background()); err != nil {
		t.Errorf("once there is one: %v", err)
	}
}

// TestSchemaDropped: a dropped schema is a permanent error, because waiting cannot bring it back.
func TestSchemaDropped(t *testing.T) {
	schema := newSchema()
	db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	l := newLoad(t, db, 0)
	if err := l.commit(l.batch(2)); err != nil {
		t.Fatal(err)
	}
	sql(t, "DROP SCHEMA "+schema+" CASCADE")
	is(t, l.commit(l.batch(2)), store.ErrFormat, "")
	_, err := db.Info(context.Background())
	is(t, err, store.ErrFormat, "")
}

// TestCheckFindsWrongLists: Check reports each kind of wrong list, so it does not always succeed.
func TestCheckFindsWrongLists(t *testing.T) {
	for name, damage := range map[string]string{
		"missing from the list":   "DELETE FROM %s.active WHERE run = (SELECT min(run::text)::uuid FROM %[1]s.active)",
		"listed without being":    "INSERT INTO %s.active (run, shard) VALUES ('00000000-0000-4000-8000-000000000001', 0)",
		"ended but still listed":  "UPDATE %s.run SET finished = 5 WHERE id = (SELECT min(id::text)::uuid FROM %[1]s.run)",
		"listed at another shard": "UPDATE %s.active SET shard = 1",
	} {
		t.Run(name, func(t *testing.T) {
			schema := newSchema()
			db := open(t, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 2})
			l := newLoad(t, db, 0)
			if err := l.commit(l.batch(3)); err != nil {
				t.Fatal(err)
			}
			if bad, err := db.Check(context.Background()); err != nil || len(bad) != 0 {
				t.Fatalf("before: %q, %v", bad, err)
			}
			sql(t, fmt.Sprintf(damage, schema))
			if bad, err := db.Check(context.Background()); err != nil || len(bad) == 0 {
				t.Errorf("after: %q, %v", bad, err)
			}
		})
	}
}
