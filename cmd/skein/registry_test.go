//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/registry/registrytest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// registered is a cluster with a real registry, which each node reaches over a link of its own.
type registered struct {
	*flight
	server *registrytest.Server
	links  []*registrytest.Link
}

// newRegistered starts three nodes. Without the registry, a node is declared dead after a silence of 10 s.
func newRegistered(t *testing.T, scheme string, server *registrytest.Server) *registered {
	r := &registered{flight: newFlight(t, 0), server: server}
	for range 3 {
		link := registrytest.NewLink(t, server.Address)
		r.links = append(r.links, link)
		r.env = []string{"SKEIN_HEARTBEAT=2500ms", "SKEIN_LAG=10s", "SKEIN_REGISTRY=" + scheme + "://" + link.Address + "/test"}
		r.add()
	}
	r.even()
	r.answers()
	r.until("the rows promise a shorter lease", func() bool {
		out, err := r.query(`select count(*) from skein.member where traits like '%"quick":6000%'`)
		return err == nil && out == "3"
	})
	return r
}

// even waits until all nodes own shards, and no shard is free.
func (r *registered) even() {
	r.t.Helper()
	r.until("the shards are spread evenly", func() bool {
		owners := r.owners()
		for _, m := range r.members {
			if n := owners[m.name]; n < 10 || n > 11 {
				return false
			}
		}
		return true
	})
}

// answers waits until the registry lists every node.
func (r *registered) answers() {
	r.t.Helper()
	for _, m := range r.members {
		r.until("the registry lists "+m.name, func() bool { return m.metric("skein_registry_up") == "1" })
	}
}

