package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// beyondQuota checks that a run ended at once, because of a quota.
func (n *node) beyondQuota(id dag.RunID, quota string) {
	n.t.Helper()
	n.ends(id, dag.RunFailed)
	row, err := n.store.Run(n.t.Context(), id)
	if err != nil || row.Cause != dag.CauseQuota || !slices.Contains(strings.Fields(row.Message), quota) {
		n.t.Errorf("run %s: cause %q, %q, %v; want the quota %s", id, row.Cause, row.Message, err, quota)
	}
}

// TestQuotaOfCalls: a call beyond the quota fails with the cause quota, and its run says why. It counts
// nothing. With room, the same call succeeds.
func TestQuotaOfCalls(t *testing.T) {
	st := openMemory(t)
	h := newHands(t)
	n := start(t, st, h, calls, bounded)
	leaf := n.apply("leaf", graph(t, "x"))
	top := n.apply("top", graph(t, "leaf", logical(map[string]*dag.Logic{"leaf": call})))
	n.quotas(store.Quotas{Runs: 1})
	id := n.submit(top)
	n.ends(id, dag.RunFailed)
	attempts, err := st.Attempts(t.Context(), store.AttemptQuery{Run: id})
	if err != nil || len(attempts) != 1 || attempts[0].Cause != dag.CauseQuota {
		t.Fatalf("%+v, %v: want one attempt with the cause quota", attempts, err)
	}
	n.beyondQuota(runsOf(t, st, leaf)[0].ID, store.QuotaRuns)
	if use := n.uses(); use.Runs != 0 || use.Started != 1 {
		t.Errorf("%+v are counted, want no run, and one that began", use)
	}
	x, err := n.Explain(t.Context(), runsOf(t, st, leaf)[0].ID, "")
	if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "run_over_quota" {
		t.Errorf("explain says %+v, %v", x.Reasons, err)
	}
	n.quotas(store.Quotas{Runs: 2})
	n.ends(n.submit(top), dag.RunSucceeded)
	n.sound()
	n.verified()
}

// TestQuotaOfCallsAbroad: the child's shard belongs to another node, and the store refuses what that node
// could not know. The call fails there as it would here.
func TestQuotaOfCallsAbroad(t *testing.T) {
	a, b := pair(t, bounded, calls, func(c *engine.Config) { c.Namer = nil })
	a.own(0, 1)
	var leaf, top store.Workflow
	for i := 0; i < 100 && top.ID == 0; i++ {
		text := "x"
		if leaf.ID != 0 {
			text = leaf.Name
		}
		w := a.apply(fmt.Sprint("w", i), graph(t, text, logical(map[string]*dag.Logic{leaf.Name: call})))
		if leaf.ID == 0 && w.Shard == 1 {
			leaf = w
		} else if leaf.ID != 0 && w.Shard == 0 {
			top = w
		}
	}
	a.quotas(store.Quotas{Runs: 1})
	if err := engine.NamespacesOf(b.Engine).Changed(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.own(0)
	b.own(1)
	id := a.submit(top)
	eventually(t, "the run of the call is refused", func() bool {
		b.meet()
		a.meet()
		return a.state(id) == dag.RunFailed
	})
	b.beyondQuota(runsOf(t, a.store, leaf)[0].ID, store.QuotaRuns)
	if use := a.uses(); use.Runs != 0 {
		t.Errorf("%+v are counted", use)
	}
}

// TestQuotaOfDeposits: a run was deposited while its shard had no owner. If the quota has no room when the
// owner takes up the run, the run ends at once. The run's row says why.
func TestQuotaOfDeposits(t *testing.T) {
	n, _, give := ownerless(t, nil, bounded)
	n.hands.held = true
	give(true)
	w := n.apply("w", graph(t, "a"))
	n.quotas(store.Quotas{Runs: 1})
	give(false)
	var ids []dag.RunID
	for range 3 {
		a, err := n.Deposit(t.Context(), submission(w))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.Run)
	}
	give(true)
	k := n.hands.holding(1)[0]
	refused := 0
	for _, id := range ids {
		if id != k.run {
			n.beyondQuota(id, store.QuotaRuns)
			refused++
		}
	}
	if use := n.uses(); refused != 2 || use.Runs != 1 || use.Started != 1 {
		t.Errorf("%d runs were refused, %+v; want 2, and one that counts", refused, use)
	}
	n.sound()
	n.verified()
}

