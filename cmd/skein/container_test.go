//go:build linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"skein.dev/skein/internal/kind/boxtest"
	"skein.dev/skein/internal/kind/container"
	skein "skein.dev/skein/sdk"
)

// containers starts a server whose tasks run in containers of a store of its own.
func (w *world) containers(args ...string) *process {
	w.t.Helper()
	_, err := container.Engine(container.Settings{})
	conf := boxtest.Store(w.t.(*testing.T), err)
	w.env = append(w.env, boxtest.ConfVar+"="+conf, "SKEIN_PASS_ENV="+boxtest.ConfVar)
	return w.server(args...)
}

// TestContainerTask: tasks in containers have outputs, artifacts, inputs, files and exit codes, also on a
// node that isolates processes.
func TestContainerTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.containers("--isolation", "fence")
	w.write("code.sh", "echo from the file")
	source := `name: box
files: [code.sh]
env: {GREETING: hello}
tasks:
  make:
    container: {image: "IMAGE", network: none, user: 1000, run: 'echo "$GREETING"; pwd; echo rows=7 >> $SKEIN_OUTPUT; echo data > out.txt'}
    outputs: {rows: int}
    artifacts: [out.txt]
  use:
    needs: make
    container: {image: "IMAGE", network: none, run: 'cat in.txt; echo "rows $ROWS"; sh code.sh; exit 78'}
    env: {ROWS: "${{ tasks.make.outputs.rows }}"}
    inputs: {in.txt: make/out.txt}
  mount: {container: {image: "IMAGE", network: none, mounts: {data: /data}}}
`
	file := w.write("box.yaml", strings.ReplaceAll(source, "IMAGE", boxtest.Image))
	if o := w.skein("run", file, "--detach"); o.code != exitOK {
		t.Fatal(o)
	}
	runs, err := p.Runs(t.Context(), skein.RunsQuery{})
	if err != nil || len(runs.Items) != 1 {
		t.Fatal(runs, err)
	}
	run := p.wantState(runs.Items[0].ID, "failed")
	if log := p.logOf(run.ID, "make", 1); !strings.HasSuffix(log, "hello\n/work\n") {
		t.Errorf("%q", log)
	}
	if log := p.logOf(run.ID, "use", 1); !strings.HasSuffix(log, "data\nrows 7\nfrom the file\n") {
		t.Errorf("%q", log)
	}
	use, mount := taskOf(t, &run, "use"), taskOf(t, &run, "mount")
	if deref(use.Cause) != "exit" || deref(use.Message) != "exit code 78" {
		t.Errorf("%v %v", deref(use.Cause), deref(use.Message))
	}
	if deref(mount.Cause) != "permanent" || !strings.Contains(deref(mount.Message), "container_mounts") {
		t.Errorf("%v %v", deref(mount.Cause), deref(mount.Message))
	}
}

// TestContainerEnds: whatever ends an attempt, nothing of its container is left.
func TestContainerEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.containersEnd(w.containers("--lease", "3s"))
}

// TestDockerEnds checks the same with Docker's engine, which keeps containers outside of the attempts.
func TestDockerEnds(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	socket := dir + "/engine.sock"
	engine := boxtest.Docker(t, socket, dir)
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = engine.Process.Signal(syscall.SIGTERM)
		_ = engine.Wait()
	})
	settings := container.Settings{Engine: container.SocketPrefix + socket}
	w.eventually("the engine answers", func() bool {
		_, err := container.Engine(settings)
		return err == nil
	})
	boxtest.Load(t, socket)
	w.env = append(w.env, "SKEIN_CONTAINER_ENGINE="+settings.Engine)
	w.containersEnd(w.server("--lease", "3s"))
	w.eventually("the engine has no container", func() bool {
		left, err := exec.Command("docker", "--host", settings.Engine, "ps", "--all", "--quiet").Output()
		return err == nil && len(left) == 0
	})
}

// containersEnd ends attempts in all ways, and checks that their containers end.
func (w *world) containersEnd(p *process) {
	t := w.t
	t.Helper()
	word := strconv.Itoa(2_000_000 + os.Getpid())
	w.leaveNothing("sleep\x00" + word)
	tasks := func(more string) string {
		return "  a: {on_lost: fail, container: {image: " + boxtest.Image + ", network: none, run: 'sleep " + word + " & sleep " + word + "; wait'}" + more + "}\n"
	}
	p.apply("hold", tasks(""))
	p.apply("brief", tasks(", timeout: 2s"))
	begin := func(name string) string {
		id := p.begin(name, nil)
		w.eventually("the container runs", func() bool { return len(processesWith("sleep\x00"+word)) == 2 })
		return id
	}
	gone := func(why string) {
		t.Helper()
		w.eventually("the container has gone after "+why, func() bool { return len(processesWith(word)) == 0 })
	}
	brief := p.wantState(p.begin("brief", nil), "failed")
	gone("its timeout")
	if a := taskOf(t, &brief, "a"); deref(a.Cause) != "timeout" {
		t.Error(deref(a.Cause))
	}
	run := begin("hold")
	if o := w.skein("run", "stop", run); o.code != exitOK {
		t.Error(o)
	}
	gone("a stop")
	p.wantState(run, "stopped")
	run = begin("hold")
	killKeeper(t, w.data)
	gone("kill -9 of the keeper")
	p.ends(run)
	begin("hold")
	p.crash()
	gone("kill -9 of node and keeper")
	p = w.server("--lease", "3s")
	begin("hold")
	p.kill()
	gone("kill -9 of the node, and the end of its lease")
}
