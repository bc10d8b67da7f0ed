//go:build linux

package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/extension"
	skein "skein.dev/skein/sdk"
)

// jobServer plays another system, which runs jobs for tasks: a file want/NAME begins a job once, end/NAME
// ends it, and pid/NAME exists while the job runs. Its jobs are not children of any attempt.
type jobServer struct {
	dir   string
	mu    sync.Mutex
	begun map[string]int
}

func newJobServer(t *testing.T, dir string) *jobServer {
	s := &jobServer{dir: dir, begun: map[string]int{}}
	for _, sub := range []string{"want", "end", "pid"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		jobs := map[string]*exec.Cmd{}
		for {
			s.look(t, jobs)
			select {
			case <-over:
				for _, cmd := range jobs {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
				}
				return
			case <-time.After(20 * time.Millisecond): // the pause between two looks
			}
		}
	})
	t.Cleanup(func() { close(over); wg.Wait() })
	return s
}

func (s *jobServer) look(t *testing.T, jobs map[string]*exec.Cmd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range entries(filepath.Join(s.dir, "want")) {
		if s.begun[name] > 0 {
			continue
		}
		s.begun[name]++
		cmd := exec.Command("sleep", "900")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Error(err)
			continue
		}
		jobs[name] = cmd
		_ = os.WriteFile(filepath.Join(s.dir, "pid", name), fmt.Append(nil, cmd.Process.Pid), 0o600)
	}
	for _, name := range entries(filepath.Join(s.dir, "end")) {
		if cmd := jobs[name]; cmd != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			delete(jobs, name)
			_ = os.Remove(filepath.Join(s.dir, "pid", name))
		}
	}
}

