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

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// place is a folder by which tasks and a test exchange their progress.
type place struct {
	f   *flight
	dir string
}

func (f *flight) place() place { return place{f, f.t.TempDir()} }

func (p place) open(gate string) {
	p.f.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, gate), nil, 0o600); err != nil {
		p.f.t.Fatal(err)
	}
}

func (p place) appears(name string) {
	p.f.t.Helper()
	p.f.members[0].home.until(name, func() bool {
		_, err := os.Stat(filepath.Join(p.dir, name))
		return err == nil
	})
}

// attempts returns the attempts of a task.
func (m *member) attempts(run, task string) []api.Attempt {
	m.home.t.Helper()
	t, err := m.client.Task(m.home.t.Context(), run, task)
	if err != nil {
		m.home.t.Fatal(err)
	}
	return t.Attempts
}

// printed returns the whole log of a task's first attempt.
func (m *member) printed(run, task string) string {
	m.home.t.Helper()
	return string(m.home.run("logs", run+"/"+task, "--attempt", "1"))
}

// TestWorkerRestartAdopts: a worker is killed. Its keeper continues, and the next worker over the same data
// folder adopts the attempts under the same handler. Running attempts end under their tokens with complete
// logs. The ends of attempts in the meantime are reported, even if no other attempt ran and the keeper has
// ended, too. A worker of another name gets none of them.
func TestWorkerRestartAdopts(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 1, "SKEIN_ROLES=api,scheduler", "SKEIN_LAG=2m")
	node, p := f.members[0], f.place()
	w := f.worker("w1", "--slots", "4", "--lease", "60s", "--cpu", "4")
	f.listed(2)
	handler := f.row("handler", "w1")
	wait := func(gate string) string { return "until [ -e " + p.dir + "/" + gate + " ]; do sleep 0.05; done" }
	node.apply("on", fmt.Sprintf(`
  long: {resources: {cpu: 1}, run: "echo before; touch %[1]s/at-long; %[2]s; echo after $SKEIN_TOKEN"}
  between: {run: "touch %[1]s/at-between; %[3]s; echo k=v >> $SKEIN_OUTPUT; echo told; echo $SKEIN_TOKEN >> %[1]s/ran; touch %[1]s/did"}
  next: {run: "touch %[1]s/at-next", needs: between}
`, p.dir, wait("open"), wait("gone")))
	run := node.detach("on")
	p.appears("at-long")
	p.appears("at-between")
	for i := range 2 {
		w.kill()
		if i == 0 {
			p.open("gone")
			p.appears("did")
		}
		w.start()
		p.appears("at-next") // the worker is back, and its report has arrived
	}
	f.until("the room that an adopted attempt takes is counted", func() bool { return f.row("handler", "w1") == handler && node.nodes()["w1"].Slots.Busy == 1 })
	p.open("open")
	f.until("the run ends", func() bool { return node.state(run) == "succeeded" })
	for task, log := range map[string]string{"long": "before\nafter 1\n", "between": "told\n", "next": ""} {
		if a := node.attempts(run, task); len(a) != 1 {
			t.Errorf("%s has the attempts %+v", task, a)
		}
		if task != "next" {
			f.until("the whole log of "+task, func() bool { return node.printed(run, task) == log })
		}
	}
	if ran, err := os.ReadFile(filepath.Join(p.dir, "ran")); string(ran) != "1\n" {
		t.Errorf("between ran as %q, %v", ran, err)
	}

	node.apply("alone", fmt.Sprintf("  a: {run: \"touch %[1]s/at-alone; %[2]s; echo told\"}\n", p.dir, wait("alone")))
	run = node.detach("alone")
	p.appears("at-alone")
	w.kill()
	p.open("alone")
	f.until("the keeper has nothing to keep any more", func() bool { return keeperOf(w.home.data()) == 0 })
	w.start()
	f.until("the end is told", func() bool { return node.state(run) == "succeeded" })
	if a := node.attempts(run, "a"); len(a) != 1 {
		t.Errorf("a has the attempts %+v", a)
	}
	f.until("its log is there", func() bool { return node.printed(run, "a") == "told\n" })
	f.until("the worker is one of its own again", func() bool { h := f.row("handler", "w1"); return h != "" && h != handler })

	// A worker does not adopt the attempts of another worker.
	mark := fmt.Sprint("other", os.Getpid())
	node.apply("other", fmt.Sprintf("  a: {node: w1, run: \"touch %[1]s/at-other; sleep 600; : %[2]s\"}\n", p.dir, mark))
	run = node.detach("other")
	p.appears("at-other")
	w.kill()
	w.name = "w2"
	w.start()
	f.until("w2 is there", func() bool { return f.row("handler", "w2") != "" })
	if left := processesWith(mark); len(left) > 0 {
		t.Errorf("still alive: %v", left)
	}
	if _, err := node.client.StopRun(t.Context(), run, ""); err != nil {
		t.Fatal(err)
	}
	w.stop()
	if k := keeperOf(w.home.data()); k != 0 {
		t.Errorf("the worker has stopped, its keeper %d has not", k)
	}
}

