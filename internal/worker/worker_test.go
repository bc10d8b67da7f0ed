package worker

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/box"
)

// patience bounds a wait only so that a hanging test ends. No test expects that it passes.
const patience = 60 * time.Second

// lifeVar makes the test binary play an earlier life of a data folder. See TestReap.
const lifeVar = "WORKER_TEST_LIFE"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keeper" {
		os.Exit(KeeperMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == box.Name {
		os.Exit(box.Main())
	}
	if len(os.Args) > 2 && os.Args[1] == "kind" { // plays a built-in kind, see TestKindHouse
		text, _ := os.ReadFile(os.Getenv(inputVar))
		fmt.Print(os.Args[2], " ", string(text))
		return
	}
	if data := os.Getenv(lifeVar); data != "" {
		earlierLife(data)
		return
	}
	goleak.VerifyTestMain(m)
}

// rig is a worker with its results.
type rig struct {
	*Worker
	t       *testing.T
	results chan Result
	data    string
	attempt int
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, results: make(chan Result, 1000), data: t.TempDir()}
	cfg := Config{DataDir: r.data, Slots: 4, Report: func(rs ...Result) { r.results <- rs[0] }}
	for _, c := range change {
		c(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Worker = w
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // attempts that still run are killed
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
		if left := leftovers(r.data); len(left) > 0 {
			t.Errorf("Close left %q", left)
		}
	})
	return r
}

