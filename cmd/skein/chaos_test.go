//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/registry/registrytest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// chaosShort is the time for which an ordinary test injects faults. SKEIN_CHAOS sets another time, and
// SKEIN_CHAOS_SEED sets the seed (make chaos). SKEIN_CHAOS_ONLY sets a word that the names of all injected
// faults must have. SKEIN_CHAOS_REGISTRY gives the nodes a registry: etcd or zookeeper.
const chaosShort = 20 * time.Second

// chaosDisk is the size of the disk of a node or worker in bytes, and its growth for each minute. Logs of
// attempts take up to 3 MiB of it.
const chaosDisk, chaosDiskMinute = 8 << 20, 6 << 20

// chaos is a working cluster into which the test injects faults, in an order that a seed determines.
type chaos struct {
	*flight
	rng   *rand.Rand
	dir   string
	taps  map[*member]*tap // proxies between a node and the database
	walls map[*member]*tap // proxies between a node, the other nodes and the workers
	hands []*hand          // workers that are no nodes
	long  bool             // not the short form of an ordinary test
	only  string           // a word that the names of all faults have
	// registry is the registry of the nodes, or nil. Each node reaches it over a link of its own.
	registry *registrytest.Server
	links    map[*member]*registrytest.Link
	faced    []*skein.Client // clients of the nodes that get requests for runs
	mu       sync.Mutex      // protects faced and following fields
	acked    map[string]int  // acknowledged runs, with the graph of each
	needs    []map[string][]string

	faults    map[string]int
	unable    []string // faults that this machine cannot inject, and why
	takeovers []time.Duration
	// lossy is set if the database may have lost acknowledged runs. gone contains the lost runs.
	lossy bool
	gone  []string
}

// TestChaos lets real nodes and workers over a real PostgreSQL run random graphs. Meanwhile nodes, workers
// and their keepers are killed and frozen. Nodes are cut off from the database or from each other, slowed,
// added and removed. Commits are lost on both ways, disks are full, and the database is killed. Some faults
// happen at the same time. The records of the tasks, the acknowledged answers and the database must agree.
func TestChaos(t *testing.T) {
	span := chaosShort
	if text := os.Getenv("SKEIN_CHAOS"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SKEIN_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SKEIN_CHAOS_SEED=%d SKEIN_CHAOS=%v", seed, span)
	c := &chaos{flight: newFlight(t, 0, "SKEIN_RECOVERY=on", "SKEIN_SLOTS=6", "SKEIN_DRAIN=5s", "SKEIN_RETENTION_RUNS=1000000"), rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(),
		long: span > chaosShort, only: os.Getenv("SKEIN_CHAOS_ONLY"), taps: map[*member]*tap{}, walls: map[*member]*tap{}, links: map[*member]*registrytest.Link{}, acked: map[string]int{}, faults: map[string]int{}}
	if why := mountSmall(t, filepath.Join(c.dir, "try"), chaosDisk); why == nil {
		c.disk = chaosDisk + int(span.Minutes()*chaosDiskMinute)
	} else {
		c.unable = append(c.unable, fmt.Sprintf("a full disk (a small one cannot be mounted here: %v)", why))
	}
	switch kind := os.Getenv("SKEIN_CHAOS_REGISTRY"); kind {
	case "":
		c.unable = append(c.unable, "faults of a registry (SKEIN_CHAOS_REGISTRY is empty)")
	case "etcd":
		c.registry = registrytest.Etcd(t)
	case "zookeeper":
		c.registry = registrytest.ZooKeeper(t)
	default:
		t.Fatalf("SKEIN_CHAOS_REGISTRY is %q; it must be etcd or zookeeper", kind)
	}
	for range 3 {
		c.join()
	}
	for i := range 2 {
		c.hands = append(c.hands, c.worker(fmt.Sprint("w", i+1), "--slots", "4", "--group", "hands"))
	}
	c.listed(5)
	c.prepare(6)
	working, rest := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { c.work(working, rand.New(rand.NewPCG(seed, uint64(2+i)))) })
	}
	began := time.Now()
	for time.Since(began) < span {
		c.fault()
		// The pause before the next fault is part of the fault.
		time.Sleep(time.Duration(c.rng.IntN(1500)) * time.Millisecond)
	}
	took := time.Since(began)
	rest()
	wg.Wait()
	c.members[0].home.until("every run has ended", func() bool {
		page, err := c.members[0].client.Runs(t.Context(), skein.RunsQuery{State: "active"})
		return err == nil && len(page.Items) == 0
	})
	c.audit(took)
}