// TestWorkerBeyondLease: a worker is frozen for longer than its lease. Its keeper ends the attempt before
// it runs elsewhere. After the thaw the worker registers again.
func TestWorkerBeyondLease(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 1, "SKEIN_ROLES=api,scheduler")
	node, p := f.members[0], f.place()
	w := f.worker("w1", "--slots", "1")
	f.listed(2)
	mark := fmt.Sprint("beyond", os.Getpid())
	t.Cleanup(func() {
		if t.Failed() {
			all, _ := exec.Command("ps", "-eo", "pid,ppid,pgid,sid,stat,lstart,args").Output()
			for line := range strings.Lines(string(all)) {
				if strings.Contains(line, mark) || strings.Contains(line, w.home.data()) {
					t.Log(line)
				}
			}
			said, err := os.ReadFile(filepath.Join(w.home.data(), "work", "keeper.log"))
			t.Logf("the keeper: %s%v", said, err)
		}
		for _, pid := range processesWith(mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	// The processes of the first attempt differ from those of the second. One of them has no living parent.
	script := filepath.Join(p.dir, "a.sh")
	text := fmt.Sprintf(`[ -z "$(ps -eo args= | grep '[1]-%[2]s')" ] || echo overlap >> %[1]s/overlap
touch %[1]s/at-$SKEIN_TOKEN
[ $SKEIN_TOKEN -gt 1 ] || { setsid sh -c 'while :; do sleep 1; done; : 1-%[2]s' & sleep 600; }
`, p.dir, mark)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	node.apply("held", "  a: {run: [sh, "+script+"]}\n")
	run := node.detach("held")
	p.appears("at-1")
	handler := f.row("handler", "w1")
	other := f.worker("w2", "--slots", "1")
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.until("all is gone with the lease", func() bool { return len(processesWith("1-"+mark)) == 0 })
	f.until("it ran elsewhere", func() bool { return node.state(run) == "succeeded" })
	if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.until("the worker joins anew", func() bool { h := f.row("handler", "w1"); return h != "" && h != handler })
	if a := node.attempts(run, "a"); len(a) != 2 || a[0].State != "lost" {
		t.Errorf("attempts: %+v", a)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "overlap")); err == nil {
		t.Error("the attempt of the frozen worker lived when the next one began")
	}
	if page, err := node.client.Runs(t.Context(), skein.RunsQuery{State: "active"}); err != nil || len(page.Items) != 0 {
		t.Errorf("runs that go on: %v, %v", page, err)
	}
	if out := string(node.home.run("verify")); !strings.Contains(out, `"violations": []`) {
		t.Errorf("verify: %s", out)
	}
	w.stop()
	other.stop()
}
