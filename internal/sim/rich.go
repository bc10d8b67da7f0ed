package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
)

// A rich world has features that a plain world lacks: tasks that no worker runs (waits, approvals, switches,
// foreach, calls), queues and locks, and operators who decide about tasks and runs. naive.go does not cover
// these features. rich_judge.go has their rules.

// rich holds the random choices of a rich world. It is nil in a plain world. It has its own source of random
// numbers, so that the histories of plain worlds do not change.
type rich struct {
	verbs  int // number of decisions by operators
	queues []store.Queue
	locks  bool
	named  bool // workflows name queues or locks
	tasks  bool // tasks name a queue: the last one in queues
}

func (w *World) drawRich() {
	if w.Seed%3 != 1 || w.stage.Handles {
		return
	}
	r := rand.New(rand.NewPCG(w.Seed, 0x71c4))
	w.rich = &rich{verbs: r.IntN(8), named: r.IntN(3) > 0, locks: r.IntN(2) == 0}
	for i := range 1 + r.IntN(2) {
		q := store.Queue{Name: fmt.Sprintf("q%d", i), Limit: 1 + r.Int32N(2), Order: store.QueueFIFO, Overflow: store.OverflowWait,
			State: store.QueueActive, Revision: 1}
		if r.IntN(2) == 0 {
			q.Order = store.QueuePriority
		}
		if r.IntN(6) == 0 {
			q.Overflow = store.OverflowSkip
		}
		w.rich.queues = append(w.rich.queues, q)
	}
	w.swarm.flows = 2 + r.IntN(2)
	w.swarm.runs += r.IntN(3)
	w.swarm.poison, w.swarm.badRuns = 0, 0 // a refused run would be quarantined, and its family with it
	if w.rich.tasks = w.Seed%5 == 2 || w.Seed%5 == 4; w.rich.tasks {
		tasks := store.Queue{Name: "tasks", Limit: 1 + r.Int32N(2), Order: store.QueueFIFO, Overflow: store.OverflowWait, State: store.QueueActive, Revision: 1}
		if r.IntN(2) == 0 {
			tasks.Order = store.QueuePriority
		}
		w.rich.queues = append(w.rich.queues, tasks)
	}
}

// richPlans returns the graphs of rich worlds.
func (w *World) richPlans() []*plan {
	switch {
	case w.rich.tasks:
		return queuedPlans()
	case w.Seed%7 == 3:
		return callingPlans()
	}
	return unqueuedPlans()
}

var unqueuedPlans = sync.OnceValue(func() []*plan { return drawPlans(nil, false) })

// queuedPlans returns the same graphs, with tasks that name a queue.
var queuedPlans = sync.OnceValue(func() []*plan { return drawPlans(rand.New(rand.NewPCG(9, 9)), false) })

// callingPlans returns the same graphs, but the instances of every second foreach are calls.
var callingPlans = sync.OnceValue(func() []*plan { return drawPlans(nil, true) })

func drawPlans(queues *rand.Rand, calls bool) (all []*plan) {
	for r := rand.New(rand.NewPCG(8, 8)); len(all) < plansMax/2; {
		all = append(all, richPlan(r, queues, calls))
	}
	return all
}

// richPlan draws a graph with logical tasks. The name of a call holds the distance from the caller to the
// called workflow in the list of workflows.
func richPlan(r, queues *rand.Rand, calls bool) *plan {
	needs := make([][]int, 2+r.IntN(5))
	for i := range needs {
		for n := range i {
			if r.IntN(3) == 0 {
				needs[i] = append(needs[i], n)
			}
		}
	}
	p := newPlan(needs, func(i int, t *dag.TaskSpec, p *plan) {
		if len(needs[i]) > 0 && r.IntN(4) == 0 {
			p.ifs[i] = [...]condition{"always", "failure", "never"}[r.IntN(3)]
		}
		t.Policy.Priority = dag.Priority(r.IntN(dag.Levels))
		t.Policy.OnLost = [...]dag.OnLost{dag.LostResubmit, dag.LostResubmit, dag.LostFail, dag.LostAsk}[r.IntN(4)]
		switch r.IntN(12) {
		case 0, 1:
			t.Logic = &dag.Logic{Kind: dag.Foreach, Parallel: r.Int32N(3), Collect: r.IntN(2) == 0}
			if calls && i%2 == 0 {
				t.Logic.Each = &dag.Logic{Kind: dag.Call}
			}
		case 2, 3, 4:
			t.Logic = &dag.Logic{Kind: dag.Call}
		case 5:
			t.Logic = &dag.Logic{Kind: dag.Wait, For: time.Duration(r.IntN(3000)) * time.Millisecond}
		case 6:
			t.Logic = &dag.Logic{Kind: dag.Approval}
			t.Policy.Timeout = time.Duration(r.IntN(3)) * time.Second
		}
		if (t.Logic == nil || t.Logic.Kind == dag.Foreach) && r.IntN(3) == 0 {
			retry := dag.Retry{Max: 1, Delay: time.Duration(r.IntN(400)) * time.Millisecond}
			if t.Logic == nil || t.Logic.Each == nil {
				t.Policy.Retry = retry
			}
		}
		if queues != nil && (t.Logic == nil || t.Logic.Kind == dag.Foreach) && queues.IntN(3) > 0 {
			t.Policy.Queue = "tasks" // a queue of the world, see drawRich
		}
		if t.Logic == nil && r.IntN(6) == 0 {
			t.Policy.StartDeadline = time.Duration(1+r.IntN(20)) * time.Second
		}
	}, r.IntN(6) == 0, 0)
	p.rich = true
	return p
}

