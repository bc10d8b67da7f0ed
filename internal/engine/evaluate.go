package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/host"
)

const (
	// evaluateMaxDefault bounds the time for which one transaction evaluates expressions.
	evaluateMaxDefault = 20 * time.Millisecond
	// evaluatorsMax bounds the goroutines that evaluate conditions for the writer.
	evaluatorsMax = 2
	// evaluateTurn is the time for which a goroutine evaluates conditions of one run before it continues with
	// the next run.
	evaluateTurn = 20 * time.Millisecond
	// evaluatedMax bounds the conditions of one turn.
	evaluatedMax = 256
)

// evaluating holds the conditions that wait to be evaluated outside of the writer's goroutine. The writer and
// its helpers share it. Runs take turns, so that a run with many conditions does not delay the conditions of
// other runs. Invariant: one transaction of the writer evaluates for at most evaluateMax, apart from
// completing the run or instant that it has begun.
type evaluating struct {
	host    host.Host
	inbox   *inbox
	planner Planner
	stats   *Stats
	most    time.Duration // Config.EvaluateMax
	core

	mu      sync.Mutex // protects following fields
	todo    map[dag.RunID][]dag.Evaluation
	turns   []dag.RunID // runs with work that no helper is doing
	helpers int
	waits   atomic.Int64 // conditions in todo
}

func (q *evaluating) set(e *Engine, w *writer) {
	q.host, q.inbox, q.planner, q.stats, q.most, q.core = e.host, w.inbox, e.cfg.Planner, &e.stats, e.cfg.EvaluateMax, w
}

// evaluate evaluates a condition on the writer's goroutine. It returns ErrCostly if the condition costs more
// than a step may, or if this transaction has used up its time for evaluations. Where a condition is
// evaluated does not change its result.
func (q *evaluating) evaluate(c dag.Condition, v dag.View) (holds bool, err error) {
	if q.spent() {
		return false, dag.ErrCostly
	}
	q.timed(func() { holds, err = c.Holds(v) })
	return holds, err
}

// timed calls f and adds its duration to the evaluation time of the transaction.
func (q *evaluating) timed(f func()) {
	began := q.host.Now()
	f()
	tx := q.txn()
	tx.evaluated += q.host.Now().Sub(began)
	tx.evaluations++
}

// plannedParams computes the parameters of a run that a trigger or a backfill starts.
func (q *evaluating) plannedParams(of ParamsQuery) (params []byte, err error) {
	q.timed(func() { params, err = q.planner.Params(context.Background(), of) })
	return params, err
}

// spent reports whether this transaction has used up its time for evaluations.
func (q *evaluating) spent() bool { return q.txn().evaluated >= q.most }

// full reports whether this transaction must not begin further work that may evaluate an expression on the
// writer: an item, a run that has waited for its limits, an instant or a key. The next transaction continues
// with that work. Each transaction evaluates at least one expression, so the work always ends.
func (q *evaluating) full() bool { return q.txn().evaluations > 0 && q.spent() }

// evaluateBeside makes a few goroutines evaluate conditions. They end when no condition is left.
func (q *evaluating) evaluateBeside(es []dag.Evaluation) {
	if len(es) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(es)
	for q.helpers < min(evaluatorsMax, len(q.turns)) {
		q.helpers++
		q.helper(func(ctx context.Context) {
			for es := q.next(ctx); len(es) > 0; es = q.next(ctx) {
				n, ev := q.evaluateSome(ctx, es)
				q.rest(es[n:])
				q.tellResults(ctx, es[0].Run, ev)
			}
		})
	}
}

// next removes some conditions of the run whose turn it is, and returns them.
func (q *evaluating) next(ctx context.Context) []dag.Evaluation {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.turns) > 0 && ctx.Err() == nil {
		id := q.turns[0]
		q.turns = q.turns[1:]
		es := q.todo[id]
		n := min(len(es), evaluatedMax)
		switch {
		case n == 0: // the conditions of the run were dropped
			continue
		case n < len(es):
			q.todo[id] = es[n:]
			q.turns = append(q.turns, id)
		default:
			delete(q.todo, id)
		}
		q.waits.Add(-int64(n))
		return es[:n:n]
	}
	q.helpers--
	return nil
}

// rest puts back the conditions that were not evaluated in a turn. They come after the conditions of the
// other runs.
func (q *evaluating) rest(es []dag.Evaluation) {
	if len(es) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(es)
}

func (q *evaluating) add(es []dag.Evaluation) {
	if q.todo == nil {
		q.todo = map[dag.RunID][]dag.Evaluation{}
	}
	for _, e := range es {
		if len(q.todo[e.Run]) == 0 {
			q.turns = append(q.turns, e.Run)
		}
		q.todo[e.Run] = append(q.todo[e.Run], e)
	}
	q.waits.Add(int64(len(es)))
}

// drop forgets the conditions of a run that has ended or is no longer owned.
func (q *evaluating) drop(id dag.RunID) {
	if q.waits.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits.Add(-int64(len(q.todo[id])))
	delete(q.todo, id) // when the turn of the run comes, next finds no conditions
}

// dropAll forgets all conditions. A load requests them again.
func (q *evaluating) dropAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.todo, q.turns = nil, nil
	q.waits.Store(0)
}

// evaluateSome evaluates some conditions of one run. It returns how many it has evaluated, and the event with
// the results.
func (q *evaluating) evaluateSome(ctx context.Context, es []dag.Evaluation) (n int, ev dag.Event) {
	ev = dag.Event{Kind: dag.EvEvaluated, Generation: es[0].Generation}
	began := q.host.Now()
	for n < len(es) && es[n].Generation == ev.Generation {
		if n > 0 && (q.host.Now().Sub(began) >= evaluateTurn || ctx.Err() != nil) {
			break
		}
		ev.Evaluated = append(ev.Evaluated, evaluateOne(&es[n]))
		n++
	}
	q.stats.Evaluated.Add(int64(n))
	return n, ev
}

// evaluateOne evaluates one condition. A panic in it fails the task, not the process.
func evaluateOne(e *dag.Evaluation) (got dag.Evaluated) {
	if p := errkind.Guarded(func() { got = e.Do() }); p != nil {
		return dag.Evaluated{Task: e.Task, Branch: e.Branch, Err: errors.New(firstLine(p.Error()))}
	}
	return got
}

// tellResults sends results to the writer.
func (q *evaluating) tellResults(ctx context.Context, run dag.RunID, ev dag.Event) {
	it := item{op: func(w *writer) answer { return w.calls.stepOther(run, &ev) }}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, preparePauseMax) {
		_, err := q.inbox.send(ctx, it)
		if ctx.Err() != nil || !errors.Is(err, errkind.ErrUnavailable) && !errors.Is(err, errkind.ErrBusy) {
			return // the next owner evaluates the conditions again
		}
		q.host.Await(ctx, nil, pause)
	}
}
