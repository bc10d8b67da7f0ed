//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"skein.dev/skein/internal/extension"
	api "skein.dev/skein/sdk/api/v1"
)

// documentedSource writes the source of docs/extensions.md into a folder, and returns its workflow.
func documentedSource(t *testing.T, folder string) (workflow string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "\n## Sources\n")
	found := extensionFiles.FindAllStringSubmatch(part, 3)
	if len(found) < 3 || !strings.Contains(found[1][1], "sys.stdin") {
		t.Fatal("the part Sources of docs/extensions.md does not begin with a manifest, a program and a workflow")
	}
	at := filepath.Join(folder, "spool")
	err = errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, extension.FileName), []byte(found[0][1]), 0o644),
		os.WriteFile(filepath.Join(at, "spool.py"), []byte(found[1][1]), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return found[2][1]
}

// TestExtensionSource runs the source of docs/extensions.md while its process and the server are killed. Each
// event starts one run.
func TestExtensionSource(t *testing.T) {
	t.Parallel()
	l := serverLane(t)
	l.t = t
	spool := filepath.Join(l.dir, "orders")
	source := strings.Replace(documentedSource(t, filepath.Join(l.data(), "extensions")), "/var/spool/orders", spool, 1)
	program := filepath.Join(l.data(), "extensions", "spool", "spool.py")
	source = strings.Replace(source, `run: 'echo "$TEXT"', env: {TEXT: "${{ params.text }}"}`, "wait: 1ms", 1)
	source = strings.Replace(source, "{name: lines, ", "{name: none, source: {kind: nobody}}\n  - {name: lines, overlap: allow, ", 1)
	l.run("extension", "reload")
	state := func(trigger string) *api.Schedule {
		is, err := l.client().Schedule(t.Context(), "spooled", trigger)
		if err != nil || is.Source == nil {
			return &api.Schedule{Source: &api.ScheduleSource{}}
		}
		return &is
	}
	add := func(from, to int) {
		f, err := os.OpenFile(spool, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for n := from; n < to; n++ {
			_, err = fmt.Fprintf(f, "%d\n", n)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	const events = 300
	add(0, events/3)
	if _, err := l.client().Apply(t.Context(), "spooled", api.ApplyRequest{Source: source}); err != nil {
		t.Fatal(err)
	}
	fired := func() int64 { return state("lines").Fired }
	l.until("a source that is not there says so", func() bool {
		return strings.Contains(deref(state("none").Source.Why), "does not have the source nobody")
	})
	// The exit code says no, because the servers of tests do not sync.
	if out, _ := l.cmd("doctor").CombinedOutput(); !strings.Contains(string(out), "2 sources, 1 away: spooled/none (source) since ") || !strings.Contains(string(out), "skein schedule get spooled/none") {
		t.Errorf("doctor: %s", out)
	}
	l.until("some events fired", func() bool { return fired() > 20 })
	for _, pid := range processesWith(program) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	add(events/3, 2*events/3)
	l.until("the process was started again", func() bool { return fired() > events/3 })
	old := processesWith(program)
	l.kill()
	l.until("the process has died with its node", func() bool {
		for _, pid := range processesWith(program) {
			for _, was := range old {
				if pid == was {
					return false
				}
			}
		}
		return true
	})
	add(2*events/3, events)
	l.start()
	l.until("all events have fired", func() bool { return fired() >= events })
	numbers := keysOnce(t, l, "spooled", "lines")
	if len(numbers) != events || fired() != events || state("lines").Source.Lost != 0 {
		t.Errorf("%d keys, %d fires", len(numbers), fired())
	}
}
