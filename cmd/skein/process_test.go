//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// world is a folder with the real program in it, a data folder and an environment of its own.
type world struct {
	t         testing.TB
	dir, data string
	home      string // the home folder of its user
	bin       string
	env       []string
}

// worldLevel is the level of isolation in a world. It is none, because tasks write records into folders of
// the test. The scripts in testdata run tasks at the default level.
const worldLevel = "SKEIN_ISOLATION=none"

func newWorld(t testing.TB) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts processes: see make test")
	}
	// Tasks cannot make files in a folder that holds the data folder or the home folder.
	dir, data, home := t.TempDir(), filepath.Join(t.TempDir(), "data"), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, data: data, home: home, bin: filepath.Join(dir, "skein")}
	// testscript.Main acts as the command under whose name the binary is called.
	if err := os.Symlink(self, w.bin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endKeeper(t, w.data) })
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + home + "/config", "TERM=dumb", "LANG=C.UTF-8",
		"SKEIN_LISTEN=127.0.0.1:0", "SKEIN_RECOVERY=off", "SKEIN_NAME=testnode", "SKEIN_DATA=" + w.data, worldLevel}
	return w
}

// keeperOf returns the pid of the keeper of a data folder, or 0 if there is none.
func keeperOf(data string) int {
	text, err := os.ReadFile(filepath.Join(data, "work", "keeper.lock"))
	if err != nil {
		return 0
	}
	var holder struct{ PID int }
	_ = json.Unmarshal(text, &holder) // if the file is not complete yet, there is no pid
	pid := holder.PID
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	real, _ := filepath.EvalSymlinks(data)
	if err != nil || !bytes.Contains(env, []byte("SKEIN_KEEPER="+real+"\x00")) {
		return 0
	}
	return pid
}

// endKeeper ends the keeper of a killed server, which would continue until its lease ends.
func endKeeper(t testing.TB, data string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		pid := keeperOf(data) // read only once, because a signal to 0 would go to every process of this test
		if pid == 0 {
			return
		}
		_ = syscall.Kill(pid, syscall.SIGTERM)
		_ = syscall.Kill(pid, syscall.SIGCONT)
		if time.Since(began) > awaitMax {
			t.Fatalf("the keeper of %s does not end", data)
		}
	}
}

// killKeeper ends the keeper of a data folder as a power cut would.
func killKeeper(t testing.TB, data string) {
	t.Helper()
	pid := keeperOf(data)
	if pid == 0 {
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	for began := time.Now(); keeperOf(data) == pid; time.Sleep(time.Millisecond) {
		if time.Since(began) > awaitMax {
			t.Fatal("the keeper does not die")
		}
	}
}

// crash ends the server and its keeper together, as a failure of the machine would.
func (p *process) crash() {
	p.t.Helper()
	p.kill()
	killKeeper(p.t, p.data)
}

// path returns the path of a file in the world, or name itself if it is absolute.
func (w *world) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.dir, name)
}

// write makes a file in the world and returns its path.
func (w *world) write(name, content string) string {
	w.t.Helper()
	path := w.path(name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// secret makes a file in the world that others cannot read, and returns its path.
func (w *world) secret(name, content string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// workflow writes a workflow file with the name of the workflow.
func (w *world) workflow(name, tasks string) string {
	w.t.Helper()
	return w.write(name+".yaml", "name: "+name+"\ntasks:\n"+tasks)
}

func (w *world) read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return string(b)
}

// gate makes a file that tasks wait for with [ -e name ].
func (w *world) gate(name string) { w.write(name, "") }

// outcome is the result of a call of the program.
type outcome struct {
	code        int // -1 if the program had to be killed
	out, err    string
	residentMax int64 // in bytes; 0 means that the program used less memory than this process
}

func (o outcome) String() string {
	return fmt.Sprintf("exit %d\nstdout: %.600s\nstderr: %.600s", o.code, o.out, o.err)
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.bin, args...)
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, // a test that panics leaves no process
		Setpgid: true} // a signal that a task sends to the group of its parent does not reach the test
	return cmd
}

