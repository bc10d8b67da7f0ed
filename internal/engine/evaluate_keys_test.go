package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// tally counts the expressions that each transaction of an engine evaluates: names of locks, keys and
// parameters. If EvaluateMax is negative, a transaction stops after its first expression.
type tally struct {
	engine.Planner
	engine.Namer
	commits func() int64
	each    func(total int) // called before each evaluation, if it is set

	mu    sync.Mutex // protects following fields
	in    map[int64]int
	total int
}

// tallied makes an engine use a tally as its planner and namer. commits returns the number of commits so far.
func tallied(cfg *engine.Config, commits func() int64) *tally {
	p := trigger.New(cfg.Store)
	c := &tally{Planner: p, Namer: p, commits: commits, in: map[int64]int{}}
	cfg.Planner, cfg.Namer, cfg.EvaluateMax = c, c, -1
	return c
}

func (c *tally) count() {
	c.mu.Lock()
	c.in[c.commits()]++
	c.total++
	total := c.total
	c.mu.Unlock()
	if c.each != nil {
		c.each(total)
	}
}

// Params implements engine.Planner.
func (c *tally) Params(ctx context.Context, q engine.ParamsQuery) ([]byte, error) {
	c.count()
	return c.Planner.Params(ctx, q)
}

// Names implements engine.Namer.
func (c *tally) Names(def []byte) (engine.Names, error) {
	n, err := c.Namer.Names(def)
	if n == nil || err != nil {
		return nil, err
	}
	return talliedNames{c, n}, nil
}

type talliedNames struct {
	c *tally
	engine.Names
}

// Of implements engine.Names.
func (n talliedNames) Of(trigger string, params []byte, instant dag.Micros) (engine.Named, error) {
	n.c.count()
	return n.Names.Of(trigger, params, instant)
}

// KeyOf implements engine.Namer.
func (c *tally) KeyOf(expr string) (func([]byte, dag.Micros) (string, error), error) {
	f, err := c.Namer.KeyOf(expr)
	if err != nil {
		return nil, err
	}
	return func(params []byte, instant dag.Micros) (string, error) {
		c.count()
		return f(params, instant)
	}, nil
}

// oneEach requires that want expressions were evaluated, and no two of them in one transaction.
func (c *tally) oneEach(t *testing.T, want int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	for _, n := range c.in {
		most = max(most, n)
	}
	if c.total != want || most != 1 {
		t.Errorf("%d expressions were evaluated, up to %d in one transaction; want %d and 1", c.total, most, want)
	}
}

// counted returns a node whose transactions stop after their first expression.
func counted(t *testing.T, st store.Store, h *hands) (n *node, c *tally) {
	t.Helper()
	var of atomic.Pointer[engine.Engine]
	commits := func() int64 {
		if e := of.Load(); e != nil {
			return e.Stats().Commits.Load()
		}
		return 0
	}
	n = start(t, st, h, func(cfg *engine.Config) { c = tallied(cfg, commits) })
	of.Store(n.Engine)
	return n, c
}

// manyQueues returns a graph of a first task and n others, each in a queue of its own.
func manyQueues(t *testing.T, n int) *dag.Graph {
	t.Helper()
	spec := dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "first"}}}
	for i := range n {
		spec.Tasks = append(spec.Tasks, dag.TaskSpec{Name: fmt.Sprintf("t%d", i), Needs: []string{"first"}, Policy: dag.Policy{Queue: fmt.Sprintf("q%d", i)}})
	}
	return build(t, spec)
}

// TestKeysStopAtTheirTime: the keys of a run in the queues of its tasks are computed by as many transactions
// as their time needs. Each key is computed once, also if the tasks fail because the key is invalid.
func TestKeysStopAtTheirTime(t *testing.T) {
	const queues = 40
	for key, ends := range map[string]dag.RunState{"params.site": dag.RunSucceeded, "params.site + 1": dag.RunFailed} {
		t.Run(key, func(t *testing.T) {
			n, c := counted(t, openMemory(t), newHands(t))
			for i := range queues {
				n.queue(fmt.Sprintf("q%d", i), 1, func(q *store.Queue) { q.PerKey = key })
			}
			id := n.submit(n.shares("w", manyQueues(t, queues)), params(`{"site":"a"}`))
			n.ends(id, ends)
			c.oneEach(t, queues)
			if v, err := n.GetRun(t.Context(), id); ends == dag.RunFailed && (err != nil || !strings.Contains(v.Message, "per_key")) {
				t.Errorf("it failed with %q, %v", v.Message, err)
			}
			n.quiet()
			n.free()
		})
	}
}

