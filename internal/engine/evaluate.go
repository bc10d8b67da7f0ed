package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
)

const (
	// evaluateMaxDefault is how long one transaction evaluates expressions.
	evaluateMaxDefault = 20 * time.Millisecond
	// evaluatorsMax bounds the goroutines that evaluate conditions for the writer.
	evaluatorsMax = 2
	// evaluateTurn is how long one of them evaluates for one run before the next run has its turn.
	evaluateTurn = 20 * time.Millisecond
	// evaluatedMax bounds the conditions of one turn.
	evaluatedMax = 256
)

// evaluating holds the conditions that wait to be evaluated outside the writer's goroutine. The writer and
// its helpers share it. Runs take turns, so that a run with many conditions does not hold up those of others.
type evaluating struct {
	mu      sync.Mutex // protects following fields
	todo    map[dag.RunID][]dag.Evaluation
	turns   []dag.RunID // runs with something to do that no helper has in hand
	helpers int
	waits   atomic.Int64 // conditions in todo
}

// evaluate evaluates a condition on the writer, unless it costs more than a step may, or this transaction has evaluated
// for long enough. Where a condition is evaluated changes nothing about its result.
func (w *writer) evaluate(c dag.Condition, v dag.View) (holds bool, err error) {
	if w.spent() {
		return false, dag.ErrCostly
	}
	w.timed(func() { holds, err = c.Holds(v) })
	return holds, err
}

// timed counts the time that f takes to evaluate something.
func (w *writer) timed(f func()) {
	began := w.e.host.Now()
	f()
	w.tx.evaluated += w.e.host.Now().Sub(began)
}

// plannedParams works out the parameters of a run that a trigger or a backfill starts.
func (w *writer) plannedParams(q ParamsQuery) (params []byte, err error) {
	w.timed(func() { params, err = w.e.cfg.Planner.Params(context.Background(), q) })
	return params, err
}

// spent reports whether this transaction has evaluated for as long as one may.
func (w *writer) spent() bool { return w.tx.evaluated >= w.e.cfg.EvaluateMax }

// full reports whether it takes no further items for that.
func (w *writer) full() bool { return w.tx.evaluated > 0 && w.spent() }

// evaluateBeside hands conditions to a few goroutines, which end when nothing is left.
func (w *writer) evaluateBeside(es []dag.Evaluation) {
	if len(es) == 0 {
		return
	}
	q := &w.evaluating
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(es)
	ctx := w.ctx
	for q.helpers < min(evaluatorsMax, len(q.turns)) {
		q.helpers++
		w.e.host.Go(w.wg, func() {
			for es := q.next(ctx); len(es) > 0; es = q.next(ctx) {
				n, ev := w.e.evaluateSome(ctx, es)
				q.rest(es[n:])
				w.tellResults(ctx, es[0].Run, ev)
			}
		})
	}
}

// next takes some of the conditions of the run whose turn it is.
func (q *evaluating) next(ctx context.Context) []dag.Evaluation {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.turns) > 0 && ctx.Err() == nil {
		id := q.turns[0]
		q.turns = q.turns[1:]
		es := q.todo[id]
		n := min(len(es), evaluatedMax)
		switch {
		case n == 0: // dropped
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

// rest puts back what a turn has left, behind the other runs.
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

// drop forgets the conditions of a run that has ended or is no longer here.
func (q *evaluating) drop(id dag.RunID) {
	if q.waits.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits.Add(-int64(len(q.todo[id])))
	delete(q.todo, id) // next finds nothing at its turn
}

// dropAll forgets everything: a load asks again.
func (q *evaluating) dropAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.todo, q.turns = nil, nil
	q.waits.Store(0)
}

// evaluateSome evaluates some conditions of one run. It returns how many, and the event that tells the run.
func (e *Engine) evaluateSome(ctx context.Context, es []dag.Evaluation) (n int, ev dag.Event) {
	ev = dag.Event{Kind: dag.EvEvaluated, Generation: es[0].Generation}
	began := e.host.Now()
	for n < len(es) && es[n].Generation == ev.Generation {
		if n > 0 && (e.host.Now().Sub(began) >= evaluateTurn || ctx.Err() != nil) {
			break
		}
		ev.Evaluated = append(ev.Evaluated, evaluateOne(&es[n]))
		n++
	}
	e.stats.Evaluated.Add(int64(n))
	return n, ev
}

// evaluateOne evaluates one condition. A bug in it fails its task, not the process.
func evaluateOne(e *dag.Evaluation) (got dag.Evaluated) {
	if p := guarded(func() { got = e.Do() }); p != nil {
		return dag.Evaluated{Task: e.Task, Branch: e.Branch, Err: errors.New(firstLine(p.Error()))}
	}
	return got
}

// tellResults hands results to the writer.
func (w *writer) tellResults(ctx context.Context, run dag.RunID, ev dag.Event) {
	it := item{op: func(w *writer) answer { return w.stepOther(run, &ev) }}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, preparePauseMax) {
		_, err := w.inbox.send(ctx, it)
		if ctx.Err() != nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrBusy) {
			return // the next owner asks again
		}
		w.e.host.Await(ctx, nil, pause)
	}
}