// skein calls the program and waits for its end.
func (w *world) skein(args ...string) outcome {
	w.t.Helper()
	return w.call(w.command(args...))
}

// ok runs a command that must succeed, and returns what it prints.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	o := w.skein(args...)
	if o.code != 0 {
		w.t.Fatalf("skein %q: %v", args, o)
	}
	return o.out
}

func (w *world) call(cmd *exec.Cmd) outcome {
	w.t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	timer := time.AfterFunc(awaitMax, func() {
		w.t.Errorf("skein %.200q: it does not end", cmd.Args[1:])
		_ = cmd.Process.Signal(syscall.SIGQUIT) // SIGQUIT makes the program print the stacks of its goroutines
	})
	err := cmd.Wait()
	timer.Stop()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("skein %q: %v", cmd.Args[1:], err)
	}
	o := outcome{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
	var own syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	// Between fork and exec a process has the size of its parent. So smaller values prove nothing.
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && use.Maxrss > own.Maxrss {
		o.residentMax = use.Maxrss << 10
	}
	return o
}

// refused calls the program, and checks that it ends with the given code and that stderr contains all given
// texts.
func (w *world) refused(code int, says []string, args ...string) outcome {
	w.t.Helper()
	o := w.skein(args...)
	w.expect(o, code, says, args)
	return o
}

func (w *world) expect(o outcome, code int, says, args []string) {
	w.t.Helper()
	if o.code != code {
		w.t.Errorf("skein %.200q: want exit %d, got %v", args, code, o)
	}
	for _, s := range says {
		if !strings.Contains(o.err, s) {
			w.t.Errorf("skein %.200q: stderr does not say %q: %v", args, s, o)
		}
	}
	for _, s := range []string{"panic:", "goroutine "} {
		if strings.Contains(o.err, s) {
			w.t.Errorf("skein %.200q: it broke: %v", args, o)
		}
	}
}

// verify checks the database with `skein verify`. A test calls it when it expects no errors.
func (w *world) verify() {
	w.t.Helper()
	if o := w.skein("verify"); o.code != exitOK {
		w.t.Errorf("skein verify: %v", o)
	}
}

// transcript is a buffer that a process writes while a test reads.
type transcript struct {
	mu sync.Mutex // protects following fields
	b  bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// process is a running process of the program.
type process struct {
	*world
	cmd   *exec.Cmd
	log   *transcript
	ended chan struct{} // closed at its end
	url   string
	*skein.Client
}

// start starts the program and does not wait for anything. The process is killed at the end of the test.
func (w *world) start(args ...string) *process {
	w.t.Helper()
	p := &process{world: w, cmd: w.command(args...), log: &transcript{}, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	w.t.Cleanup(func() {
		p.kill()
		if p.Client != nil {
			p.Client.Close()
		}
		if w.t.Failed() {
			w.t.Logf("skein %q said:\n%.3000s", args, p.log)
		}
	})
	return p
}

// server starts a server and waits until it answers.
func (w *world) server(args ...string) *process {
	w.t.Helper()
	p := w.start(append([]string{"server"}, args...)...)
	p.ready()
	return p
}

// ready waits until the process has written its address, and makes a client for it.
func (p *process) ready() {
	p.t.Helper()
	type holder struct {
		PID     int    `json:"pid"`
		Address string `json:"address"`
	}
	var h holder
	p.eventually("the server is ready", func() bool {
		if !p.alive() {
			p.t.Fatalf("the server ended:\n%s", p.log)
		}
		h = holder{}
		b, err := os.ReadFile(filepath.Join(p.data, "lock"))
		return err == nil && json.Unmarshal(b, &h) == nil && h.PID == p.cmd.Process.Pid && h.Address != ""
	})
	p.url = h.Address
	k, err := skein.New(p.url, skein.WithToken(ownToken(p.t, p.data)), skein.WithHTTPClient(&http.Client{Timeout: awaitMax,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 512}}))
	if err != nil {
		p.t.Fatal(err)
	}
	p.Client = k
}

// ownToken returns the token that the node of a data folder made for programs of its user. It returns "" if
// the node requires tokens of the database.
func ownToken(t testing.TB, data string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, "access", "local.token"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// kill ends the process with SIGKILL and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// wait waits for the end of the process and returns its exit code.
func (p *process) wait() int {
	p.t.Helper()
	p.eventually("the process ends", func() bool { return !p.alive() })
	return p.cmd.ProcessState.ExitCode()
}

// stop ends the process in order.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != exitOK {
		p.t.Errorf("the server ended with %d:\n%s", code, p.log)
	}
}

