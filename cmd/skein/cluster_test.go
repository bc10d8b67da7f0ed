//go:build linux

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// member is one node of a cluster under test: a process with a home of its own.
type member struct {
	home   *home
	name   string
	server *exec.Cmd // nil if it does not run
	client *skein.Client
}

// flight is a cluster of real processes over a real PostgreSQL.
type flight struct {
	t       *testing.T
	pg      *pgtest.Server
	db      string
	env     []string // the additional environment of the nodes
	disk    int      // size in bytes of the disk of each data folder; 0 stands for the disk of the machine
	members []*member
	// doors is how nodes, workers and commands reach each other. nil stands for plain text on loopback.
	doors *secured
	plain bool // the plain text is intended
	// lan is the network that connects the machines of nodes and workers. If it is nil, all run
	// on this machine.
	lan  *nettest.Network
	base *nettest.Machine // the machine of the database, or of the registry of databases
	// direct is the address of the database for this process, if the machines use another one.
	direct string
}

func newFlight(t *testing.T, nodes int, env ...string) *flight {
	t.Helper()
	pg, err := pgtest.Start(pgtest.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &flight{t: t, pg: pg, db: pg.URL("postgres"), env: env}
	f.addAll(nodes)
	return f
}

// newPlainFlight makes a cluster whose nodes listen on loopback. A caller presents the token that the node
// made at its start.
func newPlainFlight(t *testing.T, nodes int, env ...string) *flight {
	t.Helper()
	f := newFlight(t, 0, env...)
	f.plain = true
	f.addAll(nodes)
	return f
}

func (f *flight) addAll(nodes int) {
	f.t.Helper()
	for range nodes {
		f.add()
	}
}

// newHome makes a home with a disk of the requested size.
func (f *flight) newHome() *home {
	f.t.Helper()
	h := newHome(f.t)
	if f.doors == nil && !f.plain {
		f.secure(nil)
	}
	h.doors = f.doors
	if f.lan != nil {
		h.on = f.lan.Add(f.t)
	}
	if f.disk > 0 {
		if err := mountSmall(f.t, h.data(), f.disk); err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { endKeeper(f.t, h.data()) }) // before its disk is removed
	}
	return h
}

// add starts one more node. In this cluster, a node is declared dead after a silence of 4 s.
func (f *flight) add() *member {
	f.t.Helper()
	m := &member{home: f.newHome(), name: fmt.Sprintf("n%d", len(f.members)+1)}
	m.home.env = []string{"SKEIN_DB=" + f.db, "SKEIN_NAME=" + m.name, "SKEIN_HEARTBEAT=500ms", "SKEIN_LAG=4s", "SKEIN_DRAIN=30s"}
	m.home.env = append(m.home.env, f.env...)
	f.members = append(f.members, m)
	m.start()
	return m
}

func (m *member) start() { m.server, m.client = m.home.server() }

// kill ends the process as a power failure would. The processes of its tasks stay until they are reaped.
func (m *member) kill() {
	m.home.t.Helper()
	if err := m.server.Process.Kill(); err != nil {
		m.home.t.Fatal(err)
	}
	_ = m.server.Wait()
}

// stop ends the process in order.
func (m *member) stop() {
	m.home.t.Helper()
	if err := m.server.Process.Signal(syscall.SIGTERM); err != nil {
		m.home.t.Fatal(err)
	}
	if err := m.server.Wait(); err != nil {
		m.home.t.Errorf("%s: its end: %v", m.name, err)
	}
}

// listed waits until the cluster lists n nodes and workers.
func (f *flight) listed(n int) {
	f.t.Helper()
	f.until(fmt.Sprintf("%d nodes are listed", n), func() bool {
		out, err := f.query("select count(*) from skein.member")
		return err == nil && out == fmt.Sprint(n)
	})
}

// owners counts the shards of each owner.
func (f *flight) owners() map[string]int {
	out, err := f.query("select coalesce(m.name, '-') || ' ' || count(*) from skein.shard s left join skein.member m on m.handler = s.owner group by m.name")
	if err != nil {
		f.t.Fatal(err)
	}
	owners := map[string]int{}
	for line := range strings.Lines(out) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			f.t.Fatalf("%q: %v", line, err)
		}
		owners[name] = n
	}
	return owners
}

// near returns the address of the database for this process. No fault of a network reaches it.
func (f *flight) near() string { return cmp.Or(f.direct, f.db) }

func (f *flight) query(sql string) (string, error) {
	out, err := exec.CommandContext(f.t.Context(), "psql", "-At", f.near(), "-c", sql).Output()
	return strings.TrimSpace(string(out)), err
}

