//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	api "skein.dev/skein/sdk/api/v1"
)

// TestRestartAdopts: the server is killed. Its keeper continues, and the next server adopts the attempts.
// Running attempts end under the same token with complete logs. The ends of attempts in the meantime are
// reported with their outputs, and nothing runs twice.
func TestRestartAdopts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server("--slots", "4")
	p.apply("on", fmt.Sprintf(`
  long: {run: "echo before; touch at-long; until [ -e %[1]s/open ]; do sleep 0.02; done; echo after $SKEIN_TOKEN"}
  between: {run: "touch at-between; until [ -e %[1]s/gone ]; do sleep 0.02; done; echo k=v >> $SKEIN_OUTPUT; echo $SKEIN_TOKEN >> ran; touch did"}
  next: {run: "touch at-next", needs: between}
`, w.dir))
	id := p.begin("on", nil)
	w.appears("at-long")
	w.appears("at-between")
	for i := range 3 {
		p.kill()
		if i == 0 {
			w.gate("gone")
			w.appears("did")
		}
		p = w.server("--slots", "4")
		w.appears("at-next") // an attempt that was assigned and has not begun would be lost, which is correct
	}
	w.gate("open")
	run := p.wantState(id, "succeeded")
	for i := range run.Tasks {
		if n := len(run.Tasks[i].Attempts); n != 1 {
			t.Errorf("%s has %d attempts: %+v", run.Tasks[i].Name, n, run.Tasks[i].Attempts)
		}
	}
	if got := string(taskOf(t, &run, "between").Outputs); got != `{"k":"v"}` || w.read("ran") != "1\n" {
		t.Errorf("outputs %s, ran %q", got, w.read("ran"))
	}
	if got := p.logOf(id, "long", 1); got != "before\nafter 1\n" {
		t.Errorf("the log is %q", got)
	}
	// Adopted attempts can be ended, and hold no slot afterwards.
	p.apply("stopped", "  a: {run: 'touch at-stopped; sleep 600'}\n")
	id = p.begin("stopped", nil)
	w.appears("at-stopped")
	p.kill()
	p = w.server("--slots", "4")
	if _, err := p.StopRun(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	p.wantState(id, "stopped")
	p.stop()
	w.verify()
}

// TestLeaseWithoutServer: if no server returns before the lease ends, all attempts are killed, and the keeper
// ends. A later server runs the task again.
func TestLeaseWithoutServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mark := fmt.Sprint("lease", os.Getpid())
	w.leaveNothing(mark)
	p := w.server("--lease", "1s")
	p.apply("left", fmt.Sprintf(`
  a: {run: "[ $SKEIN_TOKEN -gt 1 ] || { setsid env -i sh -c 'while :; do /bin/sleep 1; done; : %[1]s' & touch at-a; sleep 600; : %[1]s; }"}
`, mark))
	id := p.begin("left", nil)
	w.appears("at-a")
	p.kill()
	w.eventually("all is gone with the lease", func() bool { return len(processesWith(mark)) == 0 && keeperOf(w.data) == 0 })
	p = w.server("--lease", "1s")
	run := p.wantState(id, "succeeded")
	if a := run.Tasks[0].Attempts; len(a) != 2 || a[0].State != "lost" {
		t.Errorf("attempts: %+v", a)
	}
	p.stop()
	w.verify()
}

