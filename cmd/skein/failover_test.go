//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

// failover is a cluster over a primary and a standby, with certificates and tokens. Its nodes know both
// servers and follow the one that takes writes.
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
	says := filepath.Join(dir, "says")
	version := func(word string) {
		t.Helper()
		f.members[0].apply("says", fmt.Sprintf("\n  a: {run: \"echo %s > %s\"}\n", word, says))
	}
	version("first")
	if err := f.standby.Hold(f.pg); err != nil {
		t.Fatal(err)
	}
	f.open(dir, "long0", "long1")
	f.stated("succeeded", ids[0], ids[1])
	f.until("the third has begun", func() bool {
		_, err := os.Stat(filepath.Join(dir, "long2.begun"))
		return err == nil
	})
	say := func(word string) {
		t.Helper()
		version(word)
		f.stated("succeeded", f.members[0].detach("says"))
		if text, err := os.ReadFile(says); err != nil || strings.TrimSpace(string(text)) != word {
			t.Errorf("the version that says %s said %q, %v", word, text, err)
		}
	}
	say("lost")
	f.failOver()
	f.open(dir, "long2")
	f.stated("succeeded", ids...)
	say("kept") // it has the number of the version that the database lost
	f.regressed(ids...)
	f.tokens(dir, "long0", "long1", "long2")
}

// tokens checks that no task has begun twice under one token, and that each began again in a new
// era.
func (f *failover) tokens(dir string, names ...string) {
	f.t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name+".begun"))
		if err != nil {
			f.t.Fatal(err)
		}
		begun := strings.Fields(string(text))
		last, err := strconv.Atoi(begun[len(begun)-1])
		if err != nil || last <= dag.TokensOfEra {
			f.t.Errorf("%s began last under token %q (%v), which is of no new era", name, begun[len(begun)-1], err)
		}
		slices.Sort(begun)
		if all := len(begun); len(slices.Compact(begun)) != all {
			f.t.Errorf("%s began twice under one of the tokens %v", name, begun)
		}
	}
}

// metric is the value of a metric without labels; "": it is not there.
func (m *member) metric(name string) string {
	m.home.t.Helper()
	res, err := m.get("/metrics")
	if err != nil {
		m.home.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		m.home.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, name+" "); is {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestFailoverWithoutLoss fails over to a synchronous standby: all that was acknowledged is there,
// an attempt that runs goes on under its token, and nothing is told.
func TestFailoverWithoutLoss(t *testing.T) {
	t.Parallel()
	f := newFailover(t, 2)
	f.listed(2)
	if err := f.pg.Follow(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f.gated("runs", dir)
	f.gated("ends", dir)
	runs := f.members[0].detach("runs")
	f.until("the first has begun", func() bool {
		out, err := f.query("select count(*) from skein.attempt where state = 'running'")
		return err == nil && out == "1"
	})
	f.open(dir, "ends")
	var ended []string
	for range 5 {
		ended = append(ended, f.members[1].detach("ends"))
		f.stated("succeeded", ended[len(ended)-1])
	}
	f.failOver()
	after := f.members[0].detach("ends")
	f.open(dir, "runs")
	f.stated("succeeded", append(ended, runs, after)...)
	if text, err := os.ReadFile(filepath.Join(dir, "runs.begun")); err != nil || string(text) != "1\n" {
		t.Errorf("the attempt that ran began under the tokens %q, %v", text, err)
	}
	for _, m := range f.members {
		if got := m.metric("skein_store_regressed_total"); got != "0" || strings.Contains(m.home.said.String(), "store_regressed") {
			t.Errorf("%s tells that the database went back: metric %s, log:\n%s", m.name, got, m.home.said)
		}
	}
}

// TestRecoveredWhileStopped takes the database back to an earlier state while no node runs. The
// node that starts finds it by what it has written into its data folder: what ended in the lost
// time is done again, under a new token.
func TestRecoveredWhileStopped(t *testing.T) {
	t.Parallel()
	f := newFailover(t, 1)
	dir := t.TempDir()
	f.gated("lost", dir)
	id := f.members[0].detach("lost")
	f.until("it has begun", func() bool {
		out, err := f.query("select count(*) from skein.attempt where state = 'running'")
		return err == nil && out == "1"
	})
	if err := f.standby.Hold(f.pg); err != nil {
		t.Fatal(err)
	}
	f.open(dir, "lost")
	f.stated("succeeded", id)
	f.members[0].stop()
	f.failOver()
	f.members[0].start()
	f.stated("succeeded", id)
	f.regressed(id)
	f.tokens(dir, "lost")
}

// regressed checks that each place tells that the database went back.
func (f *failover) regressed(ids ...string) {
	f.t.Helper()
	m := f.members[0]
	if said := m.home.said.String(); !strings.Contains(said, "level=ERROR") || !strings.Contains(said, "code=store_regressed") {
		f.t.Errorf("the log does not tell: %s", said)
	}
	if got := m.metric("skein_store_regressed_total"); got < "1" {
		f.t.Errorf("skein_store_regressed_total is %q", got)
	}
	for _, id := range ids {
		f.until("the history of run "+id+" tells", func() bool {
			for ev, err := range m.client.EachEvent(f.t.Context(), id) {
				if err == nil && ev.Text != nil && *ev.Text == "store_regressed" {
					return true
				}
			}
			return false
		})
	}
	out, _ := m.home.cmd("doctor", "--db", f.db).Output() // it says no: the server does not sync

	if !strings.Contains(string(out), "store_regressed") {
		f.t.Errorf("doctor does not tell: %s", out)
	}
}
