package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bond is a Link, together with its results. Its lease is short only in tests that need its end.
type bond struct {
	*Link
	t       *testing.T
	adopted *Adopted
	results chan Result
	data    string
	lock    *os.File
}

func newBond(t *testing.T, data string, lease time.Duration) *bond {
	t.Helper()
	b := &bond{t: t, data: data, results: make(chan Result, 10_000), lock: lockOf(t, data)}
	// A child that another test forks has a copy of the former lock until its exec, so try again.
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(int(b.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Since(began) > patience {
			t.Fatal(err)
		}
	}
	l, a, err := Connect(t.Context(), LinkConfig{Config: Config{DataDir: data, Slots: 64, Report: b.take}, Lease: lease, Lock: b.lock})
	if err != nil {
		t.Fatal(err)
	}
	b.Link, b.adopted = l, a
	b.Renew(Boot() + lease)
	b.Begin()
	t.Cleanup(b.over)
	return b
}

// lockOf opens the lock of a data folder and takes it.
func lockOf(t *testing.T, data string) *os.File {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(data, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	return lock
}

func (b *bond) take(rs ...Result) {
	for i := range rs {
		b.results <- rs[i]
	}
}

// over ends the link and the keeper.
func (b *bond) over() {
	b.mu.Lock()
	crashed := b.ended
	b.mu.Unlock()
	if crashed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Close(ctx); err != nil {
		b.t.Error(err)
	}
	b.End()
}

// crash ends the link as if its process had died: the keeper sees the connection break.
func (b *bond) crash() {
	b.mu.Lock()
	b.ended = true
	p := b.peer
	b.mu.Unlock()
	_ = p.conn.Close()
	close(b.stop)
	b.wg.Wait()
	_ = b.lock.Close()
}

func (b *bond) result() Result {
	b.t.Helper()
	select {
	case r := <-b.results:
		return r
	case <-time.After(patience):
		b.t.Fatal("no result")
		return Result{}
	}
}

func (b *bond) until(what string, is func() bool) {
	b.t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			b.t.Fatalf("still not: %s", what)
		}
	}
}

func (b *bond) appears(path string) {
	b.t.Helper()
	b.until(path, func() bool { return exists(path) })
}

func shell(task string, attempt int, script string) Job {
	return Job{Key: Key{Namespace: "default", Workflow: "w", RunID: "r1", Task: task, Attempt: attempt, Ref: 7},
		Argv: []string{"sh", "-c", script}, Dir: os.TempDir()}
}

// TestLinkRuns checks that results, outputs, logs, files, stops and refusals pass through the keeper without
// changes.
func TestLinkRuns(t *testing.T) {
	b := newBond(t, t.TempDir(), time.Minute)
	for i := range 200 {
		b.Start(shell(fmt.Sprint("t", i), 1, "echo n=$SKEIN_TOKEN >> $SKEIN_OUTPUT; echo said"))
	}
	for range 200 {
		r := b.result()
		// The test starts more attempts than there are slots, which the engine never does.
		if r.State == Failed && r.Cause == CauseFull {
			continue
		}
		if r.State != Succeeded || string(r.Outputs) != `{"n":"1"}` || r.Key.Ref != 7 {
			t.Fatalf("%+v", r)
		}
	}
	job := shell("files", 1, "cat f.txt >> $SKEIN_OUTPUT")
	job.Dir, job.Files = "", func() ([]File, error) { return []File{{Name: "f.txt", Mode: 0o600, Content: []byte("k=v\n")}}, nil }
	b.Start(job)
	if r := b.result(); r.State != Succeeded || string(r.Outputs) != `{"k":"v"}` {
		t.Fatalf("%+v", r)
	}
	b.Start(shell("long", 1, "sleep 600"))
	b.Stop(Key{RunID: "r1", Task: "long", Attempt: 1}, ModeKill)
	if r := b.result(); r.State != Stopped || r.Cause != CauseKilled {
		t.Fatalf("%+v", r)
	}
	log, err := os.ReadFile(LogPath(b.data, shell("t0", 1, "").Key))
	if err != nil || string(log) != "said\n" {
		t.Errorf("the log is %q: %v", log, err)
	}
}