func entries(dir string) (names []string) {
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// running returns the names of the jobs that run, and the number of jobs that were ever begun.
func (s *jobServer) running() (names []string, begun int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.begun {
		begun += n
	}
	return entries(filepath.Join(s.dir, "pid")), begun
}

// outsideTask returns a task that runs a job of a job server, adopts it after a loss, and ends it by its
// release.
func outsideTask(dir, more string) string {
	return fmt.Sprintf(`
  work:
    run: |
      job=job$SKEIN_TOKEN
      if [ -s "$SKEIN_EARLIER" ]; then job=$(sed 's/.*"handle":"\([^"]*\)".*/\1/' "$SKEIN_EARLIER"); fi
      touch %[1]s/want/$job
      until [ -e %[1]s/pid/$job ]; do sleep 0.02; done
      echo $job > "$SKEIN_HANDLE"
      sleep 600
    release: |
      job=$(sed 's/.*"handle":"\([^"]*\)".*/\1/' "$SKEIN_INPUT")
      [ -e %[1]s/tried ] || { touch %[1]s/tried; exit 1; }
      touch %[1]s/end/$job
      while [ -e %[1]s/pid/$job ]; do sleep 0.02; done
    adopts: true
%[2]s`, dir, more)
}

// hasHandle reports whether the handle of an attempt is stored.
func hasHandle(t *testing.T, c *skein.Client, run string, token int) bool {
	for e, err := range c.EachEvent(t.Context(), run) {
		if err != nil {
			return false
		}
		if e.Kind == "handle" && deref(e.Token) == int64(token) {
			return true
		}
	}
	return false
}

// TestHandleIsAdopted: the keeper, and then the whole node, are killed while a task runs a job of another
// system. There is only one job, and each next attempt adopts it. A stop of the run ends the job, although
// the first try to end it fails.
func TestHandleIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	jobs := newJobServer(t, w.dir)
	p := w.server("--slots", "2")
	p.apply("outside", outsideTask(w.dir, ""))
	id := p.begin("outside", nil)
	w.eventually("the first attempt has a handle", func() bool { return hasHandle(t, p.Client, id, 1) })
	killKeeper(t, w.data)
	w.eventually("the second attempt has it", func() bool { return hasHandle(t, p.Client, id, 2) })
	p.kill()
	killKeeper(t, w.data)
	p = w.server("--slots", "2")
	w.eventually("the third attempt has it", func() bool { return hasHandle(t, p.Client, id, 3) })
	if names, begun := jobs.running(); begun != 1 || strings.Join(names, " ") != "job1" {
		t.Errorf("%d jobs were begun, these run: %v", begun, names)
	}
	if _, err := p.StopRun(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	run := p.wantState(id, "stopped")
	if names, _ := jobs.running(); len(names) > 0 {
		t.Errorf("the run has ended, and its jobs run: %v", names)
	}
	if a := run.Tasks[0].Attempts; len(a) != 3 || a[0].State != "lost" || a[1].State != "lost" || a[2].State != "stopped" {
		t.Errorf("the attempts are %+v", a)
	}
	p.stop()
	w.verify()
}

// jobKind makes an extension with a kind that runs a job of a job server, as the task of outsideTask does.
func jobKind(t *testing.T, jobs string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	at := filepath.Join(folder, "job")
	const value = `sed 's/.*"%s":"\([^"]*\)".*/\1/'`
	run := fmt.Sprintf(`#!/bin/sh
job=$(`+value+` "$SKEIN_INPUT")
if [ -s "$SKEIN_EARLIER" ]; then job=$(`+value+` "$SKEIN_EARLIER"); fi
touch %[3]s/want/$job
until [ -e %[3]s/pid/$job ]; do sleep 0.02; done
echo $job > "$SKEIN_HANDLE"
sleep 600
`, "name", "handle", jobs)
	end := fmt.Sprintf(`#!/bin/sh
job=$(`+value+` "$SKEIN_INPUT")
touch %[2]s/end/$job
while [ -e %[2]s/pid/$job ]; do sleep 0.02; done
`, "handle", jobs)
	manifest := "extension: 1\nname: job\nversion: 1.0.0\nkinds: {job: {run: [./run.sh], release: [./end.sh], adopts: true}}\n"
	if err := errors.Join(os.Mkdir(at, 0o755), os.WriteFile(filepath.Join(at, extension.FileName), []byte(manifest), 0o644),
		os.WriteFile(filepath.Join(at, "run.sh"), []byte(run), 0o755), os.WriteFile(filepath.Join(at, "end.sh"), []byte(end), 0o755)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestHandleOfWorker: a worker and its keeper are killed while a kind of an extension runs a job of another
// system. The next worker adopts the job, and the kind releases it when the run is stopped. Neither while the
// tasks run nor afterwards, a secret and a secret parameter of them can be found in the database, the data
// folders, the logs, or the arguments and environments of other processes.
func TestHandleOfWorker(t *testing.T) {
	t.Parallel()
	dir, c := t.TempDir(), newCanaries(t, 2)
	key, param, told := filepath.Join(dir, "secret.key"), filepath.Join(dir, "param"), filepath.Join(dir, "told")
	err := errors.Join(os.WriteFile(key, []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))), 0o600), os.WriteFile(param, []byte(c.values[1]), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	f := newFlight(t, 1, "SKEIN_ROLES=api,scheduler", "SKEIN_SECRET_KEY_FILE="+key)
	node := f.members[0]
	node.home.run("node", "log-level", "n1", "debug")
	set := node.home.cmd("secret", "set", "CANARY")
	set.Stdin = strings.NewReader(c.values[0])
	if out, err := set.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	jobs := newJobServer(t, dir)
	w := f.worker("w1", "--slots", "2", "--log-level", "debug", "--extensions", jobKind(t, dir))
	f.listed(2)
	node.apply("outside", fmt.Sprintf(`
  work: {kind: job, with: {name: job-7, a: "${{ secrets.CANARY }}", b: "${{ params.token }}"}}
  env: {run: 'echo "$A $B"; echo "$A" | base64; echo $$ > %[1]s.new; mv %[1]s.new %[1]s-$SKEIN_TOKEN; sleep 600', env: {A: "${{ secrets.CANARY }}", B: "${{ params.token }}"}}
params: {token: secret}
`, told))
	run := strings.TrimSpace(string(node.home.run("run", "--detach", "-o", "name", "--param-file", "token="+param, "--", "outside")))
	f.until("the first attempt has a handle", func() bool { return hasHandle(t, node.client, run, 1) })
	f.until("the other task runs", func() bool { _, err := os.Stat(told + "-1"); return err == nil })
	w.kill()
	killKeeper(t, w.home.data())
	logs := w.log
	w.start()
	f.until("the second attempt has it", func() bool { return hasHandle(t, node.client, run, 2) })
	if names, begun := jobs.running(); begun != 1 || strings.Join(names, " ") != "job-7" {
		t.Errorf("%d jobs were begun, these run: %v", begun, names)
	}
	var attempt int
	f.until("the other task runs again", func() bool {
		text, err := os.ReadFile(told + "-2")
		_, _ = fmt.Sscan(string(text), &attempt)
		return err == nil
	})
	c.notStored(f)
	if !c.notShown(attempt, node.server.Process.Pid, w.cmd.Process.Pid, keeperOf(w.home.data())) {
		t.Error("the attempt has no canary in its environment")
	}
	for _, folder := range []string{w.home.data(), node.home.data()} { // the input of the kind is in memory only
		if held := c.holders(folder); len(held) > 0 {
			t.Errorf("while the tasks run, canaries are in %v", held)
		}
	}
	if _, err := node.client.StopRun(t.Context(), run, ""); err != nil {
		t.Fatal(err)
	}
	f.until("the run ends", func() bool { return node.state(run) == "stopped" })
	if names, _ := jobs.running(); len(names) > 0 {
		t.Errorf("the run has ended, and its jobs run: %v", names)
	}
	var log []byte
	f.until("its log is there", func() bool { log = node.home.run("logs", run+"/env"); return len(log) > 0 })
	if c.notIn("the log of the task", log); !bytes.HasPrefix(log, []byte("*** ***\n")) {
		t.Errorf("the log of the task: %q", log)
	}
	c.notStored(f)
	c.notShown(0, node.server.Process.Pid, w.cmd.Process.Pid)
	w.stop()
	node.stop()
	c.notIn("the worker's log", append(logs.Bytes(), w.log.Bytes()...))
	c.notIn("the node's log", []byte(node.home.said.String()))
	for _, folder := range []string{w.home.data(), node.home.data()} {
		if held := c.holders(folder); len(held) > 0 {
			t.Errorf("after the end, canaries are in %v", held)
		}
	}
}
