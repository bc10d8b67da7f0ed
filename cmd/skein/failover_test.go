//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"skein.dev/skein/internal/store/postgres/pgtest"
)

// failover is a cluster over a primary and a standby. Its nodes know both and follow whichever takes writes.
type failover struct {
	*flight
	standby *pgtest.Server
}

func newFailover(t *testing.T, nodes int, env ...string) *failover {
	t.Helper()
	f := &failover{flight: newFlight(t, 0, env...)}
	standby, err := f.pg.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := standby.Close(); err != nil {
			t.Error(err)
		}
	})
	f.standby = standby
	f.db = fmt.Sprintf("postgres://%s@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write", pgtest.Superuser, f.pg.Addr(), f.standby.Addr())
	for range nodes {
		f.add()
	}
	return f
}

// failOver kills the primary and promotes the standby, with what that has received.
func (f *failover) failOver() {
	f.t.Helper()
	if err := f.pg.Kill(); err != nil {
		f.t.Fatal(err)
	}
	if err := f.standby.Promote(); err != nil {
		f.t.Fatal(err)
	}
	f.pg, f.standby = f.standby, f.pg
}

// gated applies a workflow of one task that ends when its gate is opened, and writes down under which tokens it begins.
func (f *failover) gated(name, dir string) {
	f.t.Helper()
	f.members[0].apply(name, "  a: {run: 'echo $SKEIN_TOKEN >> "+filepath.Join(dir, name+".begun")+
		"; until [ -e "+filepath.Join(dir, name+".gate")+" ]; do sleep 0.05; done'}\n")
}

func (f *failover) open(dir string, names ...string) {
	f.t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name+".gate"), nil, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// stated waits until runs are in a state.
func (f *failover) stated(state string, ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		f.until("run "+id+" is "+state, func() bool {
			run, err := f.members[0].client.Run(f.t.Context(), id)
			return err == nil && run.State == state
		})
	}
}

// TestFailoverEndsLostAttempts fails over to a standby that is a moment behind. Two runs have ended in the lost time, and a third
// has begun: by the rows the first two run still, at workers that have long reported their ends, and the third has not begun.
// Each ends, and nothing waits for a sweep: there is none.
func TestFailoverEndsLostAttempts(t *testing.T) {
	t.Parallel()
	f := newFailover(t, 1, "SKEIN_ROLES=api,scheduler")
	f.worker("w1", "--slots", "1")
	f.worker("w2", "--slots", "1")
	f.listed(3)
	dir := t.TempDir()
	var ids []string
	for i := range 3 {
		f.gated(fmt.Sprint("long", i), dir)
		ids = append(ids, f.members[0].detach(fmt.Sprint("long", i)))
	}
	f.until("two tasks run", func() bool {
		out, err := f.query("select count(*) from skein.attempt where state = 'running'")
		return err == nil && out == "2"
	})
	if err := f.standby.Hold(f.pg); err != nil {
		t.Fatal(err)
	}
	f.open(dir, "long0", "long1")
	f.stated("succeeded", ids[0], ids[1])
	f.until("the third has begun", func() bool {
		_, err := os.Stat(filepath.Join(dir, "long2.begun"))
		return err == nil
	})
	f.failOver()
	f.open(dir, "long2")
	f.stated("succeeded", ids...)
}
