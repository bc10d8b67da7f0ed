//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestLogsOfADeadNode reads the log of a task on n2 through n1: while the task runs, while n2 dies of kill
// -9 in the middle of a stream, and afterwards. At most the output of the last 2 s is missing.
func TestLogsOfADeadNode(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2)
	one, two := f.members[0], f.members[1]
	f.own(map[string]int{"n1": 16, "n2": 16})
	// Each line is the time at which it was printed, which the task also writes into a separate file.
	witness := filepath.Join(t.TempDir(), "witness")
	f.flow("clock", "while true; do date +%s.%N | tee -a "+witness+"; sleep 0.05; done")
	one.home.run("node", "move", "clock", "n2")
	one.home.until("n2 owns it", func() bool { return f.ownerOf("clock") == "n2" })
	id := one.detach("clock")
	one.home.until("something was printed", func() bool { return bytes.Count(one.home.logs(id), []byte("\n")) > 20 })
	part := one.home.run("logs", id+"/a", "--attempt", "1", "--tail-bytes", "40")
	if len(part) != 40 {
		t.Errorf("the last bytes: %q", part)
	}
	l, err := one.client.Logs(t.Context(), id, "a", skein.LogQuery{Attempt: 1, Offset: 10, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	follow := make(chan []byte, 1)
	began := make(chan struct{})
	go func() {
		lines := bufio.NewReader(l)
		first, _ := lines.ReadBytes('\n')
		close(began)
		rest, err := io.ReadAll(lines)
		if err != nil {
			t.Errorf("follow: %v", err)
		}
		follow <- append(first, rest...)
	}()
	<-began
	time.Sleep(3 * time.Second) // leaves time for a part of the log to be sent
	died := time.Now()
	two.kill()
	one.home.until("n2 is gone", func() bool { return f.owners()["n2"] == 0 })
	wrote, err := os.ReadFile(witness)
	if err != nil {
		t.Fatal(err)
	}
	got := one.home.run("logs", id+"/a", "--attempt", "1")
	if !bytes.HasPrefix(wrote, got) || len(got) == 0 {
		t.Fatalf("n1 has %d bytes that are not those that were printed:\n%.300q\n%.300q", len(got), got, wrote)
	}
	if lost := died.Sub(lastLine(t, got)); lost > 2*time.Second {
		t.Errorf("what was printed in the last %v is lost", lost)
	} else {
		t.Logf("lost: what was printed in the last %v", lost)
	}
	followed := <-follow
	if !bytes.HasPrefix(wrote[10:], followed) || len(followed) < len(got)-10 {
		t.Errorf("followed %d bytes, there are %d:\n%.300q", len(followed), len(got)-10, followed)
	}
	for _, offset := range []int64{0, 7, int64(len(got)) - 3} {
		l, err := one.client.Logs(t.Context(), id, "a", skein.LogQuery{Attempt: 1, Offset: offset, Limit: 20})
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(l)
		if err != nil || !bytes.Equal(text, got[offset:min(int64(len(got)), offset+20)]) {
			t.Errorf("from %d: %q, %v", offset, text, err)
		}
		l.Close()
	}
	one.home.run("run", "stop", id)
	one.stop()
}

// logs reads the first attempt's log as it is now.
func (h *home) logs(id string) []byte {
	out, _ := h.cmd("logs", id+"/a", "--attempt", "1").Output() // there is no log before the attempt starts
	return out
}

// lastLine returns the time at which the last whole line was printed.
func lastLine(t *testing.T, log []byte) time.Time {
	t.Helper()
	whole := strings.TrimSpace(string(log[:bytes.LastIndexByte(log, '\n')]))
	var sec, nano int64
	if _, err := fmt.Sscanf(whole[strings.LastIndexByte(whole, '\n')+1:], "%d.%d", &sec, &nano); err != nil {
		t.Fatal(err)
	}
	return time.Unix(sec, nano)
}

// TestLogsOfAWorker: when a run has ended, the output of a task on a worker is complete, for followers and
// for later readers, through any node. That includes the last line of a failed task.
func TestLogsOfAWorker(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2, "SKEIN_ROLES=api,scheduler")
	w := f.worker("w", "--slots", "4")
	f.listed(3)
	whole, err := exec.Command("sh", "-c", "seq 1 2000; echo LAST").Output()
	if err != nil {
		t.Fatal(err)
	}
	f.members[0].apply("w", "  a: {run: 'seq 1 2000; echo LAST'}\n  b: {needs: a, run: 'echo why; exit 3'}\n")
	for i := range 6 {
		m := f.members[i%2]
		args := []string{"run", "w"}
		if i < 4 {
			args = append(args, "--follow")
		}
		said, _ := m.home.cmd(args...).CombinedOutput() // the command fails
		if got := bytes.Count(said, []byte("a │ ")); i < 4 && got != 2001 || !bytes.Contains(said, []byte("│ why\n")) {
			t.Errorf("%v: %d lines of a; at its end\n%s", args, got, said[max(0, len(said)-300):])
		}
		if got := m.home.run("logs", "w@latest/a"); !bytes.Equal(got, whole) {
			t.Errorf("%d bytes of %d", len(got), len(whole))
		}
	}
	w.stop()
	for _, m := range f.members {
		m.stop()
	}
}