// TestAdoption lets the worker die. Its attempts must continue. The next worker must be told once about the
// running attempts and about those that have ended meanwhile, and never about acknowledged ends.
func TestAdoption(t *testing.T) {
	data := t.TempDir()
	gate := filepath.Join(data, "gate")
	b := newBond(t, data, time.Minute)
	b.Brand("life 1")
	b.Start(shell("known", 1, "true"))
	known := b.result()
	b.Taken([]ID{known.Key.ID()})
	b.Start(shell("between", 1, "until [ -e "+gate+" ]; do sleep 0.01; done; echo a=b >> $SKEIN_OUTPUT; touch "+gate+"2"))
	b.Start(shell("on", 3, "touch "+gate+"1; until [ -e "+gate+"3 ]; do sleep 0.01; done; exit 4"))
	b.appears(gate + "1")
	b.crash()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.appears(gate + "2")
	// Wait until the keeper has the end. Otherwise the next worker might not learn of it.
	journal := filepath.Join(data, "work", keeperJournal)
	b.until("the journal has it", func() bool {
		text, _ := os.ReadFile(journal)
		return strings.Contains(string(text), `"between"`)
	})
	next := newBond(t, data, time.Minute)
	a := next.adopted
	if a.Tag != "life 1" || len(a.Running) != 1 || a.Running[0].Key.Task != "on" || a.Running[0].Key.Attempt != 3 || a.Running[0].Key.Ref != 7 {
		t.Fatalf("adopted %+v", a)
	}
	if len(a.Ended) != 1 || a.Ended[0].State != Succeeded || string(a.Ended[0].Outputs) != `{"a":"b"}` {
		t.Fatalf("ended in between: %+v", a.Ended)
	}
	next.Start(shell("on", 3, "echo never")) // this attempt is already running
	next.Start(shell("known", 1, "touch "+gate+"4"))
	if r := next.result(); r.Key.Task != "known" || r.Cause != CauseLost || exists(gate+"4") {
		t.Fatalf("a token ran twice: %+v", r)
	}
	if err := os.WriteFile(gate+"3", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := next.result()
	if r.Key.Task != "on" || r.ExitCode != 4 {
		t.Fatalf("%+v", r)
	}
	next.Taken([]ID{r.Key.ID(), a.Ended[0].Key.ID()})
	next.until("the keeper knows that they are taken", func() bool {
		text, err := os.ReadFile(journal)
		return err == nil && strings.Contains(string(text), `"taken":[`) && strings.Count(string(text), `"between"`) == 2
	})
	next.crash()
	last := newBond(t, data, time.Minute)
	if len(last.adopted.Running)+len(last.adopted.Ended) != 0 {
		t.Errorf("adopted again: %+v", last.adopted)
	}
}

// TestLeaseEnds checks that if a worker is gone or does not renew the lease, its attempts and all their
// processes are killed at the end of the lease. Earlier ends must still be reported.
func TestLeaseEnds(t *testing.T) {
	data := t.TempDir()
	const lease = time.Second
	b := newBond(t, data, lease)
	b.Start(shell("daemon", 1, "setsid sleep 611 & touch "+data+"/on; sleep 612"))
	b.appears(data + "/on")
	if r := b.result(); r.State != Stopped || r.Cause != CauseLease {
		t.Fatalf("%+v", r)
	}
	// The jobs wait for a lease. A renewal that comes so late that its lease has already ended must not start
	// them.
	b.Start(shell("late", 1, "touch "+data+"/late"))
	b.Start(shell("unwanted", 1, "touch "+data+"/unwanted"))
	b.Renew(Boot() - lease)
	b.Stop(shell("unwanted", 1, "").Key, ModeKill)
	if r := b.result(); r.Key.Task != "unwanted" || r.Cause != CauseKilled || exists(data+"/late") {
		t.Fatalf("started without a lease: %+v", r)
	}
	b.Renew(Boot() + lease)
	if r := b.result(); r.Key.Task != "late" || r.State != Succeeded || exists(data+"/unwanted") {
		t.Fatalf("%+v", r)
	}
	b.Renew(Boot() + lease)
	b.Start(shell("alone", 1, "touch "+data+"/alone; sleep 613"))
	b.appears(data + "/alone")
	pid := b.pid()
	b.crash()
	b.until("the keeper has ended with its lease", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	next := newBond(t, data, time.Minute)
	causes := map[string]string{}
	for _, r := range next.adopted.Ended {
		causes[r.Key.Task] = r.Cause
	}
	if len(next.adopted.Running) != 0 || causes["alone"] != CauseLease || causes["late"] != "" {
		t.Errorf("adopted %+v, %v", next.adopted.Running, causes)
	}
}

// TestFirstRenewal checks that the first renewal replaces the initial lease, even by a shorter one.
func TestFirstRenewal(t *testing.T) {
	l, _, err := Connect(t.Context(), LinkConfig{Config: Config{DataDir: t.TempDir(), Slots: 1, Report: func(...Result) {}}, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b := &bond{Link: l, t: t, results: make(chan Result, 1)}
	t.Cleanup(b.over)
	l.cfg.Report = b.take
	l.Renew(Boot() + time.Second)
	l.Begin()
	l.Start(shell("short", 1, "sleep 614"))
	if r := b.result(); r.Cause != CauseLease {
		t.Errorf("%+v", r)
	}
}

func (b *bond) pid() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peer.pid
}

// TestKeeperKilled checks that the attempts of a killed keeper are lost, that none of their processes is
// left, and that the next keeper works. Ends that were not acknowledged must not be reported twice.
func TestKeeperKilled(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			b := newBond(t, data, 2*time.Second)
			stop := make(chan struct{})
			defer close(stop)
			go func() { // keep the lease renewed
				for {
					select {
					case <-stop:
						return
					case <-time.After(200 * time.Millisecond):
						b.Renew(Boot() + 2*time.Second)
					}
				}
			}()
			b.Start(shell("before", 1, "true"))
			b.result()
			b.Start(shell("lost", 1, "setsid sleep 621 & echo $$ > "+data+"/pid; sleep 622"))
			b.appears(data + "/pid")
			old := b.pid()
			if err := unix.Kill(old, sig); err != nil {
				t.Fatal(err)
			}
			if r := b.result(); r.Key.Task != "lost" || r.Cause != CauseLost {
				t.Fatalf("%+v", r)
			}
			if unix.Kill(old, 0) == nil {
				t.Error("the old keeper lives")
			}
			b.Start(shell("after", 1, "true"))
			if r := b.result(); r.Key.Task != "after" || r.State != Succeeded {
				t.Fatalf("%+v", r)
			}
		})
	}
}