// TestFrozenBeyondLease: server, keeper, or both are frozen for longer than the lease. The actions of an old
// holder have no effect, its processes are ended, and the tasks run again.
func TestFrozenBeyondLease(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"server", "keeper", "both"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mark := fmt.Sprint("frozen", who, os.Getpid())
			w.leaveNothing(mark)
			p := w.server("--lease", "2s")
			p.apply("held", fmt.Sprintf(`
  a: {run: "[ $SKEIN_TOKEN -gt 1 ] || { setsid sh -c 'sleep 601; : %[1]s' & touch at-a; sleep 602; : %[1]s; }"}
`, mark))
			id := p.begin("held", nil)
			w.appears("at-a")
			keeper := keeperOf(w.data)
			if who != "server" {
				if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if who != "keeper" {
				p.signal(syscall.SIGSTOP)
			}
			switch who {
			case "server": // the keeper does not wait for the server
				w.eventually("all is gone with the lease", func() bool { return len(processesWith(mark)) == 0 })
			case "keeper": // the server does not wait for the keeper
				w.eventually("the keeper was replaced", func() bool { k := keeperOf(w.data); return k != 0 && k != keeper })
			case "both":
				frozenFor(t, 3)
				if err := syscall.Kill(keeper, syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			p.signal(syscall.SIGCONT)
			run := p.wantState(id, "succeeded")
			if a := run.Tasks[0].Attempts; len(a) != 2 || a[0].State != "lost" {
				t.Errorf("attempts: %+v", a)
			}
			if left := processesWith(mark); len(left) > 0 {
				t.Errorf("still alive: %v", left)
			}
			p.stop()
			w.verify()
		})
	}
}

// frozenFor waits until the boot clock has advanced by a number of seconds.
func frozenFor(t *testing.T, seconds float64) {
	t.Helper()
	up := func() (s float64) {
		text, err := os.ReadFile("/proc/uptime")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Sscan(string(text), &s)
		return s
	}
	w := &world{t: t}
	began := up()
	w.eventually("it was long enough", func() bool { return up() > began+seconds })
}

// TestKeeperDies: the keeper is killed again and again, with tasks that resist their end. None of their
// processes is left when they run again, the server lives, and no token runs twice.
func TestKeeperDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const tasks, kills = 4, 5
	mark := fmt.Sprint("dies", os.Getpid())
	w.leaveNothing(mark)
	w.write("witness.sh", `#!/bin/sh
others=$(ps -eo pid=,args= | grep "[d]aemon-$1-$SKEIN_TASK-" | grep -v "daemon-$1-$SKEIN_TASK-$SKEIN_TOKEN " || true)
[ -z "$others" ] || echo "overlap $SKEIN_TASK $SKEIN_TOKEN: $others" >> witness
echo "begin $SKEIN_TASK $SKEIN_TOKEN" >> witness
setsid env -i sh -c "trap '' TERM HUP; while :; do /bin/sleep 0.2; done # daemon-$1-$SKEIN_TASK-$SKEIN_TOKEN " </dev/null >/dev/null 2>&1 &
touch at-$SKEIN_TASK-$SKEIN_TOKEN
until [ -e open ]; do sleep 0.02; done
`)
	var b strings.Builder
	for i := range tasks {
		fmt.Fprintf(&b, "  t%d: {run: [sh, ./witness.sh, %s]}\n", i, mark)
	}
	p := w.server("--slots", "8")
	o := w.skein("run", w.workflow("dying", b.String()), "--detach", "-o", "name")
	if o.code != exitOK {
		t.Fatal(o)
	}
	for k := range kills {
		for i := range tasks {
			w.appears(fmt.Sprintf("at-t%d-%d", i, k+1))
		}
		killKeeper(t, w.data)
	}
	for i := range tasks {
		w.appears(fmt.Sprintf("at-t%d-%d", i, kills+1))
	}
	w.gate("open")
	run := p.wantState(strings.TrimSpace(o.out), "succeeded")
	begun := map[string]int{}
	for line := range strings.Lines(w.read("witness")) {
		if begun[line]++; begun[line] > 1 || strings.HasPrefix(line, "overlap") {
			t.Errorf("witness: %s", line)
		}
	}
	for i := range run.Tasks {
		if n := len(run.Tasks[i].Attempts); n != kills+1 {
			t.Errorf("%s has %d attempts", run.Tasks[i].Name, n)
		}
	}
	if left := processesWith("daemon-" + mark); len(left) > 0 {
		t.Errorf("still alive: %v", left)
	}
	p.stop()
	if k := keeperOf(w.data); k != 0 {
		t.Errorf("the server has stopped, its keeper %d has not", k)
	}
	w.verify()
}

// wall is a proxy between a node and its database. While it is shut, nothing passes.
type wall struct {
	to string // path of the socket of the database server

	mu    sync.Mutex // protects following fields
	shut  bool
	conns []net.Conn
}

