//go:build linux

package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// olderToken is a token in the form of versions without users. The database has only a hash of its secret.
type olderToken struct {
	kind, name       string
	expires, revoked int64 // microseconds; 0 means never
	secret           string
}

func olderTokens() []olderToken {
	now := time.Now()
	all := []olderToken{{kind: "api", name: "ci"}, {kind: "worker", name: "w1"}, {kind: "node", name: "n1"},
		{kind: "api", name: "expired", expires: now.Add(-time.Hour).UnixMicro()}, {kind: "api", name: "revoked", revoked: now.Add(-time.Hour).UnixMicro()}}
	for i := range all {
		all[i].secret = auth.NewSecret(all[i].kind)
	}
	return all
}

// inserts returns the statements that add the tokens. The format quote writes bytes in the form of the
// database.
func inserts(t *testing.T, all []olderToken, quote string) (sql string) {
	t.Helper()
	for _, o := range all {
		hash, err := auth.HashSecret(o.secret)
		if err != nil {
			t.Fatal(err)
		}
		sql += fmt.Sprintf("INSERT INTO token (kind, name, hash, created, expires, revoked, actor) VALUES ('%s', '%s', %s, 5, %d, %d, 'ann');\n",
			o.kind, o.name, fmt.Sprintf(quote, hex.EncodeToString(hash)), o.expires, o.revoked)
	}
	return sql
}

// migration returns the scripts up to a format, as the program of that format had them.
func migration(t *testing.T, engine string, format int) (sql string) {
	t.Helper()
	files, err := filepath.Glob("../../internal/store/" + engine + "/migrations/*.sql")
	if err != nil || len(files) < format {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	for _, file := range files[:format] {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sql += string(text) + "\n"
	}
	return sql
}

// TestUpgradeKeepsTheOperatorIn opens databases of the first format that had tokens. The operator needs no
// token: the data folder and the database prove enough. The tokens of those versions keep their rights,
// tokens that had ended stay refused, and doctor says which rights to narrow.
func TestUpgradeKeepsTheOperatorIn(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		w, all := newWorld(t), olderTokens()
		if err := os.MkdirAll(w.data, 0o700); err != nil {
			t.Fatal(err)
		}
		conn, err := sqlite.OpenConn(filepath.Join(w.data, "skein.db"), sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
		if err != nil {
			t.Fatal(err)
		}
		err = sqlitex.ExecuteScript(conn, migration(t, "sqlite", 3)+"PRAGMA application_id = 0x536b6569; PRAGMA user_version = 3; INSERT INTO meta (one, cluster, created) VALUES (1, '0d5ba2a8-1f0a-4a3c-9d5e-0a6a5d0c7e11', 1);\n"+inserts(t, all, "x'%s'"), nil)
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		upgraded(t, w, all, false)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		w, all := newWorld(t), olderTokens()
		pg, err := pgtest.Start(pgtest.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pg.Stop() })
		w.env = append(w.env, "SKEIN_DB="+pg.URL("postgres"), "SKEIN_HEARTBEAT=500ms", "SKEIN_LAG=4s")
		c, err := pgx.Connect(t.Context(), pg.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		_, err = c.Exec(t.Context(), "CREATE SCHEMA skein; SET search_path = skein;\n"+migration(t, "postgres", 6)+
			"INSERT INTO meta (one, format, cluster, shards, created) VALUES (1, 6, gen_random_uuid(), 4, 5); INSERT INTO shard (id) SELECT generate_series(0, 3);\n"+
			inserts(t, all, `'\x%s'`))
		if err != nil {
			t.Fatal(err)
		}
		upgraded(t, w, all, true)
	})
}

func upgraded(t *testing.T, w *world, all []olderToken, cluster bool) {
	// Before any node has run, access to the folder and to the database is enough.
	if o := w.skein("user", "create", "root", "--no-password", "--role", "cluster"); o.code != exitOK {
		t.Fatalf("no user can be made on the older database: %v", o)
	}
	p := w.server()
	for _, args := range [][]string{{"run", "list"}, {"token", "list"}, {"whoami"}} {
		if o := w.skein(args...); o.code != exitOK {
			t.Errorf("the operator is locked out of %v: %v", args, o)
		}
	}
	const source = "name: w\ntasks: {a: {run: 'true'}}\n"
	ask := func(o *olderToken, method, path, kind, body string) (int, string) {
		t.Helper()
		return p.ask(method, path, map[string]string{"Authorization": "Bearer " + o.secret, "Content-Type": kind}, strings.NewReader(body))
	}
	const json = "application/json"
	for i, want := range []struct{ rest, worker, node int }{{200, 403, 403}, {403, 200, 403}, {403, 403, 200}, {401, 401, 401}, {401, 401, 401}} {
		o := &all[i]
		if code, text := ask(o, "GET", "/api/v1/runs", json, ""); code != want.rest {
			t.Errorf("%s at REST: %d %.200s, want %d", o.name, code, text, want.rest)
		}
		code, text := ask(o, "POST", "/skein.worker.v1.Workers/Register", json,
			`{"name":"`+o.name+`","uuid":"AAAAAAAAAAAAAAAAAAAAAA==","slots":1}`)
		if refused := code == 401 || code == 403; refused != (want.worker != 200) {
			t.Errorf("%s as a worker: %d %.200s", o.name, code, text)
		}
		if !cluster { // a single node accepts no calls of nodes
			continue
		}
		code, text = ask(o, "POST", "/internal/v1/wake", json, "{}")
		if refused := code == 401 || code == 403; refused != (want.node != 200) {
			t.Errorf("%s as a node: %d %.200s", o.name, code, text)
		}
	}
	ci := &all[0]
	for _, c := range []struct{ method, path, kind, body string }{
		{"PUT", "/api/v1/workflows/default/w", "application/yaml", source},
		{"PUT", "/api/v1/workflows/shop/w", "application/yaml", "namespace: shop\n" + source},
		{"POST", "/api/v1/runs", json, `{"workflow":"shop/w"}`},
		{"POST", "/api/v1/users", json, `{"name":"ann"}`},
		{"POST", "/api/v1/tokens", json, `{"kind":"worker","name":"w2"}`},
		{"GET", "/metrics", json, ""},
	} {
		if code, text := ask(ci, c.method, c.path, c.kind, c.body); code/100 != 2 {
			t.Errorf("the older token may no longer %s %s: %d %.300s", c.method, c.path, code, text)
		}
	}
	if _, text := ask(ci, "GET", "/api/v1/me", json, ""); !strings.Contains(text, `"kind":"service"`) || !strings.Contains(text, `"*":[`) || !strings.Contains(text, `"token.all"`) {
		t.Errorf("the older token is %s", text)
	}
	o := w.skein("doctor", "-o", "json")
	if !strings.Contains(o.out, "these tokens can do everything, and never end: ci\"") || !strings.Contains(o.out, "skein token create --for NAME") {
		t.Errorf("doctor does not say what to tighten: %s", o.out)
	}
	if o := w.skein("token", "revoke", "ci"); o.code != exitOK {
		t.Errorf("the operator cannot revoke the last older token: %v", o)
	}
}
