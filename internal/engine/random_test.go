package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
)

// dice is a seeded source of random numbers for many goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{r: rand.New(rand.NewPCG(seed, 1))} }

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func (d *dice) percent(p int) bool { return d.n(100) < p }

// TestRandom runs random workloads over stores that fail at random, with an executor that loses, repeats
// and confuses attempts. Every accepted run ends once.
func TestRandom(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		name := "memory"
		if seed%4 == 3 {
			name = "sqlite"
		}
		t.Run(fmt.Sprintf("%s/seed %d", name, seed), func(t *testing.T) {
			t.Parallel()
			newChaos(t, openers[name](t), uint64(seed)).run()
		})
	}
}

// chaos is one random workload.
type chaos struct {
	t      *testing.T
	beside bool
	dice   *dice
	calm   atomic.Bool // no more faults are injected
	st     *storetest.Faulty
	node   *node
	flows  []store.Workflow

	mu       sync.Mutex
	accepted map[dag.RunID]bool
	byKey    map[string]dag.RunID
}

func newChaos(t *testing.T, st store.Store, seed uint64) *chaos {
	c := &chaos{t: t, beside: seed%3 == 2, dice: newDice(seed), accepted: map[dag.RunID]bool{}, byKey: map[string]dag.RunID{}}
	c.st = &storetest.Faulty{Store: st, Next: c.fault}
	return c
}

// fault draws the outcome of a commit. It never refuses a small transaction, because the engine would take
// that as a verdict about its content.
func (c *chaos) fault(b *store.Batch) storetest.Fault {
	if c.calm.Load() {
		return storetest.NoFault
	}
	switch n := c.dice.n(100); {
	case n < 4:
		return storetest.Lost
	case n < 8:
		return storetest.Written
	case n < 11:
		return storetest.Unavailable
	case n < 17 && b.Rows() > 12:
		return storetest.Refused
	}
	return storetest.NoFault
}

func (c *chaos) hands() *hands {
	h := newHands(c.t)
	h.drop = func() bool { return !c.calm.Load() && c.dice.percent(3) }
	h.twice = func() bool { return c.dice.percent(10) }
	h.result = func(engine.Assignment) dag.Result {
		switch n := c.dice.n(10); {
		case n < 2:
			return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1, Message: "no\x00\xff"}
		case n < 3:
			return dag.Result{State: dag.AttemptStopped, Signal: "SIGTERM"}
		}
		return dag.Result{State: dag.AttemptSucceeded, Exited: true, Outputs: []byte(`{"a":1}`)}
	}
	return h
}

func (c *chaos) run() {
	c.node = start(c.t, c.st, c.hands(), func(cfg *engine.Config) {
		if c.beside { // no condition is evaluated on the writer
			cfg.EvaluateMax = -1
		}
	})
	r := rand.New(rand.NewPCG(uint64(c.dice.n(1<<30)), 2))
	for i := range 3 {
		g := randomGraph(c.t, r)
		c.again(func() error {
			w, _, err := c.node.Apply(c.t.Context(), engine.Definition{Namespace: "test", Name: fmt.Sprint(i), Graph: g.Pack(), Digest: g.Pack()})
			if err == nil {
				c.flows = append(c.flows, w)
			}
			return err
		})
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(c.submitter)
	}
	wg.Go(c.operator)
	wg.Wait()
	c.calm.Store(true)
	c.finish()
}

// again calls f until the store no longer makes it fail.
func (c *chaos) again(f func() error) {
	for {
		err := f()
		if err == nil {
			return
		}
		if !errors.Is(err, errkind.ErrUnavailable) && !errors.Is(err, errkind.ErrBusy) {
			c.t.Errorf("unexpected: %v", err)
			return
		}
	}
}

func (c *chaos) submitter() {
	for range 12 {
		s := submission(c.flows[c.dice.n(len(c.flows))])
		s.Priority = dag.Priority(c.dice.n(dag.Levels))
		if c.dice.percent(50) {
			s.Key = fmt.Sprint(c.dice.n(10))
		}
		if c.dice.percent(30) {
			s.ID = engine.NewRunID()
		}
		c.again(func() error {
			a, err := c.node.Submit(c.t.Context(), s)
			if err == nil {
				c.note(&s, a)
			}
			return err
		})
	}
}

func (c *chaos) note(s *engine.Submission, a engine.Accepted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted[a.Run] = true
	if s.Key == "" {
		return
	}
	k := fmt.Sprint(s.Workflow.ID, " ", s.Key)
	if was, known := c.byKey[k]; known && was != a.Run {
		c.t.Errorf("the key %s made the runs %s and %s", k, was, a.Run)
	}
	c.byKey[k] = a.Run
}

