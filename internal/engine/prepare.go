package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
)

// Preparer finds out what a logical task waits for. It reads definitions and outputs, so it works outside the
// writer's goroutine. All its methods may be called from any goroutine.
type Preparer interface {
	// Prepare looks at one deferred task of a run. ErrUnavailable is asked again, any other
	// error fails the task.
	Prepare(ctx context.Context, q PrepareQuery) (Prepared, error)
	// Outputs makes the outputs of a call of those that the last tasks of its run left, in the
	// order of the graph: a JSON object, or nil. ErrUnavailable is asked again, any other error
	// fails the call.
	Outputs(ctx context.Context, q PrepareQuery, last [][]byte) ([]byte, error)
}

// PrepareQuery is a deferred task.
type PrepareQuery struct {
	Row   *dag.RunRow
	Graph *dag.Graph
	Task  dag.TaskID
	Token dag.Token
}

// Prepared is what a deferred task waits for.
type Prepared struct {
	Until dag.Micros // of a wait: its instant
	By    []string   // of an approval: the principals that may decide; nil: all
	Items *dag.Items // of a foreach
	// Of a call: the workflow as it is now, and what its run is started with. No workflow: there is nothing
	// to be done, and it has succeeded.
	Workflow dag.WorkflowID
	// Exact: a child of an earlier attempt goes on only if it is of that version, or of one with the same content.
	Exact    bool
	Version  int32
	Name     string // NAMESPACE/NAME
	Priority dag.Priority
	Params   []byte
	Given    []string // names of those Params that the call gives
	// Of what is looked at again and again: Later is when next, 0 if it is so. Then Leaves is what the
	// task leaves behind, a JSON object or nil; until then Why says what is missing.
	Later  time.Duration
	Leaves []byte
	Why    Reason
}

const (
	// preparesMax is how many deferred tasks are prepared at one time.
	preparesMax = 4
	// preparePauseMax bounds the pause between two tries to read what a task waits for.
	preparePauseMax = time.Second
)

// preparing is what waits to be prepared. It is shared by the writer and its helpers.
type preparing struct {
	mu      sync.Mutex // protects following fields
	todo    []dag.Prepare
	pending map[dag.AttemptKey]bool // waits, or is being prepared: true if it must be prepared again afterwards
	helpers int
}

// prepare has deferred tasks prepared, by a few goroutines that end when nothing is left.
func (w *writer) prepare(ps []dag.Prepare) {
	if len(ps) == 0 || w.e.cfg.Preparer == nil {
		return
	}
	q := &w.preparing
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending == nil {
		q.pending = map[dag.AttemptKey]bool{}
	}
	for _, p := range ps {
		k := dag.KeyOf(p.Run, p.Task, p.Token)
		if _, known := q.pending[k]; known {
			q.pending[k] = true // the read under way may be outdated
			continue
		}
		q.pending[k] = false
		q.todo = append(q.todo, p)
	}
	ctx := w.ctx
	for q.helpers < min(preparesMax, len(q.todo)) {
		q.helpers++
		w.e.host.Go(w.wg, func() {
			for p, ok := q.next(); ok; p, ok = q.next() {
				w.prepareOne(ctx, &p)
			}
		})
	}
}

func (q *preparing) next() (p dag.Prepare, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.todo) == 0 {
		q.helpers--
		return p, false
	}
	p, q.todo = q.todo[0], q.todo[1:]
	return p, true
}

// prepareOne finds out what one task waits for and hands it to the writer. What it did is
// looked at by token there, so that nothing said late or twice counts.
func (w *writer) prepareOne(ctx context.Context, p *dag.Prepare) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, preparePauseMax) {
		it, err := w.prepared(ctx, p)
		if err == nil && it.op != nil {
			_, err = w.inbox.send(ctx, it)
		}
		if ctx.Err() != nil || err == nil || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrBusy) {
			if errors.Is(err, ErrInvalid) { // what it would start can be stored nowhere
				_ = w.inbox.put(failDeferred(p, err))
			}
			break // the next owner prepares again
		}
		w.e.host.Await(ctx, nil, pause)
	}
	q, k := &w.preparing, dag.KeyOf(p.Run, p.Task, p.Token)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending[k] {
		q.pending[k] = false
		q.todo = append(q.todo, *p) // for this helper, at the latest
		return
	}
	delete(q.pending, k)
}

// failDeferred settles a task that waits for what cannot be.
func failDeferred(p *dag.Prepare, cause error) item {
	ev := dag.Event{Kind: dag.EvSettle, Task: p.Task, Token: p.Token, Of: p.Kind,
		Result: dag.Result{State: dag.AttemptFailed, Cause: dag.CausePrepare, Message: clean(cause.Error())}}
	return item{op: func(w *writer) answer { return w.stepOther(p.Run, &ev) }}
}

