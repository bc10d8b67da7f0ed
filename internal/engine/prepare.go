package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
)

// Preparer finds out what a logical task waits for. It reads definitions and outputs, so it works outside the
// writer's goroutine. All its methods may be called from any goroutine.
type Preparer interface {
	// Prepare finds out for which event a deferred task waits. After errkind.ErrUnavailable the engine calls
	// it again. Any other error fails the task.
	Prepare(ctx context.Context, q PrepareQuery) (Prepared, error)
	// Outputs makes the outputs of a call from the outputs of the last tasks of its run. last has their
	// outputs in the order of the graph. The result is a JSON object, or nil. After errkind.ErrUnavailable
	// the engine calls Outputs again. Any other error fails the call.
	Outputs(ctx context.Context, q PrepareQuery, last [][]byte) ([]byte, error)
}

// PrepareQuery is a deferred task.
type PrepareQuery struct {
	Row   *dag.RunRow
	Graph *dag.Graph
	Task  dag.TaskID
	Token dag.Token
}

// Prepared describes the event for which a deferred task waits.
type Prepared struct {
	Until   dag.Micros // wait: its instant
	By      []string   // the principals that may decide about an approval; nil means all principals
	Message string     // the question that an approval asks
	Form    []byte     // the fields of an approval's form, a JSON array; nil if there is none
	// FourEyes says that the person who started the run may not decide about the approval.
	FourEyes bool
	Items    *dag.Items // foreach: its items
	// Tell is the message of a task that sends one, if the message is not recorded yet.
	Tell *alert.Told
	// For a call: the current version of the workflow, and the parameters of the run. If Workflow is 0, there
	// is nothing to call, and the call succeeds.
	Workflow dag.WorkflowID
	// Exact says that a child of an earlier attempt can continue only if it has the given version, or one
	// with the same content.
	Exact    bool
	Version  int32
	Name     string // NAMESPACE/NAME
	Priority dag.Priority
	Params   []byte
	Given    []string // the names of those Params that the call itself sets
	// For a condition that is checked repeatedly. Later is the pause until the next check, or 0 if the
	// condition is true. If it is true, Leaves are the outputs of the task: a JSON object, or nil. Otherwise
	// Why says what is missing.
	Later  time.Duration
	Leaves []byte
	// Called says that the engine sets no timer for the next check, because the Preparer calls Looks.At when
	// something has changed. Later is then not 0 and is otherwise ignored.
	Called bool
	Why    inspect.Reason
}

const (
	// preparesMax bounds the deferred tasks that are prepared at one time.
	preparesMax = 4
	// preparePauseMax bounds the pause between two tries to read the condition that a task waits for.
	preparePauseMax = time.Second
)

// preparing holds the tasks that wait to be prepared. The writer and its helpers share it.
type preparing struct {
	mu   sync.Mutex // protects the following fields
	todo []dag.Prepare
	// pending holds the attempts that wait for preparation or are being prepared. The value is true if the
	// attempt must be prepared again when its present preparation ends.
	pending map[dag.AttemptKey]bool
	helpers int
}