// names returns the queue and the locks of workflow i, as lines of a workflow file.
func (w *World) names(i int) string {
	if w.rich == nil || !w.rich.named {
		return ""
	}
	text := ""
	if w.rng.IntN(4) > 0 {
		runs := len(w.rich.queues)
		if w.rich.tasks {
			runs--
		}
		text += fmt.Sprintf("queue: q%d\n", w.rng.IntN(runs))
	}
	if w.rich.locks && w.rng.IntN(2) == 0 {
		text += [...]string{"locks: [l0]\n", "locks: [l1, l0]\n", "locks: [l0, l1]\n"}[w.rng.IntN(3)]
	}
	return text
}

// serve adds to an engine's configuration what a rich world needs.
func (w *World) serve(l *life, cfg *engine.Config) {
	l.follow()
	if w.rich != nil {
		cfg.Preparer, cfg.Namer = preparer{w}, trigger.New(w.st)
	}
}

// preparer prepares logical tasks.
type preparer struct{ w *World }

// Prepare draws items for a foreach. It makes each call name a later workflow, so that no workflow calls
// itself.
func (p preparer) Prepare(ctx context.Context, q engine.PrepareQuery) (engine.Prepared, error) {
	w := p.w
	switch l := w.cur.life; {
	case l.dead || w.outage || l.cut || w.chance(w.swarm.blind):
		return engine.Prepared{}, errkind.ErrUnavailable
	case q.Graph.Kind(q.Task) == dag.Dependent:
		return prepareEvent(ctx, w, q)
	case !w.calm && w.rng.IntN(20) == 0:
		return engine.Prepared{}, fmt.Errorf("%w: there is no such list", errkind.ErrInvalid)
	}
	switch q.Graph.Kind(q.Task) {
	case dag.Foreach:
		it := &dag.Items{Values: make([][]byte, w.rng.IntN(4))}
		for i := range it.Values {
			it.Values[i] = fmt.Appendf(nil, "%d", i)
		}
		return engine.Prepared{Items: it}, nil
	case dag.Call:
		for i := int(q.Row.Workflow); i < len(w.flows); i++ {
			if f := &w.flows[i].row; w.rng.IntN(2) == 0 || i == len(w.flows)-1 {
				return engine.Prepared{Workflow: f.ID, Version: f.Version, Name: "sim/" + f.Name, Priority: q.Row.Priority}, nil
			}
		}
		return engine.Prepared{}, fmt.Errorf("%w: there is no workflow to call", errkind.ErrInvalid)
	}
	return engine.Prepared{Until: w.clock()}, nil
}

// Outputs returns the outputs of the last task.
func (p preparer) Outputs(_ context.Context, _ engine.PrepareQuery, last [][]byte) ([]byte, error) {
	if len(last) == 0 {
		return nil, nil
	}
	return last[len(last)-1], nil
}

// operate makes operators decide during the time of faults.
func (c *client) operate(w *World) {
	if w.rich == nil {
		return
	}
	for n := range w.rich.verbs {
		w.after(time.Duration(w.rng.Int64N(int64(w.swarm.active))), func() { c.decide(w, n) })
	}
}

