//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/bench"
	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
)

// The measurements in this file print times and check none. docs/performance.md says how to call them.

// measured makes a cluster over a PostgreSQL that syncs, with the usual heartbeat. It reads the environment
// variable into want, or skips the test if the variable is not set.
func measured(t *testing.T, variable, format string, nodes int, want ...any) *flight {
	t.Helper()
	if _, err := fmt.Sscanf(os.Getenv(variable), format, want...); err != nil {
		t.Skipf("a measurement: %s=%s has it made", variable, format)
	}
	pg, err := pgtest.Start(pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	f := &flight{t: t, pg: pg, plain: true, db: pg.URL("postgres"), env: []string{"SKEIN_ROLES=api,scheduler", "SKEIN_HEARTBEAT=5s", "SKEIN_LAG=20s"}}
	for range nodes {
		f.add()
	}
	return f
}

// callsOnly is a transport over which a worker can open no line, so the worker reports by calls.
type callsOnly struct{ http.RoundTripper }

// gophers starts workers in this process with handlers of one kind. The returned function ends them.
// SKEIN_LINES=off makes them report by calls only.
func (f *flight) gophers(n, slots int, kind string, handle func()) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	var all sync.WaitGroup
	for i := range n {
		o := skein.WorkerOptions{Name: fmt.Sprint("gopher", i), Slots: slots, Token: f.members[0].home.token(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		if os.Getenv("SKEIN_LINES") == "off" {
			o.Transport = callsOnly{&http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}}
		}
		w := skein.NewWorker(f.members[0].client.URL(), o)
		skein.Handle(w, kind, func(context.Context, *skein.Task, struct{}) (struct{}, error) { handle(); return struct{}{}, nil })
		all.Go(func() {
			if err := w.Run(ctx); err != nil {
				f.t.Error(err)
			}
		})
	}
	f.listed(len(f.members) + n)
	return func() { cancel(); all.Wait() }
}

// TestRemoteHop prints the time between successive tasks of a chain, for tasks on a worker process and for
// tasks within the process of the node over the same database. SKEIN_HOPS=300 sets the length of the chain.
func TestRemoteHop(t *testing.T) {
	var n int
	f := measured(t, "SKEIN_HOPS", "%d", 1, &n)
	var begun []time.Time
	stop := f.gophers(1, 20, "hop", func() { begun = append(begun, time.Now()) }) // the tasks run one after the other
	defer stop()
	chain := skein.NewWorkflow("chain")
	chain.Task("t0").Kind("hop", nil)
	for i := 1; i < n; i++ {
		chain.Task(fmt.Sprint("t", i)).Kind("hop", nil).Needs(fmt.Sprint("t", i-1))
	}
	f.through(chain, 1)
	var hops []time.Duration
	for i := 1; i < len(begun); i++ {
		hops = append(hops, begun[i].Sub(begun[i-1]))
	}
	slices.Sort(hops)
	at, err := bench.InSchema(t.Context(), f.db)
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	shape, err := bench.ParseShape("chain:100")
	if err != nil {
		t.Fatal(err)
	}
	within, err := bench.Run(t.Context(), bench.Config{Shape: shape, Workflows: 1, Dir: t.TempDir(), At: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a hop through a worker: p50 %v, p99 %v; within a process: p50 %.0f µs, p99 %.0f µs; fdatasync %.0f µs",
		hops[len(hops)/2], hops[len(hops)*99/100], within.HopP50US, within.HopP99US, within.FdatasyncP50)
}

// through applies a workflow, and waits until n runs of it have succeeded.
func (f *flight) through(wf *skein.Workflow, runs int) {
	f.t.Helper()
	c := f.members[0].client
	if _, err := wf.Apply(f.t.Context(), c); err != nil {
		f.t.Fatal(err)
	}
	for _, id := range f.begin(wf, runs) {
		if run, err := c.WaitRun(f.t.Context(), id); err != nil || run.State != "succeeded" {
			f.t.Fatalf("%s, %v", run.State, err)
		}
	}
}

// begin starts runs, several at the same time.
func (f *flight) begin(wf *skein.Workflow, runs int) []string {
	f.t.Helper()
	ids, errs, slots := make([]string, runs), make([]error, runs), make(chan struct{}, 64)
	var all sync.WaitGroup
	for i := range runs {
		slots <- struct{}{}
		all.Go(func() {
			run, err := wf.Start(f.t.Context(), f.members[0].client, nil)
			ids[i], errs[i] = run.ID, err
			<-slots
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return ids
}

// TestIdleWorkers prints the work of a node and its database while workers are attached and nothing happens.
// SKEIN_IDLE=50x20 is 50 workers of 20 slots.
func TestIdleWorkers(t *testing.T) {
	var workers, slots int
	f := measured(t, "SKEIN_IDLE", "%dx%d", 1, &workers, &slots)
	const span = 30 * time.Second
	pid := fmt.Sprint(f.members[0].server.Process.Pid)
	idle := func() (node, db float64) {
		time.Sleep(span / 6) // leaves time for earlier work to end
		node, db = f.cpu(pid), f.databaseCPU()
		time.Sleep(span)
		return (f.cpu(pid) - node) / span.Seconds() * 100, (f.databaseCPU() - db) / span.Seconds() * 100
	}
	node0, db0 := idle()
	stop := f.gophers(workers, slots, "noop", func() {})
	node, db := idle()
	stop()
	t.Logf("idle, %% of one core: without workers node %.2f, PostgreSQL %.2f; with %d workers of %d slots node %.2f, PostgreSQL %.2f", node0, db0, workers, slots, node, db)
}

var activeRuns = regexp.MustCompile(`(?m)^skein_runs_active (\d+)`)

// active returns the number of unfinished runs that a member has in memory.
func (m *member) active() int {
	res, err := m.get("/metrics")
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if found := activeRuns.FindSubmatch(raw); err == nil && found != nil {
		n, _ := strconv.Atoi(string(found[1]))
		return n
	}
	return 0
}

// TestTakeoverRate prints the time until another node owns all runs of a node that was killed.
// SKEIN_TAKEOVER=10000x10 is 10,000 runs of ten tasks, of which one has ended.
func TestTakeoverRate(t *testing.T) {
	var runs, tasks int
	f := measured(t, "SKEIN_TAKEOVER", "%dx%d", 2, &runs, &tasks)
	f.listed(2)
	const workflows = 8
	where := map[string]string{}
	stop := f.gophers(1, 500, "first", func() {})
	var all []*skein.Workflow
	for i := range workflows {
		wf := skein.NewWorkflow(fmt.Sprint("flow", i))
		wf.Task("t0").Kind("first", nil)
		for j := 1; j < tasks; j++ {
			wf.Task(fmt.Sprint("t", j)).Kind("nobody", nil).Needs("t0")
		}
		if _, err := wf.Apply(t.Context(), f.members[0].client); err != nil {
			t.Fatal(err)
		}
		where[fmt.Sprint("flow", i)] = "n1"
		all = append(all, wf)
	}
	f.at(where)
	for _, wf := range all {
		f.begin(wf, runs/workflows)
	}
	f.members[0].home.until("the first tasks have ended", func() bool {
		// The ends of tasks are packed in such events.
		out, err := f.query("select count(*) from skein.event where substr(hands, 1, 1) = '\\x02'")
		return err == nil && out == fmt.Sprint(runs/workflows*workflows)
	})
	stop()
	one, two := f.members[0], f.members[1]
	two.home.until("they are n1's", func() bool { return one.active() >= runs/workflows*workflows && two.active() == 0 })
	one.kill()
	killed := time.Now()
	two.home.until("n1 is deposed", func() bool {
		out, err := f.query("select count(*) from skein.member where name = 'n1'")
		return err == nil && out == "0"
	})
	deposed := time.Now()
	two.home.until("they are n2's", func() bool { return two.active() >= runs/workflows*workflows })
	t.Logf("%d runs of %d tasks: deposed %.2f s after the kill (silence of 20 s counts as death), taken over %.2f s after that",
		runs/workflows*workflows, tasks, deposed.Sub(killed).Seconds(), time.Since(deposed).Seconds())
}
