//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// newNetworked makes a cluster in which each node, each worker and the database has its own machine. Its
// nodes know each other by certificates of their own authority.
func newNetworked(t *testing.T, nodes int, env ...string) *flight {
	t.Helper()
	lan := nettest.Start(t)
	base := lan.Add(t)
	pg, err := pgtest.Start(pgtest.Options{NoSync: true, On: pgtest.Place{Address: base.Addr, Within: base.Do}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Close(); err != nil {
			t.Error(err)
		}
	})
	f := &flight{t: t, pg: pg, db: fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", pgtest.Superuser, pg.Addr()), direct: pg.URL("postgres"), lan: lan, base: base,
		env: append(env, "SKEIN_SECRET_KEY_FILE="+secretKey(t))}
	f.addAll(nodes)
	return f
}

// secretKey makes the key that the nodes of a cluster share.
func secretKey(t *testing.T) (path string) {
	t.Helper()
	const bytes = 32
	key := make([]byte, bytes)
	_, _ = rand.Read(key)
	path = filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// networks is a working cluster on several machines, whose network fails.
type networks struct {
	*chaos
	slowest map[string]time.Duration // the longest time for each action of a user during a fault
}

// outage is a fault of the network. begin starts it, seen waits for its effect and checks it, end repairs it.
type outage struct {
	name             string
	begin, seen, end func()
}

// TestNetworksThatFail lets three nodes and two workers on machines of their own run random graphs, while
// links between them and the database are cut, in both directions or in one, delayed and lossy. A node or
// worker that is cut off for longer than its lease has ended its tasks before others may run them.
func TestNetworksThatFail(t *testing.T) {
	t.Parallel()
	span, seed := time.Duration(0), uint64(time.Now().UnixNano())
	if text := os.Getenv("SKEIN_NETWORKS"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d, SKEIN_NETWORKS=%v", seed, span)
	c := &networks{chaos: &chaos{flight: newNetworked(t, 3, "SKEIN_RECOVERY=on", "SKEIN_SLOTS=6", "SKEIN_DRAIN=5s", "SKEIN_RETENTION_RUNS=1000000"),
		rng: mathrand.New(mathrand.NewPCG(seed, 1)), dir: t.TempDir(), acked: map[string]int{}, faults: map[string]int{}}, slowest: map[string]time.Duration{}}
	c.until("the shards are spread evenly", func() bool {
		owners := c.owners()
		return min(owners["n1"], owners["n2"], owners["n3"]) >= 10
	})
	for _, name := range []string{"w1", "w2"} {
		c.hands = append(c.hands, c.worker(name, "--slots", "4", "--group", "hands,"+name+"s"))
	}
	c.listed(5)
	c.face()
	c.prepare(6)
	c.members[0].apply("linked", "  a: {run: 'true'}\n")
	for _, w := range c.hands {
		c.members[0].apply("held-"+w.name, "  a: {group: "+w.name+"s, run: 'until [ -e "+c.gate(w)+" ]; do sleep 0.05; done'}\n")
	}
	working, rest := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.work(working, mathrand.New(mathrand.NewPCG(seed, 2))) })
	defer rest()
	began := time.Now()
	for _, group := range c.few() {
		c.happen(group...)
	}
	for time.Since(began) < span {
		c.happen(c.some()...)
	}
	took := time.Since(began)
	rest()
	wg.Wait()
	c.members[0].home.until("every run has ended", func() bool {
		page, err := c.members[0].client.Runs(t.Context(), skein.RunsQuery{State: "active"})
		return err == nil && len(page.Items) == 0
	})
	c.audit(took)
	carried, lost := c.lan.Count()
	t.Logf("%d packets carried, %d lost; slowest %v", carried, lost, c.slowest)
}

// few returns the faults of an ordinary test.
func (c *networks) few() [][]outage {
	one, two, three := c.members[0], c.members[1], c.members[2]
	return [][]outage{
		{c.fromDatabase(two), c.apart(c.hands[0]), c.lopsided(three)},
		{c.fromEachOther(one, three), c.oneWay(c.hands[1], true)},
		{c.everywhere("200 ms each way", nettest.Link{Delay: 200 * time.Millisecond})},
	}
}

