package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/storetest"
	"skein.dev/skein/internal/trigger"
)

// TestTimedChaos: triggers fire every few seconds. Workflows are edited, paused and deleted, people fire by
// hand, events come twice, backfills run, clocks jump, commits fail in every way, and the process dies at
// them. At the end every declared instant has one outcome; see books.
func TestTimedChaos(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 24
	}
	for seed := range seeds {
		name := "memory"
		if seed%8 == 7 {
			name = "sqlite"
		}
		t.Run(fmt.Sprintf("%s/seed %d", name, seed), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				c := &storm{t: t, r: rand.New(rand.NewPCG(uint64(seed), 7)), dice: newDice(uint64(seed))}
				c.x = newTimed(t, openTimed(t, name, dir))
				c.run()
			})
		})
	}
}

// storm is one random history of triggers.
type storm struct {
	t     *testing.T
	r     *rand.Rand // used by the goroutine of the test
	dice  *dice      // used by all other goroutines
	x     *timed
	flows [3]store.Workflow
	fills []store.Backfill

	mu    sync.Mutex
	calm  bool
	dieIn int // commits until the process dies; 0 if it does not
	late  bool
}

func (c *storm) fault(b *store.Batch) storetest.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dieIn > 0 {
		if c.dieIn--; c.dieIn == 0 {
			c.x.st.dead.Store(true)
			if c.late {
				return storetest.Written
			}
			return storetest.Lost
		}
	}
	if c.calm {
		return storetest.NoFault
	}
	switch n := c.dice.n(100); {
	case n < 2:
		return storetest.Lost
	case n < 4:
		return storetest.Written
	case n < 5:
		return storetest.Unavailable
	case n < 12 && len(b.Fires) > 4:
		return storetest.Refused
	}
	return storetest.NoFault
}

func (c *storm) run() {
	c.x.result = func(engine.Assignment) dag.Result {
		time.Sleep(time.Duration(c.dice.n(6000)) * time.Millisecond)
		if c.dice.percent(20) {
			return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
		}
		return success()
	}
	c.x.st.fails(c.fault)
	for i := range c.flows {
		c.edit(i)
	}
	for range 40 {
		if c.r.IntN(3) > 0 {
			time.Sleep(time.Duration(c.r.IntN(3000)) * time.Millisecond)
		} else { // up to the instant
			now := c.x.st.now()
			time.Sleep(time.Duration((now/second+1)*second-now) * time.Microsecond)
		}
		if c.x.st.dead.Load() {
			c.x.crash(c.t)
		}
		c.act()
		if c.r.IntN(8) == 0 {
			synctest.Wait()
			c.look()
		}
	}
	c.finish()
}

// look checks the invariants that hold at any time, if the node is running.
func (c *storm) look() {
	if !c.x.st.dead.Load() {
		if diff, err := c.x.GatesDiff(c.t.Context()); diff != "" || err != nil && !errors.Is(err, errkind.ErrUnavailable) {
			c.t.Errorf("gates: %s %v", diff, err)
		}
	}
	c.x.st.books.audit(c.x)
}

// line draws the policies of a trigger whose instants follow from the clock.
func (c *storm) line(i int) string {
	pick := func(all ...string) string { return all[c.r.IntN(len(all))] }
	text := "name: t" + fmt.Sprint(i) + ", " + pick("every: 3s", "every: 5s", "every: 8s", "every: 1s", "cron: '*/7 * * * * *'", "cron: '*/15 * * * * *'")
	text += pick("", "", ", overlap: allow", ", overlap: queue, overlap_limit: 2", ", overlap: cancel_running", ", overlap: allow, max_concurrent_runs: 2",
		", overlap: queue, max_concurrent_runs: 2")
	text += pick("", "", ", catchup: none", ", catchup: all, catchup_limit: 20")
	text += pick("", "", "", ", delay_tolerance: 2s", ", delay_tolerance: 30s")
	return text + pick("", "", "", "", ", paused: true")
}

func (c *storm) edit(i int) {
	var lines []string
	for t := range 3 {
		if c.r.IntN(4) > 0 {
			lines = append(lines, c.line(t))
		}
	}
	if c.r.IntN(2) == 0 {
		lines = append(lines, "name: hook, webhook: {secret: s}, overlap: allow")
	}
	switch c.r.IntN(6) {
	case 0:
		lines = append(lines, fmt.Sprintf("name: ring, run_of: {workflow: w%d, require: ended}", (i+1)%len(c.flows)))
	case 1:
		lines = append(lines, "name: ring, again: {max_per_hour: 20}")
	case 2:
		lines = append(lines, fmt.Sprintf("name: ring, absent: {run_of: {workflow: w%d}, by: 10s}", (i+1)%len(c.flows)))
	}
	head := [...]string{"", "", "max_concurrent_runs: 2\n", "max_concurrent_runs: 1\n"}[c.r.IntN(4)]
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	w, _, err := c.x.Apply(ctx, flow(c.t, fmt.Sprint("w", i), head, lines...))
	if c.fine(err) {
		c.flows[i] = w
	}
}

// fine reports whether an operation has succeeded. A failure that the store has caused is no error of the
// test.
func (c *storm) fine(err error) bool {
	if err != nil && !errors.Is(err, errkind.ErrUnavailable) && !errors.Is(err, errkind.ErrConflict) && !errors.Is(err, errkind.ErrNotFound) &&
		!errors.Is(err, store.ErrRefused) && !strings.Contains(err.Error(), "in a ring") {
		c.t.Errorf("unexpected: %v", err)
	}
	return err == nil
}

