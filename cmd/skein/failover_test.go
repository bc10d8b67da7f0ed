//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// failover is a cluster over a primary and a standby, with certificates and tokens. Its nodes know both
// servers, and use the one that accepts writes.
type failover struct {
	*flight
	standby  *pgtest.Server
	promoted time.Time // the start of the last promotion
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

// failOver kills the primary and promotes the standby with the data that it has received.
func (f *failover) failOver() {
	f.t.Helper()
	if err := f.pg.Kill(); err != nil {
		f.t.Fatal(err)
	}
	f.promoted = time.Now()
	if err := f.standby.Promote(); err != nil {
		f.t.Fatal(err)
	}
	f.pg, f.standby = f.standby, f.pg
}

// gated applies a workflow of one task that ends when its gate is opened, and writes down the tokens under
// which it begins. The parameter more has further fields of the task.
func (f *failover) gated(name, dir string, more ...string) {
	f.t.Helper()
	f.members[0].apply(name, "  a: {"+strings.Join(more, " ")+" run: 'echo $SKEIN_TOKEN >> "+filepath.Join(dir, name+".begun")+
		"; until [ -e "+filepath.Join(dir, name+".gate")+" ]; do sleep 0.05; done'}\n")
}

// late applies a workflow of one task that notes its process and ends when its gate is opened. The parameter
// more has further fields of the task.
func (f *failover) late(dir, more string) {
	f.t.Helper()
	f.members[0].apply("late", fmt.Sprintf("  a: {%s run: 'echo $$ > %s.new; mv %[2]s.new %[2]s; until [ -e %s ]; do sleep 0.05; done'}\n",
		more, filepath.Join(dir, "late.pid"), filepath.Join(dir, "late.gate")))
}

// lateBegins starts the late workflow and waits until its task runs. It waits until the worker has the answer
// to its report that the task runs, because a later answer would tell the worker to end the attempt.
func (f *failover) lateBegins(dir string) (id string) {
	f.t.Helper()
	id = f.members[0].detach("late")
	f.until("the late attempt runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, "late.pid"))
		all := f.members[0].attempts(id, "a")
		return err == nil && len(all) == 1 && all[0].State == "running"
	})
	return id
}

