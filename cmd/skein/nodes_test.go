//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// nodes asks a node for the list of nodes.
func (m *member) nodes() map[string]api.Node {
	m.home.t.Helper()
	var list []api.Node
	if err := json.Unmarshal(m.home.run("node", "list", "-o", "json"), &list); err != nil {
		m.home.t.Fatal(err)
	}
	by := map[string]api.Node{}
	for _, n := range list {
		by[n.Name] = n
	}
	return by
}

// own waits until each node owns the given number of shards, according to every node.
func (f *flight) own(want map[string]int) {
	f.t.Helper()
	f.members[0].home.until(fmt.Sprintf("shards are owned as %v", want), func() bool {
		for _, m := range f.members {
			page, err := m.client.Nodes(f.t.Context())
			if err != nil || len(page.Items) != len(want) {
				return false
			}
			for _, n := range page.Items {
				if n.Shards.Owned != want[n.Name] || len(n.Shards.List) != n.Shards.Owned {
					return false
				}
			}
		}
		return true
	})
}

// flow applies a workflow of one task.
func (f *flight) flow(name, command string) {
	f.t.Helper()
	file := filepath.Join(f.t.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte("name: "+name+"\ntasks:\n  a: {run: '"+command+"'}\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.members[0].home.run("workflow", "apply", file)
}

func (m *member) detach(name string) string {
	m.home.t.Helper()
	return strings.TrimSpace(string(m.home.run("run", "--detach", "-o", "name", "--", name)))
}

// state returns the state of a run, as a node reports it.
func (m *member) state(id string) string {
	m.home.t.Helper()
	run, err := m.client.Run(m.home.t.Context(), id)
	if err != nil {
		m.home.t.Fatal(err)
	}
	return run.State
}

// TestOperateCluster does with two real nodes what an operator does: it lists them, drains one, moves a
// workflow, and stops the scheduler. It starts runs while no node, or only a dead or frozen one, owns their
// shard, and ends a node meanwhile.
func TestOperateCluster(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2)
	one, two := f.members[0], f.members[1]
	f.own(map[string]int{"n1": 16, "n2": 16})
	for name, n := range one.nodes() {
		if n.State != "active" || n.Lag > 5 || n.SeenAt == nil || len(n.Roles) != 3 || !strings.HasPrefix(*n.Address, "https://localhost:") || n.Slots.Total < 1 {
			t.Errorf("%s: %+v", name, n)
		}
	}
	for _, words := range []string{"n2\tactive\t0/", "\t16\t"} {
		if out := one.home.run("node", "list"); !bytes.Contains(out, []byte(words)) {
			t.Errorf("no %q in %s", words, out)
		}
	}
	if out := one.home.run("status"); !bytes.Contains(out, []byte("n2 active, 16 shards")) {
		t.Errorf("status: %s", out)
	}
	f.logLevels()
	gate := filepath.Join(t.TempDir(), "gate")
	f.flow("long", "until [ -e "+gate+" ]; do sleep 0.05; done")
	f.flow("quick", "true")
	f.drainByHand(gate)
	f.moveByHand()
	f.stopByHand()
	f.startWithoutOwner()
	if out := one.home.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		t.Errorf("verify: %s", out)
	}
	two.stop()
	f.listed(1)
	one.stop()
}

// logLevels changes the level of the second node's log through the first one.
func (f *flight) logLevels() {
	f.t.Helper()
	one, two := f.members[0], f.members[1]
	before := strings.TrimSpace(string(one.home.run("node", "log-level", "n1")))
	if out := one.home.run("node", "log-level", "n2", "error"); strings.TrimSpace(string(out)) != "error" {
		f.t.Errorf("n2: %s", out)
	}
	for node, want := range map[string]string{"n1": before, "n2": "error"} {
		if l, err := two.client.LogLevel(f.t.Context(), node); err != nil || l.Level != want || l.Node != node {
			f.t.Errorf("%s: %+v, %v, want %s", node, l, err, want)
		}
	}
	one.home.run("node", "log-level", "n2", before)
}