// freeze stops a process, and waits until all of its threads have stopped.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("threads of %d: %v", pid, err)
		}
		runs := slices.ContainsFunc(threads, func(file string) bool {
			stat, err := os.ReadFile(file)
			_, state, _ := strings.Cut(string(stat), ") ") // the name may contain any character
			return err == nil && !strings.HasPrefix(state, "T")
		})
		if !runs {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d has not stopped", pid)
		}
	}
}

// TestFrozenKeeperIsReplaced checks that a worker kills a keeper that does not answer, and all its attempts.
func TestFrozenKeeperIsReplaced(t *testing.T) {
	data := t.TempDir()
	b := newBond(t, data, time.Minute)
	b.Start(shell("held", 1, "touch "+data+"/on; sleep 631"))
	b.appears(data + "/on")
	old := b.pid()
	freeze(t, old)
	b.crash()
	next := newBond(t, data, time.Minute)
	if len(next.adopted.Running) != 0 {
		t.Errorf("adopted %+v", next.adopted)
	}
	if unix.Kill(old, 0) == nil {
		t.Error("the old keeper lives")
	}
}

// TestJournal checks that complete records are read, that damage is reported, and that acknowledged ends do
// not make the file grow.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	open := func() (*journal, error) {
		t.Helper()
		j, damage, err := openJournal(path)
		if err != nil {
			t.Fatal(err)
		}
		return j, damage
	}
	j, damage := open()
	if damage != nil {
		t.Fatal(damage)
	}
	tag := "tag"
	end := func(i int) *entry {
		return &entry{Result: &Result{Key: shell(fmt.Sprint("t", i), 1, "").Key, State: Succeeded, Message: strings.Repeat("x", 1000)}}
	}
	if err := j.add(&entry{Tag: &tag}); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		if err := j.add(end(i)); err != nil {
			t.Fatal(err)
		}
		if i >= 10 {
			if err := j.add(&entry{Taken: []ID{end(i - 10).Result.Key.ID()}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 2*journalSlack {
		t.Errorf("it has grown to %d bytes: %v", info.Size(), err)
	}
	j.close()
	j, damage = open()
	for _, r := range j.untaken {
		if r.Outputs != nil {
			t.Fatalf("an end without outputs came back with %q", r.Outputs)
		}
	}
	if damage != nil || len(j.untaken) != 10 || j.tag != "tag" {
		t.Fatalf("%d ends, tag %q, %v", len(j.untaken), j.tag, damage)
	}
	size := j.size
	j.close()
	for _, c := range []struct {
		name  string
		wound func(f *os.File) error
		least int
	}{
		{"cut", func(f *os.File) error { return f.Truncate(size - 5) }, 9},
		{"flipped", func(f *os.File) error { _, err := f.WriteAt([]byte{0xff}, size/2); return err }, 1},
		{"length", func(f *os.File) error { _, err := f.WriteAt([]byte{0xff, 0xff, 0xff, 0x7f}, 0); return err }, 0},
	} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.wound(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		j, damage := open()
		if damage == nil || len(j.untaken) < c.least || len(j.untaken) > 9 {
			t.Errorf("%s: %d ends, %v", c.name, len(j.untaken), damage)
		}
		size = j.size
		j.close()
		if c.least == 0 {
			continue
		}
	}
}

// mustPair returns one side of a connection. The other side has sent a text.
func mustPair(t *testing.T, says string) *net.UnixConn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	other := os.NewFile(uintptr(fds[1]), "other")
	t.Cleanup(func() { _ = other.Close() })
	if _, err := other.WriteString(says); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[0]), "one")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn)
}

