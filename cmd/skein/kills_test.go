//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// killsShort is the number of kills that an ordinary test makes. SKEIN_KILLS sets another number.
const killsShort = 22

// killsLease is the lease of the processes that are killed.
const killsLease = 1500 * time.Millisecond

func killsSpan(name string) string { return name + fmt.Sprint(killsLease.Milliseconds()) + "ms" }

// lane is one process with a keeper, which the test kills again and again.
type lane struct {
	*home  // the home of the process
	t      *testing.T
	name   string
	client func() *skein.Client
	pid    func() int
	kill   func() // kills the process, which is not started again
	start  func()

	ended int // number of processes that had to end
	left  int // number of processes that had to end and did not
	// By kind of kill: the times from the moment at which all processes had to end until they had ended.
	after map[string][]time.Duration
}

// tree is a task whose processes resist: three of them ignore signals in sessions of their own, two have no
// living parent, and one has no environment. The name of the program contains the id of the run.
const tree = `[ "$SKEIN_TOKEN" = 1 ] || exit 0
setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 1; done; : tree-'$SKEIN_RUN_ID &
( ( setsid sh -c 'trap "" TERM HUP; exec 0<&- 1>&- 2>&-; while :; do sleep 1; done; : tree-'$SKEIN_RUN_ID & ) & )
%s
sleep 600 &
touch %s/at-$SKEIN_RUN_ID-$SKEIN_TASK
wait; sleep 600; : tree-$SKEIN_RUN_ID
`

const treeWiped = `( env -i PATH="$PATH" setsid sh -c 'trap "" TERM; while :; do sleep 1; done; : tree-'$SKEIN_RUN_ID & )`

