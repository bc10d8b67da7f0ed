//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestFullDiskForLogs: a task whose log has no room continues and ends normally, and its result counts the
// lost bytes.
func TestFullDiskForLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logs := w.smallDisk("logs", 1<<20)
	if err := os.Mkdir(w.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(logs, filepath.Join(w.data, "logs")); err != nil {
		t.Fatal(err)
	}
	p := w.server()
	p.apply("loud", `
  much: {run: "head -c 8000000 /dev/zero | tr '\\0' x; echo did=it >> $SKEIN_OUTPUT"}
  next: {run: "echo quiet", needs: much}
  last: {run: "exit 3", needs: next}
`)
	run := p.wantState(p.begin("loud", nil), "failed")
	much := taskOf(t, &run, "much")
	if much.State != "succeeded" || string(much.Outputs) != `{"did":"it"}` || !strings.Contains(deref(much.Attempts[0].Message), "no space left") {
		t.Errorf("the loud task: %+v", much)
	}
	if last := taskOf(t, &run, "last"); deref(last.Attempts[0].ExitCode) != 3 {
		t.Errorf("the last task: %+v", last)
	}
	// When there is room again, logs are complete again.
	if err := os.RemoveAll(filepath.Join(logs, "loud")); err != nil {
		entries, _ := os.ReadDir(logs)
		t.Fatal(err, entries)
	}
	for _, e := range must(os.ReadDir(logs))(t) {
		_ = os.RemoveAll(filepath.Join(logs, e.Name()))
	}
	p.apply("small", `
  a: {run: "echo whole"}
`)
	id := p.begin("small", nil)
	p.wantState(id, "succeeded")
	if got := p.logOf(id, "a", 1); got != "whole\n" {
		t.Errorf("the log is %q", got)
	}
	p.stop()
	w.verify()
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestFullDisk: if the database has no room, starts are refused with the reason, and running attempts
// continue. When there is room again, the node continues by itself, and all accepted runs end.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.data = w.smallDisk("disk", 24<<20)
	w.env = append(w.env, "SKEIN_DATA="+w.data)
	p := w.server("--slots", "4")
	p.apply("slow", fmt.Sprintf(`
  a: {run: "touch at-a; until [ -e %[1]s/open ]; do sleep 0.02; done"}
  b: {run: "echo $SKEIN_TOKEN >> %[1]s/b-ran", needs: a}
  c: {run: "true", needs: b}
`, w.dir))
	p.apply("quick", "  a: {run: 'true', if: \"true\"}\n")
	var accepted []string
	for range 4 {
		accepted = append(accepted, p.begin("slow", nil))
	}
	w.appears("at-a")
	ballast := fill(t, w.data)
	// A few starts are still accepted, because the database has some room left. From the first refusal on, it is
	// full.
	refused := 0
	for n := 0; refused < 20; n++ {
		run, _, err := p.Start(t.Context(), api.RunRequest{Workflow: "quick", IdempotencyKey: fmt.Sprint("key-", n),
			Params: nil})
		var e *skein.Error
		switch {
		case err == nil:
			accepted = append(accepted, run.ID)
		case errors.As(err, &e) && (e.Problem.Status == 507 || e.Problem.Status == 503):
			if refused++; e.Problem.Detail == "" || e.RetryAfter == 0 {
				t.Errorf("a refusal that says too little: %+v", e)
			}
		default:
			t.Fatalf("submission %d: %v", n, err)
		}
		if n > 20_000 {
			t.Fatal("the disk does not get full")
		}
	}
	if !p.alive() {
		t.Fatal("the server ended")
	}
	// The server answers reads, and gives the reason.
	if _, err := p.Run(t.Context(), accepted[0]); err != nil {
		t.Errorf("reading on a full disk: %v", err)
	}
	before := cpu(t, p)
	w.gate("open") // the running tasks end while nothing can be written
	w.eventually("a report cannot be written", func() bool { return p.Ready(t.Context()) != nil })
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	t.Logf("accepted %d; CPU before %v, after %v", len(accepted), before, cpu(t, p))
	w.eventually("the node is ready again", func() bool { return p.Ready(t.Context()) == nil })
	for _, id := range accepted {
		p.wantState(id, "succeeded")
	}
	if got := w.read("b-ran"); got != "1\n1\n1\n1\n" {
		t.Errorf("the tasks that waited ran with these tokens: %q", got)
	}
	p.stop()
	w.verify()
}