func (c *chaos) some() (id dag.RunID, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id = range c.accepted {
		return id, true
	}
	return id, false
}

// operator applies verbs, lets the engine check runs, and compares memory with the rows.
func (c *chaos) operator() {
	ctx := c.t.Context()
	for i := range 60 {
		id, ok := c.some()
		if !ok {
			continue
		}
		switch c.dice.n(8) {
		case 0, 1:
			intent := [...]dag.Intent{dag.IntentPause, dag.IntentPause, dag.IntentRun, dag.IntentRun, dag.IntentStop, dag.IntentKill}[c.dice.n(6)]
			cmd := engine.Command{Run: id, Intent: intent, Actor: "ada", Reason: "because"}
			if c.dice.percent(50) {
				cmd.Request = &store.Request{Scope: "verb", Key: fmt.Sprint(i % 20), Hash: []byte("h"), Answer: []byte("{}")}
			}
			if err := c.node.Do(ctx, cmd); err != nil && !errors.Is(err, errkind.ErrConflict) && !errors.Is(err, errkind.ErrUnavailable) {
				c.t.Errorf("do: %v", err)
			}
		case 2:
			if err := c.node.Check(ctx, id); err != nil && !errors.Is(err, errkind.ErrUnavailable) {
				c.t.Errorf("check: %v", err)
			}
		case 3:
			diff, err := c.node.MemoryDiff(ctx)
			if diff != "" || err != nil && !errors.Is(err, errkind.ErrUnavailable) {
				c.t.Errorf("memory is not what its rows say: %s %v", diff, err)
			}
		case 4:
			if _, err := c.node.Explain(ctx, id, ""); err != nil {
				c.t.Errorf("explain: %v", err)
			}
		case 6, 7:
			cmd := engine.Command{Run: id, Recover: c.dice.percent(40), Actor: "ada", Reason: "because"}
			if !cmd.Recover {
				cmd.Mark, cmd.Task = dag.Mark(1+c.dice.n(5)), fmt.Sprintf("t%d", c.dice.n(3))
			}
			err := c.node.Do(ctx, cmd)
			if err != nil && !errors.Is(err, errkind.ErrConflict) && !errors.Is(err, errkind.ErrUnavailable) && !errors.Is(err, errkind.ErrNotFound) {
				c.t.Errorf("do: %v", err)
			}
		case 5:
			g := wide(c.t, 1+c.dice.n(3))
			_, _, _ = c.node.Apply(ctx, engine.Definition{Namespace: "test", Name: fmt.Sprint(c.dice.n(5)), Graph: g.Pack(), Digest: g.Pack()})
		}
	}
}

// finish lets everything end: pauses end, and lost attempts are assigned again.
func (c *chaos) finish() {
	c.t.Helper()
	ctx := context.Background()
	deadline := time.Now().Add(patience)
	for !c.node.Idle() || c.node.Waiting() > 0 {
		for id := range c.accepted {
			row, err := c.node.RunRow(ctx, id)
			if err != nil {
				c.t.Fatalf("an accepted run is lost: %v", err)
			}
			if row.State.Terminal() {
				continue
			}
			if row.Intent == dag.IntentPause {
				_ = c.node.Do(ctx, engine.Command{Run: id, Intent: dag.IntentRun})
			}
			_ = c.node.Check(ctx, id)
		}
		page, err := c.node.Runs(ctx, store.RunQuery{States: []string{store.StateActive}})
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range page.Runs { // the run was accepted although its caller got no answer
			c.accepted[page.Runs[i].ID] = true
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("these runs do not end: %d, %s", len(page.Runs), c.node.State())
		}
	}
	eventually(c.t, "every slot is free", func() bool { return c.node.Free() == c.node.slots })
	c.node.sound()
	for id := range c.accepted {
		if s := c.node.state(id); !s.Terminal() {
			c.t.Errorf("run %s is %s", id, s)
		}
	}
	if n := c.node.Stats().Quarantined.Load(); n > 0 {
		c.t.Errorf("%d runs were quarantined", n)
	}
	stats := c.node.Stats()
	if a, r, e := stats.RunsAccepted.Load(), stats.RunsRevived.Load(), stats.RunsEnded.Load(); a+r != e {
		c.t.Errorf("%d runs were accepted, %d brought back, %d ended", a, r, e)
	}
}
