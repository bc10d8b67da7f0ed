//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/store"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// hand is a worker under test: a process with a data folder of its own, and no connection to the database.
type hand struct {
	f    *flight
	home *home
	name string
	args []string
	cmd  *exec.Cmd
	log  *bytes.Buffer
}

// worker starts a worker that knows the addresses of the present nodes.
func (f *flight) worker(name string, args ...string) *hand {
	f.t.Helper()
	w := &hand{f: f, home: f.newHome(), name: name, args: args}
	w.start()
	return w
}

func (w *hand) start() {
	w.f.t.Helper()
	var urls []string
	for _, m := range w.f.members {
		if held, err := datadir.Find(w.f.t.Context(), m.home.data()); err == nil && held != nil {
			urls = append(urls, held.Address)
		}
	}
	args := append([]string{"worker", "--server", strings.Join(urls, ","), "--name", w.name, "--drain", "30s"}, w.home.doors.args(store.TokenWorker)...)
	args = append(args, w.args...)
	w.log = &bytes.Buffer{}
	w.cmd = w.home.cmd(args...)
	w.cmd.Stderr, w.cmd.Stdout = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		w.f.t.Fatal(err)
	}
	cmd, log := w.cmd, w.log
	w.f.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if w.f.t.Failed() {
			w.f.t.Logf("worker %s:\n%s", w.name, log)
		}
	})
}

func (w *hand) kill() {
	w.f.t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		w.f.t.Fatal(err)
	}
	_ = w.cmd.Wait()
}

func (w *hand) stop() {
	w.f.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		w.f.t.Fatal(err)
	}
	if err := w.cmd.Wait(); err != nil {
		w.f.t.Errorf("%s: its end: %v\n%s", w.name, err, w.log)
	}
}

// until waits for a condition whose check starts a process, so it pauses between two checks.
func (f *flight) until(what string, is func() bool) {
	f.t.Helper()
	f.members[0].home.until(what, func() bool {
		time.Sleep(50 * time.Millisecond) // the pause between two checks
		return is()
	})
}

// row returns the value of a column in the row of a member.
func (f *flight) row(column, name string) string {
	out, err := f.query("select " + column + " from skein.member where name = '" + name + "'")
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// mostAtOnce returns the highest number of attempts of some runs that one handler had at one moment, by the
// times of the attempts.
func (f *flight) mostAtOnce(runs []string) (most int) {
	f.t.Helper()
	type change struct {
		at time.Time
		by int
	}
	changes := map[string][]change{}
	for _, id := range runs {
		for cursor := ""; ; {
			page, err := f.members[2].client.Tasks(f.t.Context(), id, cursor, 100)
			if err != nil {
				f.t.Fatal(err)
			}
			for i := range page.Items {
				for _, a := range page.Items[i].Attempts {
					if a.StartedAt != nil && a.FinishedAt != nil {
						changes[a.Handler] = append(changes[a.Handler], change{a.StartedAt.Time, 1}, change{a.FinishedAt.Time, -1})
					}
				}
			}
			if page.Next == nil {
				break
			}
			cursor = *page.Next
		}
	}
	for _, of := range changes {
		slices.SortFunc(of, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
		n := 0
		for _, c := range of {
			n += c.by
			most = max(most, n)
		}
	}
	return most
}

// TestRemoteWorkers runs graphs on two workers of a cluster of three nodes that run nothing themselves, while
// a worker is killed, its home is killed, and a worker is frozen for longer than its lease: every run ends
// with the right state, its tasks run in order, no task runs twice under one token, and no worker has more
// attempts than slots.
func TestRemoteWorkers(t *testing.T) {
	t.Parallel()
	const graphs, layers, width, slots = 4, 6, 15, 10
	f := newFlight(t, 3, "SKEIN_ROLES=api,scheduler")
	hands := []*hand{f.worker("w1", "--slots", fmt.Sprint(slots), "--label", "disk=ssd"), f.worker("w2", "--slots", fmt.Sprint(slots), "--group", "etl")}
	f.listed(5)
	dir := t.TempDir()
	needs := layered(layers, width)
	var ids []string
	for i := range graphs {
		witness := filepath.Join(dir, fmt.Sprint("witness", i))
		command := "echo begin $SKEIN_TASK $SKEIN_TOKEN >> " + witness + "; sleep 0.3; echo end $SKEIN_TASK $SKEIN_TOKEN >> " + witness
		name := fmt.Sprint("graph", i)
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(source(name, command, needs)), 0o600); err != nil {
			t.Fatal(err)
		}
		f.members[i%3].home.run("workflow", "apply", file)
		ids = append(ids, strings.TrimSpace(string(f.members[(i+1)%3].home.run("run", "--detach", "-o", "name", "--", name))))
	}
	done := func() (n int) {
		for i := range graphs {
			n += ends(filepath.Join(dir, fmt.Sprint("witness", i)))
		}
		return n
	}
	faults := []func(){
		func() { hands[0].kill(); hands[0].start() },
		func() { // the home of a worker dies, and the worker attaches to another node with all its running attempts
			was := f.row("home", "w2")
			for _, m := range f.members {
				if f.row("handler", m.name) == was {
					handler := f.row("handler", "w2")
					m.kill()
					f.until("the worker is with another node", func() bool { return f.row("home", "w2") != was })
					if f.row("handler", "w2") != handler {
						t.Errorf("the worker has another handler: it was taken for dead")
					}
					m.start()
					return
				}
			}
			t.Errorf("nobody is the home %s", was)
		},
		func() { // the worker is frozen for longer than its lease
			handler := f.row("handler", "w1")
			if err := hands[0].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			f.until("a frozen worker is gone", func() bool { return f.row("handler", "w1") == "" })
			if err := hands[0].cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			f.until("it is back under a new handler", func() bool { h := f.row("handler", "w1"); return h != "" && h != handler })
		},
		func() { hands[1].stop(); hands[1].start() },
	}
	for i, fault := range faults {
		goal := (i + 1) * graphs * layers * width / (len(faults) + 2)
		f.until(fmt.Sprintf("%d tasks done", goal), func() bool { return done() >= goal })
		fault()
	}
	f.until("every run has ended", func() bool {
		page, err := f.members[0].client.Runs(t.Context(), skein.RunsQuery{State: "active"})
		return err == nil && len(page.Items) == 0
	})
	for i, id := range ids {
		var run api.Run
		if err := json.Unmarshal(f.members[i%3].home.run("run", "get", id, "-o", "json"), &run); err != nil {
			t.Fatal(err)
		}
		checkRun(t, &run, needs)
		checkWitness(t, filepath.Join(dir, fmt.Sprint("witness", i)), needs)
	}
	if most := f.mostAtOnce(ids); most == 0 || most > slots {
		t.Errorf("a worker of %d slots had %d attempts at once", slots, most)
	}
	nodes := f.members[2].nodes()
	if w := nodes["w2"]; len(w.Roles) != 1 || w.Roles[0] != "worker" || w.Home == nil || w.Slots.Total != slots || len(w.Groups) != 1 || w.Shards.Owned != 0 {
		t.Errorf("the worker is listed as %+v", w)
	}
	if out := f.members[0].home.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		t.Errorf("verify: %s", out)
	}
	for _, w := range hands {
		w.stop()
	}
	f.listed(3)
}
