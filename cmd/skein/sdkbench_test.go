//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/store/postgres/pgtest"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestHandlerRate prints how many tasks per second a worker in this process executes, with handlers that do
// nothing and commits that are synced. It checks nothing about time. SKEIN_HANDLERS=runs×tasks, such as
// 20x1000, sets the work. SKEIN_HANDLERS_NODES sets the number of nodes; the default is one. With
// SKEIN_HANDLERS_LIMIT, the runs pass a queue with that limit. SKEIN_HANDLERS_CHAIN=1 makes each task need
// the previous one, so that the time of a task is the time between two successive tasks.
// SKEIN_HANDLERS_CALLS=1 sends every report as a call, without lines.
func TestHandlerRate(t *testing.T) {
	var runs, tasks int
	if _, err := fmt.Sscanf(os.Getenv("SKEIN_HANDLERS"), "%dx%d", &runs, &tasks); err != nil {
		t.Skip("a measurement: SKEIN_HANDLERS=20x1000 has it made")
	}
	number := func(name string, otherwise int) int {
		if n, _ := strconv.Atoi(os.Getenv("SKEIN_HANDLERS_" + name)); n > 0 {
			return n
		}
		return otherwise
	}
	slots, nodes, limit, chain := number("SLOTS", 500), number("NODES", 1), number("LIMIT", 0), number("CHAIN", 0)
	var transport http.RoundTripper
	if number("CALLS", 0) > 0 { // a worker opens lines only over a transport of net/http
		transport = struct{ http.RoundTripper }{&http.Transport{MaxIdleConnsPerHost: 16}}
	}
	pg, err := pgtest.Start(pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Close() })
	f := &flight{t: t, pg: pg, plain: true, db: pg.URL("postgres"), env: []string{"SKEIN_ROLES=api,scheduler", "SKEIN_LAG=20s"}}
	for range nodes {
		f.add()
	}
	ctx, c := t.Context(), f.members[0].client
	if limit > 0 {
		if _, err := c.SetQueue(ctx, "q", api.QueueRequest{Limit: int32(limit)}); err != nil {
			t.Fatal(err)
		}
	}
	const workflows = 12
	var all []*skein.Workflow
	for i := range workflows {
		wf := skein.NewWorkflow(fmt.Sprint("noop", i))
		for j := range tasks {
			task := wf.Task(fmt.Sprint("t", j)).Kind("noop", nil)
			if chain > 0 && j > 0 {
				task.Needs(fmt.Sprint("t", j-1))
			}
		}
		if limit > 0 {
			wf.Set("queue", "q")
		}
		if _, err := wf.Apply(ctx, c); err != nil {
			t.Fatal(err)
		}
		all = append(all, wf)
	}
	w := skein.NewWorker(c.URL(), skein.WorkerOptions{Name: "gopher", Slots: slots, Token: f.members[0].home.token(), Transport: transport, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	skein.Handle(w, "noop", func(context.Context, *skein.Task, struct{}) (struct{}, error) { return struct{}{}, nil })
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	f.listed(nodes + 1)
	serving := func() (sum float64) {
		for _, m := range f.members {
			sum += f.cpu(fmt.Sprint(m.server.Process.Pid))
		}
		return sum
	}
	began, node, db, self := time.Now(), serving(), f.databaseCPU(), f.cpu("self")
	var starting sync.WaitGroup
	for i := range workflows {
		starting.Go(func() {
			for range (runs + i) / workflows {
				if _, err := all[i].Start(ctx, f.members[i%nodes].client, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	starting.Wait()
	f.until("all runs have succeeded", func() bool {
		out, err := f.query("select count(*) from skein.run where state = 'succeeded'")
		return err == nil && out == fmt.Sprint(runs)
	})
	took, n := time.Since(began).Seconds(), float64(runs*tasks)
	node, db, self = serving()-node, f.databaseCPU()-db, f.cpu("self")-self
	t.Logf("%.0f tasks in %.1f s: %.0f tasks/s, %.3f ms a task; CPU per 10,000 tasks: nodes %.2f s, PostgreSQL %.2f s, worker %.2f s", n, took, n/took, took/n*1e3,
		node/n*1e4, db/n*1e4, self/n*1e4)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// cpu returns the CPU time of a process so far, in seconds, or 0 if the process is gone.
func (f *flight) cpu(pid string) float64 {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

func (f *flight) databaseCPU() (sum float64) {
	out, err := f.query("select pid from pg_stat_activity")
	if err != nil {
		f.t.Fatal(err)
	}
	for pid := range strings.Lines(out) {
		sum += f.cpu(strings.TrimSpace(pid))
	}
	return sum
}