// some returns one or two random faults.
func (c *networks) some() []outage {
	order := c.rng.Perm(len(c.members))
	m, other, w := c.members[order[0]], c.members[order[1]], c.hands[c.rng.IntN(len(c.hands))]
	ofNodes := []outage{c.fromDatabase(m), c.fromEachOther(m, other), c.fromAll(m), c.lopsided(m)}
	ofWorkers := []outage{c.apart(w), c.oneWay(w, true), c.oneWay(w, false)}
	ofAll := []outage{
		c.everywhere("200 ms each way", nettest.Link{Delay: 200 * time.Millisecond}),
		c.everywhere("a tenth lost", nettest.Link{Loss: 0.1}),
		c.everywhere("a fifth lost, 20 ms", nettest.Link{Loss: 0.2, Delay: 20 * time.Millisecond}),
	}
	any := func(of []outage) outage { return of[c.rng.IntN(len(of))] }
	switch c.rng.IntN(4) {
	case 0:
		return []outage{any(ofAll)}
	case 1:
		return []outage{any(ofNodes)}
	case 2:
		return []outage{any(ofWorkers)}
	}
	return []outage{any(ofNodes), any(ofWorkers)}
}

// happen lets faults begin together, and waits until the cluster is complete again.
func (c *networks) happen(group ...outage) {
	c.t.Helper()
	for _, o := range group {
		c.t.Log(o.name)
		c.faults[o.name]++
		o.begin()
	}
	before := c.done()
	for _, o := range group {
		o.seen()
	}
	c.until("tasks end during a fault", func() bool { return c.done() > before })
	for _, o := range group {
		o.end()
	}
	c.listed(len(c.members) + len(c.hands))
}

// done counts the tasks that have ended.
func (c *networks) done() (n int) {
	for i := range c.needs {
		n += ends(c.witness(i))
	}
	return n
}

// handlers returns the handlers of all members, by name.
func (c *networks) handlers() map[string]string {
	c.t.Helper()
	out, err := c.query("select name || ' ' || handler from skein.member")
	if err != nil {
		c.t.Fatal(err)
	}
	by := map[string]string{}
	for line := range strings.Lines(out) {
		name, handler, _ := strings.Cut(strings.TrimSpace(line), " ")
		by[name] = handler
	}
	return by
}

// deposed waits until a member was declared dead. At that moment none of its tasks runs any more.
func (c *networks) deposed(name, was string, h *home) {
	c.t.Helper()
	c.until(name+" counts as dead", func() bool { return c.handlers()[name] != was })
	if left := c.tasksOf(h); len(left) > 0 {
		c.t.Errorf("%s counts as dead, and its tasks run as processes %v", name, left)
	}
}

// fromDatabase cuts a node off from the database only.
func (c *networks) fromDatabase(m *member) outage {
	return c.lostNode("node cut off from the database", m, func(l nettest.Link) { c.lan.Between(m.home.on, c.base, l) })
}

// fromAll cuts a node off from everything.
func (c *networks) fromAll(m *member) outage {
	return c.lostNode("node cut off from everything", m, func(l nettest.Link) { c.lan.Around(m.home.on, l) })
}

func (c *networks) lostNode(name string, m *member, set func(nettest.Link)) outage {
	var was string
	var began time.Time
	return outage{name: name, begin: func() {
		was, began = c.handlers()[m.name], time.Now()
		set(nettest.Link{Cut: true})
	}, seen: func() {
		c.deposed(m.name, was, m.home)
		c.until("the others own all shards", func() bool {
			owners := c.owners()
			return owners["-"] == 0 && owners[m.name] == 0
		})
		c.takeovers = append(c.takeovers, time.Since(began))
		c.truth(m)
	}, end: func() {
		set(nettest.Link{})
		c.until(m.name+" has joined again", func() bool { is := c.handlers()[m.name]; return is != "" && is != was })
	}}
}