// leftovers returns the entries of the work folder.
func leftovers(data string) []string {
	entries, _ := os.ReadDir(filepath.Join(data, "work"))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func groupsOnly(c *Config) { c.GroupsOnly = true }

// eachContainment runs a test with process groups and, if they work here, with cgroups.
func eachContainment(t *testing.T, test func(t *testing.T, change func(*Config))) {
	t.Run("detected", func(t *testing.T) { test(t, func(*Config) {}) })
	t.Run("groups", func(t *testing.T) { test(t, groupsOnly) })
}

// key returns a new key at every call.
func (r *rig) key() Key {
	r.attempt++
	return Key{Namespace: "shop", Workflow: "nightly", RunID: "0191-run", Task: "load", Attempt: r.attempt}
}

func (r *rig) sh(script string) Job {
	return Job{Key: r.key(), Argv: []string{"sh", "-c", script}}
}

func (r *rig) run(job Job) Result {
	r.t.Helper()
	if job.Key == (Key{}) {
		job.Key = r.key()
	}
	r.Start(job)
	return r.wait()
}

func (r *rig) wait() Result {
	r.t.Helper()
	select {
	case res := <-r.results:
		return res
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		r.t.Fatalf("no result\n%s", buf[:runtime.Stack(buf, true)])
		return Result{}
	}
}

func (r *rig) log(key Key) string {
	text, err := os.ReadFile(LogPath(r.data, key))
	if err != nil && !os.IsNotExist(err) {
		r.t.Error(err)
	}
	return string(text)
}

func want(t *testing.T, r Result, state, cause, message string) {
	t.Helper()
	if r.State != state || r.Cause != cause || !strings.Contains(r.Message, message) {
		t.Errorf("got %s %q %q, want %s %q …%s…", r.State, r.Cause, r.Message, state, cause, message)
	}
}

// bell is a FIFO. A task writes to it when it has reached a certain point.
type bell struct {
	path  string
	file  *os.File
	lines *bufio.Reader
}

func newBell(t *testing.T) *bell {
	t.Helper()
	b := &bell{path: filepath.Join(t.TempDir(), "bell")}
	if err := unix.Mkfifo(b.path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(b.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.file, b.lines = file, bufio.NewReader(file)
	t.Cleanup(func() { file.Close() })
	return b
}

// line waits for the next ring and returns its text.
func (b *bell) line(t *testing.T) string {
	t.Helper()
	if err := b.file.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	text, err := b.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

func TestEnds(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		script, state, cause, message, signal string
		code                                  int
	}{
		{"exit 0", Succeeded, "", "", "", 0},
		{"exit 3", Failed, CauseExit, "exit code 3", "", 3},
		{"exit 255", Failed, CauseExit, "exit code 255", "", 255},
		{"ulimit -c 0; kill -SEGV $$", Failed, CauseSignal, "ended by SIGSEGV", "SIGSEGV", -1},
		{"kill -KILL $$", Failed, CauseSignal, "out of memory", "SIGKILL", -1},
		{"kill -TERM $$", Failed, CauseSignal, "ended by SIGTERM", "SIGTERM", -1},
	} {
		before := time.Now()
		res := r.run(r.sh(c.script))
		want(t, res, c.state, c.cause, c.message)
		if res.ExitCode != c.code || res.Exited != (c.code >= 0) || res.Signal != c.signal {
			t.Errorf("%s: code %d, exited %v, signal %q", c.script, res.ExitCode, res.Exited, res.Signal)
		}
		if res.Started.Before(before) || res.Finished.Before(res.Started) {
			t.Errorf("%s: started %v, finished %v", c.script, res.Started, res.Finished)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SKEIN_API_TOKEN", "secret")
	t.Setenv("SKEIN_DB", "secret")
	t.Setenv("AWS_SECRET", "secret")
	t.Setenv("PASSED", "on")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("TZ", "UTC")
	t.Setenv("TMPDIR", os.TempDir())
	r := newRig(t, func(c *Config) { c.PassEnv = []string{"PASSED", "NOT_SET", "SKEIN_TOKEN"} })
	key := r.key()
	key.IdempotencyKey, key.Traceparent = "idem", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	res := r.run(Job{
		Key: key, Argv: []string{"cat", "/proc/self/environ"},
		Env: []string{"A=1", "A=2", "TZ=Europe/Berlin", "EMPTY=", "MULTI=a\nb", "SKEIN_RUN_ID=forged", "SKEIN_OUTPUT=/forged", "nonsense"},
	})
	want(t, res, Succeeded, "", "")
	got := strings.Split(strings.TrimSuffix(r.log(key), "\x00"), "\x00")
	slices.Sort(got)
	output := ""
	for i, kv := range got {
		if path, ok := strings.CutPrefix(kv, "SKEIN_OUTPUT="); ok {
			output = path
			got[i] = "SKEIN_OUTPUT=…"
		}
	}
	if !strings.HasPrefix(output, r.Worker.data+"/work/") {
		t.Errorf("SKEIN_OUTPUT %q is not in the data folder", output)
	}
	expect := []string{
		"A=2", "EMPTY=", "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8", "MULTI=a\nb", "PASSED=on", "PATH=" + os.Getenv("PATH"),
		"SKEIN_ATTEMPT=1", "SKEIN_IDEMPOTENCY_KEY=idem", "SKEIN_LOCK_TOKEN=0", "SKEIN_NAMESPACE=shop", "SKEIN_OUTPUT=…",
		"SKEIN_RUN_ID=0191-run", "SKEIN_TASK=load", "SKEIN_TOKEN=1", "SKEIN_WORKFLOW=nightly",
		"TMPDIR=" + os.TempDir(), "TRACEPARENT=" + key.Traceparent, "TZ=Europe/Berlin",
	}
	slices.Sort(expect)
	if !slices.Equal(got, expect) {
		t.Errorf("got  %q\nwant %q", got, expect)
	}
}

func TestDescriptorsAndSession(t *testing.T) {
	r := newRig(t)
	job := r.sh(`ls /proc/$$/fd; readlink /proc/$$/fd/0; [ $(ps -o sid= -p $$) = $$ ] && echo own session`)
	want(t, r.run(job), Succeeded, "", "")
	lines := strings.Fields(r.log(job.Key))
	if got := strings.Join(lines, " "); got != "0 1 2 /dev/null own session" && got != "0 1 10 2 /dev/null own session" {
		t.Errorf("got %q", got)
	}
}

func TestStartedAfterOneSecond(t *testing.T) {
	started := make(chan Key, 10)
	r := newRig(t, func(c *Config) { c.Started = func(k Key, _ time.Time, _ string, _ bool) { started <- k } })
	want(t, r.run(r.sh("exit 0")), Succeeded, "", "")
	b := newBell(t)
	job := r.sh("read x < " + b.path)
	r.Start(job)
	if k := <-started; k != job.Key { // the previous attempt was too short for a report
		t.Errorf("told %v", k)
	}
	fmt.Fprintln(b.file, "go on")
	want(t, r.wait(), Succeeded, "", "")
	if len(started) != 0 {
		t.Error("told twice")
	}
}

func TestSlots(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Slots = 1 })
	b := newBell(t)
	first := r.sh("echo up >" + b.path + "; exec sleep 1000")
	r.Start(first)
	b.line(t)
	r.Start(first) // sent twice, but must run once
	if got := r.Running(); len(got) != 1 || got[0] != first.Key {
		t.Errorf("running %v", got)
	}
	second := r.run(r.sh("exit 0"))
	want(t, second, Failed, CauseFull, "all 1 slots")
	r.Stop(first.Key, ModeKill)
	want(t, r.wait(), Stopped, CauseKilled, "")
	want(t, r.run(r.sh("exit 0")), Succeeded, "", "")
}

// TestReportMayStart checks that the receiver of a report may start the next attempt in the freed slot.
func TestReportMayStart(t *testing.T) {
	var w *Worker
	done := make(chan Result)
	job := func(n int) Job {
		return Job{Key: Key{Namespace: "n", Workflow: "w", RunID: "r", Task: "t", Attempt: n}, Argv: []string{"true"}}
	}
	ready := make(chan struct{})
	w, err := New(Config{DataDir: t.TempDir(), Slots: 1, Report: func(rs ...Result) {
		res := rs[0]
		<-ready
		if res.State == Succeeded && res.Key.Attempt < 20 {
			w.Start(job(res.Key.Attempt + 1))
			return
		}
		done <- res
	}})
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	w.Start(job(1))
	if res := <-done; res.State != Succeeded || res.Key.Attempt != 20 {
		t.Errorf("%+v", res)
	}
	if err := w.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	r := newRig(t)
	b := newBell(t)
	r.Start(r.sh("read x < " + b.path))
	waited := make(chan error)
	go func() { waited <- r.Close(context.Background()) }()
	for !r.isClosing() {
		runtime.Gosched()
	}
	r.Start(r.sh("exit 0"))
	want(t, r.wait(), Stopped, CauseClosed, "closing")
	fmt.Fprintln(b.file, "go on")
	want(t, r.wait(), Succeeded, "", "")
	if err := <-waited; err != nil {
		t.Error(err)
	}
	r.Start(r.sh("exit 0")) // must be ignored
	r.Stop(r.key(), ModeKill)
}

func (w *Worker) isClosing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

func TestCloseKills(t *testing.T) {
	eachContainment(t, func(t *testing.T, change func(*Config)) {
		r := newRig(t, change)
		b := newBell(t)
		r.Start(r.sh("trap '' TERM; setsid sleep 1000 & echo up >" + b.path + "; while :; do sleep 1000; done"))
		b.line(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
		want(t, r.wait(), Stopped, CauseClosed, "SIGKILL")
		if left := marked(r.Worker.data); len(left) > 0 {
			t.Errorf("left running: %v", left)
		}
	})
}

// marked returns the living processes that carry the mark of a data folder.
func marked(data string) (found []int) {
	for {
		found = found[:0]
		var scan procScan
		seen := scan.each(func(pid, _ int, env []byte) {
			if strings.Contains(string(env), "SKEIN_OUTPUT="+data+"/work/") {
				found = append(found, pid)
			}
		})
		if !seen.execs {
			return found
		}
	}
}

func TestNames(t *testing.T) {
	good := Key{Namespace: "default", Workflow: "w.x", RunID: "0191c2f0-aaaa-7bbb-8ccc-000000000001", Task: "a_B-9.0.12", Attempt: 3}
	if got := LogPath("/d", good); got != "/d/logs/default/w.x/"+good.RunID+"/a_B-9.0.12.3.log" {
		t.Error(got)
	}
	for name, spoil := range map[string]func(*Key){
		"namespace up":    func(k *Key) { k.Namespace = ".." },
		"namespace empty": func(k *Key) { k.Namespace = "" },
		"workflow slash":  func(k *Key) { k.Workflow = "a/b" },
		"workflow hidden": func(k *Key) { k.Workflow = ".ssh" },
		"run dot":         func(k *Key) { k.RunID = "a.b" },
		"run NUL":         func(k *Key) { k.RunID = "a\x00" },
		"run long":        func(k *Key) { k.RunID = strings.Repeat("a", 65) },
		"task empty":      func(k *Key) { k.Task = "" },
		"task up":         func(k *Key) { k.Task = "../x" },
		"task long":       func(k *Key) { k.Task = strings.Repeat("a", 101) },
		"task index":      func(k *Key) { k.Task = "a.b" },
		"task dot":        func(k *Key) { k.Task = "a." },
		"task dots":       func(k *Key) { k.Task = "a..1" },
		"attempt 0":       func(k *Key) { k.Attempt = 0 },
	} {
		key := good
		spoil(&key)
		if got := LogPath("/d", key); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	r := newRig(t)
	res := r.run(Job{Key: Key{Namespace: "n", Workflow: "w", RunID: "../../etc", Task: "t", Attempt: 1}, Argv: []string{"true"}})
	want(t, res, Failed, CauseStart, "run id")
}

func TestMessageIsOneSafeLine(t *testing.T) {
	got := oneLine("a\x00b\nc\xff" + strings.Repeat("é", 1000))
	if len(got) > messageMax || strings.ContainsAny(got, "\x00\n") || !strings.HasPrefix(got, "a b c\uFFFDé") {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}

// TestManyWithStops runs many attempts and stops some of them at every possible moment. Each must be reported
// once, and nothing may be left.
func TestManyWithStops(t *testing.T) {
	eachContainment(t, func(t *testing.T, change func(*Config)) {
		r := newRig(t, change)
		tokens := make(chan struct{}, 4)
		const all = 120
		seen := make(chan Result, all)
		r.cfg.Report = func(rs ...Result) { seen <- rs[0]; <-tokens }
		for i := range all {
			tokens <- struct{}{}
			job := r.sh("setsid sleep 1000 & echo line " + strconv.Itoa(i))
			r.Start(job)
			switch i % 4 {
			case 0:
				r.Stop(job.Key, ModeKill)
			case 1:
				r.Stop(job.Key, ModeTerm)
				r.Stop(job.Key, ModeKill)
			}
		}
		once := map[Key]bool{}
		for range all {
			res := <-seen
			if once[res.Key] {
				t.Errorf("reported twice: %v", res)
			}
			once[res.Key] = true
			if res.Key.Attempt%4 != 1 && res.Key.Attempt%4 != 2 && res.State != Succeeded {
				t.Errorf("%+v", res)
			}
		}
		if left := marked(r.Worker.data); len(left) > 0 {
			t.Errorf("left running: %v", left)
		}
	})
}

func TestContainmentIsTold(t *testing.T) {
	r := newRig(t)
	t.Log(r.Containment())
	if os.Geteuid() == 0 && !strings.HasPrefix(r.Containment(), "cgroup2 (") {
		t.Errorf("root without cgroups: %s", r.Containment())
	}
	if g := newRig(t, groupsOnly); !strings.HasPrefix(g.Containment(), "process groups (cgroups are switched off)") {
		t.Error(g.Containment())
	}
}

// ended reports whether a process has ended, even if it was not reaped yet.
func ended(t *testing.T, pidFile string) bool {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return syscall.Kill(pid, 0) != nil || zombie(pid)
}