// cpu is the processor time of a process so far, in ticks of 10 ms.
func cpu(t testing.TB, p *process) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return f[11] + "+" + f[12]
}

// TestDiskThatLoses: the kernel cannot write data that it has accepted, and only one sync reports that. The
// server ends at once with the reason. Running attempts continue, and the next server, which writes the log
// again, takes them over.
func TestDiskThatLoses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	below := w.smallDisk("below", 24<<20)
	w.data = filepath.Join(w.dir, "thin")
	if err := os.Mkdir(w.data, 0o700); err != nil {
		t.Fatal(err)
	}
	// The disk has a size of 64 MiB, but room for only 24 MiB.
	image := filepath.Join(below, "image")
	if out, err := exec.Command("sh", "-c", `truncate -s 64M "$0" && mkfs.ext4 -q -O ^has_journal "$0" && mount -o loop "$0" "$1"`, image, w.data).CombinedOutput(); err != nil {
		t.Skipf("a disk without room behind it cannot be made here, which this test needs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(w.data, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w.env = append(w.env, "SKEIN_DATA="+w.data)
	p := w.server()
	p.apply("waits", "  a: {run: 'touch at-$SKEIN_TOKEN; until [ -e open ]; do sleep 0.02; done'}\n")
	p.apply("quick", "  a: {run: 'true'}\n")
	id := p.begin("waits", nil)
	w.appears("at-1")
	ballast := fill(t, below)
	var known []string // the runs that were acknowledged
	p.eventually("the disk has lost something", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		run, _, err := p.Start(ctx, api.RunRequest{Workflow: "quick"})
		if err == nil {
			known = append(known, run.ID)
		}
		return err != nil
	})
	if code := p.wait(); code != exitError || !strings.Contains(p.log.String(), "store_lost") {
		t.Errorf("it ended with %d", code)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	p = w.server()
	w.gate("open")
	for _, id := range append(known, id) {
		if run := p.wantState(id, "succeeded"); len(run.Tasks[0].Attempts) != 1 {
			t.Errorf("attempts: %+v", run.Tasks[0].Attempts)
		}
	}
	p.stop()
	w.verify()
}

// TestFullDiskAtStart: if there is no room when the server starts, the error says so, and nothing is damaged.
func TestFullDiskAtStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.data = w.smallDisk("disk", 8<<20)
	w.env = append(w.env, "SKEIN_DATA="+w.data)
	valid := w.workflow("valid", "  a: {run: 'true'}\n")
	ballast := fill(t, w.data)
	for _, verb := range [][]string{{"server"}, {"run", valid}} {
		o := w.skein(verb...)
		if o.code == exitOK || !strings.Contains(o.err, w.data) || !strings.Contains(o.err, "full") && !strings.Contains(o.err, "no space left") {
			t.Errorf("an empty folder without room: %v: %v", verb, o)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.refused(exitOK, nil, "run", valid)
	fill(t, w.data)
	for _, verb := range [][]string{{"server"}, {"run", valid}} {
		o := w.skein(verb...)
		if o.code == exitOK || !strings.Contains(o.err, "full") && !strings.Contains(o.err, "no space left") {
			t.Errorf("a database without room: %v: %v", verb, o)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.refused(exitOK, nil, "run", valid)
	w.verify()
}

// hostile returns tasks whose processes try to outlive the attempt. Each command line contains mark.
func hostile(mark string) map[string]string {
	daemon := `setsid sh -c 'trap "" TERM HUP INT; exec 0<&- 1>&- 2>&-; while :; do sleep 1; done; : ` + mark + `' &`
	return map[string]string{
		"deaf":     `trap '' TERM INT HUP; touch ready; while :; do sleep 1; done; : ` + mark,
		"daemons":  daemon + daemon + ` touch ready; sleep 600; : ` + mark,
		"twice":    `( ( ` + daemon + ` ) & ) ; ( setsid setsid sh -c "trap '' TERM; touch ready; sleep 601; : ` + mark + `" & ) & wait; sleep 600; : ` + mark,
		"wiped":    `env -i setsid sh -c "trap '' TERM; touch ready; while :; do sleep 1; done; : ` + mark + `" & sleep 600; : ` + mark,
		"closed":   `exec 0<&- 1>&- 2>&-; touch ready; sleep 600; : ` + mark,
		"endless":  `touch ready; yes ` + mark,
		"children": `i=0; while [ $i -lt 150 ]; do sleep 60$i & i=$((i+1)); done; touch ready; wait; : ` + mark,
		"group":    `trap '' TERM; kill -TERM 0; touch ready; sleep 600; : ` + mark,
		"stopped":  `touch ready; kill -STOP $$; : ` + mark,
		"forks":    `f() { sleep 1; f & }; trap '' TERM; f & f & touch ready; wait; sleep 600; : ` + mark,
	}
}

// TestHostileTasks: after the end, a stop, a kill or a timeout of an attempt, no process of its tree is
// alive, whatever the processes tried, and the node still works.
func TestHostileTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server("--slots", "64")
	if c := w.skein("doctor"); !strings.Contains(c.out, "cgroup2") {
		t.Logf("containment is not cgroup2: what wipes its environment is not found here: %s", c.out)
	}
	type started struct{ id, mark, how, want string }
	var all []started
	for name := range hostile("") {
		for _, how := range []string{"stop", "kill", "timeout", "end"} {
			if how == "end" && (name == "group" || name == "stopped") {
				continue // the signal of this task would hit the first process
			}
			wf := name + "-" + how
			mark := fmt.Sprintf("adv%d%s", os.Getpid(), wf)
			w.leaveNothing(mark)
			dir := filepath.Join(w.dir, wf)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			script, more, want := hostile(mark)[name], "", "stopped"
			switch how {
			case "timeout":
				more, want = "timeout: 1s,", "failed"
			case "end": // the first process ends by itself, and its children stay
				script, want = "( "+script+" ) & while ! [ -e ready ]; do sleep 0.01; done; exit 0", "succeeded"
			}
			path := w.write(wf+"/workflow.yaml", fmt.Sprintf("name: %s\ntasks:\n  a: {%s kill_grace: 200ms, run: %q}\n", wf, more, script))
			o := w.skein("run", path, "--detach", "-o", "name")
			if o.code != exitOK {
				t.Fatal(o)
			}
			all = append(all, started{strings.TrimSpace(o.out), mark, how, want})
		}
	}
	for _, s := range all {
		wf := strings.TrimPrefix(s.mark, fmt.Sprintf("adv%d", os.Getpid()))
		w.eventually(wf+" began or ended", func() bool {
			_, err := os.Stat(filepath.Join(w.dir, wf, "ready"))
			run, e := p.Run(t.Context(), s.id)
			return err == nil || e == nil && run.Ended()
		})
		var err error
		switch s.how {
		case "stop":
			_, err = p.StopRun(t.Context(), s.id, "")
		case "kill":
			_, err = p.KillRun(t.Context(), s.id, "")
		}
		if err != nil && !errors.Is(err, skein.ErrConflict) {
			t.Error(err)
		}
	}
	for _, s := range all {
		run := p.ends(s.id)
		if a := run.Tasks[0].Attempts; run.State != s.want {
			t.Errorf("%s: want %s, got %s: %+v", s.mark, s.want, run.State, a)
		}
		if left := processesWith(s.mark); len(left) > 0 {
			t.Errorf("%s: still alive: %v", s.mark, left)
		}
	}
	p.stop()
	w.verify()
}

// TestKilledParent: a task that kills the group of its parent kills the keeper, which cannot be prevented.
// The server survives, and starts the next keeper.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	p.apply("patricide", `
  a: {run: "[ $SKEIN_TOKEN -gt 1 ] || { kill -KILL -$(ps -o pgid= -p $PPID | tr -d ' '); sleep 600; }"}
  b: {run: "true", needs: a}
`)
	id := p.begin("patricide", nil)
	if run := p.wantState(id, "succeeded"); len(run.Tasks[0].Attempts) != 2 {
		t.Errorf("attempts: %+v", run.Tasks[0].Attempts)
	}
	p.stop()
	w.verify()
}

// TestNoOverlap: server and keeper are killed again and again while tasks with daemons run. Before a new
// attempt begins, all processes of the old attempt are gone, and no token runs twice.
func TestNoOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The daemon of each attempt writes a line every moment while it lives. If a new attempt sees by these lines
	// that an older attempt is alive, it writes that down.
	w.write("witness.sh", `#!/bin/sh
mark=$1
echo "begin $SKEIN_TASK $SKEIN_TOKEN" >> witness
others=$(ps -eo pid=,args= | grep "[d]aemon-$mark-$SKEIN_TASK-" | grep -v "daemon-$mark-$SKEIN_TASK-$SKEIN_TOKEN " || true)
[ -z "$others" ] || echo "overlap $SKEIN_TASK $SKEIN_TOKEN: $others" >> witness
setsid env -i sh -c "trap '' TERM HUP; while :; do /bin/sleep 0.2; done # daemon-$mark-$SKEIN_TASK-$SKEIN_TOKEN " </dev/null >/dev/null 2>&1 &
touch at-$SKEIN_TASK-$SKEIN_TOKEN
until [ -e open ]; do sleep 0.02; done
echo "end $SKEIN_TASK $SKEIN_TOKEN" >> witness
`)
	mark := fmt.Sprint("adv", os.Getpid())
	w.leaveNothing("daemon-" + mark)
	const tasks, kills = 6, 4
	var b strings.Builder
	for i := range tasks {
		fmt.Fprintf(&b, "  t%d: {run: [sh, ./witness.sh, %s]}\n", i, mark)
	}
	p := w.server("--slots", "8")
	o := w.skein("run", w.workflow("overlap", b.String()), "--detach", "-o", "name")
	if o.code != exitOK {
		t.Fatal(o)
	}
	id := strings.TrimSpace(o.out)
	for k := range kills {
		for i := range tasks {
			w.appears(fmt.Sprintf("at-t%d-%d", i, k+1))
		}
		p.crash()
		p = w.server("--slots", "8")
	}
	for i := range tasks {
		w.appears(fmt.Sprintf("at-t%d-%d", i, kills+1))
	}
	w.gate("open")
	run := p.wantState(id, "succeeded")
	begun := map[string]int{}
	for line := range strings.Lines(w.read("witness")) {
		if strings.HasPrefix(line, "overlap") {
			t.Error(line)
		}
		if begun[line]++; begun[line] > 1 {
			t.Errorf("twice: %s", line)
		}
	}
	for i := range run.Tasks {
		task := &run.Tasks[i]
		if len(task.Attempts) != kills+1 {
			t.Errorf("%s has %d attempts", task.Name, len(task.Attempts))
		}
		for j, a := range task.Attempts {
			if j < kills && a.State != "lost" || j == kills && a.State != "succeeded" {
				t.Errorf("%s, attempt %d: %s", task.Name, j+1, a.State)
			}
		}
	}
	if left := processesWith("daemon-" + mark); len(left) > 0 {
		t.Errorf("still alive: %v", left)
	}
	p.stop()
	w.verify()
}

// TestOddCrashes: the server is killed while it starts, while it stops, and between a submission and its
// answer.
func TestOddCrashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	p.apply("chain", `
  a: {run: "echo $SKEIN_RUN_ID-$SKEIN_TOKEN >> tokens"}
  b: {run: "true", needs: a}
`)
	var ids []string
	for range 30 {
		ids = append(ids, p.begin("chain", nil))
	}
	// The server is killed in the middle of a start, at 25 different moments.
	for i := range 25 {
		p.kill()
		p = w.start("server")
		for range i * i * 40 { // no place is chosen; the count only spreads them
			_, _ = os.Stat(w.data)
		}
	}
	p.kill()
	p = w.server()
	for _, id := range ids {
		p.wantState(id, "succeeded")
	}
	// The server is killed while it stops and waits for a task that does not end.
	p.apply("long", "  a: {run: 'touch at-long; until [ -e open ]; do sleep 0.02; done'}\n")
	long := p.begin("long", nil)
	w.appears("at-long")
	p.signal(syscall.SIGTERM)
	w.eventually("it takes nothing new", func() bool { return p.Ready(t.Context()) != nil })
	p.kill()
	p = w.server()
	w.gate("open")
	if run := p.wantState(long, "succeeded"); len(run.Tasks[0].Attempts) != 1 {
		t.Errorf("attempts: %+v", run.Tasks[0].Attempts)
	}
	// The server is killed while submissions are on their way. Repeated with the same key, each submission is one
	// run.
	type answer struct{ id, key string }
	answers := make(chan answer)
	for i := range 40 {
		go func() {
			key := fmt.Sprint("key-", i)
			run, _, _ := p.Start(t.Context(), api.RunRequest{Workflow: "chain", IdempotencyKey: key})
			answers <- answer{run.ID, key}
		}()
	}
	known := map[string]string{}
	for i := range 40 {
		if i == 10 {
			p.signal(syscall.SIGKILL)
		}
		a := <-answers
		known[a.key] = a.id
	}
	<-p.ended
	p = w.server()
	for key, id := range known {
		run, _, err := p.Start(t.Context(), api.RunRequest{Workflow: "chain", IdempotencyKey: key})
		if err != nil || id != "" && id != run.ID {
			t.Errorf("key %s was run %q, is %q: %v", key, id, run.ID, err)
		}
		known[key] = run.ID
	}
	for _, id := range known {
		p.wantState(id, "succeeded")
	}
	seen := map[string]int{}
	for line := range strings.Lines(w.read("tokens")) {
		if seen[line]++; seen[line] > 1 {
			t.Errorf("a token ran twice: %s", line)
		}
	}
	page, err := p.Runs(t.Context(), skein.RunsQuery{Workflow: "chain", Limit: 1000})
	if err != nil || len(page.Items) != len(ids)+len(known) {
		t.Errorf("%d runs, want %d: %v", len(page.Items), len(ids)+len(known), err)
	}
	p.stop()
	w.verify()
}

// TestFrozenServer: a server that was frozen for longer than every deadline continues its work.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.server()
	p.apply("timed", fmt.Sprintf(`
  quick: {run: "touch at-quick; until [ -e %[1]s/thawing ]; do sleep 0.02; done; echo $SKEIN_TOKEN >> quick", timeout: 5m}
  late: {run: "touch at-late; sleep 600", timeout: 1s, kill_grace: 100ms, needs: []}
  retried: {run: "touch at-retried; [ $SKEIN_TOKEN -gt 1 ]", retry: {max: 1, delay: 500ms}}
`, w.dir))
	id := p.begin("timed", nil)
	for _, name := range []string{"at-quick", "at-late", "at-retried"} {
		w.appears(name)
	}
	p.signal(syscall.SIGSTOP)
	w.gate("thawing")
	w.appears("quick") // the task ends while the server is stopped
	if o := w.skein("server"); o.code != exitConflict {
		t.Errorf("a second one while the first is frozen: %v", o)
	}
	p.signal(syscall.SIGCONT)
	run := p.wantState(id, "failed")
	for name, want := range map[string]string{"quick": "succeeded", "late": "failed", "retried": "succeeded"} {
		if task := taskOf(t, &run, name); task.State != want {
			t.Errorf("%s: %s, want %s: %+v", name, task.State, want, task.Attempts)
		}
	}
	if task := taskOf(t, &run, "late"); deref(task.Cause) != "timeout" {
		t.Errorf("late: %+v", task)
	}
	p.stop()
	w.verify()
}