// drainByHand drains a node that runs a task. The node is drained when the task ends, and not before.
func (f *flight) drainByHand(gate string) {
	f.t.Helper()
	one, two := f.members[0], f.members[1]
	one.home.run("node", "move", "long", "n2")
	one.home.until("n2 owns it", func() bool {
		return one.nodes()["n2"].Shards.Moved != nil && f.ownerOf("long") == "n2"
	})
	id := one.detach("long")
	one.home.until("it runs on n2", func() bool { return two.nodes()["n2"].Slots.Busy == 1 })
	one.home.run("node", "drain", "n2")
	f.own(map[string]int{"n1": 32, "n2": 0})
	if n := two.nodes()["n2"]; n.State != "cordoned" || n.Slots.Busy != 1 {
		f.t.Errorf("while an attempt runs: %+v", n)
	}
	drain := one.home.cmd("node", "drain", "n2", "--wait", "--timeout", "100ms")
	if err := drain.Run(); drain.ProcessState.ExitCode() != exitTimedOut {
		f.t.Errorf("a drain that takes too long: %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		f.t.Fatal(err)
	}
	one.home.run("node", "drain", "n2", "--wait")
	one.home.run("run", "watch", id) // the command fails unless the run succeeds
	if run, err := one.client.Run(f.t.Context(), id, skein.WithTasks()); err != nil || len(run.Tasks[0].Attempts) != 1 {
		f.t.Errorf("%+v, %v", run.Tasks, err)
	}
	two.stop() // the order to drain stays in force after a restart of the node
	two.start()
	one.home.until("it is drained again", func() bool { return one.nodes()["n2"].State == "drained" })
	two.home.run("node", "uncordon", "n2")
	f.own(map[string]int{"n1": 16, "n2": 16})
}

// ownerOf returns the node that owns a workflow's shard.
func (f *flight) ownerOf(workflow string) string {
	out, err := f.query("select m.name from skein.workflow w join skein.shard s on s.id = w.shard join skein.member m on m.handler = s.owner where w.name = '" + workflow + "'")
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// moveByHand moves a workflow to and fro while it runs.
func (f *flight) moveByHand() {
	f.t.Helper()
	for i, to := range []string{"n1", "n2", "n1"} {
		m := f.members[i%2]
		m.home.run("node", "move", "quick", to)
		m.home.until("quick is on "+to, func() bool { return f.ownerOf("quick") == to })
		m.home.run("run", "--", "quick")
	}
	f.members[0].home.run("node", "move", "quick", "-")
}

// stopByHand stops the whole cluster. Runs are accepted and wait, also after the end of a node.
func (f *flight) stopByHand() {
	f.t.Helper()
	one, two := f.members[0], f.members[1]
	refused := one.home.cmd("node", "stop")
	if err := refused.Run(); refused.ProcessState.ExitCode() != exitUsage {
		f.t.Errorf("a stop of everything that nobody confirmed: %v", err)
	}
	one.home.run("node", "stop", "--yes")
	f.own(map[string]int{"n1": 0, "n2": 0})
	var ids []string
	for i := range 4 {
		// Each run is started twice, through both nodes.
		req := api.RunRequest{Workflow: "quick", IdempotencyKey: fmt.Sprint("stopped", i/2)}
		run, started, err := f.members[i%2].client.Start(f.t.Context(), req)
		if err != nil || run.State != "submitted" || started != (i%2 == 0) {
			f.t.Fatalf("start while nobody owns anything: %s, started %v: %v", run.State, started, err)
		}
		ids = append(ids, run.ID)
	}
	if ids[0] != ids[1] || ids[2] != ids[3] || ids[0] == ids[2] {
		f.t.Errorf("under two keys %v", ids)
	}
	if out := two.home.run("status"); !bytes.Contains(out, []byte("stopped in the whole cluster by ")) {
		f.t.Errorf("status: %s", out)
	}
	two.stop()
	two.start()
	f.own(map[string]int{"n1": 0, "n2": 0})
	if is := one.state(ids[0]); is != "submitted" {
		f.t.Errorf("after a restart it is %s", is)
	}
	two.home.run("node", "start")
	f.own(map[string]int{"n1": 16, "n2": 16})
	for _, id := range ids {
		one.home.run("run", "watch", id)
	}
}

// patience: while the owner is dead and not yet deposed, commands wait without being told to, and say what
// they wait for.
func (f *flight) patience() {
	f.t.Helper()
	one := f.members[0]
	file := filepath.Join(f.t.TempDir(), "quick.yaml")
	if err := os.WriteFile(file, []byte("name: quick\ntasks:\n  another: {run: 'true'}\n"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	commands := [][]string{{"run", file}, {"workflow", "apply", file}, {"run", "--server", one.client.URL(), file}}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, args := range commands {
		wg.Go(func() {
			out, err := one.home.cmd(args...).CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("the server cannot do it now, trying again for up to 30s: the owner, node n2, does not answer")) {
				f.t.Errorf("%q: %v\n%s", args, err, out)
			}
		})
	}
}

// startWithoutOwner starts runs whose owner is dead or frozen, before other nodes have noticed it.
func (f *flight) startWithoutOwner() {
	f.t.Helper()
	one, two := f.members[0], f.members[1]
	one.home.run("node", "move", "quick", "n2")
	one.home.until("quick is on n2", func() bool { return f.ownerOf("quick") == "n2" })
	two.kill()
	id := one.detach("quick")
	f.patience()
	one.home.run("run", "watch", id)
	if dead, err := strconv.Atoi(one.metric("skein_deposed_total")); err != nil || dead == 0 {
		f.t.Errorf("n1 counts %d members that it declared dead, %v", dead, err)
	}
	two.start()
	one.home.until("quick is on n2 again", func() bool { return f.ownerOf("quick") == "n2" })
	if err := two.server.Process.Signal(syscall.SIGSTOP); err != nil {
		f.t.Fatal(err)
	}
	id = one.detach("quick")
	one.home.run("run", "watch", id)
	if err := two.server.Process.Signal(syscall.SIGCONT); err != nil {
		f.t.Fatal(err)
	}
	f.own(map[string]int{"n1": 16, "n2": 16})
}