func newWall(t *testing.T, db string) (w *wall, through string) {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	name := ".s.PGSQL." + q.Get("port")  // the server listens in a folder
	dir, err := os.MkdirTemp("", "wall") // a short name, because the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	w = &wall{to: filepath.Join(q.Get("host"), name)}
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	t.Cleanup(func() {
		_ = l.Close()
		w.close(true)
	})
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go w.pass(in)
		}
	}()
	return w, u.String()
}

func (w *wall) pass(in net.Conn) {
	out, err := net.Dial("unix", w.to)
	w.mu.Lock()
	if err != nil || w.shut {
		w.mu.Unlock()
		_ = in.Close()
		if err == nil {
			_ = out.Close()
		}
		return
	}
	w.conns = append(w.conns, in, out)
	w.mu.Unlock()
	go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	_, _ = io.Copy(in, out)
	_ = in.Close()
}

// close shuts the wall, or opens it if shut is false.
func (w *wall) close(shut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = shut
	if shut {
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.conns = nil
	}
}

// TestKeepersOfACluster: a node that comes back within its lease continues its attempts. A node that is cut
// off alone from the database ends them before the other nodes begin them again.
func TestKeepersOfACluster(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 1)
	one := f.members[0]
	wall, through := newWall(t, f.db)
	two := &member{home: f.newHome(), name: "n2"}
	two.home.env = []string{"SKEIN_DB=" + through, "SKEIN_NAME=n2", "SKEIN_HEARTBEAT=500ms", "SKEIN_LAG=8s", "SKEIN_DRAIN=30s"}
	one.stop()
	one.home.env = append(one.home.env, "SKEIN_LAG=8s")
	one.start()
	f.members = append(f.members, two)
	two.start()
	f.listed(2)
	dir := t.TempDir()
	file := filepath.Join(dir, "w.yaml")
	text := fmt.Sprintf(`name: w
tasks:
  a: {run: [sh, %[1]s/a.sh]}
`, dir)
	// The command lines of the attempts differ, so that the second attempt can find processes of the first one.
	script := fmt.Sprintf(`[ -z "$(ps -eo args= | grep '[c]utoff-1-%[2]d')" ] || echo overlap >> %[1]s/overlap
touch %[1]s/at-$SKEIN_TOKEN
sh -c "until [ -e %[1]s/open-$SKEIN_TOKEN ]; do sleep 0.05; done # cutoff-$SKEIN_TOKEN-%[2]d"
`, dir, os.Getpid())
	if err := os.WriteFile(filepath.Join(dir, "a.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(token int) {
		one.home.until(fmt.Sprint("attempt ", token), func() bool {
			_, err := os.Stat(filepath.Join(dir, fmt.Sprint("at-", token)))
			return err == nil
		})
	}
	two.home.run("workflow", "apply", file)
	one.home.run("node", "move", "w", "n2")
	one.home.until("w is on n2", func() bool { return f.ownerOf("w") == "n2" })
	id := one.detach("w")
	at(1)
	two.kill()
	two.start()
	one.home.until("w is on n2 again", func() bool { return f.ownerOf("w") == "n2" })
	attempts := func() []api.Attempt {
		run, err := one.client.Run(t.Context(), id)
		if err != nil {
			return nil
		}
		task, err := one.client.Task(t.Context(), run.ID, "a")
		if err != nil {
			return nil
		}
		return task.Attempts
	}
	if a := attempts(); len(a) != 1 {
		t.Fatalf("back within its lease: %+v", a)
	}
	wall.close(true)
	one.home.until("w is on n1", func() bool { return f.ownerOf("w") == "n1" })
	at(2)
	wall.close(false)
	if err := os.WriteFile(filepath.Join(dir, "open-2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one.home.run("run", "watch", id)
	if a := attempts(); len(a) != 2 || a[0].State != "lost" {
		t.Errorf("cut off: %+v", a)
	}
	if _, err := os.Stat(filepath.Join(dir, "overlap")); err == nil {
		t.Error("the attempt of the node that was cut off lived when the next one began")
	}
	f.listed(2)
}