// truth checks how the other nodes, and the node itself, report a node that was declared dead.
func (c *networks) truth(m *member) {
	c.t.Helper()
	for _, other := range c.members {
		ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
		page, err := other.client.Nodes(ctx)
		if err != nil {
			c.t.Logf("%s about %s: %v", other.name, m.name, err)
		}
		for _, n := range page.Items {
			c.t.Logf("%s says: %s is %s with %d shards, %.1f s", other.name, n.Name, n.State, n.Shards.Owned, n.Lag)
			if n.Name == m.name && n.State == "active" {
				c.t.Errorf("%s says that %s is active, which counts as dead", other.name, m.name)
			}
		}
		if err := other.client.Ready(ctx); other == m && err == nil {
			c.t.Errorf("%s is ready, and counts as dead", m.name)
		}
		cancel()
	}
}

// fromEachOther cuts the link between two nodes. Both reach the database, so neither is declared dead. A run
// of one of them is started, read and ended by the other.
func (c *networks) fromEachOther(a, b *member) outage {
	var was map[string]string
	return outage{name: "two nodes cut off from each other", begin: func() {
		was = c.handlers()
		b.home.run("node", "move", "linked", b.name)
		c.until(b.name+" owns the workflow", func() bool { return c.ownerOf("linked") == b.name })
		b.home.run("run", "--", "linked")
		a.home.run("run", "--", "linked") // makes a connection between the nodes before the fault
		c.lan.Between(a.home.on, b.home.on, nettest.Link{Cut: true})
	}, seen: func() {
		id := c.asks(a, "start", func(ctx context.Context) (string, error) {
			run, _, err := a.client.Start(ctx, api.RunRequest{Workflow: "linked"})
			return run.ID, err
		})
		c.asks(a, "explain", func(ctx context.Context) (string, error) {
			x, err := a.client.Explain(ctx, id, "")
			return x.State, err
		})
		c.until("the run has ended", func() bool {
			run, err := b.client.Run(c.t.Context(), id)
			return err == nil && run.State == "succeeded"
		})
		c.asks(a, "read", func(ctx context.Context) (string, error) {
			run, err := a.client.Run(ctx, id, skein.WithTasks())
			return run.State, err
		})
		for _, m := range []*member{a, b} {
			if is := c.handlers()[m.name]; is != was[m.name] {
				c.t.Errorf("%s counted as dead, although it reached the database", m.name)
			}
		}
	}, end: func() {
		c.lan.Between(a.home.on, b.home.on, nettest.Link{})
		b.home.run("node", "move", "linked", "-")
	}}
}

// asks calls a node until it answers, and notes how long that took.
func (c *networks) asks(m *member, what string, call func(context.Context) (string, error)) (answer string) {
	c.t.Helper()
	began := time.Now()
	c.until(m.name+" answers: "+what, func() bool {
		ctx, cancel := context.WithTimeout(c.t.Context(), awaitMax)
		defer cancel()
		var err error
		if answer, err = call(ctx); err != nil && !errors.Is(err, skein.ErrUnavailable) {
			c.t.Fatalf("%s by %s: %v", what, m.name, err)
		}
		return err == nil
	})
	c.slowest[what] = max(c.slowest[what], time.Since(began))
	return answer
}

// homeOf returns the node that a worker is attached to.
func (c *networks) homeOf(w *hand) *member {
	c.t.Helper()
	var found *member
	c.until(w.name+" has a home", func() bool {
		at := c.row("home", w.name)
		for name, handler := range c.handlers() {
			if i := slices.IndexFunc(c.members, func(m *member) bool { return m.name == name }); i >= 0 && at != "" && handler == at {
				found = c.members[i]
			}
		}
		return found != nil
	})
	return found
}