// prepared makes an item of what a task waits for: none, if it waits for nothing any more.
func (w *writer) prepared(ctx context.Context, p *dag.Prepare) (item, error) {
	row, err := w.e.store.Run(ctx, p.Run)
	if err != nil {
		return item{}, fromStore("read run "+p.Run.String(), err)
	}
	a, err := w.e.deferred(ctx, p)
	if err != nil || a == nil {
		return item{}, err
	}
	if child, ok := dag.ChildOf(a); ok {
		return w.ended(ctx, p, child, &row)
	}
	if p.Kind == dag.Call && a.Started != 0 {
		return item{}, nil
	}
	g, err := w.e.graphOf(&row)
	if err != nil {
		return item{}, err
	}
	if p.Kind == dag.Foreach && a.Started != 0 {
		return w.joinedOutputs(ctx, p, &row, g)
	}
	is, err := w.e.cfg.Preparer.Prepare(ctx, PrepareQuery{Row: &row, Graph: g, Task: p.Task, Token: p.Token})
	if errors.Is(err, ErrUnavailable) {
		return item{}, err
	}
	if err == nil && p.Kind == dag.Dependent {
		return w.lookedAt(p, &is), nil
	}
	if err == nil && p.Kind == dag.Call && is.Workflow == 0 {
		ev := dag.Event{Kind: dag.EvSettle, Task: p.Task, Token: p.Token, Of: p.Kind, Result: dag.Result{State: dag.AttemptSucceeded, Outputs: is.Leaves}}
		return item{op: func(w *writer) answer { return w.stepOther(p.Run, &ev) }}, nil
	}
	var begin *childStart
	if err == nil && p.Kind == dag.Call {
		begin, err = w.e.childOf(ctx, &row, a, &is)
		if errors.Is(err, ErrUnavailable) {
			return item{}, err
		}
	}
	if err != nil {
		return failDeferred(p, err), nil
	}
	ev := dag.Event{Kind: dag.EvArm, Task: p.Task, Token: p.Token, Of: p.Kind, Due: is.Until, Items: is.Items}
	if begin != nil {
		ev.Child, ev.Reason = begin.child(), "run "+begin.Run.String()+" of "+is.Name
	}
	return item{op: func(w *writer) answer {
		a := w.stepOther(p.Run, &ev)
		if begin != nil && a.err == nil && a.verdict == dag.Accepted {
			if err := w.sendChild(letter{Child: &childLetter{Workflow: begin.Workflow, Start: begin}}); err != nil {
				w.broken(err)
				a.err = err
			}
		}
		return a
	}}, nil
}

// lookedAt settles a prepared task, or sets a timer to look again later. The timer is not stored: a load
// looks at once.
func (w *writer) lookedAt(p *dag.Prepare, is *Prepared) item {
	if is.Later > 0 {
		return item{op: func(w *writer) answer {
			w.tx.fx.Timers = append(w.tx.fx.Timers, dag.Timer{Due: w.tx.now.Mono + is.Later, Run: p.Run, Kind: dag.TimerLook, Task: p.Task, Token: p.Token})
			return answer{run: p.Run}
		}}
	}
	ev := dag.Event{Kind: dag.EvSettle, Task: p.Task, Token: p.Token, Of: p.Kind, Result: dag.Result{State: dag.AttemptSucceeded, Outputs: is.Leaves}}
	return item{op: func(w *writer) answer { return w.stepOther(p.Run, &ev) }}
}

// deferred reads the attempt of a deferred task; nil: it has ended.
func (e *Engine) deferred(ctx context.Context, p *dag.Prepare) (*dag.AttemptRow, error) {
	rows, err := e.begun(ctx, p.Run, p.Task)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if a := &rows[i]; a.Token == p.Token && a.State == dag.AttemptDeferred {
			return a, nil
		}
	}
	return nil, nil
}

// stepOther steps a run that is owned here, for something that came from outside it.
func (w *writer) stepOther(id dag.RunID, ev *dag.Event) answer {
	r := w.runs[id]
	if r == nil {
		return answer{run: id, verdict: dag.RunEnded}
	}
	w.tx.current = r
	v := r.Step(ev, w.tx.now, &w.tx.fx)
	if v == dag.Accepted {
		w.touch(r)
	}
	w.tx.current = nil
	return answer{run: id, verdict: v}
}

// Decision is what a person says to an approval.
type Decision struct {
	Run     dag.RunID
	Task    string
	Reject  bool
	Outputs []byte // a JSON object: who approved, and the comment
	Actor   string
	Comment string
	// May tells whether the actor may decide about the task.
	May func(*dag.RunRow) error
}

// Decide approves or rejects; when it returns without an error, the decision is durable.
func (e *Engine) Decide(ctx context.Context, d Decision) error {
	if err := checkTexts("comment", d.Comment, "actor", d.Actor); err != nil {
		return err
	}
	row, err := e.store.Run(ctx, d.Run)
	if err != nil {
		return fromStore("run "+d.Run.String(), err)
	}
	g, err := e.graphOf(&row)
	if err != nil {
		return err
	}
	t, ok := g.Find(d.Task)
	if !ok {
		return fmt.Errorf("task %s of run %s: %w", d.Task, d.Run, ErrNotFound)
	}
	if g.Kind(t) != dag.Approval {
		return fmt.Errorf("%w: task %s is no approval", ErrConflict, d.Task)
	}
	if err := d.May(&row); err != nil {
		return err
	}
	ev := dag.Event{Kind: dag.EvSettle, Task: t, Of: dag.Approval, Actor: d.Actor, Reason: d.Comment,
		Result: dag.Result{State: dag.AttemptSucceeded, Outputs: d.Outputs, Message: "approved by " + d.Actor}}
	if d.Reject {
		ev.Result.State, ev.Result.Cause, ev.Result.Message = dag.AttemptFailed, dag.CauseRejected, "rejected by "+d.Actor
	}
	if d.Comment != "" {
		ev.Result.Message += ": " + d.Comment
	}
	ev.Result.Message = clean(ev.Result.Message)
	a, err := e.writer.inbox.send(ctx, item{run: d.Run, ev: ev})
	if err != nil {
		return err
	}
	if a.verdict == dag.Accepted {
		return nil
	}
	v, err := e.Task(ctx, d.Run, d.Task)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: task %s does not wait for a decision: it is %s", ErrConflict, d.Task, v.State)
}