// TestOtherVersion checks that two sides with different versions disconnect before either misunderstands
// anything.
func TestOtherVersion(t *testing.T) {
	data := t.TempDir()
	b := newBond(t, data, time.Minute)
	b.Start(shell("held", 1, "touch "+data+"/on; sleep 641"))
	b.appears(data + "/on")
	old := b.pid()
	b.crash()
	// A worker of another version meets the same keeper, and sends a line that the keeper does not know.
	conn, err := viaFolder(filepath.Join(data, "work"), dial)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("skein keeper 999\n")); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	n, err := conn.Read(said)
	_ = conn.Close()
	if err != nil || string(said[:n]) != greeting {
		t.Errorf("it said %q: %v", said[:n], err)
	}
	p := &peer{stream: newStream(mustPair(t, "skein keeper 0\n"), newsMax), pidfd: -1}
	if err := p.stream.greet(time.Now().Add(patience)); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("a keeper of another version: %v", err)
	}
	_ = p.conn.Close()
	next := newBond(t, data, time.Minute)
	if len(next.adopted.Running) != 1 || next.pid() != old {
		t.Errorf("a stranger has done harm: %+v", next.adopted)
	}
}

// TestStillborn checks that a keeper that is killed before its first message is replaced.
func TestStillborn(t *testing.T) {
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(data, "work", keeperLock)) // the first keeper waits for this lock
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	killed := make(chan bool)
	go func() {
		defer close(killed)
		for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
			var scan procScan
			victim := 0
			scan.each(func(pid, _ int, env []byte) {
				if hasEntry(env, keeperVar+"="+data) {
					victim = pid
				}
			})
			if victim != 0 {
				killed <- unix.Kill(victim, unix.SIGKILL) == nil && unix.Flock(int(lock.Fd()), unix.LOCK_UN) == nil
				return
			}
		}
	}()
	b := newBond(t, data, time.Minute) // the second keeper serves this worker
	if !<-killed {
		t.Fatal("no keeper was there to be killed")
	}
	b.Start(shell("t", 1, "true"))
	if r := b.result(); r.State != Succeeded {
		t.Fatalf("%+v", r)
	}
}

