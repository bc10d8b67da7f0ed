//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// loner is a server on SQLite that always starts at the same address.
type loner struct {
	*world
	address string
	p       *process
}

// newLoner starts a server whose workers keep their attempts for longer than any restart takes.
func newLoner(t *testing.T) *loner {
	w := newWorld(t)
	w.env = append(w.env, "SKEIN_HEARTBEAT=500ms", "SKEIN_LAG=60s", "SKEIN_LEASE=45s")
	l := &loner{world: w}
	l.p = w.server()
	l.address = strings.TrimPrefix(l.p.url, "http://")
	return l
}

// again starts the server at the same address.
func (l *loner) again() {
	l.t.Helper()
	l.p = l.server("--listen", l.address)
}

// gopher starts the program with the task function. It finds the token of the server by itself.
func (l *loner) gopher(name string) *process {
	l.t.Helper()
	bin := filepath.Join(l.dir, "sdk-worker")
	self, err := os.Readlink(l.bin)
	if err != nil {
		l.t.Fatal(err)
	}
	_ = os.Remove(bin)
	if err := os.Symlink(self, bin); err != nil {
		l.t.Fatal(err)
	}
	p := &process{world: l.world, cmd: exec.Command(bin, "http://"+l.address, name), log: &transcript{}, ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = l.dir, l.env, p.log, p.log, time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	l.t.Cleanup(func() {
		p.kill()
		if l.t.Failed() {
			l.t.Logf("%s said:\n%s", name, p.log)
		}
	})
	return p
}

// gated applies a workflow with one task of the kind gated, and starts a run of it.
func (l *loner) gated() (run string) {
	l.t.Helper()
	l.p.apply("gated", fmt.Sprintf("  t: {kind: gated, outputs: {token: int}, retry: {max: 3, delay: 1ms}, with: {Begun: %q, Gate: %q, Done: %q}}\n",
		filepath.Join(l.dir, "begun"), filepath.Join(l.dir, "gate"), filepath.Join(l.dir, "done")))
	return l.p.begin("gated", nil)
}

// begins waits until an attempt has written its whole line. A worker that is killed before that leaves an empty
// file.
func (l *loner) begins() {
	l.t.Helper()
	l.appears("begun")
	l.eventually("the line of the attempt", func() bool { return strings.HasSuffix(l.read("begun"), "\n") })
}

// lines returns the attempts that a file names.
func (l *loner) lines(file string) []string {
	return strings.Fields(strings.ReplaceAll(l.read(file), " ", "/"))
}

// listed waits until a worker is listed. If want is false, it waits until the worker is not listed.
func (l *loner) listed(name string, want bool) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("worker %s listed: %v", name, want), func() bool {
		nodes, err := l.p.Nodes(l.t.Context())
		if err != nil {
			return false
		}
		is := false
		for _, n := range nodes.Items {
			is = is || n.Name == name
		}
		return is == want
	})
}

// TestGopherOfOneNode: a program with a task function works for a server on SQLite. First the server, then
// the worker, and then both are killed. As long as the worker lives, its attempt continues, and each effect
// happens once.
func TestGopherOfOneNode(t *testing.T) {
	t.Parallel()
	l := newLoner(t)
	run := l.gated()
	x, err := l.p.Explain(t.Context(), run, "t")
	if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "no_worker" {
		t.Errorf("without a worker it is explained as %+v, %v", x, err)
	}
	g := l.gopher("gopher")
	l.begins()
	l.listed("gopher", true)
	if o := l.skein("node", "list"); !strings.Contains(o.out, "gopher") || !strings.Contains(o.out, "gophers") {
		t.Errorf("the list of nodes: %v", o)
	}

	l.p.kill() // the attempt continues, and the next server gets its result
	l.again()
	l.listed("gopher", true)
	l.gate("gate")
	is := l.p.wantState(run, "succeeded")
	if n := len(is.Tasks[0].Attempts); n != 1 {
		t.Errorf("%d attempts after the server was killed", n)
	}
	if begun, done := l.lines("begun"), l.lines("done"); len(begun) != 1 || len(done) != 1 {
		t.Errorf("begun %q, done %q", begun, done)
	}
	l.eventually("the log is there", func() bool { return strings.Contains(l.p.logOf(run, "t", 1), "attempt 1 waits\n") })

	l.p.stop() // the next server declares workers dead after a short silence
	l.env = append(l.env, "SKEIN_LAG=4s", "SKEIN_LEASE=3s")
	l.again()

	l.forget("begun", "gate", "done") // the worker is killed: another one gets a new attempt
	run = l.gated()
	l.begins()
	g.kill()
	second := l.gopher("second")
	l.eventually("the second attempt", func() bool { return len(l.lines("begun")) == 2 })
	l.listed("gopher", false)
	l.gate("gate")
	l.p.wantState(run, "succeeded")
	if begun, done := l.lines("begun"), l.lines("done"); len(done) != 1 || begun[1] != done[0] || begun[0] == begun[1] {
		t.Errorf("begun %q, done %q", begun, done)
	}

	l.forget("begun", "gate", "done") // server and worker are killed
	run = l.gated()
	l.begins()
	l.p.kill()
	second.kill()
	l.again()
	l.gopher("third")
	l.eventually("the second attempt", func() bool { return len(l.lines("begun")) == 2 })
	l.gate("gate")
	l.p.wantState(run, "succeeded")
	if done := l.lines("done"); len(done) != 1 {
		t.Errorf("done %q", done)
	}
	l.verify()
}