// TestKeysAfterACrash: the owner ends while some queues of a run have keys. The next owner computes the other
// keys.
func TestKeysAfterACrash(t *testing.T) {
	const queues, half = 10, 5
	st := openMemory(t)
	a, c := counted(t, st, newHands(t))
	for i := range queues {
		a.queue(fmt.Sprintf("q%d", i), 1, func(q *store.Queue) { q.PerKey = "params.site" })
	}
	c.each = func(total int) {
		if total == half {
			a.stop() // the writer ends after this transaction
		}
	}
	id := a.submit(a.shares("w", manyQueues(t, queues)), params(`{"site":"a"}`))
	eventually(t, "the first owner works out half of the keys", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.total == half
	})
	a.close()
	row, err := st.Run(t.Context(), id)
	if err != nil || row.State.Terminal() || len(row.Shares) >= queues {
		t.Fatalf("the first owner has left %d of %d queues with keys: %+v %v", len(row.Shares), queues, row.State, err)
	}
	b, _ := counted(t, st, newHands(t))
	b.ends(id, dag.RunSucceeded)
	b.quiet()
	b.free()
}

// TestLimitsLetThroughByTime: of the runs that wait at the limit of their workflow, each transaction lets
// through as many as the time for the names of their locks allows.
func TestLimitsLetThroughByTime(t *testing.T) {
	const waiting = 30
	h := newHands(t)
	h.held = true
	n, c := counted(t, openMemory(t), h)
	limited := func(most int32) store.Workflow {
		t.Helper()
		w := workflow.Workflow{Locks: []string{"l-${{ params.site }}"}, MaxRuns: most}
		def, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		made, _, err := n.Apply(t.Context(), engine.Definition{Namespace: "test", Name: "w", Def: def, Graph: wide(t, 1).Pack(), Digest: def, User: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	w := limited(1)
	for i := range 1 + waiting {
		n.submit(w, params(fmt.Sprintf(`{"site":"s%d"}`, i)))
	}
	first := h.holding(1)
	limited(0)
	h.holding(8) // all slots
	h.held = false
	for _, a := range first {
		h.end(a, done)
	}
	for _, a := range h.now() {
		h.end(a, done)
	}
	n.quiet()
	n.free()
	c.oneEach(t, 1+waiting)
}

// TestInstantsStopAtTheirTime: the instants that a trigger owes, and the runs of a backfill, are started
// by as many transactions as the time for their parameters needs.
func TestInstantsStopAtTheirTime(t *testing.T) {
	const owed, filled = 25, 20
	dir := t.TempDir()
	for _, name := range []string{"memory", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c *tally
				x := newTimed(t, openTimed(t, name, dir))
				w := x.set("w", "params:\n  at: {default: '${{ trigger.time }}'}\n", "name: t, every: 1m, catchup: all, catchup_limit: 1000, overlap: allow")
				until(30 * time.Second)
				x.close()
				time.Sleep(owed * time.Minute)
				x.start(t, func(cfg *engine.Config) {
					was := cfg.Planner
					c = tallied(cfg, func() int64 { return x.st.commits.Load() })
					c.Planner = was
				})
				pass(time.Second)
				x.rest()
				if got := len(x.runsOf(w.ID)); got != owed {
					t.Errorf("%d of %d instants were started", got, owed)
				}
				c.oneEach(t, owed)
				x.pause(w, "t", false)
				x.backfill(w, filled, nil, hours(filled)...)
				x.rest()
				c.oneEach(t, owed+filled)
			})
		})
	}
}

// TestCostlyKeyIsRefused: a queue whose per_key costs too much for every run is refused when it is declared.
func TestCostlyKeyIsRefused(t *testing.T) {
	n, _ := counted(t, openMemory(t), newHands(t))
	q := store.Queue{Name: "q", Limit: 1, Order: store.QueueFIFO, Overflow: store.OverflowWait}
	list := "[" + strings.Repeat("1,", 30) + "1]"
	q.PerKey = strings.ReplaceAll("string(L.all(a, L.all(b, L.all(c, a+b+c > 0))))", "L", list)
	if _, err := n.SetQueue(t.Context(), q, 0); !errors.Is(err, errkind.ErrInvalid) || !strings.Contains(err.Error(), "at most 10000 are allowed here") {
		t.Errorf("a costly per_key: %v", err)
	}
	q.PerKey = "string(params.l.all(a, params.l.all(b, a+b > 0)))"
	if _, err := n.SetQueue(t.Context(), q, 0); err != nil {
		t.Errorf("a per_key whose cost depends on the run: %v", err)
	}
}