// TestWholeLogsOfAWorker: the database has only the end of a log. Any node reads the whole log while its
// worker is attached: after the end, from any offset, and while it is followed. If the worker is frozen or
// gone, the end remains.
func TestWholeLogsOfAWorker(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2, "SKEIN_ROLES=api,scheduler", "SKEIN_LAG=1m") // a frozen worker stays listed
	w := f.worker("w", "--slots", "4")
	f.listed(3)
	whole, err := exec.Command("seq", "1000000", "1700000").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f.members[0].apply("long", "  a: {run: 'seq 1000000 1700000; while ! [ -e "+dir+"/over ]; do sleep 0.05; done; echo LAST'}\n")
	id := f.members[0].detach("long")
	var followed []<-chan []byte
	for _, m := range f.members {
		followed = append(followed, m.follow(id))
	}
	f.until("the database has the last of it", func() bool {
		return bytes.HasSuffix(f.members[0].home.run("logs", id+"/a", "--tail-bytes", "8"), []byte("1700000\n"))
	})
	for _, m := range f.members { // a reader that comes late
		followed = append(followed, m.follow(id))
		if got := m.home.run("logs", id+"/a"); !bytes.Equal(got, whole) {
			t.Errorf("while it runs: %d bytes of %d", len(got), len(whole))
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.members[0].home.run("run", "watch", id)
	whole = append(whole, "LAST\n"...)
	for i, got := range followed {
		if text := <-got; !bytes.Equal(text, whole) {
			t.Errorf("follower %d: %d bytes of %d", i, len(text), len(whole))
		}
	}
	f.readsWhole(id, whole)
	f.members[1].indexed(id, 700_002)
	f.signal(w, syscall.SIGSTOP)
	for _, m := range f.members {
		checkKept(t, m.home.run("logs", id+"/a"), whole)
	}
	if f.row("handler", "w") == "" {
		t.Error("a frozen worker was waited for until it was gone")
	}
	f.signal(w, syscall.SIGCONT)
	f.until("it answers again", func() bool { return bytes.Equal(f.members[1].home.run("logs", id+"/a"), whole) })
	w.stop()
	for _, m := range f.members {
		checkKept(t, m.home.run("logs", id+"/a"), whole)
	}
	w.start() // it starts under another handler, and still has its files
	for _, m := range f.members {
		f.until(m.name+" sees it again", func() bool { return bytes.Equal(m.home.run("logs", id+"/a"), whole) })
	}
	f.readsWhole(id, whole)
	other, was := f.members[1], f.row("home", "w")
	if f.row("handler", "n2") == was {
		other = f.members[0]
	}
	for _, m := range f.members {
		if m != other {
			m.kill()
		}
	}
	if got := other.home.run("logs", id+"/a"); !bytes.Equal(got, whole) {
		t.Errorf("as its home is killed: %d bytes of %d", len(got), len(whole))
	}
	w.kill()
	other.stop()
}

// follow reads the log of the task a as it comes, from its first byte.
func (m *member) follow(id string) <-chan []byte {
	got := make(chan []byte, 1)
	t := m.home.t
	go func() {
		defer close(got)
		l, err := m.client.Logs(t.Context(), id, "a", skein.LogQuery{Follow: true})
		if err != nil {
			t.Errorf("follow: %v", err)
			return
		}
		defer l.Close()
		text, err := io.ReadAll(l)
		if err != nil {
			t.Errorf("follow: %v", err)
		}
		got <- text
	}()
	return got
}

// readsWhole reads a log through every node, in whole and in parts.
func (f *flight) readsWhole(id string, whole []byte) {
	f.t.Helper()
	for _, m := range f.members {
		if got := m.home.run("logs", id+"/a"); !bytes.Equal(got, whole) {
			f.t.Errorf("by way of %s: %d bytes of %d", m.name, len(got), len(whole))
		}
		for _, at := range []struct{ offset, limit int64 }{{0, 20}, {7, 3_000_000}, {int64(len(whole)) - 1<<20 - 500_000, 0}, {-2_000_000, 20}, {-20, 0}} {
			l, err := m.client.Logs(f.t.Context(), id, "a", skein.LogQuery{Offset: at.offset, Limit: at.limit})
			if err != nil {
				f.t.Fatal(err)
			}
			text, err := io.ReadAll(l)
			l.Close()
			from := at.offset
			if from < 0 {
				from += int64(len(whole))
			}
			to := int64(len(whole))
			if at.limit > 0 {
				to = min(to, from+at.limit)
			}
			if err != nil || !bytes.Equal(text, whole[from:to]) {
				f.t.Errorf("by way of %s, from %d at most %d: %d bytes of %d, %v", m.name, at.offset, at.limit, len(text), to-from, err)
			}
		}
	}
}

// signal sends a signal to a worker's process.
func (f *flight) signal(w *hand, s syscall.Signal) {
	f.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

// checkKept checks the end of a log that the database has, with the line about the missing part.
func checkKept(t *testing.T, got, whole []byte) {
	t.Helper()
	mark, kept, _ := bytes.Cut(got, []byte("\n"))
	if wanted := fmt.Sprintf("[skein: the first %d bytes of this log are not kept]", len(whole)-len(kept)); string(mark) != wanted {
		t.Errorf("%.100q, want %q", mark, wanted)
	}
	if len(kept) < 1<<20 || len(kept) > 1<<20+1<<16 || !bytes.HasSuffix(whole, kept) {
		t.Errorf("the database has %d bytes", len(kept))
	}
}

// TestLongLogs: the database has the end of a long log. The node that ran the attempt has all of it, and
// the other nodes read it there. In a shared folder all of it remains when that node is gone.
func TestLongLogs(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			t.Parallel()
			folder := ""
			if shared {
				folder = t.TempDir()
			}
			f := newFlight(t, 2, "SKEIN_LOGS="+folder)
			one, two := f.members[0], f.members[1]
			f.own(map[string]int{"n1": 16, "n2": 16})
			f.flow("long", "seq 1000000 1400000")
			one.home.run("node", "move", "long", "n2")
			one.home.until("n2 owns it", func() bool { return f.ownerOf("long") == "n2" })
			id := one.detach("long")
			one.home.run("run", "watch", id)
			whole, err := exec.Command("seq", "1000000", "1400000").Output()
			if err != nil {
				t.Fatal(err)
			}
			if got := one.home.run("logs", id+"/a"); !bytes.Equal(got, whole) {
				t.Errorf("by way of n1: %d bytes of %d", len(got), len(whole))
			}
			one.indexed(id, 400_001)
			two.stop()
			got := one.home.run("logs", id+"/a")
			if shared {
				if !bytes.Equal(got, whole) {
					t.Errorf("the shared folder has %d bytes of %d", len(got), len(whole))
				}
				if copies, err := filepath.Glob(filepath.Join(folder, "logs", "*", "*", "*", "*.index")); err != nil || len(copies) != 1 {
					t.Errorf("the shared folder has the indexes %v: %v", copies, err)
				}
				one.indexed(id, 400_001)
			} else {
				checkKept(t, got, whole)
			}
			two.start() // it starts under another handler, and still has its files
			one.home.until("n1 sees n2 again", func() bool { return bytes.Equal(one.home.run("logs", id+"/a"), whole) })
			two.stop()
			one.stop()
		})
	}
}