// TestQuotaOfRecover: a run that has ended does not continue beyond the quota. The refusal changes nothing.
func TestQuotaOfRecover(t *testing.T) {
	st := openMemory(t)
	h := newHands(t)
	h.held = true
	n := start(t, st, h, bounded)
	w := n.apply("w", graph(t, "a"))
	n.quotas(store.Quotas{Runs: 1})
	id := n.submit(w)
	h.end(h.holding(1)[0], dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit})
	n.ends(id, dag.RunFailed)
	next := n.submit(w)
	for _, c := range []engine.Command{{Run: id, Recover: true}, {Run: id, Mark: dag.MarkSucceeded, Task: "a"}} {
		var over *store.QuotaError
		if err := n.Do(t.Context(), c); !errors.As(err, &over) || over.Quota != store.QuotaRuns || over.Used != 1 || over.Bound != 1 {
			t.Errorf("%+v: %v, want a refusal by the quota", c, err)
		}
	}
	if n.state(id) != dag.RunFailed || n.uses().Runs != 1 {
		t.Errorf("the run is %s, %+v", n.state(id), n.uses())
	}
	h.end(h.holding(1)[0], done)
	n.ends(next, dag.RunSucceeded)
	if err := n.Do(t.Context(), engine.Command{Run: id, Recover: true}); err != nil {
		t.Error(err)
	}
	h.end(h.holding(1)[0], done)
	n.ends(id, dag.RunSucceeded)
	n.sound()
}

// TestQuotaOfBackfills: a backfill waits while its namespace has no room, says so, and continues when a run
// ends, when the quota grows, and when the hour has ended.
func TestQuotaOfBackfills(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.close()
		x.held = true
		x.start(t, bounded)
		x.quotas(store.Quotas{Runs: 2})
		w := x.set("w", "")
		b := x.backfill(w, 5, nil, hours(6)...)
		started := func(want int64, why string) {
			t.Helper()
			pass(time.Second)
			is, err := x.Backfill(t.Context(), b.ID)
			if err != nil || is.Started != want || is.State != store.BackfillRunning {
				t.Fatalf("%s: %+v, %v, want %d started", why, is, err, want)
			}
			over, err := engine.NamespacesOf(x.Engine).Room(t.Context(), "test")
			if err != nil || over == nil {
				t.Fatalf("%s: nothing says why it waits: %v, %v", why, over, err)
			}
		}
		started(2, "two may run")
		if _, ok := x.tries(w, store.QuotaRuns); ok {
			t.Error("a start is accepted beyond the quota")
		}
		x.hands.end(x.hands.holding(1)[0], done)
		started(3, "one has ended")
		x.quotas(store.Quotas{Runs: 4})
		started(5, "the quota has grown")
		x.quotas(store.Quotas{RunsPerHour: x.uses().Started})
		for _, k := range x.hands.holding(4) {
			x.hands.end(k, done)
		}
		started(5, "the hour is full")
		until(2 * time.Hour)
		for _, k := range x.hands.holding(1) {
			x.hands.end(k, done)
		}
		x.rest()
		if is, err := x.Backfill(t.Context(), b.ID); err != nil || is.State != store.BackfillDone {
			t.Fatalf("in the next hour: %+v, %v", is, err)
		}
		x.whole()
	})
}