// lateIsGone checks that the database does not know the late run, and waits until its process is gone.
func (f *failover) lateIsGone(dir, id string) {
	f.t.Helper()
	if _, err := f.members[0].client.Run(f.t.Context(), id); !errors.Is(err, skein.ErrNotFound) {
		f.t.Errorf("the run of the lost time: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "late.pid"))
	if err != nil {
		f.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		f.t.Fatal(err)
	}
	f.until("the attempt of the lost time has ended", func() bool { return syscall.Kill(pid, 0) != nil })
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

// TestFailoverEndsLostAttempts fails over to a standby that lacks the last moment before the failover. In
// this lost time, two runs have ended, and a third has begun. According to the rows of the standby, the first
// two still run, on workers that reported their ends long ago, and the third has not begun. Each run ends,
// and none waits for a sweep, because there is no sweep. A fourth run was started in the lost time, on a
// third worker. No row knows it, but its process ends too.
func TestFailoverEndsLostAttempts(t *testing.T) {
	t.Parallel()
	f := newFailover(t, 1, "SKEIN_ROLES=api,scheduler")
	f.worker("w1", "--slots", "1", "--group", "two")
	f.worker("w2", "--slots", "1", "--group", "two")
	f.worker("w3", "--slots", "1", "--group", "third")
	f.listed(4)
	dir := t.TempDir()
	f.late(dir, "group: third,")
	var ids []string
	for i := range 3 {
		f.gated(fmt.Sprint("long", i), dir, "group: two,")
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
	late := f.lateBegins(dir)
	f.failOver()
	f.open(dir, "long2")
	f.stated("succeeded", ids...)
	f.endedAgain(ids)
	f.lateIsGone(dir, late)
	say("kept") // the new version has the same number as the version that the database lost
	f.regressed(ids...)
	f.tokens(dir, "long0", "long1", "long2")
}

// endedAgain checks that runs have ended since the promotion, and logs how long that took.
func (f *failover) endedAgain(ids []string) {
	f.t.Helper()
	var took time.Duration
	for _, id := range ids {
		run, err := f.members[0].client.Run(f.t.Context(), id)
		if err != nil || run.FinishedAt == nil || !run.FinishedAt.After(f.promoted) {
			f.t.Fatalf("run %s ended at %v, which is not after the promotion at %v: %v", id, run.FinishedAt, f.promoted, err)
		}
		took = max(took, run.FinishedAt.Sub(f.promoted))
	}
	f.t.Logf("the last of the runs ended %.1f s after the promotion", took.Seconds())
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

// metric returns the value of a metric without labels, or "" if there is no such metric.
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

// TestFailoverWithoutLoss fails over to a synchronous standby. All acknowledged commits are there, a
// running attempt continues under its token, and no regress is reported.
func TestFailoverWithoutLoss(t *testing.T) {
	t.Parallel()
	f := newFailover(t, 2)
	f.listed(2)
	if err := f.pg.Follow(); err != nil {
		t.Fatal(err)
	}
	if out := f.doctor(); !strings.Contains(out, "1 standbys, 1 of them synchronous") {
		t.Errorf("doctor does not tell that the standby is synchronous: %s", out)
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
		if got, err := strconv.Atoi(m.metric("skein_store_reconnects_total")); err != nil || got == 0 {
			t.Errorf("%s counts %d connections that failed, %v", m.name, got, err)
		}
		if got := m.metric("skein_store_regressed_total"); got != "0" || strings.Contains(m.home.said.String(), "store_regressed") {
			t.Errorf("%s tells that the database went back: metric %s, log:\n%s", m.name, got, m.home.said)
		}
	}
}

// TestTokenOfALostOwner fails over to an earlier state in which a node owns a shard, although another node
// took the shard and issued a token in the lost time. The first node was frozen, so it does not know this,
// and the second node is frozen when the first one writes. The first node issues a token of a new era. When
// the second node continues, it reports the loss, and the attempt of the new era continues.
func TestTokenOfALostOwner(t *testing.T) {
	t.Parallel()
	f := newFailover(t, 2)
	f.listed(2)
	first, second := f.members[0], f.members[1]
	signal := func(m *member, s syscall.Signal) {
		t.Helper()
		if err := m.server.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	first.apply("again", "  ok: {approval: {}}\n  a: {needs: [ok], run: 'echo $SKEIN_TOKEN >> "+filepath.Join(dir, "again.begun")+
		"; until [ -e "+filepath.Join(dir, "again.gate")+" ]; do sleep 0.05; done'}\n")
	first.home.run("node", "move", "again", first.name)
	f.until("the first node owns the workflow", func() bool { return f.ownerOf("again") == first.name })
	id := first.detach("again")
	f.until("the approval waits", func() bool {
		task, err := first.client.Task(t.Context(), id, "ok")
		return err == nil && task.State == "deferred"
	})
	begins := func(by *member, times int) {
		t.Helper()
		f.until(fmt.Sprintf("%s begins attempt %d", by.name, times), func() bool {
			_, _ = by.client.ApproveTask(t.Context(), id, "ok", api.ApproveRequest{})
			text, _ := os.ReadFile(filepath.Join(dir, "again.begun"))
			return strings.Count(string(text), "\n") == times
		})
	}
	signal(first, syscall.SIGSTOP) // this node is frozen first, so that it reads nothing of the lost time
	if err := f.standby.Hold(f.pg); err != nil {
		t.Fatal(err)
	}
	if is := f.ownerOf("again"); is != first.name {
		t.Logf("%s has taken the workflow before the standby was held: the earlier state names it, too", is)
	}
	f.until("the second node owns the workflow", func() bool { return f.ownerOf("again") == second.name })
	begins(second, 1)
	signal(second, syscall.SIGSTOP)
	f.failOver()
	signal(first, syscall.SIGCONT)
	begins(first, 2)
	f.tokens(dir, "again")
	signal(second, syscall.SIGCONT)
	f.until("the first node knows of the loss", func() bool { return first.metric("skein_store_regressed_total") == "1" })
	f.regressed(id)
	f.open(dir, "again")
	f.stated("succeeded", id)
	if text, err := os.ReadFile(filepath.Join(dir, "again.begun")); err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("the task began under the tokens %q, %v", text, err)
	}
}

// TestRecoveredWhileStopped restores an earlier state of the database while no node runs. The node that
// starts notices it from the file in its data folder. Tasks whose ends were lost run again, under new tokens.
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

// doctor returns the output of `skein doctor`. The command fails, because the test's servers do not sync.
func (f *failover) doctor() string {
	f.t.Helper()
	out, err := f.members[0].home.cmd("doctor", "--db", f.db).Output()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		f.t.Fatal(err)
	}
	return string(out)
}

// regressed checks that the log, the metrics and the commands report that the database went back to an
// earlier state.
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
	if out := f.doctor(); !strings.Contains(out, "store_regressed") {
		f.t.Errorf("doctor does not tell: %s", out)
	}
}