// forget removes files of the world.
func (l *loner) forget(names ...string) {
	l.t.Helper()
	for _, n := range names {
		if err := os.Remove(filepath.Join(l.dir, n)); err != nil {
			l.t.Fatal(err)
		}
	}
}

// TestStopOfOneNode: a server that ends in order leaves the attempts of its workers to the next one, and a
// stop that is requested before the worker attaches again reaches the worker.
func TestStopOfOneNode(t *testing.T) {
	t.Parallel()
	l := newLoner(t)
	g := l.gopher("gopher")
	run := l.gated()
	l.begins()
	l.p.stop()
	g.signal(syscall.SIGSTOP)
	l.again()
	if _, err := l.p.StopRun(t.Context(), run, "enough"); err != nil {
		t.Fatal(err)
	}
	g.signal(syscall.SIGCONT)
	l.appears("cancelled")
	is := l.p.wantState(run, "stopped")
	if n := len(is.Tasks[0].Attempts); n != 1 {
		t.Errorf("%d attempts", n)
	}
	g.signal(syscall.SIGTERM)
	if code := g.wait(); code != exitOK {
		t.Errorf("the worker ended with %d: %s", code, g.log)
	}
	l.listed("gopher", false)
	l.verify()
}

// TestWorkerOfOneNode: a worker process of the program runs the tasks for a server on SQLite, which runs none
// itself. The server is killed while a task runs. The task gets files, and returns files.
func TestWorkerOfOneNode(t *testing.T) {
	t.Parallel()
	l := newLoner(t)
	l.p.stop()
	l.env = append(l.env, "SKEIN_ROLES=api,scheduler")
	l.again()
	q := l.start("worker", "--server", "http://"+l.address, "--name", "w1", "--group", "etl", "--data", filepath.Join(l.dir, "w1"), "--slots", "2")
	t.Cleanup(func() { endKeeper(t, filepath.Join(l.dir, "w1")) })
	l.listed("w1", true)
	gate := filepath.Join(l.dir, "gate")
	l.p.apply("files", `  make: {group: etl, run: "echo begun; echo x > `+filepath.Join(l.dir, "begun")+`; while [ ! -e `+gate+` ]; do sleep 0.01; done; echo made > out.txt; echo n=3 >> $SKEIN_OUTPUT", outputs: {n: int}, artifacts: [out.txt]}
  use: {needs: make, inputs: [make/out.txt], env: {N: "${{ tasks.make.outputs.n }}"}, run: "find . -name out.txt | xargs cat && echo got $N"}
`)
	run := l.p.begin("files", nil)
	l.begins()
	l.p.kill()
	l.again()
	l.gate("gate")
	is := l.p.wantState(run, "succeeded")
	for _, task := range is.Tasks {
		if len(task.Attempts) != 1 || task.Attempts[0].Node != "w1" {
			t.Errorf("task %s: %+v", task.Name, task.Attempts)
		}
	}
	l.eventually("the log of use", func() bool { return strings.Contains(l.p.logOf(run, "use", 1), "got 3") })
	if got := l.p.logOf(run, "make", 1); strings.Count(got, "begun") != 1 {
		t.Errorf("the log of make: %q", got)
	}
	if list, err := l.p.Artifacts(t.Context(), run, "make", 1); err != nil || len(list) != 1 {
		t.Errorf("artifacts: %+v, %v", list, err)
	}
	q.signal(syscall.SIGTERM)
	if code := q.wait(); code != exitOK {
		t.Errorf("the worker ended with %d", code)
	}
	l.listed("w1", false)
	l.verify()
}
