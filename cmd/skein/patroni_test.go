//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/cluster/nettest"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
)

// patroniShort is the TTL of Patroni in an ordinary test. Its default is 30 s.
const patroniShort = 5 * time.Second

// elected is a working cluster over three servers of PostgreSQL that Patroni manages. Every server, node and
// worker has a machine of its own.
type elected struct {
	*chaos
	patroni *pgtest.Patroni
	at      map[*pgtest.PatroniServer]*nettest.Machine
}

func newElected(t *testing.T, ttl time.Duration, seed uint64) *elected {
	t.Helper()
	lan := nettest.Start(t)
	c := &elected{at: map[*pgtest.PatroniServer]*nettest.Machine{}}
	place := func(m *nettest.Machine) pgtest.Place { return pgtest.Place{Address: m.Addr, Within: m.Do} }
	base := lan.Add(t)
	var machines []*nettest.Machine
	var places []pgtest.Place
	for range 3 {
		m := lan.Add(t)
		machines, places = append(machines, m), append(places, place(m))
	}
	c.patroni = pgtest.StartPatroni(t, pgtest.PatroniOptions{Synchronous: true, TTL: ttl, Etcd: place(base), Servers: places})
	for i, s := range c.patroni.Servers {
		c.at[s] = machines[i]
	}
	f := &flight{t: t, db: c.patroni.URL(), direct: c.patroni.Near(), lan: lan, base: base, env: []string{"SKEIN_RECOVERY=on", "SKEIN_SLOTS=6", "SKEIN_DRAIN=5s",
		"SKEIN_RETENTION_RUNS=1000000", "SKEIN_SECRET_KEY_FILE=" + secretKey(t)}}
	c.chaos = &chaos{flight: f, rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), acked: map[string]int{}, faults: map[string]int{}}
	f.addAll(2)
	c.hands = append(c.hands, c.worker("w1", "--slots", "4", "--group", "hands"))
	c.listed(3)
	c.face()
	c.prepare(4)
	return c
}

// TestPatroni kills the primary of a cluster under Patroni while runs are started. First the cluster is
// synchronous, so no acknowledged run is lost, and no loss is reported. Then it is asynchronous, and the
// machine of the primary vanishes with commits that no standby has. The nodes report a new era, and every run
// that the database still knows ends. A former primary returns as a standby.
func TestPatroni(t *testing.T) {
	t.Parallel()
	rounds, ttl, seed := 1, patroniShort, uint64(time.Now().UnixNano())
	if text := os.Getenv("SKEIN_PATRONI"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		ttl = 30 * time.Second
	}
	t.Logf("seed %d, SKEIN_PATRONI=%d, TTL %v", seed, rounds, ttl)
	c := newElected(t, ttl, seed)
	working, rest := context.WithCancel(t.Context())
	defer rest()
	var wg sync.WaitGroup
	wg.Go(func() { c.work(working, rand.New(rand.NewPCG(seed, 2))) })
	began := time.Now()
	for range rounds {
		c.more(5)
		c.fails("primary killed, synchronous", func(*pgtest.PatroniServer) {})
		c.back()
	}
	c.quiet()
	c.lossy = true
	if err := c.patroni.SetSynchronous(false); err != nil {
		t.Fatal(err)
	}
	for range rounds {
		c.more(5)
		c.fails("machine of the primary gone, asynchronous", c.fallBehind)
		c.told()
		c.lan.Everywhere(nettest.Link{})
		if rounds > 1 { // the short form has no time for one more return
			c.back()
		}
	}
	took := time.Since(began)
	rest()
	wg.Wait()
	c.members[0].home.until("every run has ended", func() bool {
		page, err := c.members[0].client.Runs(t.Context(), skein.RunsQuery{State: "active"})
		return err == nil && len(page.Items) == 0
	})
	c.audit(took)
	if len(c.gone) == 0 {
		t.Error("no acknowledged run was lost by an asynchronous failover: the test has shown nothing")
	}
	t.Logf("%d acknowledged runs were lost by asynchronous failovers", len(c.gone))
}

// accepted counts the acknowledged runs.
func (c *elected) accepted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acked)
}

// more waits until more runs were acknowledged.
func (c *elected) more(n int) {
	c.t.Helper()
	goal := c.accepted() + n
	c.until(fmt.Sprintf("%d runs are acknowledged", goal), func() bool { return c.accepted() >= goal })
}

// fails kills the primary after prepare, and waits until the cluster works with another one.
func (c *elected) fails(name string, prepare func(*pgtest.PatroniServer)) {
	c.t.Helper()
	was := c.patroni.Leader()
	if was == nil {
		c.t.Fatal("no server takes writes")
	}
	prepare(was)
	c.faults[name]++
	if err := was.Kill(); err != nil {
		c.t.Fatal(err)
	}
	began, before := time.Now(), c.accepted()
	c.until("another server is the primary", func() bool { is := c.patroni.Leader(); return is != nil && is != was })
	chosen := time.Since(began)
	c.until("a run is acknowledged", func() bool { return c.accepted() > before })
	c.t.Logf("%s: %s follows %s after %.1f s, the first run is acknowledged after %.1f s", name, c.patroni.Leader().Name, was.Name, chosen.Seconds(), time.Since(began).Seconds())
}

// back repairs the network and lets the former primaries return as standbys.
func (c *elected) back() {
	c.t.Helper()
	c.lan.Everywhere(nettest.Link{})
	began := time.Now()
	for _, s := range c.patroni.Servers {
		if !s.Down() {
			continue
		}
		if err := s.Return(); err != nil {
			c.t.Fatal(err)
		}
		defer func() {
			c.t.Logf("%s streams %.1f s after its return, rewound: %v", s.Name, time.Since(began).Seconds(), strings.Contains(s.Log(), "running pg_rewind"))
		}()
	}
	if err := c.patroni.Whole(); err != nil {
		c.t.Fatal(err)
	}
}

// fallBehind lets runs be acknowledged that no standby learns of, and then cuts the primary off from everything.
func (c *elected) fallBehind(primary *pgtest.PatroniServer) {
	c.t.Helper()
	for s, m := range c.at {
		if s != primary {
			c.lan.Between(c.at[primary], m, nettest.Link{Cut: true})
		}
	}
	c.more(3)
	c.lan.Around(c.at[primary], nettest.Link{Cut: true})
}

// quiet checks that no run is lost so far, and that no node reports a loss.
func (c *elected) quiet() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.acked {
		if _, err := c.members[0].client.Run(c.t.Context(), id); err != nil {
			c.t.Errorf("run %s, which was acknowledged: %v", id, err)
		}
	}
	for _, m := range c.members {
		if got := m.metric("skein_store_regressed_total"); got != "0" || strings.Contains(m.home.said.String(), "store_regressed") {
			c.t.Errorf("%s tells that the database went back: metric %s", m.name, got)
		}
	}
}

// told checks that a node and `skein doctor` report the loss.
func (c *elected) told() {
	c.t.Helper()
	c.until("a node tells that the database went back", func() bool {
		for _, m := range c.members {
			if m.metric("skein_store_regressed_total") > "0" && strings.Contains(m.home.said.String(), "code=store_regressed") {
				return true
			}
		}
		return false
	})
	out, _ := c.members[0].home.cmd("doctor", "--db", c.db).Output() // the command fails, because the servers do not sync
	if !strings.Contains(string(out), "store_regressed") {
		c.t.Errorf("doctor does not tell: %s", out)
	}
}
