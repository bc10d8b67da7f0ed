//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// chain applies workflows link0, link1 and so on. Each starts when a run of the previous one has succeeded.
func (f *flight) chain(links int, command string) {
	f.t.Helper()
	dir := f.t.TempDir()
	for i := range links {
		text := fmt.Sprintf("name: link%d\n", i)
		if i > 0 {
			text += fmt.Sprintf("triggers:\n  - run_of: link%d\n", i-1)
		}
		text += "tasks:\n  a: {run: '" + command + "'}\n"
		file := filepath.Join(dir, fmt.Sprintf("link%d.yaml", i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
		f.members[0].home.run("workflow", "apply", file)
	}
}

// succeeded counts the runs that have succeeded.
func (m *member) succeeded() int {
	page, err := m.client.Runs(m.home.t.Context(), skein.RunsQuery{State: "succeeded"})
	if err != nil {
		return -1
	}
	return len(page.Items)
}

// at makes workflows run on the named nodes.
func (f *flight) at(where map[string]string) {
	f.t.Helper()
	for flow, node := range where {
		f.members[0].home.run("node", "move", flow, node)
	}
	for flow, node := range where {
		f.members[0].home.until(flow+" is at "+node, func() bool { return f.ownerOf(flow) == node })
	}
}

// messages counts the messages that wait for their receivers.
func (f *flight) messages() string {
	out, err := f.query("select count(*) from skein.message")
	if err != nil {
		return err.Error()
	}
	return out
}

func (f *flight) verified() {
	f.t.Helper()
	if out := f.members[0].home.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		f.t.Errorf("verify: %s", out)
	}
}

// TestEndsAreHeardElsewhere checks that the end of a run starts another run whose shard another node owns,
// and so on. Then verbs are applied to runs of both nodes in one call.
func TestEndsAreHeardElsewhere(t *testing.T) {
	t.Parallel()
	const links = 6
	f := newFlight(t, 2)
	f.own(map[string]int{"n1": 16, "n2": 16})
	f.chain(links, "true")
	where := map[string]string{}
	for i := range links {
		where[fmt.Sprint("link", i)] = fmt.Sprint("n", i%2+1)
	}
	f.at(where)
	f.members[0].home.run("run", "--", "link0")
	f.members[0].home.until("every link has run", func() bool { return f.members[1].succeeded() == links })
	f.members[0].home.until("no message waits", func() bool { return f.messages() == "0" })
	f.bulkByHand()
	f.bulkBesideTheDead()
	f.verified()
	for _, m := range f.members {
		m.stop()
	}
}

// TestMessageToTheDead: the receiver of a message is dead when the message is written. The node that gets its
// shard processes the message once.
func TestMessageToTheDead(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2, "SKEIN_LAG=5s")
	f.own(map[string]int{"n1": 16, "n2": 16})
	gate := filepath.Join(t.TempDir(), "gate")
	f.chain(3, "until [ -e "+gate+" ]; do sleep 0.05; done")
	f.at(map[string]string{"link0": "n1", "link1": "n2", "link2": "n1"})
	one, two := f.members[0], f.members[1]
	one.detach("link0")
	one.home.until("the first runs", func() bool {
		out, err := f.query("select count(*) from skein.attempt where state = 'running'")
		return err == nil && out == "1"
	})
	two.kill()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one.home.until("a message waits", func() bool { return f.messages() == "1" })
	one.home.until("every link has run", func() bool { return one.succeeded() == 3 })
	if n := f.messages(); n != "0" {
		t.Errorf("%s messages wait", n)
	}
	two.start()
	f.listed(2)
	if out, err := f.query("select count(*) from skein.run"); err != nil || out != "3" {
		t.Errorf("%s runs, %v; want one of each link", out, err)
	}
	f.verified()
	one.stop()
	two.stop()
}

// sweeps lists the runs of system/recovery with a given origin.
func (m *member) sweeps(origin string) (runs []api.Run) {
	page, err := m.client.Runs(m.home.t.Context(), skein.RunsQuery{Workflow: "system/recovery"})
	if err != nil {
		return nil
	}
	for i := range page.Items {
		if r := page.Items[i]; r.Origin == origin && r.State == "succeeded" {
			runs = append(runs, r)
		}
	}
	return runs
}

// TestRecoveryOfACluster: the workflow system/recovery exists without an apply, and its runs are ordinary
// runs. When a node is declared dead, such a run starts at once.
func TestRecoveryOfACluster(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2, "SKEIN_RECOVERY=on")
	f.own(map[string]int{"n1": 16, "n2": 16})
	one, two := f.members[0], f.members[1]
	one.home.until("recovery is there", func() bool {
		_, err := one.client.Workflow(t.Context(), "system/recovery")
		return err == nil
	})
	one.home.run("run", "--", "system/recovery") // the command fails unless the run succeeds
	if len(two.sweeps("manual"))+len(two.sweeps("api")) != 1 {
		t.Error("a sweep by hand is not listed")
	}
	gate := filepath.Join(t.TempDir(), "gate")
	f.flow("long", "until [ -e "+gate+" ]; do sleep 0.05; done")
	f.at(map[string]string{"long": "n2"})
	one.home.run("node", "move", "system/recovery", "n2")
	one.home.until("recovery is at n2", func() bool { return f.ownerOf("recovery") == "n2" })
	id := one.detach("long")
	one.home.until("it runs", func() bool {
		out, err := f.query("select count(*) from skein.attempt where state = 'running'")
		return err == nil && out == "1"
	})
	two.kill()
	one.home.until("a sweep for the dead node", func() bool { return len(one.sweeps("recovery")) == 1 })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one.home.run("run", "watch", id) // the command fails unless the run succeeds
	f.verified()
	one.stop()
}