// lives returns the handlers of the nodes. A node that was declared dead gets another handler.
func (r *registered) lives() string {
	r.t.Helper()
	out, err := r.query("select string_agg(name || ':' || handler, ' ' order by name) from skein.member")
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// takeover kills a node, prints how long the other nodes needed to own its shards, and starts it again.
func (r *registered) takeover(m *member, when string) {
	r.t.Helper()
	m.kill()
	began := time.Now()
	r.until("the others own its shards", func() bool {
		owners := r.owners()
		return owners[m.name] == 0 && owners["-"] == 0
	})
	r.t.Logf("%s: the others own all shards %.1f s after the death of %s", when, time.Since(began).Seconds(), m.name)
	m.start()
	r.even()
}

// unharmed checks that no node is declared dead while the function do disturbs the registry.
func (r *registered) unharmed(what string, do func()) {
	r.t.Helper()
	before := r.lives()
	do()
	if is := r.lives(); is != before {
		r.t.Errorf("%s: the nodes were %s, they are %s", what, before, is)
	}
}

// endsWithout checks that a node with registry_away: stop ends by itself when it is cut off from the
// registry, that it first completes its attempts, and that the other nodes go on.
func (r *registered) endsWithout(scheme string) {
	r.t.Helper()
	before := r.lives()
	link := registrytest.NewLink(r.t, r.server.Address)
	env := r.env
	r.env = append(slices.Clip(env[:len(env)-1]), "SKEIN_REGISTRY="+scheme+"://"+link.Address+"/test", "SKEIN_REGISTRY_AWAY=stop", "SKEIN_GROUP=ending")
	four := r.add()
	r.env, r.members = env, r.members[:3]
	r.until("the registry lists it", func() bool { return four.metric("skein_registry_up") == "1" })
	dir := r.t.TempDir()
	began, file := filepath.Join(dir, "began"), filepath.Join(dir, "ending.yaml")
	text := "name: ending\ntasks:\n  a: {group: ending, run: \"touch " + began + "; sleep 14\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	one := r.members[0]
	id := strings.TrimSpace(string(one.home.run("run", "--detach", "-o", "name", file)))
	r.until("its attempt runs", func() bool { _, err := os.Stat(began); return err == nil })
	link.Cut(true)
	if err := four.server.Wait(); err == nil {
		r.t.Error("it ended with exit code 0")
	}
	var run api.Run
	if err := json.Unmarshal(one.home.run("run", "get", id, "-o", "json"), &run); err != nil {
		r.t.Fatal(err)
	}
	if run.State != "succeeded" || len(run.Tasks[0].Attempts) != 1 {
		r.t.Errorf("the run of its attempt: %+v", run)
	}
	if is := r.lives(); is != before {
		r.t.Errorf("the nodes were %s, they are %s", before, is)
	}
}

// graph starts a run that lasts while nodes die, and returns a function that waits for its end and checks it.
func (r *registered) graph() (check func()) {
	r.t.Helper()
	dir, needs := r.t.TempDir(), layered(8, 6)
	witness, file := filepath.Join(dir, "witness"), filepath.Join(dir, "graph.yaml")
	command := "echo begin $SKEIN_TASK $SKEIN_TOKEN >> " + witness + "; sleep 2; echo end $SKEIN_TASK $SKEIN_TOKEN >> " + witness
	if err := os.WriteFile(file, []byte(source("graph", command, needs)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	one := r.members[0]
	one.home.run("workflow", "apply", file)
	id := strings.TrimSpace(string(one.home.run("run", "--detach", "-o", "name", "--", "graph")))
	return func() {
		r.t.Helper()
		r.until("the run has ended", func() bool {
			page, err := one.client.Runs(r.t.Context(), skein.RunsQuery{State: "active"})
			return err == nil && len(page.Items) == 0
		})
		var run api.Run
		if err := json.Unmarshal(one.home.run("run", "get", id, "-o", "json"), &run); err != nil {
			r.t.Fatal(err)
		}
		checkRun(r.t, &run, needs)
		checkWitness(r.t, witness, needs)
		if out := one.home.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
			r.t.Errorf("verify: %s", out)
		}
	}
}

// TestRegistries kills nodes of clusters with a real etcd and a real ZooKeeper. The registry is paused, cut
// off from one node, killed, restarted without its data, and unreachable together with the database. No node
// is declared dead because of that, and a node that dies meanwhile is found by its silence in the database.
// The times are printed.
func TestRegistries(t *testing.T) {
	t.Parallel()
	for scheme, start := range map[string]func(testing.TB, ...string) *registrytest.Server{"etcd": registrytest.Etcd, "zookeeper": registrytest.ZooKeeper} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			r := newRegistered(t, scheme, start(t))
			two, three := r.members[1], r.members[2]
			check := r.graph()
			r.takeover(two, "the registry works")
			r.answers()
			r.unharmed("one node is cut off from the registry", func() {
				r.links[2].Cut(true)
				r.until("it knows", func() bool { return three.metric("skein_registry_up") == "0" })
				// Longer than the session of the node, and longer than the silence after which a node is
				// declared dead.
				time.Sleep(7 * time.Second)
			})
			r.links[2].Cut(false)
			r.answers()
			r.unharmed("the registry was started again, empty", func() {
				r.server.Kill()
				r.server.Wipe()
				r.server.Start()
				r.answers()
				time.Sleep(2 * time.Second) // enough for a look of every node, and for the grace period
			})
			r.takeover(three, "the registry was started again, empty")
			r.answers()
			r.server.Pause()
			r.until("it knows", func() bool { return three.metric("skein_registry_up") == "0" })
			r.takeover(two, "the registry is frozen")
			// The command fails, because doctor also warns of other things.
			out, _ := three.home.cmd("doctor").CombinedOutput()
			if !regexp.MustCompile(`(?m)^registry[ \t]+warning`).Match(out) {
				t.Errorf("doctor: %s", out)
			}
			r.server.Resume()
			r.answers()
			r.unharmed("database and registry are away together", func() {
				if err := r.pg.Freeze(); err != nil {
					t.Fatal(err)
				}
				r.server.Pause()
				// Longer than the sessions, the leases, and the silence after which a member is declared
				// dead.
				time.Sleep(8 * time.Second)
				r.server.Resume()
				if err := r.pg.Thaw(); err != nil {
					t.Fatal(err)
				}
				r.answers()
				time.Sleep(3 * time.Second)
			})
			r.endsWithout(scheme)
			check()
			for _, m := range r.members {
				m.stop()
			}
		})
	}
}