func (c *storm) act() {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	i := c.r.IntN(len(c.flows))
	w := c.flows[i]
	if w.ID == 0 { // the store was away
		c.edit(i)
		return
	}
	k := store.TriggerKey{Workflow: w.ID, Name: fmt.Sprint("t", c.r.IntN(3))}
	switch c.r.IntN(17) {
	case 0, 1, 2:
		c.edit(i)
	case 3:
		at := c.x.st.now() + dag.Micros(c.r.IntN(20))*1_000_000
		err := c.x.PauseTrigger(ctx, k, engine.Pause{Resume: c.r.IntN(3) == 0, Actor: "ada", From: at, Until: at + dag.Micros(1+c.r.IntN(15))*1_000_000}, nil)
		if !errors.Is(err, errkind.ErrNothing) && !errors.Is(err, errkind.ErrInvalid) { // the trigger has no such pause, or the range has passed
			c.fine(err)
		}
	case 4:
		c.fine(c.x.PauseTrigger(ctx, k, engine.Pause{Resume: c.r.IntN(3) > 0, Actor: "ada"}, nil))
	case 5:
		state := [...]string{store.WorkflowPaused, store.WorkflowActive, store.WorkflowActive, store.WorkflowActive, store.WorkflowDeleted}[c.r.IntN(5)]
		_, err := c.x.SetState(ctx, w, state, 0, nil)
		c.fine(err)
	case 6:
		if w.Version > 1 {
			_, err := c.x.Rollback(ctx, w, 1+c.r.Int32N(w.Version), 0, nil)
			c.fine(err)
		}
	case 7, 8:
		_, err := c.x.Occur(ctx, store.TriggerKey{Workflow: w.ID, Name: "hook"}, engine.Occurrence{Key: fmt.Sprint("call ", c.r.IntN(5))})
		c.fine(err)
	case 9:
		_, err := c.x.Occur(ctx, k, engine.Occurrence{Key: fmt.Sprint("hand ", c.r.IntN(5)), Actor: "ada"})
		c.fine(err)
	case 10:
		c.fill(ctx, w)
	case 11:
		c.turnBackfill(ctx)
	case 12:
		jumps := [...]int64{3600e6, -3600e6, 45e6, -45e6, 1e6, -1e6}
		c.x.st.ahead.Add(jumps[c.r.IntN(len(jumps))])
	case 13:
		c.mu.Lock()
		c.dieIn, c.late = 1+c.r.IntN(4), c.r.IntN(2) == 0
		c.mu.Unlock()
	case 14:
		c.x.restart(c.t, time.Duration(c.r.IntN(90))*time.Second)
	case 15:
		if rows := c.x.runsOf(w.ID); len(rows) > 0 {
			c.fine(c.x.Do(ctx, engine.Command{Run: rows[c.r.IntN(len(rows))].ID, Intent: dag.IntentStop, Actor: "ada"}))
		}
	case 16:
		_, err := c.x.Submit(ctx, submission(w))
		c.fine(err)
	}
}

func (c *storm) fill(ctx context.Context, w store.Workflow) {
	b, err := trigger.Expand(ctx, trigger.BackfillSpec{Instants: hours(1 + c.r.IntN(6)), Parallel: 1 + c.r.Int32N(3), Priority: "low"}, nil, c.x.st.now(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	b.Workflow, b.User = w.ID, "ada"
	if b, err = c.x.StartBackfill(ctx, b, nil); c.fine(err) {
		c.fills = append(c.fills, b)
	}
}

func (c *storm) turnBackfill(ctx context.Context) {
	if len(c.fills) == 0 {
		return
	}
	b := c.fills[c.r.IntN(len(c.fills))]
	state := [...]string{store.BackfillPaused, store.BackfillPaused, store.BackfillRunning, store.BackfillRunning, store.BackfillCancelled}[c.r.IntN(5)]
	_, err := c.x.ChangeBackfill(ctx, b.ID, state, "ada", nil)
	c.fine(err)
}

// finish lets all runs and backfills end.
func (c *storm) finish() {
	c.mu.Lock()
	c.calm, c.dieIn = true, 0
	c.mu.Unlock()
	if c.x.st.dead.Load() {
		c.x.crash(c.t)
	}
	pass(20 * time.Second)
	for i := range c.flows {
		w, err := c.x.st.Workflow(c.t.Context(), "test", fmt.Sprint("w", i))
		if err == nil && w.State == store.WorkflowPaused {
			c.x.become(w, store.WorkflowActive)
		}
		c.x.set(fmt.Sprint("w", i), "") // no trigger fires any more
	}
	for _, f := range c.x.st.books.allFills() {
		w, err := c.x.WorkflowByID(c.t.Context(), f.Workflow)
		switch {
		case err != nil:
			c.t.Error(err)
		case f.State == store.BackfillPaused:
			c.x.change(f, store.BackfillRunning)
		case f.State == store.BackfillRunning && w.State == store.WorkflowDeleted:
			c.x.change(f, store.BackfillCancelled)
		}
	}
	pass(2 * time.Minute)
	c.x.rest()
	for id, f := range c.x.st.books.allFills() {
		if f.State != store.BackfillDone && f.State != store.BackfillCancelled {
			c.t.Errorf("backfill %d is %s: %d of %d started, %d ended", id, f.State, f.Started, f.Total, f.Ended)
		}
	}
	if n := c.x.Stats().Quarantined.Load(); n > 0 {
		c.t.Errorf("%d runs were quarantined", n)
	}
}