// eventually waits for a condition; it checks nothing about time.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < awaitMax; time.Sleep(5 * time.Millisecond) {
		if is() {
			return
		}
	}
	w.t.Fatalf("still not: %s", what)
}

// appears waits for a file that a task makes.
func (w *world) appears(name string) {
	w.t.Helper()
	w.eventually("the file "+name, func() bool {
		_, err := os.Stat(filepath.Join(w.dir, name))
		return err == nil
	})
}

// apply applies a workflow with the given lines as its tasks, and without files of a folder.
func (p *process) apply(name, tasks string) {
	p.t.Helper()
	_, err := p.Apply(p.t.Context(), name, api.ApplyRequest{Source: "name: " + name + "\ntasks:\n" + tasks, Dir: p.dir})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) begin(name string, params api.Params) string {
	p.t.Helper()
	run, _, err := p.Start(p.t.Context(), api.RunRequest{Workflow: name, Params: params})
	if err != nil {
		p.t.Fatal(err)
	}
	return run.ID
}

// ends waits for the end of a run and returns it with its tasks.
func (p *process) ends(id string) api.Run {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), awaitMax)
	defer cancel()
	for {
		run, err := p.Run(ctx, id, skein.Wait(10*time.Second), skein.WithTasks())
		if err != nil {
			p.t.Fatalf("run %s: %v", id, err)
		}
		if run.Ended() {
			return run
		}
	}
}

// wantState waits for the end of a run, and checks that it ended in this state.
func (p *process) wantState(id, state string) api.Run {
	p.t.Helper()
	run := p.ends(id)
	if run.State != state {
		text, _ := json.MarshalIndent(run, "", " ")
		p.t.Errorf("run %s: want %s, got %s:\n%.4000s", id, state, run.State, text)
	}
	return run
}

func (p *process) logOf(run, task string, attempt int) string {
	p.t.Helper()
	l, err := p.Logs(p.t.Context(), run, task, skein.LogQuery{Attempt: attempt})
	if err != nil {
		p.t.Fatal(err)
	}
	defer l.Close()
	b, err := io.ReadAll(l)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// taskOf finds a task of a run that was read with its tasks.
func taskOf(t testing.TB, run *api.Run, name string) *api.Task {
	t.Helper()
	for i := range run.Tasks {
		if run.Tasks[i].Name == name {
			return &run.Tasks[i]
		}
	}
	t.Fatalf("run %s has no task %s", run.ID, name)
	return nil
}

// deref returns the value that p points to, or the zero value if p is nil.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// processesWith returns the living processes whose command line contains a word. A daemon can change its
// session, its parent and its environment; the command line that a test gave it stays.
func processesWith(word string) []int {
	var found []int
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(line, []byte(word)) {
			continue // a zombie has no command line
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		found = append(found, pid)
	}
	return found
}

// leaveNothing ends, at the end of the test, the processes with a word on their command line that a failed
// test has left.
func (w *world) leaveNothing(word string) {
	w.t.Cleanup(func() {
		for _, pid := range processesWith(word) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// smallDisk mounts a file system of a given size in the world, or skips the test.
func (w *world) smallDisk(name string, size int) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := mountSmall(w.t, path, size); err != nil {
		w.t.Skipf("a small file system cannot be mounted here, which this test needs: %v", err)
	}
	return path
}

// mountSmall makes a folder, and mounts a file system of a given size on it during the test.
func mountSmall(t testing.TB, path string, size int) error {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		return err
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// fill fills a file system with one file, and returns its path.
func fill(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
	return path
}