// oneWay cuts one direction between a worker and its home: the requests of the worker, or the answers that it
// gets. The worker moves to another node.
func (c *networks) oneWay(w *hand, says bool) outage {
	name := "worker does not hear its home"
	if says {
		name = "home does not hear its worker"
	}
	var at *member
	set := func(l nettest.Link) {
		if says {
			c.lan.Set(w.home.on, at.home.on, l)
		} else {
			c.lan.Set(at.home.on, w.home.on, l)
		}
	}
	var began time.Time
	return outage{name: name, begin: func() {
		at, began = c.homeOf(w), time.Now()
		set(nettest.Link{Cut: true})
	}, seen: func() {
		c.until(w.name+" is at another home", func() bool { return c.homeOf(w) != at })
		c.t.Logf("%s left %s after %.1f s", w.name, at.name, time.Since(began).Seconds())
	}, end: func() { set(nettest.Link{}) }}
}

// gate returns the path of the file that the held task of a worker waits for.
func (c *networks) gate(w *hand) string { return filepath.Join(c.dir, w.name+".gate") }

// apart cuts a worker off from everything for longer than its lease. A task that only this worker can run is
// lost, waits for a place, and runs again when the worker is back.
func (c *networks) apart(w *hand) outage {
	var was, id string
	explained := func(want string) {
		c.t.Helper()
		c.until("explain says "+want, func() bool {
			x, err := c.members[0].client.Explain(c.t.Context(), id, "a")
			return err == nil && slices.ContainsFunc(x.Reasons, func(r api.Reason) bool {
				return r.Code == want && (r.Args["node"] == nil || r.Args["node"] == w.name)
			})
		})
	}
	return outage{name: "worker cut off from everything", begin: func() {
		_ = os.Remove(c.gate(w))
		id, was = c.members[0].detach("held-"+w.name), c.handlers()[w.name]
		explained("attempt_running")
		c.lan.Around(w.home.on, nettest.Link{Cut: true})
	}, seen: func() {
		c.deposed(w.name, was, w.home)
		explained("no_worker")
	}, end: func() {
		c.lan.Around(w.home.on, nettest.Link{})
		c.until(w.name+" is back", func() bool { is := c.handlers()[w.name]; return is != "" && is != was })
		explained("attempt_running")
		if err := os.WriteFile(c.gate(w), nil, 0o600); err != nil {
			c.t.Fatal(err)
		}
		c.members[0].home.run("run", "watch", id) // the command fails unless the run succeeds
		all := c.members[0].attempts(id, "a")
		if len(all) != 2 || all[0].State != "lost" || all[1].State != "succeeded" || all[0].Number == all[1].Number {
			c.t.Errorf("attempts of the held task: %+v", all)
		}
	}}
}

// slowFor is the time for which a network stays slow or lossy. It is longer than the silence after which a
// member is declared dead.
const slowFor = 5 * time.Second

// everywhere changes all links. While packets are only late, no member is declared dead.
func (c *networks) everywhere(name string, l nettest.Link) outage {
	var was map[string]string
	return outage{name: name + " everywhere", begin: func() {
		was = c.handlers()
		c.lan.Everywhere(l)
	}, seen: func() {
		time.Sleep(slowFor) // the fault itself
		if is := c.handlers(); l.Loss == 0 && fmt.Sprint(is) != fmt.Sprint(was) {
			c.t.Errorf("members were %v and are %v, although the network was only slow", was, is)
		}
	}, end: func() { c.lan.Everywhere(nettest.Link{}) }}
}

// lopsided makes packets from a node to the database slow, and loses some packets in the other direction.
func (c *networks) lopsided(m *member) outage {
	return outage{name: "200 ms to the database, a tenth lost on the way back", begin: func() {
		c.lan.Set(m.home.on, c.base, nettest.Link{Delay: 200 * time.Millisecond})
		c.lan.Set(c.base, m.home.on, nettest.Link{Loss: 0.1})
	}, seen: func() { time.Sleep(slowFor / 2) }, end: func() { c.lan.Between(m.home.on, c.base, nettest.Link{}) }}
}