// join adds a node between taps of its own.
func (c *chaos) join() {
	c.t.Helper()
	var is atomic.Pointer[member]
	p := newTap(c.t, c.pg.Addr)
	wall := newTap(c.t, func() string {
		if m := is.Load(); m != nil {
			if held, err := datadir.Find(c.t.Context(), m.home.data()); err == nil && held != nil {
				_, address, _ := strings.Cut(held.Address, "://")
				return address
			}
		}
		return "127.0.0.1:1" // the node does not listen now
	})
	db, env := c.db, c.env
	c.db, c.env = p.url(), append(slices.Clip(c.env), fmt.Sprint("SKEIN_ADVERTISE=https://localhost:", wall.l.Addr().(*net.TCPAddr).Port))
	var link *registrytest.Link
	if c.registry != nil {
		link = registrytest.NewLink(c.t, c.registry.Address)
		c.env = append(c.env, fmt.Sprintf("SKEIN_REGISTRY=%s://%s/chaos?ttl=2s", os.Getenv("SKEIN_CHAOS_REGISTRY"), link.Address))
	}
	m := c.add()
	is.Store(m)
	c.db, c.env, c.links[m] = db, env, link
	c.taps[m], c.walls[m] = p, wall
	c.face()
}

// face lists the nodes that get requests for runs.
func (c *chaos) face() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faced = nil
	for _, m := range c.members {
		c.faced = append(c.faced, m.client)
	}
}

func (c *chaos) witness(graph int) string { return filepath.Join(c.dir, fmt.Sprint("witness", graph)) }

// prepare applies workflows of random graphs, whose tasks write down what they do.
func (c *chaos) prepare(graphs int) {
	c.t.Helper()
	for i := range graphs {
		needs := map[string][]string{}
		n := 4 + c.rng.IntN(12)
		for k := range n {
			var of []string
			for range min(k, c.rng.IntN(4)) {
				of = append(of, fmt.Sprint("t", c.rng.IntN(k)))
			}
			needs[fmt.Sprint("t", k)] = unique(of)
		}
		line := "$SKEIN_RUN_ID $SKEIN_TASK $SKEIN_TOKEN $(date +%s%N) >> " + c.witness(i)
		command := "echo $SKEIN_TASK prints; echo begin " + line + "; sleep 0." + fmt.Sprint(1+c.rng.IntN(3)) + "; echo end " + line
		text := source(fmt.Sprint("chaos", i), command, needs)
		for k := i % 2; i%3 == 0 && k < n; k += 2 { // every third graph has half of its tasks on the workers
			text = strings.Replace(text, fmt.Sprintf("  t%d: {", k), fmt.Sprintf("  t%d: {group: hands, ", k), 1)
		}
		file := filepath.Join(c.dir, fmt.Sprint("chaos", i, ".yaml"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
		c.members[0].home.run("workflow", "apply", file)
		c.needs = append(c.needs, needs)
	}
}

// chaosActive is the number of runs that are kept active at the same time.
const chaosActive = 8

// work starts runs until ctx ends, and records those that were acknowledged.
func (c *chaos) work(ctx context.Context, rng *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		c.mu.Lock()
		k := c.faced[rng.IntN(len(c.faced))]
		c.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, 3*time.Second)
		page, err := k.Runs(call, skein.RunsQuery{State: "active"})
		if err == nil && len(page.Items) < chaosActive {
			g := rng.IntN(len(c.needs))
			var run api.Run
			if run, _, err = k.Start(call, api.RunRequest{Workflow: fmt.Sprint("chaos", g)}); err == nil {
				c.mu.Lock()
				c.acked[run.ID] = g
				c.mu.Unlock()
			}
		}
		cancel()
		time.Sleep(100 * time.Millisecond)
	}
}

// bereave kills a node and waits until the other nodes own all its shards.
func (c *chaos) bereave(m *member) {
	c.t.Helper()
	had := c.owners()[m.name]
	began := time.Now()
	m.kill()
	m.home.until("the others have what a dead node had", func() bool {
		out, err := c.query("select count(*) from skein.shard s where not exists (select from skein.member m where m.handler = s.owner and m.name <> '" + m.name + "')")
		return err == nil && out == "0"
	})
	if had > 0 {
		c.takeovers = append(c.takeovers, time.Since(began))
	}
	m.start()
}

// orphans counts processes of tasks that run although no node runs.
func (c *chaos) orphans() (n int) {
	for _, h := range c.homes() {
		n += len(c.tasksOf(h))
	}
	return n
}

// tasksOf returns the processes of tasks that a home has started.
func (c *chaos) tasksOf(h *home) (pids []string) {
	c.t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range entries {
		env, err := os.ReadFile(e)
		if err != nil {
			continue // it has ended, or belongs to another test
		}
		if strings.Contains(string(env), "SKEIN_TOKEN=") && strings.Contains(string(env), h.dir) {
			pids = append(pids, filepath.Base(filepath.Dir(e)))
		}
	}
	return pids
}

// homes returns the homes of the nodes and of the workers.
func (c *chaos) homes() (all []*home) {
	for _, m := range c.members {
		all = append(all, m.home)
	}
	for _, w := range c.hands {
		all = append(all, w.home)
	}
	return all
}
