package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// earlierLife starts a tree with a daemon and waits to be killed.
func earlierLife(data string) {
	if join := os.Getenv("WORKER_TEST_JOIN"); join != "" {
		if err := os.WriteFile(join+"/cgroup.procs", []byte("0"), 0); err != nil {
			panic(err)
		}
	}
	w, err := New(Config{DataDir: data, GroupsOnly: os.Getenv("WORKER_TEST_GROUPS") != "", Report: func(rs ...Result) { fmt.Println("ended", rs[0]) }})
	if err != nil {
		panic(err)
	}
	for i, run := range []string{"one", "two"} {
		w.Start(Job{
			Key:  Key{Namespace: "n", Workflow: "w", RunID: run, Task: "t", Attempt: i + 1},
			Argv: []string{"sh", "-c", `(setsid sh -c 'trap "" TERM; echo $$ > $BELL; while :; do sleep 1000; done' &); sleep 1000`},
			Env:  []string{"BELL=" + os.Getenv("BELL")},
		})
	}
	select {}
}

func TestReap(t *testing.T) {
	eachContainment(t, func(t *testing.T, change func(*Config)) {
		for _, sameNow := range []bool{true, false} { // whether the next life uses the same containment
			t.Run(fmt.Sprint("same ", sameNow), func(t *testing.T) { testReap(t, change, sameNow) })
		}
	})
}

func testReap(t *testing.T, change func(*Config), sameNow bool) {
	b := newBell(t)
	later := func(c *Config) {
		change(c)
		if !sameNow {
			c.GroupsOnly = !c.GroupsOnly
		}
	}
	r := newRig(t, later)
	data := r.Worker.data
	var cfg Config
	change(&cfg)
	life := exec.Command(os.Args[0])
	life.Env = append(os.Environ(), lifeVar+"="+data, "BELL="+b.path)
	if cfg.GroupsOnly {
		life.Env = append(life.Env, "WORKER_TEST_GROUPS=1")
	}
	if err := life.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // needed if the test fails before
		_ = life.Process.Kill()
		_, _ = r.Reap(context.Background(), nil)
	})
	daemons := []string{b.line(t), b.line(t)}
	if err := life.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = life.Wait()
	for _, pid := range daemons {
		if n, _ := strconv.Atoi(pid); zombie(n) {
			t.Fatalf("daemon %s did not outlive the node: this test shows nothing", pid)
		}
	}

	own := r.sh("echo up > '" + b.path + "'; exec sleep 1000")
	r.Start(own)
	b.line(t) // the folder of this life exists as soon as its attempt runs
	var asked []string
	killed, err := r.Reap(t.Context(), func(o Orphan) bool {
		asked = append(asked, o.Key.RunID)
		if len(o.PIDs) == 0 || o.Key.Workflow != "w" || o.Key.Attempt == 0 {
			t.Errorf("orphan %+v", o)
		}
		return o.Key.RunID == "one"
	})
	if err != nil || killed < 1 || len(asked) != 2 {
		t.Errorf("killed %d, asked about %q: %v", killed, asked, err)
	}
	if len(leftovers(data)) < 2 {
		t.Errorf("the folder of the spared attempt was removed: %q", leftovers(data))
	}
	if killed, err = r.Reap(t.Context(), nil); err != nil || killed < 1 {
		t.Errorf("killed %d: %v", killed, err)
	}
	for _, pid := range daemons {
		if n, _ := strconv.Atoi(pid); !zombie(n) {
			t.Errorf("daemon %s lives", pid)
		}
	}
	if killed, err = r.Reap(t.Context(), nil); err != nil || killed != 0 {
		t.Errorf("again: killed %d: %v", killed, err)
	}
	r.Stop(own.Key, ModeKill)
	want(t, r.wait(), Stopped, CauseKilled, "SIGKILL") // Reap has spared the attempt, so it ends only now
	for _, name := range leftovers(data) {
		if strings.TrimSuffix(name, cgroupSuffix) != r.life {
			t.Errorf("%s of the earlier life is still there", name)
		}
	}
	if at := r.contain.location(); at != "" {
		if dirs := subfolders(filepath.Dir(at)); len(dirs) != 1 || dirs[0] != at {
			t.Errorf("cgroups of the earlier life are still there: %q", dirs)
		}
	}
}

// TestOwnCgroupWasKilled kills the node's own cgroup before the node enters it, as when a service is killed
// and restarted. See cgroups.bumps.
func TestOwnCgroupWasKilled(t *testing.T) {
	r := newRig(t)
	if !strings.HasPrefix(r.Containment(), "cgroup2") || os.Geteuid() != 0 {
		t.Skip("needs root and cgroup2: " + r.Containment())
	}
	own := filepath.Join(r.contain.location(), "service")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	killCgroup(own)
	killCgroup(own)
	b := newBell(t)
	life := exec.Command(os.Args[0])
	life.Env = append(os.Environ(), lifeVar+"="+t.TempDir(), "BELL="+b.path, "WORKER_TEST_JOIN="+own)
	if err := life.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = life.Process.Kill() })
	pid, _ := strconv.Atoi(b.line(t))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || !strings.Contains(string(text), "/service/skein/") {
		t.Errorf("a task is in %s, %v", text, err)
	}
	killCgroup(own)
	_ = life.Wait()
	for len(cgroupPids(own)) > 0 {
		runtime.Gosched()
	}
}

// TestReapDistrustsNotes checks that a damaged file of cgroups does not make Reap kill processes that do not
// belong to this data folder.
func TestReapDistrustsNotes(t *testing.T) {
	r := newRig(t)
	self, err := ownCgroup()
	if err != nil {
		t.Skip("this kernel has no cgroup2")
	}
	for _, at := range []string{"/", "", "/sys/fs/cgroup/unified" + self, "/tmp/feed", "/sys/fs/cgroup/feed"} {
		if err := os.WriteFile(filepath.Join(r.data, "work", "feed"+cgroupSuffix), []byte(at), 0o600); err != nil {
			t.Fatal(err)
		}
		if killed, err := r.Reap(t.Context(), nil); killed != 0 || err != nil {
			t.Errorf("%q: killed %d, %v", at, killed, err)
		}
	}
}
