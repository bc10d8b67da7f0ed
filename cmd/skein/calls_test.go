//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	skein "skein.dev/skein/sdk"
)

// callers applies levels of workflows, each of which calls the next; the last one runs a command.
func (f *flight) callers(levels int, command string) {
	f.t.Helper()
	dir := f.t.TempDir()
	for i := levels - 1; i >= 0; i-- {
		tasks := fmt.Sprintf("  call: {workflow: level%d}\n  after: {needs: call, run: \"true\"}", i+1)
		if i == levels-1 {
			tasks = fmt.Sprintf("  work: {run: %q}", command)
		}
		name := fmt.Sprint("level", i)
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte("name: "+name+"\ntasks:\n"+tasks+"\n"), 0o600); err != nil {
			f.t.Fatal(err)
		}
		f.members[0].home.run("workflow", "apply", file)
	}
}

// states lists the state of the newest run of each level.
func (f *flight) states(by *member, levels int) string {
	var all []string
	for i := range levels {
		page, err := by.client.Runs(f.t.Context(), skein.RunsQuery{Workflow: fmt.Sprint("level", i), Limit: 1})
		switch {
		case err != nil:
			all = append(all, "?")
		case len(page.Items) == 0:
			all = append(all, "-")
		default:
			all = append(all, page.Items[0].State)
		}
	}
	return strings.Join(all, " ")
}

// TestCallsElsewhere runs sub-workflows on two nodes. Each level runs on the other node than the level
// before, so starts, orders and ends are sent as messages.
func TestCallsElsewhere(t *testing.T) {
	t.Parallel()
	const levels = 4
	f := newFlight(t, 2, "SKEIN_LAG=5s")
	f.own(map[string]int{"n1": 16, "n2": 16})
	gate := filepath.Join(t.TempDir(), "gate")
	f.callers(levels, "until [ -e "+gate+" ]; do sleep 0.05; done")
	f.at(map[string]string{"level0": "n1", "level1": "n2", "level2": "n1", "level3": "n2"})
	one, two := f.members[0], f.members[1]

	one.detach("level0")
	one.home.until("the innermost runs", func() bool { return f.states(one, levels) == "suspended suspended suspended running" })
	one.home.run("run", "pause", "level0@latest")
	one.home.until("the pause has come through", func() bool { return !strings.Contains(f.states(two, levels-1), "suspended") })
	one.home.run("run", "resume", "level0@latest")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one.home.until("all have succeeded", func() bool { return f.states(one, levels) == strings.TrimSpace(strings.Repeat("succeeded ", levels)) })

	// A stop of the outermost run reaches the innermost run.
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	one.detach("level0")
	one.home.until("the innermost runs again", func() bool { return f.states(one, levels) == "suspended suspended suspended running" })
	two.home.run("run", "stop", "level0@latest")
	one.home.until("all are stopped", func() bool { return f.states(one, levels) == strings.TrimSpace(strings.Repeat("stopped ", levels)) })

	// The owner of every second level dies while the innermost run is active.
	one.detach("level0")
	one.home.until("the innermost runs once more", func() bool { return f.states(one, levels) == "suspended suspended suspended running" })
	two.kill()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one.home.until("the other node has ended it all", func() bool { return f.states(one, levels) == strings.TrimSpace(strings.Repeat("succeeded ", levels)) })
	one.home.until("no message waits", func() bool { return f.messages() == "0" })
	if out, err := f.query("select count(*) from skein.run"); err != nil || out != fmt.Sprint(3*levels) {
		t.Errorf("%s runs, %v; want %d", out, err, 3*levels)
	}
	two.start()
	f.listed(2)
	f.verified()
	one.stop()
	two.stop()
}
