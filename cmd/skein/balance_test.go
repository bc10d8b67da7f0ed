//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestLoadBecomesEven runs three real nodes, and gives all load to workflows of one of them. Shards move
// to both other nodes, while every start is accepted and every run ends. The starts that met a shard
// without an owner are counted and printed.
func TestLoadBecomesEven(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 3, "SKEIN_HEARTBEAT=200ms", "SKEIN_BALANCE=400ms")
	f.own(map[string]int{"n1": 11, "n2": 11, "n3": 10})
	names := f.ofOneNode(6)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var starts, kept, refused atomic.Int64
	var callers sync.WaitGroup
	for i, name := range names {
		c := f.members[i%3].client
		callers.Go(func() {
			for ctx.Err() == nil {
				run, _, err := c.Start(ctx, api.RunRequest{Workflow: name})
				switch {
				case err == nil && run.State == "submitted":
					kept.Add(1) // the shard had no owner, and its next owner executes the run
				case err == nil:
					starts.Add(1)
				case ctx.Err() == nil && notHere(err):
					refused.Add(1)
				case ctx.Err() == nil:
					t.Errorf("a start of %s: %v", name, err)
					return
				}
			}
		})
	}
	one := f.members[0]
	moves := 0
	one.home.until("shards have moved to both other nodes", func() bool {
		takers := 0
		moves = 0
		for _, n := range one.nodes() {
			for _, s := range n.Shards.Shifted {
				if s.Why == "" || s.From == nil {
					t.Errorf("%s: %+v", n.Name, s)
				}
			}
			moves += len(n.Shards.Shifted)
			takers += min(len(n.Shards.Shifted), 1)
		}
		return takers == 2
	})
	f.loadIsShown()
	stop()
	callers.Wait()
	t.Logf("%d moves; %d starts were executed at once, %d were kept for the next owner, %d were refused", moves, starts.Load(), kept.Load(), refused.Load())
	one.home.until("every run has ended", func() bool {
		page, err := one.client.Runs(t.Context(), skein.RunsQuery{State: "active", Limit: 1})
		return err == nil && len(page.Items) == 0
	})
	if out := one.home.run("verify"); !bytes.Contains(out, []byte(`"violations": []`)) {
		t.Errorf("verify: %s", out)
	}
}

// ofOneNode applies workflows to all shards, and returns the names of n of them whose shards one node
// owns. None of them is on shard 0, which stays where it is.
func (f *flight) ofOneNode(n int) (names []string) {
	f.t.Helper()
	for i := range 32 {
		name := fmt.Sprintf("w%d", i)
		if _, err := f.members[0].client.Apply(f.t.Context(), name, api.ApplyRequest{Source: "name: " + name + "\ntasks:\n  a: {wait: 1ms}\n"}); err != nil {
			f.t.Fatal(err)
		}
	}
	out, err := f.query("select w.name from skein.workflow w join skein.shard s on s.id = w.shard where w.namespace = 'default' and s.id <> 0 " +
		"and s.owner = (select owner from skein.shard where id = 1) order by s.id")
	if err != nil {
		f.t.Fatal(err)
	}
	if names = strings.Fields(out); len(names) < n {
		f.t.Fatalf("one node has the workflows %v", names)
	}
	return names[:n]
}

// loadIsShown: the command line and the metrics show how busy nodes are, and why a shard has moved.
func (f *flight) loadIsShown() {
	f.t.Helper()
	one := f.members[0]
	for _, n := range one.nodes() {
		if n.Load == nil {
			f.t.Errorf("%s: the load is not known", n.Name)
		}
		if card := string(one.home.run("node", "get", n.Name)); len(n.Shards.Shifted) > 0 && !strings.Contains(card, "moved by load") {
			f.t.Errorf("%s", card)
		}
	}
	if out := string(one.home.run("status")); !strings.Contains(out, "last move") || !strings.Contains(out, "load ") {
		f.t.Errorf("status: %s", out)
	}
}
