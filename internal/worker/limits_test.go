package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimitsOfATree checks the writes to and reads from a cgroup when limits change. A plain folder
// replaces the cgroup, because not every machine has the controllers.
func TestLimitsOfATree(t *testing.T) {
	c := &cgroupTree{dir: t.TempDir()}
	read := func(name string) string {
		text, err := os.ReadFile(c.dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if !c.limit(0, 0) {
		t.Error("no limit is one that cannot be set")
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) > 0 {
		t.Errorf("an attempt without limits wrote %v (%v)", entries, err)
	}
	if !c.limit(2500, 64<<20) || read("cpu.max") != "250000 100000" || read("memory.max") != "67108864" || read("memory.swap.max") != "0" {
		t.Errorf("cpu.max %q, memory.max %q", read("cpu.max"), read("memory.max"))
	}
	if !c.limit(1, 0) || read("cpu.max") != "1000 100000" || read("memory.max") != "max" || read("memory.swap.max") != "max" {
		t.Errorf("lifted: cpu.max %q, memory.max %q", read("cpu.max"), read("memory.max"))
	}
	if c.starved() != 0 {
		t.Error("starved without memory.events")
	}
	if err := os.WriteFile(c.dir+"/memory.events", []byte("low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.starved(); got != 3 {
		t.Errorf("%d kills for memory, want 3", got)
	}
	c.dir += "/gone"
	if c.limit(5, 5) {
		t.Error("limits were set in a cgroup that is not there")
	}
	if Cores() < 1 || Memory() < 1 {
		t.Errorf("this machine has %d thousandths of a core and %d bytes", Cores(), Memory())
	}
}

// TestLimitsHold checks that the resources of a task limit its first process and the processes that this one
// starts at once. The worker itself must not be limited, and no cgroup may be left. The test needs the right
// to divide cgroups of version 2 or 1.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, ok := r.contain.(*cgroups)
	if !ok || c.unlimited != nil {
		t.Skip("cpu and memory cannot be limited here: " + r.Containment())
	}
	job := func(attempt int, memory int64, command string) Job {
		return Job{Key: Key{Namespace: "default", Workflow: "w", RunID: "limits", Task: "a", Attempt: attempt}, Argv: []string{"sh", "-c", command}, CPU: 2000, Memory: memory}
	}
	const greedy = `python3 -c 'x = bytearray(100 << 20)'`
	want(t, r.run(job(1, 64<<20, greedy)), Failed, CauseMemory, "more than its memory of 64 MiB")
	want(t, r.run(job(2, 64<<20, "true & "+greedy)), Failed, CauseMemory, "more than its memory")
	alone := job(7, 64<<20, "")
	alone.Argv = []string{"python3", "-c", "x = bytearray(100 << 20)"} // the kernel ends this process
	want(t, r.run(alone), Failed, CauseMemory, "memory of 64 MiB, and the kernel ended it; ended by SIGKILL")
	want(t, r.run(job(3, 64<<20, "exit 3")), Failed, CauseExit, "exit code 3")
	want(t, r.run(job(4, 1<<30, greedy)), Succeeded, "", "")
	none := job(5, 0, greedy+"; echo at=$(tr '\\n' ' ' < /proc/self/cgroup) >> $SKEIN_OUTPUT")
	none.CPU = 0
	got := r.run(none)
	want(t, got, Succeeded, "", "")
	if c.old != nil && strings.Count(string(got.Outputs), filepath.Base(c.life)) != 1 { // version 2 only
		t.Errorf("without limits it ran at %s", got.Outputs)
	}
	if c.old == nil {
		return
	}
	of := filepath.Dir(c.old.at["cpu"])
	read := job(6, 0, "echo quota=$(cat "+of+"/*/*/cpu.cfs_quota_us) >> $SKEIN_OUTPUT; grep cpu: /proc/self/cgroup | grep -q "+dataID(r.Worker.data))
	read.CPU = 500
	if got = r.run(read); string(got.Outputs) != `{"quota":"50000"}` {
		t.Errorf("%+v", got)
	}
	threads, err := filepath.Glob("/proc/self/task/*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		if text := readText(path); strings.Contains(text, "skein/"+dataID(r.Worker.data)) {
			t.Errorf("a thread of the worker is still at %s", text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for controller, at := range c.old.at {
		if exists(at) {
			t.Errorf("left of %s: %s", controller, at)
		}
	}
}

// TestLegacy checks the writes to the folders of version 1 when limits change. A plain folder replaces the
// hierarchies.
func TestLegacy(t *testing.T) {
	root := t.TempDir()
	tree := &legacyTree{of: &legacy{at: map[string]string{"cpu": root + "/cpu", "memory": root + "/memory"}, home: map[string]string{"cpu": root, "memory": root}}, name: "0"}
	read := func(name string) string { return readText(filepath.Join(root, name)) }
	if !tree.limit(0, 0) || exists(root+"/cpu") {
		t.Error("an attempt without limits made folders")
	}
	if !tree.limit(2500, 64<<20) || read("cpu/0/cpu.cfs_quota_us") != "250000" || read("cpu/0/cpu.cfs_period_us") != "100000" || read("memory/0/memory.limit_in_bytes") != "67108864" {
		t.Errorf("quota %q, limit %q", read("cpu/0/cpu.cfs_quota_us"), read("memory/0/memory.limit_in_bytes"))
	}
	if err := os.WriteFile(root+"/memory/0/memory.oom_control", []byte("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tree.starved(); got != 4 {
		t.Errorf("%d kills for memory, want 4", got)
	}
	back, err := tree.enter()
	if err != nil || read("cpu/0/tasks") == "" || read("memory/0/tasks") == "" || back() != nil || read("tasks") == "" {
		t.Errorf("the thread was not there: %v", err)
	}
	// A plain folder cannot be removed like a cgroup.
	if err := errors.Join(os.RemoveAll(root+"/cpu/0"), os.RemoveAll(root+"/memory/0")); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.enter(); err == nil {
		t.Error("entered what is gone")
	}
	tree.of.at["memory"] = "/dev/null"
	if tree.limit(1, 1) || tree.cpu != 0 {
		t.Error("limits were set where that is impossible")
	}
}