// TestLastWords checks that the error quotes the last log lines of the current keeper, not of an earlier one.
// If the disk is full, it says why there are none.
func TestLastWords(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("of long ago\n"); err != nil {
		t.Fatal(err)
	}
	from, _ := f.Seek(0, io.SeekEnd)
	if got := lastWords(f, from); got != "" {
		t.Errorf("nothing was said: %q", got)
	}
	if _, err := f.WriteString("one\ntwo\n"); err != nil {
		t.Fatal(err)
	}
	if got := lastWords(f, from); got != " (it said: two)" {
		t.Errorf("%q", got)
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if got := lastWords(full, 0); !strings.Contains(got, "no space left") {
		t.Errorf("on a full disk: %q", got)
	}
}

// TestPassEnv checks that a change of the passed variables applies to attempts that begin after it, also at
// the next keeper. A Link to a keeper of an earlier version refuses the change.
func TestPassEnv(t *testing.T) {
	t.Setenv("ALPHA", "one")
	b := newBond(t, t.TempDir(), time.Minute)
	outputs := func(task string) string {
		t.Helper()
		b.Start(shell(task, 1, "echo a=$ALPHA >> $SKEIN_OUTPUT"))
		return string(b.result().Outputs)
	}
	if got := outputs("before"); got != `{"a":""}` {
		t.Errorf("before: %s", got)
	}
	if !b.PassEnv([]string{"ALPHA"}) {
		t.Error("the keeper does not take another environment")
	}
	if got := outputs("after"); got != `{"a":"one"}` {
		t.Errorf("after: %s", got)
	}
	b.mu.Lock()
	p := b.peer
	b.mu.Unlock()
	p.kill()
	b.until("another keeper", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.peer != nil && b.peer != p
	})
	if got := outputs("again"); got != `{"a":"one"}` {
		t.Errorf("with the next keeper: %s", got)
	}
	b.mu.Lock()
	b.rebases = false
	b.mu.Unlock()
	if b.PassEnv(nil) {
		t.Error("a keeper of an earlier version takes another environment")
	}
	if !slices.Equal(b.pass, []string{"ALPHA"}) {
		t.Errorf("a change that was not taken left %q for the next keeper", b.pass)
	}
}

// TestSampledTraces checks that if the worker's environment names a collector, tasks and requests carry a
// sampled trace context, and that each run has one trace.
func TestSampledTraces(t *testing.T) {
	for _, c := range []struct{ name, flags string }{{"", "00"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "01"}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "01"}} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
				t.Setenv(name, "")
			}
			if c.name != "" {
				t.Setenv(c.name, "http://127.0.0.1:4318")
			}
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.Header.Get("Traceparent"))
			}))
			defer site.Close()
			b := newBond(t, t.TempDir(), time.Minute)
			seen := map[string]bool{}
			given := func(job Job, output string) {
				t.Helper()
				b.Start(job)
				r := b.result()
				var outputs map[string]any
				if err := json.Unmarshal(r.Outputs, &outputs); err != nil {
					t.Fatalf("%+v: %v", r, err)
				}
				parts := strings.Split(fmt.Sprint(outputs[output]), "-")
				if len(parts) != 4 || parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 || parts[3] != c.flags {
					t.Errorf("the trace is %q, want the flags %s", parts, c.flags)
					return
				}
				seen[parts[1]], seen[parts[2]] = true, true
			}
			given(shell("a", 1, "echo trace=$TRACEPARENT >> $SKEIN_OUTPUT"), "trace")
			given(shell("b", 1, "echo trace=$TRACEPARENT >> $SKEIN_OUTPUT"), "trace")
			ask := shell("c", 1, "")
			ask.Argv, ask.HTTP = nil, &Request{Method: http.MethodGet, URL: site.URL, Answer: AnswerText, Egress: anywhere}
			given(ask, "body")
			called := shell("d", 1, "echo trace=$TRACEPARENT >> $SKEIN_OUTPUT")
			called.Key.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
			given(called, "trace")
			if len(seen) != 6 || !seen["0af7651916cd43dd8448eb211c80319c"] || !seen["b7ad6b7169203331"] {
				t.Errorf("want one trace and three spans, and those of a caller: %v", seen)
			}
		})
	}
}
