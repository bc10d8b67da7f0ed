package engine

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Submission asks for a run.
type Submission struct {
	ID       dag.RunID      // zero: one is made
	Workflow store.Workflow // as the caller read it
	Version  int32          // 0: the workflow's current one
	Priority dag.Priority
	Origin   dag.Origin
	User     string
	Key      string // idempotency key; "": none
	KeyHash  []byte
	Params   []byte // a JSON object, or nil
}

// Accepted is a run that is on the disk.
type Accepted struct {
	Run      dag.RunID
	Existing bool // an earlier submission with this key made it
}

// NewRunID makes an id whose order is the order of making.
func NewRunID() dag.RunID { return dag.RunID(uuid.Must(uuid.NewV7())) }

// Submit starts a run. When it returns without an error, the run is durable.
func (e *Engine) Submit(ctx context.Context, s Submission) (Accepted, error) {
	if err := e.admit(&s); err != nil {
		return Accepted{}, err
	}
	a, err := e.writer.inbox.send(ctx, item{submit: &s})
	return Accepted{Run: a.run, Existing: a.existing}, err
}

// SubmitAll starts runs together, in as few transactions as they fit in, and waits for all
// of them. The error is the first one; the others may have been accepted.
func (e *Engine) SubmitAll(ctx context.Context, all []Submission) ([]Accepted, error) {
	items := make([]item, len(all))
	out := make([]Accepted, len(all))
	type numbered struct {
		i int
		a answer
	}
	got := make(chan numbered, len(all)) // the writer never waits for a reader
	for i := range all {
		if err := e.admit(&all[i]); err != nil {
			return nil, err
		}
		items[i] = item{submit: &all[i], done: func(a answer) { got <- numbered{i, a} }}
	}
	if err := e.writer.inbox.put(items...); err != nil {
		return nil, err
	}
	var first error
	for range all {
		select {
		case n := <-got:
			out[n.i] = Accepted{Run: n.a.run, Existing: n.a.existing}
			if first == nil {
				first = n.a.err
			}
		case <-ctx.Done():
			return out, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
	return out, first
}

// admit completes a submission at the gateway.
func (e *Engine) admit(s *Submission) error {
	if err := e.Accepting(); err != nil {
		return err
	}
	if s.ID.IsZero() {
		s.ID = NewRunID()
	}
	if s.Workflow.ID == 0 {
		return fmt.Errorf("%w: a submission without a workflow", ErrInvalid)
	}
	return nil
}

// Report is what a holder says of its attempt.
type Report struct {
	Run     dag.RunID
	Task    dag.TaskID
	Token   dag.Token
	Result  dag.Result
	Started dag.Micros // a report that it runs, since then; Result does not count
}

// Report takes the end of an attempt from the executor of this process. It never loses
// one while the process lives: what a failed transaction held is applied again.
func (e *Engine) Report(r Report) {
	it := item{run: r.Run, ev: dag.Event{Kind: dag.EvReport, Task: r.Task, Token: r.Token, Handler: e.handler.ID, Result: r.Result}, shut: true}
	if r.Started != 0 {
		it.ev.Kind, it.ev.At, it.shut = dag.EvStarted, r.Started, false
	}
	// Refused only when the process ends; the next life declares the attempt lost.
	_ = e.writer.inbox.put(it)
}

// Command is an operator's verb on one run.
type Command struct {
	Run    dag.RunID
	Intent dag.Intent // run (resume), pause, stop, kill
	Actor  string
	Reason string
	// Request, if not nil, keeps the answer under an idempotency key.
	Request *store.Request
}

// Do carries a command out: when it returns without an error, the intent is durable.
// A verb that has been done already is no error.
func (e *Engine) Do(ctx context.Context, c Command) error {
	row, err := e.store.Run(ctx, c.Run)
	if err != nil {
		return fromStore("run "+c.Run.String(), err)
	}
	a, err := e.writer.inbox.send(ctx, item{run: c.Run, req: c.Request,
		ev: dag.Event{Kind: dag.EvIntent, Intent: c.Intent, Actor: c.Actor, Reason: c.Reason}})
	if err != nil {
		return err
	}
	switch a.verdict {
	case dag.Accepted, dag.Duplicate:
		return nil
	case dag.RunEnded:
		if row, err = e.store.Run(ctx, c.Run); err != nil {
			return fromStore("run "+c.Run.String(), err)
		}
		return fmt.Errorf("%w: run %s has ended: it is %s", ErrConflict, c.Run, row.State)
	}
	return fmt.Errorf("%w: a run whose intent is %s cannot be told to %s", ErrConflict, row.Intent, verbs[c.Intent])
}

var verbs = map[dag.Intent]string{dag.IntentRun: "resume", dag.IntentPause: "pause", dag.IntentStop: "stop", dag.IntentKill: "be killed"}

// Check has the owner look at a run once more, from its rows.
func (e *Engine) Check(ctx context.Context, id dag.RunID) error {
	_, err := e.writer.inbox.send(ctx, item{ask: func(w *writer) { w.check(ctx, id) }})
	return err
}

// check replaces a run in memory by what its rows say, and nudges it.
func (w *writer) check(ctx context.Context, id dag.RunID) {
	r := w.runs[id]
	if r == nil || w.marked[r] {
		return
	}
	w.queue.Remove(r)
	delete(w.runs, id)
	if err := w.reload(ctx, []dag.RunID{id}); err != nil {
		w.e.log.Warn("check", "run", id.String(), "err", err)
	}
}
