//go:build linux

package main

import (
	"strings"
	"testing"
)

// TestPointInTime recovers the database to a point in time, from a base backup and the server's log, while the node
// is stopped and while it runs. A task that had ended after that time is done again under a token of a new era. A
// run that was started after it is gone, and so is its attempt.
func TestPointInTime(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"stopped": true, "running": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &failover{flight: newFlight(t, 1)}
			m, dir := f.members[0], t.TempDir()
			if err := f.pg.BackUp(); err != nil {
				t.Fatal(err)
			}
			f.gated("ends", dir)
			f.late(dir, "")
			ends := m.detach("ends")
			f.until("its attempt runs", func() bool {
				out, err := f.query("select count(*) from skein.attempt where state = 'running'")
				return err == nil && out == "1"
			})
			to, err := f.pg.Ask("postgres", "SELECT clock_timestamp()")
			if err != nil {
				t.Fatal(err)
			}
			f.open(dir, "ends")
			f.stated("succeeded", ends)
			late := f.lateBegins(dir)
			if stopped {
				f.open(dir, "late")
				f.stated("succeeded", late)
				m.stop()
			}
			if err := f.pg.Recover(to); err != nil {
				t.Fatal(err)
			}
			if stopped {
				m.start()
			}
			f.until("the node tells", func() bool {
				return m.metric("skein_store_regressed_total") >= "1" && strings.Contains(m.home.said.String(), "code=store_regressed")
			})
			f.regressed(ends)
			f.stated("succeeded", ends)
			f.tokens(dir, "ends")
			f.lateIsGone(dir, late)
		})
	}
}