// TestThreeNodes runs graphs on three nodes while nodes are killed, frozen, stopped and added: every run ends
// with the right state, its tasks run in order, no task runs twice under one token, and the shards are spread
// evenly again.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	const graphs, layers, width = 6, 8, 15
	f := newFlight(t, 3)
	dir := t.TempDir()
	needs := layered(layers, width)
	var ids []string
	for i := range graphs {
		witness := filepath.Join(dir, fmt.Sprint("witness", i))
		command := "echo begin $SKEIN_TASK $SKEIN_TOKEN >> " + witness + "; sleep 0.1; echo end $SKEIN_TASK $SKEIN_TOKEN >> " + witness
		name := fmt.Sprint("graph", i)
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(source(name, command, needs)), 0o600); err != nil {
			t.Fatal(err)
		}
		m := f.members[i%3]
		m.home.run("workflow", "apply", file)
		ids = append(ids, strings.TrimSpace(string(f.members[(i+1)%3].home.run("run", "--detach", "-o", "name", "--", name))))
	}
	done := func() (n int) {
		for i := range graphs {
			n += ends(filepath.Join(dir, fmt.Sprint("witness", i)))
		}
		return n
	}
	rng := rand.New(rand.NewPCG(5, 6))
	faults := []func(m *member){
		func(m *member) { m.kill(); m.start() },
		func(m *member) { m.stop(); m.start() },
		func(m *member) { // the node is frozen for longer than the other nodes wait
			silent := f.owners()[m.name] > 0
			if err := m.server.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			m.home.until("a frozen node owns nothing", func() bool { return !silent || f.owners()[m.name] == 0 })
			if err := m.server.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		},
		func(*member) { f.add() },
		func(m *member) {
			m.kill()
			m.home.until("its silence was noticed", func() bool { return f.owners()[m.name] == 0 })
			m.start()
		},
		func(m *member) { m.stop(); m.start() },
	}
	for i, fault := range faults {
		goal := (i + 1) * graphs * layers * width / (len(faults) + 2)
		f.members[0].home.until(fmt.Sprintf("%d tasks done", goal), func() bool { return done() >= goal })
		fault(f.members[rng.IntN(len(f.members))])
	}
	f.members[0].home.until("every run has ended", func() bool {
		page, err := f.members[rng.IntN(len(f.members))].client.Runs(t.Context(), skein.RunsQuery{State: "active"})
		return err == nil && len(page.Items) == 0
	})
	for i, id := range ids {
		var run api.Run
		if err := json.Unmarshal(f.members[i%4].home.run("run", "get", id, "-o", "json"), &run); err != nil {
			t.Fatal(err)
		}
		checkRun(t, &run, needs)
		checkWitness(t, filepath.Join(dir, fmt.Sprint("witness", i)), needs)
	}
	f.listed(len(f.members))
	f.members[0].home.until("the shards are spread evenly", func() bool {
		owners := f.owners()
		for _, m := range f.members {
			if owners[m.name] != 32/len(f.members) {
				return false
			}
		}
		return true
	})
	for _, where := range [][]string{nil, {"--server", f.members[1].client.URL()}} {
		if out := f.members[0].home.run(append([]string{"verify"}, where...)...); !bytes.Contains(out, []byte(`"violations": []`)) {
			t.Errorf("verify %v: %s", where, out)
		}
	}
	began := time.Now()
	f.members[1].stop()
	if owners := f.owners(); owners["-"] != 0 && owners[f.members[1].name] != 0 {
		t.Errorf("after a clean stop %v", owners)
	}
	t.Logf("a clean stop took %v", time.Since(began))
	for i, m := range f.members {
		if i != 1 {
			m.stop()
		}
	}
}

// TestDatabaseAway ends the database of a working cluster of nodes and a worker for longer than the lag, once
// by kill -9 and once by an orderly stop. No node is declared dead by mistake, and no attempt and no accepted
// run is lost.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2)
	worker := f.worker("w1", "--slots", "1", "--group", "elsewhere")
	f.listed(3)
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	var ids []string
	for i := range 4 {
		name := fmt.Sprint("long", i)
		file := filepath.Join(dir, name+".yaml")
		text := "name: " + name + "\ntasks:\n  a: {run: 'until [ -e " + gate + " ]; do sleep 0.05; done'}\n  b: {needs: a, run: \"true\"}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.members[i%2].home.run("workflow", "apply", file)
		ids = append(ids, strings.TrimSpace(string(f.members[i%2].home.run("run", "--detach", "-o", "name", "--", name))))
	}
	f.members[0].apply("remote", "  a: {group: elsewhere, run: 'until [ -e "+gate+" ]; do sleep 0.05; done'}\n  b: {needs: a, run: \"true\"}\n")
	ids = append(ids, f.members[0].detach("remote"))
	f.members[0].home.until("five tasks run", func() bool {
		out, err := f.query("select count(*) from skein.attempt where state = 'running'")
		return err == nil && out == "5"
	})
	for _, end := range []func() error{f.pg.Kill, f.pg.Stop} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second) // the fault itself: longer than the lag of 4 s
		if err := f.pg.Start(); err != nil {
			t.Fatal(err)
		}
		f.members[0].home.until("a run can be started again", func() bool {
			_, err := f.members[0].client.Run(t.Context(), ids[0])
			return err == nil
		})
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		f.members[(i+1)%2].home.run("run", "watch", id) // fails unless it succeeds
		var run api.Run
		if err := json.Unmarshal(f.members[0].home.run("run", "get", id, "-o", "json"), &run); err != nil {
			t.Fatal(err)
		}
		for _, task := range run.Tasks {
			if len(task.Attempts) != 1 {
				t.Errorf("run %s: task %s has %d attempts: an outage of the database must not end one", id, task.Name, len(task.Attempts))
			}
		}
	}
	f.listed(3)
	if out := f.members[0].home.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		t.Errorf("verify: %s", out)
	}
	worker.stop()
}
