package bench

import (
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// noop is an Executor whose attempts succeed at once.
type noop struct {
	engine *engine.Engine
	queue  chan []engine.Assignment
	quiet  sync.WaitGroup

	mu      sync.Mutex // protects following fields
	closed  bool
	chain   bool                    // the shape is a chain, so hops are measured
	last    time.Time               // time of the newest report
	samples []time.Duration         // times from the report of a task to the start of its dependent
	failing map[dag.WorkflowID]bool // workflows whose attempts fail
}

// queueMax bounds the waiting assignments, because the writer must not wait.
const queueMax = 1 << 16

func newNoop() *noop {
	x := &noop{queue: make(chan []engine.Assignment, queueMax)}
	x.quiet.Add(1)
	return x
}

// Start runs on the writer's goroutine, so it only copies the assignments.
func (x *noop) Start(as []engine.Assignment) {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.chain && !x.last.IsZero() {
		x.samples = append(x.samples, now.Sub(x.last))
	}
	if !x.closed {
		x.queue <- slices.Clone(as)
	}
}

func (x *noop) loop() {
	defer x.quiet.Done()
	for as := range x.queue {
		now := time.Now()
		at := dag.Micro(now)
		x.mu.Lock()
		x.last = now
		failing := x.failing
		x.mu.Unlock()
		for i := range as {
			is := dag.Result{State: dag.AttemptSucceeded, Exited: true, Started: at, Finished: at}
			if failing[as[i].Workflow] {
				is.State, is.ExitCode = dag.AttemptFailed, 1
			}
			x.engine.Report(engine.Report{Run: as[i].Run, Task: as[i].Task, Token: as[i].Token, Result: is})
		}
	}
}

func (x *noop) close() {
	x.mu.Lock()
	x.closed = true
	close(x.queue)
	x.mu.Unlock()
	x.quiet.Wait()
}

// Cancel has nothing to end.
func (x *noop) Cancel([]dag.Cancel) {}

// Running returns nothing, because attempts end when they begin.
func (x *noop) Running(dag.RunID, dag.TaskID, dag.Token) bool { return false }
func (x *noop) Live(dag.RunID, dag.TaskID, dag.Token) bool    { return false }

// fails makes the attempts of workflows fail from now on.
func (x *noop) fails(all []target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failing = map[dag.WorkflowID]bool{}
	for i := range all {
		x.failing[all[i].ID] = true
	}
}

func (x *noop) watchHops() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.chain, x.last, x.samples = true, time.Time{}, nil
}

// hops returns the median and the 99th percentile in microseconds.
func (x *noop) hops() (p50, p99 float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.chain = false
	return percentile(x.samples, 50), percentile(x.samples, 99)
}

// percentile returns microseconds. It sorts its argument.
func percentile(d []time.Duration, p int) float64 {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return float64(d[min(len(d)*p/100, len(d)-1)]) / float64(time.Microsecond)
}