// TestQuotaOfInstants: an instant beyond the quota is skipped, and its line names the quota.
func TestQuotaOfInstants(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.close()
		x.held = true
		x.start(t, bounded)
		x.quotas(store.Quotas{Runs: 1})
		w := x.set("w", "", "name: t, every: 1h")
		until(3 * time.Hour)
		var skipped int
		for _, f := range x.lines(w.ID, "t") {
			if f.Outcome == store.OutcomeSkipped && f.Reason == store.Because("quota", "runs", "test", "1", "1") {
				skipped++
			}
		}
		if skipped == 0 || x.uses().Runs != 1 {
			t.Errorf("%d lines name the quota, %+v", skipped, x.uses())
		}
		for _, k := range x.hands.holding(1) {
			x.hands.end(k, done)
		}
		x.rest()
		x.whole()
	})
}

// countingStore counts how often all unfinished runs are read.
type countingStore struct {
	store.Store
	reads atomic.Int64
}

func (c *countingStore) UnfinishedOf(ctx context.Context, shards []dag.ShardID) ([]store.WorkflowRuns, error) {
	c.reads.Add(1)
	return c.Store.UnfinishedOf(ctx, shards)
}

// TestQuotaChangesCountNothing: only the first quota of runs of a namespace makes the engine read the
// unfinished runs. Other bounds, other quotas and the end of a quota take effect at once, and read no run.
func TestQuotaChangesCountNothing(t *testing.T) {
	st := &countingStore{Store: openMemory(t)}
	h := newHands(t)
	h.held = true
	n := start(t, st, h, bounded)
	w := n.apply("w", graph(t, "a"))
	n.submit(w)
	before := st.reads.Load()
	for _, c := range []struct {
		q     store.Quotas
		reads int64
		more  int // runs that are accepted
	}{{store.Quotas{Tasks: 7}, 0, 3}, {store.Quotas{Runs: 3}, 1, 0}, {store.Quotas{Runs: 5, Tasks: 9}, 1, 1}, {store.Quotas{Runs: 4}, 1, 0},
		{store.Quotas{Runs: 7}, 1, 2}, {store.Quotas{}, 1, 3}, {store.Quotas{Runs: 11}, 2, 1}} {
		n.quotas(c.q)
		accepted := 0
		for range 3 {
			if _, ok := n.tries(w, store.QuotaRuns); ok {
				accepted++
			}
		}
		if got := st.reads.Load() - before; got != c.reads || accepted != c.more {
			t.Errorf("%+v: %d readings, %d runs were accepted; want %d and %d", c.q, got, accepted, c.reads, c.more)
		}
	}
	n.sound()
}

// TestFirstQuotaCountsBeside: while the unfinished runs of a namespace are counted for its first quota, the
// writer starts and ends runs, and the count includes each of them.
func TestFirstQuotaCountsBeside(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := &slowCount{Store: open(t), begun: make(chan struct{}), goOn: make(chan struct{})}
			h := newHands(t)
			h.held = true
			n := start(t, st, h, bounded)
			w := n.apply("w", graph(t, "a"))
			first := n.submit(w)
			n.submit(w)
			set := make(chan error, 1)
			go func() {
				_, err := engine.NamespacesOf(n.Engine).Set(context.Background(), "test", store.Quotas{Runs: 4}, "ann")
				set <- err
			}()
			<-st.begun // the count has begun, and has not read yet
			h.end(h.holding(2)[0], done)
			n.ends(first, dag.RunSucceeded)
			for range 2 {
				n.submit(w)
			}
			close(st.goOn)
			if err := <-set; err != nil {
				t.Fatal(err)
			}
			if got := n.uses().Runs; got != 3 {
				t.Errorf("%d runs are counted, want 3", got)
			}
			for _, want := range []bool{true, false} {
				if _, ok := n.tries(w, store.QuotaRuns); ok != want {
					t.Errorf("a start is accepted: %v", ok)
				}
			}
			n.sound()
		})
	}
}

// slowCount is a store in which the count of all unfinished runs waits for the test, before and after it has
// read the runs.
type slowCount struct {
	store.Store
	begun, goOn chan struct{}
}

func (s *slowCount) UnfinishedOf(ctx context.Context, shards []dag.ShardID) ([]store.WorkflowRuns, error) {
	all, err := s.Store.UnfinishedOf(ctx, shards)
	close(s.begun)
	<-s.goOn
	return all, err
}