// prepare makes a few goroutines prepare deferred tasks. They end when no task is left.
func (c *calls) prepare(ps []dag.Prepare) {
	if len(ps) == 0 || c.preparer == nil {
		return
	}
	q := &c.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending == nil {
		q.pending = map[dag.AttemptKey]bool{}
	}
	for _, p := range ps {
		k := dag.KeyOf(p.Run, p.Task, p.Token)
		if _, known := q.pending[k]; known {
			q.pending[k] = true // the preparation in progress may have read old data
			continue
		}
		q.pending[k] = false
		q.todo = append(q.todo, p)
	}
	for q.helpers < min(preparesMax, len(q.todo)) {
		q.helpers++
		c.helper(func(ctx context.Context) {
			for p, ok := q.next(); ok; p, ok = q.next() {
				c.prepareOne(ctx, &p)
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

// prepareOne finds out what one task waits for, and sends the result to the writer. The writer checks the
// token of the result, so a late or repeated result has no effect.
func (c *calls) prepareOne(ctx context.Context, p *dag.Prepare) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, preparePauseMax) {
		it, err := c.prepared(ctx, p)
		if err == nil && it.op != nil {
			_, err = c.inbox.send(ctx, it)
		}
		if ctx.Err() != nil || err == nil || !errors.Is(err, errkind.ErrUnavailable) && !errors.Is(err, errkind.ErrBusy) {
			if errors.Is(err, errkind.ErrInvalid) { // the row of the run to be started cannot be stored
				_ = c.inbox.put(failDeferred(p, err))
			}
			break // the next owner prepares the task again
		}
		c.host.Await(ctx, nil, pause)
	}
	q, k := &c.queue, dag.KeyOf(p.Run, p.Task, p.Token)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pending[k] {
		q.pending[k] = false
		q.todo = append(q.todo, *p) // this goroutine takes the task, unless another one takes it first
		return
	}
	delete(q.pending, k)
}

// failDeferred makes the item that fails a task because its wait cannot end.
func failDeferred(p *dag.Prepare, cause error) item {
	ev := dag.Event{Kind: dag.EvSettle, Task: p.Task, Token: p.Token, Of: p.Kind,
		Result: dag.Result{State: dag.AttemptFailed, Cause: dag.CausePrepare, Message: clean(cause.Error())}}
	return item{op: func(w *writer) answer { return w.calls.stepOther(p.Run, &ev) }}
}

// prepared makes an item that says for which event a task waits. It makes no item if the task no longer
// waits.
func (c *calls) prepared(ctx context.Context, p *dag.Prepare) (item, error) {
	row, err := c.store.Run(ctx, p.Run)
	if err != nil {
		return item{}, errkind.FromStore("read run "+p.Run.String(), err)
	}
	a, err := c.deferred(ctx, p)
	if err != nil || a == nil {
		return item{}, err
	}
	if child, ok := dag.ChildOf(a); ok {
		return c.ended(ctx, p, child, &row)
	}
	if p.Kind == dag.Call && a.Started != 0 {
		return item{}, nil
	}
	g, err := c.graphs.Of(&row)
	if err != nil {
		return item{}, err
	}
	if p.Kind == dag.Foreach && a.Started != 0 {
		return c.joinedOutputs(ctx, p, &row, g)
	}
	is, err := c.preparer.Prepare(ctx, PrepareQuery{Row: &row, Graph: g, Task: p.Task, Token: p.Token})
	if errors.Is(err, errkind.ErrUnavailable) {
		return item{}, err
	}
	if err == nil && is.Tell != nil && a.Started != 0 {
		err = errors.New("the record of its message was deleted before the task learned how it ended; look in the channels whether the message arrived")
	}
	if err == nil && p.Kind == dag.Dependent {
		return c.lookedAt(p, &is), nil
	}
	if err == nil && p.Kind == dag.Call && is.Workflow == 0 {
		ev := dag.Event{Kind: dag.EvSettle, Task: p.Task, Token: p.Token, Of: p.Kind, Result: dag.Result{State: dag.AttemptSucceeded, Outputs: is.Leaves}}
		return item{op: func(*writer) answer { return c.stepOther(p.Run, &ev) }}, nil
	}
	var begin *childStart
	if err == nil && p.Kind == dag.Call {
		begin, err = c.childOf(ctx, &row, a, &is)
		if errors.Is(err, errkind.ErrUnavailable) {
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
	return item{op: func(*writer) answer {
		a := c.stepOther(p.Run, &ev)
		if begin != nil && a.err == nil && a.verdict == dag.Accepted {
			if err := c.sendChild(letter{Child: &childLetter{Workflow: begin.Workflow, Start: begin}}); err != nil {
				c.broken(err)
				a.err = err
			}
		}
		return a
	}}, nil
}

// lookedAt makes the item that settles a checked task, or that sets a timer for the next check. The timer is
// not stored, because a load checks at once.
func (c *calls) lookedAt(p *dag.Prepare, is *Prepared) item {
	if is.Called {
		return item{}
	}
	if is.Later > 0 {
		return item{op: func(*writer) answer {
			if is.Tell != nil {
				if a := c.tell(p, is.Tell); a.err != nil || a.verdict != dag.Accepted && a.verdict != dag.Duplicate {
					return a
				}
			}
			c.txn().fx.Timers = append(c.txn().fx.Timers, dag.Timer{Due: c.txn().now.Mono + is.Later, Run: p.Run, Kind: dag.TimerLook, Task: p.Task, Token: p.Token})
			return answer{run: p.Run}
		}}
	}
	ev := dag.Event{Kind: dag.EvSettle, Task: p.Task, Token: p.Token, Of: p.Kind, Result: dag.Result{State: dag.AttemptSucceeded, Outputs: is.Leaves}}
	return item{op: func(*writer) answer { return c.stepOther(p.Run, &ev) }}
}

// tell records the message of a task in the transaction that arms the task, so it is recorded once. The
// sender of notices sends it.
func (c *calls) tell(p *dag.Prepare, m *alert.Told) answer {
	ev := dag.Event{Kind: dag.EvArm, Task: p.Task, Token: p.Token, Of: p.Kind, Reason: "message " + m.ID.String()}
	a := c.stepOther(p.Run, &ev)
	if a.err == nil && a.verdict == dag.Accepted {
		told, to := alert.Tell(m, c.txn().now.Wall), &c.txn().batch.AlertChanges
		to.Incidents, to.Notices = append(to.Incidents, told.Incident.Incident), append(to.Notices, told.Notices...)
	}
	return a
}

// deferred reads the attempt of a deferred task. It returns nil if the attempt has ended.
func (c *calls) deferred(ctx context.Context, p *dag.Prepare) (*dag.AttemptRow, error) {
	rows, err := c.reads.Begun(ctx, p.Run, p.Task)
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

// stepOther steps a run of this owner because of an event from outside of the run.
func (c *calls) stepOther(id dag.RunID, ev *dag.Event) answer {
	r := c.inMemory()[id]
	if r == nil {
		return answer{run: id, verdict: dag.RunEnded}
	}
	c.txn().current = r
	v := r.Step(ev, c.txn().now, &c.txn().fx)
	if v == dag.Accepted {
		c.touch(r)
	}
	c.txn().current = nil
	return answer{run: id, verdict: v}
}

// Decision is a person's decision about an approval.
type Decision struct {
	Run     dag.RunID
	Task    string
	Reject  bool
	Actor   string
	Comment string
	// May returns an error if the actor may not decide about the task.
	May func(*dag.RunRow) error
	// Outputs returns the outputs of the task, a JSON object: the approver, the comment and the answers.
	Outputs func(*dag.RunRow) ([]byte, error)
}

// Decide approves or rejects a task. When it returns without an error, the decision is durable.
func (e *Engine) Decide(ctx context.Context, d Decision) error {
	if err := checkTexts("comment", d.Comment, "actor", d.Actor); err != nil {
		return err
	}
	row, err := e.store.Run(ctx, d.Run)
	if err != nil {
		return errkind.FromStore("run "+d.Run.String(), err)
	}
	g, err := e.graphs.Of(&row)
	if err != nil {
		return err
	}
	t, ok := g.Find(d.Task)
	if !ok {
		return errkind.NoTask(d.Task, d.Run)
	}
	if g.Kind(t) != dag.Approval {
		return fmt.Errorf("%w: task %s is not an approval", errkind.ErrConflict, d.Task)
	}
	if err := d.May(&row); err != nil {
		return err
	}
	outputs, err := d.Outputs(&row)
	if err != nil {
		return err
	}
	ev := dag.Event{Kind: dag.EvSettle, Task: t, Of: dag.Approval, Actor: d.Actor, Reason: d.Comment,
		Result: dag.Result{State: dag.AttemptSucceeded, Outputs: outputs, Message: "approved by " + d.Actor}}
	if d.Reject {
		ev.Result.State, ev.Result.Cause, ev.Result.Message = dag.AttemptFailed, dag.CauseRejected, "rejected by "+d.Actor
	}
	if d.Comment != "" {
		ev.Result.Message += ": " + d.Comment
	}
	ev.Result.Message = clean(ev.Result.Message)
	a, err := e.writer.inbox.send(ctx, item{run: d.Run, ev: &ev})
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
	return fmt.Errorf("%w: task %s does not wait for a decision: it is %s", errkind.ErrConflict, d.Task, v.State)
}