// decide draws a decision about a random run. A decision with a key is sent twice.
func (c *client) decide(w *World, n int) {
	if len(w.witness.order) == 0 {
		return
	}
	id := w.witness.order[w.rng.IntN(len(w.witness.order))]
	cmd := engine.Command{Run: id, Actor: fmt.Sprintf("op%d", n)}
	tasks := w.witness.runs[id].graph.Len()
	cmd.Task = w.witness.runs[id].graph.Name(dag.TaskID(w.rng.IntN(tasks)))
	switch w.rng.IntN(7) {
	case 0, 1:
		cmd.Recover, cmd.Task = true, ""
	case 2:
		cmd.Recover = true
		cmd.Scope = [...]dag.Scope{dag.ScopeFrom, dag.ScopeOnly, dag.ScopeOnly | dag.ScopeUpstream, dag.ScopeOnly | dag.ScopeDependents}[w.rng.IntN(4)]
	default:
		cmd.Mark = [...]dag.Mark{dag.MarkSucceeded, dag.MarkFailed, dag.MarkSkip, dag.MarkRetry, dag.MarkStop}[w.rng.IntN(5)]
	}
	times := 1
	if w.rng.IntN(2) == 0 {
		times = 2 + w.rng.IntN(2)
		cmd.Request = &store.Request{Scope: "verb", Key: cmd.Actor}
		w.witness.once[cmd.Actor] = true
	}
	for range times {
		w.after(w.delay(2*time.Second), func() { c.say(w, cmd) })
	}
}

// say sends a command to the owner of the run, or to any process.
func (c *client) say(w *World, cmd engine.Command) {
	if w.calm {
		return
	}
	l := w.ownerOf(cmd.Run)
	if l == nil || l.eng == nil || l.frozen {
		if l = w.anyLife(); l == nil || l.frozen {
			return
		}
	}
	w.spawn(l, "decide", func() {
		w.tell("%s tells %s about %s: recover %v mark %s task %s", cmd.Actor, l, w.runName(cmd.Run), cmd.Recover, cmd.Mark, cmd.Task)
		err := l.eng.Do(l.root, cmd)
		w.tell("%s is told: %v", cmd.Actor, err)
	})
}

// why explains what a rich world still waits for after it should have settled.
func (w *World) why() (text string) {
	w.aside++
	defer func() { w.aside-- }()
	for _, id := range w.witness.order {
		sh := w.witness.runs[id]
		l := w.ownerOf(id)
		if w.rich == nil || sh.row.State.Terminal() || l == nil || l.eng == nil {
			continue
		}
		// No writer runs at this point, so the call must not wait for one.
		x, err := l.eng.Explain(inspect.FromRows(context.Background()), id, "")
		text += fmt.Sprintf("\n\t%s of w%d, claim %+v: %+v %v", w.runName(id), sh.row.Workflow-1, sh.row.Claim, x.Reasons, err)
	}
	return text
}

// sweepEvery is the interval of each node's sweeps, in virtual time.
const sweepEvery = 20 * time.Second

// sweepUp makes every node sweep, as package recovery does. Only a sweep ends circular waits through limits.
func (w *World) sweepUp() {
	if w.rich == nil || !w.rich.named || w.mutant.noSweep {
		return
	}
	w.after(sweepEvery, func() {
		for _, l := range w.lives {
			if l == nil || l.dead || l.frozen || l.eng == nil {
				continue
			}
			w.spawn(l, "sweep", func() {
				got, err := l.eng.Sweep(l.root)
				w.tell("%s has swept: %s (%v)", l, got, err)
			})
		}
		w.sweepUp()
	})
}

// healTasks decides every task that waits for a person, until the end of the history.
func (c *client) healTasks(w *World, id dag.RunID, sh *shadow) {
	l := w.ownerOf(id)
	if w.rich == nil || l == nil || l.eng == nil || l.frozen || sh.row.State.Terminal() {
		return
	}
	newest := map[dag.TaskID]*dag.AttemptRow{}
	for i := range sh.attempts {
		newest[sh.attempts[i].Task] = &sh.attempts[i]
	}
	for t := range dag.TaskID(sh.graph.Len()) {
		a := newest[t]
		switch name := sh.graph.Name(t); {
		case a == nil:
		case a.State == dag.AttemptDeferred && sh.graph.Kind(t) == dag.Approval:
			w.spawn(l, "approve", func() {
				_ = l.eng.Decide(l.root, engine.Decision{Run: id, Task: name, Actor: "eve", May: func(*dag.RunRow) error { return nil },
					Outputs: func(*dag.RunRow) ([]byte, error) { return nil, nil }})
			})
		case a.State == dag.AttemptLost && a.Cause == dag.CauseAsk:
			w.spawn(l, "answer", func() {
				_ = l.eng.Do(l.root, engine.Command{Run: id, Mark: dag.MarkRetry, Task: name, Actor: "eve"})
			})
		}
	}
}
