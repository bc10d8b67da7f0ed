//go:build linux

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/worker"
)

// TestDefaultLevel: without a setting, tasks of a new database run behind a fence, on a node and on a worker. A
// database of an earlier version keeps the level none, until the setting says otherwise.
func TestDefaultLevel(t *testing.T) {
	t.Parallel()
	if _, err := worker.Fences(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	w := newWorld(t)
	w.env = slices.DeleteFunc(w.env, func(one string) bool { return one == worldLevel })
	p := w.server()
	far := *w
	far.data = t.TempDir()
	outside := far.start("worker", "--server", p.url, "--data", far.data, "--name", "far")
	p.eventually("the worker is there", func() bool { return strings.Contains(w.skein("node", "list").out, "far") })
	p.apply("reads", "  here: {node: testnode, run: cat "+w.data+"/access/local.token}\n  far: {node: far, run: cat "+far.data+"/lock}\n")
	refused := func() (by [2]bool) {
		run := p.begin("reads", nil)
		p.ends(run)
		for i, task := range []string{"here", "far"} {
			by[i] = strings.Contains(w.skein("task", "get", run+"/"+task, "-o", "json").out, "is protected: no task may reach it")
		}
		return by
	}
	if got := refused(); got != [2]bool{true, true} {
		t.Errorf("on a new database: %v", got)
	}
	if o := w.skein("doctor"); !strings.Contains(o.out, "fence, enforced by Landlock") {
		t.Errorf("doctor: %v", o)
	}
	p.stop()

	db, err := sqlite.OpenConn(w.data+"/skein.db", sqlite.OpenReadWrite)
	if err == nil {
		err = sqlitex.ExecuteScript(db, "ALTER TABLE meta DROP isolation; ALTER TABLE namespace DROP run_as; ALTER TABLE session DROP origin; PRAGMA user_version = 38", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	p = w.server("--listen", strings.TrimPrefix(p.url, "http://"))
	if got := refused(); got != [2]bool{} {
		t.Errorf("after an upgrade: %v", got)
	}
	if o := w.skein("doctor"); !strings.Contains(o.out, "none, as before the upgrade") || !strings.Contains(o.err, "isolation: fence") {
		t.Errorf("doctor: %v", o)
	}
	p.stop()
	p = w.server("--isolation", "fence", "--listen", strings.TrimPrefix(p.url, "http://"))
	if got := refused(); got != [2]bool{true, false} {
		t.Errorf("with the setting on the node only: %v", got)
	}
	outside.stop()
}