// TestNoOrphans kills attempts, workers, servers and keepers again and again while process trees run that
// resist their end. After each kill, no process of the attempt is left. The test prints the longest time for
// each kind of kill. SKEIN_KILLS=1000 makes 1,000 kills.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	kills := killsShort
	if text := os.Getenv("SKEIN_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	wiped := ""
	if h := newHome(t); bytes.Contains(h.run("doctor"), []byte("\tcgroup2 ")) {
		wiped = treeWiped
	} else {
		t.Log("containment is not cgroup2: what wipes its environment is not found here, and not tried")
	}
	lanes := []*lane{serverLane(t), workerLane(t)}
	for _, l := range lanes {
		l.workflows(wiped)
	}
	t.Run("kills", func(t *testing.T) {
		for i, l := range lanes {
			l.t, l.after = t, map[string][]time.Duration{}
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				l.t = t
				t.Logf("seed %d", seed)
				l.all(kills/len(lanes), rand.New(rand.NewPCG(seed, uint64(i))))
			})
		}
	})
	for _, l := range lanes {
		for _, kind := range killKinds {
			if took := l.after[kind]; len(took) > 0 {
				slices.Sort(took)
				t.Logf("%-6s %-24s %4d kills; gone after p50 %v, p99 %v, max %v", l.name, kind, len(took), took[(len(took)-1)/2].Round(time.Millisecond),
					took[(len(took)-1)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
			}
		}
		t.Logf("%-6s %d processes were to go, %d are left", l.name, l.ended, l.left)
	}
}

// serverLane makes a lane of a server, which runs the tasks itself.
func serverLane(t *testing.T) *lane {
	h := newHome(t)
	h.env = []string{killsSpan("SKEIN_LEASE="), "SKEIN_SLOTS=4"}
	cmd, k := h.server()
	l := &lane{home: h, name: "server", client: func() *skein.Client { return k }, pid: func() int { return cmd.Process.Pid }}
	l.kill = func() {
		if err := cmd.Process.Kill(); err != nil {
			l.t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	l.start = func() { cmd, k = h.server() }
	return l
}

// workerLane makes a lane of a worker, whose node runs no tasks itself.
func workerLane(t *testing.T) *lane {
	f := newFlight(t, 1, "SKEIN_ROLES=api,scheduler", "SKEIN_LAG=3s")
	w := f.worker("w1", "--slots", "4", killsSpan("--lease="))
	f.listed(2)
	return &lane{home: w.home, name: "worker", client: func() *skein.Client { return f.members[0].client },
		pid: func() int { return w.cmd.Process.Pid }, kill: w.kill, start: w.start}
}

// killKinds are the ways in which attempts end before their time.
var killKinds = []string{"run stopped", "run killed", "task stopped", "timeout", "process killed", "process frozen", "keeper killed", "keeper frozen",
	"process and keeper killed", "first process killed"}

// workflows applies the workflows whose attempts are killed.
func (l *lane) workflows(wiped string) {
	l.home.t.Helper()
	script := filepath.Join(l.dir, "tree.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, tree, wiped, l.dir), 0o600); err != nil {
		l.home.t.Fatal(err)
	}
	for name, more := range map[string]string{"tree": "", "late": "timeout: 1s, "} {
		text := fmt.Sprintf("name: %s\ntasks:\n  a: {%skill_grace: 200ms, run: [sh, %s]}\n  b: {%skill_grace: 200ms, run: [sh, %s]}\n", name, more, script, more, script)
		if _, err := l.client().Apply(context.Background(), name, api.ApplyRequest{Source: text}); err != nil {
			l.home.t.Fatal(err)
		}
	}
}

// all makes a number of kills, with each kind equally often.
func (l *lane) all(kills int, rng *rand.Rand) {
	var kinds []string
	for n := 0; n < kills; n++ {
		if len(kinds) == 0 {
			for _, i := range rng.Perm(len(killKinds)) {
				kinds = append(kinds, killKinds[i])
			}
		}
		l.once(kinds[0])
		kinds = kinds[1:]
		if l.t.Failed() {
			l.t.Fatalf("kill %d", n)
		}
	}
}

// once begins a run of two trees, makes one kill, and waits until all processes are gone and the run has the
// expected end.
func (l *lane) once(kind string) {
	workflow, want := "tree", "succeeded"
	switch kind {
	case "timeout":
		workflow, want = "late", "failed"
	case "first process killed", "task stopped":
		want = "failed"
	case "run stopped", "run killed":
		want = "stopped"
	}
	run, _, err := l.client().Start(l.t.Context(), api.RunRequest{Workflow: workflow})
	if err != nil {
		l.t.Fatalf("%s: %v", kind, err)
	}
	began := l.begun(run.ID)
	l.ended += len(l.of(run.ID))
	due, restore := l.strike(kind, run.ID, began)
	for until := time.Now().Add(awaitMax); ; time.Sleep(10 * time.Millisecond) {
		left := l.of(run.ID)
		if len(left) == 0 {
			l.after[kind] = append(l.after[kind], max(0, time.Since(due)))
			break
		}
		if time.Now().After(until) {
			l.left += len(left)
			l.t.Errorf("%s: %d processes of run %s are left: %v", kind, len(left), run.ID, left)
			break
		}
	}
	restore()
	l.ends(kind, run.ID, want)
}

// begun waits until both tasks have all their processes, and returns the time at which the later one had
// them.
func (l *lane) begun(run string) (at time.Time) {
	for _, task := range []string{"a", "b"} {
		l.until("the tree of "+task, func() bool {
			info, err := os.Stat(filepath.Join(l.dir, "at-"+run+"-"+task))
			if err == nil && info.ModTime().After(at) {
				at = info.ModTime()
			}
			return err == nil
		})
	}
	return at
}

// strike kills processes. It returns the time after which nothing may be left, and a function that restarts
// the killed processes.
func (l *lane) strike(kind, run string, began time.Time) (due time.Time, restore func()) {
	var err error
	signal := func(pid int, s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			l.t.Fatalf("%s: %v", kind, err)
		}
	}
	due, restore = time.Now(), func() {}
	keeper, pid := keeperOf(l.data()), l.pid()
	switch kind {
	case "run stopped":
		_, err = l.client().StopRun(l.t.Context(), run, "")
	case "run killed":
		_, err = l.client().KillRun(l.t.Context(), run, "")
	case "task stopped":
		for _, task := range []string{"a", "b"} {
			if _, e := l.client().StopTask(l.t.Context(), run, task, ""); e != nil {
				err = e
			}
		}
	case "timeout":
		due = began.Add(time.Second)
	case "process killed":
		l.kill()
		due, restore = due.Add(killsLease), l.start
	case "process frozen":
		signal(pid, syscall.SIGSTOP)
		due, restore = due.Add(killsLease), func() { signal(pid, syscall.SIGCONT) }
	case "keeper killed":
		signal(keeper, syscall.SIGKILL)
	case "keeper frozen":
		signal(keeper, syscall.SIGSTOP)
		due = due.Add(killsLease)
	case "process and keeper killed": // only the next server process can end the remaining processes
		l.kill()
		signal(keeper, syscall.SIGKILL)
		due = time.Now()
		up := make(chan struct{}) // the new server kills the remaining processes before it is ready
		go func() {
			defer close(up)
			l.start()
		}()
		restore = func() { <-up }
	case "first process killed":
		for _, first := range l.firsts(run) {
			signal(first, syscall.SIGKILL)
		}
	}
	if err != nil {
		l.t.Fatalf("%s: %v", kind, err)
	}
	return due, restore
}

// of returns the processes whose environment or command line names the run.
func (l *lane) of(run string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		for _, name := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || !bytes.Contains(text, []byte("tree-"+run)) && !bytes.Contains(text, []byte("SKEIN_RUN_ID="+run)) {
				continue // the process has ended, or belongs to another test
			}
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
			break
		}
	}
	return pids
}

// firsts returns the first process of each attempt of a run. The keeper has started them itself, and has not
// adopted them from other parents.
func (l *lane) firsts(run string) (pids []int) {
	for _, pid := range l.of(run) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.HasSuffix(string(line), "/tree.sh\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ends waits for the end of a run.
func (l *lane) ends(kind, id, want string) {
	var run api.Run
	var err error
	l.until(kind+": the run ends", func() bool {
		time.Sleep(20 * time.Millisecond) // the pause between two looks
		run, err = l.client().Run(l.t.Context(), id, skein.WithTasks())
		return err == nil && run.Ended()
	})
	if run.State != want {
		text, _ := json.MarshalIndent(run, "", " ")
		l.t.Errorf("%s: want %s, got %s:\n%.3000s", kind, want, run.State, text)
	}
}