// indexed compares what a node says about the log of task a of a run, which counts from 1,000,000: its lines,
// and the text of one of them.
func (m *member) indexed(id string, lines int64) {
	t := m.home.t
	t.Helper()
	var x api.LogIndex
	if err := json.Unmarshal(m.home.run("api", "GET", "/runs/"+id+"/tasks/a/logs/index"), &x); err != nil {
		t.Fatal(err)
	}
	if x.Lines == nil || *x.Lines != lines || len(x.Marks) < 10 || x.Marks[1].At == nil {
		t.Errorf("%s: %+v", m.name, x)
	}
	if got := m.home.run("api", "GET", "/runs/"+id+"/tasks/a/logs?line=300000&limit=7"); string(got) != "1299999" {
		t.Errorf("%s: line 300,000 is %q", m.name, got)
	}
}

// TestArtifactsOfAnotherNode reads artifacts of a task on n2 through n1. When n2 has gone, the error says
// that its own files are missing. Files in a shared folder remain.
func TestArtifactsOfAnotherNode(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			t.Parallel()
			folder := ""
			if shared {
				folder = t.TempDir()
			}
			f := newFlight(t, 2, "SKEIN_ARTIFACTS="+folder)
			one, two := f.members[0], f.members[1]
			f.own(map[string]int{"n1": 16, "n2": 16})
			file := filepath.Join(t.TempDir(), "w.yaml")
			text := "name: w\ntasks:\n  a: {run: 'mkdir -p out; seq 1000 > out/numbers', artifacts: ['out/*']}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			one.home.run("workflow", "apply", file)
			one.home.run("node", "move", "w", "n2")
			one.home.until("n2 owns it", func() bool { return f.ownerOf("w") == "n2" })
			id := one.detach("w")
			one.home.run("run", "watch", id)
			want, err := exec.Command("seq", "1000").Output()
			if err != nil {
				t.Fatal(err)
			}
			if got := one.home.run("task", "artifacts", "get", id+"/a", "out/numbers"); !bytes.Equal(got, want) {
				t.Errorf("by way of n1: %.100q", got)
			}
			if list := one.home.run("task", "artifacts", id+"/a"); !bytes.HasPrefix(list, []byte("out/numbers\t3893\t")) {
				t.Errorf("%q", list)
			}
			two.stop()
			one.home.until("n2 is gone", func() bool { return f.owners()["n2"] == 0 })
			got, err := one.home.cmd("task", "artifacts", "get", id+"/a", "out/numbers").CombinedOutput()
			switch {
			case shared && (err != nil || !bytes.Equal(got, want)):
				t.Errorf("from the shared folder: %v %.100q", err, got)
			case !shared && !strings.Contains(string(got), "are on node n2, which does not answer"):
				t.Errorf("%v %s", err, got)
			}
			one.stop()
		})
	}
}
