package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
)

// Submission asks for a run.
type Submission struct {
	ID       dag.RunID      // zero if the engine makes one
	Workflow store.Workflow // the workflow, as the caller has read it
	Version  int32          // 0 means the workflow's current version
	Priority dag.Priority
	Origin   dag.Origin
	User     string
	Key      string // idempotency key; "" if there is none
	KeyHash  []byte
	Params   []byte     // a JSON object, or nil
	Of       dag.RunID  // the run that this run repeats; zero if there is none
	Instant  dag.Micros // logical instant of a repeated run; 0 means now
	From     string     // the task at which the run begins; "" means at the tasks without needs
	// The trace context of the caller, as dag.ParseTrace returns it; "" if there is none.
	Trace string   `json:",omitempty"`
	Tags  dag.Tags `json:",omitempty"` // tags in addition to those of the workflow
	View  bool     `json:"-"`          // the answer is to contain the run as it was accepted

	named bool // the caller chose the ID, so a run with this ID may already exist
}

// Accepted is a run that is durable.
type Accepted struct {
	Run      dag.RunID
	Existing bool // an earlier submission with this key made the run
	// View shows the run after the transaction that made it. View is nil if the caller did not ask for it, or
	// if the store must be read to show the run.
	View *inspect.RunView `json:"-"`
}

// NewRunID makes a new id. A later id sorts after an earlier one.
func NewRunID() dag.RunID { return dag.RunID(uuid.Must(uuid.NewV7())) }

// Submit starts a run. When it returns without an error, the run is durable.
func (e *Engine) Submit(ctx context.Context, s Submission) (Accepted, error) {
	if err := e.admit(&s); err != nil {
		return Accepted{}, err
	}
	if err := admitQuotas(ctx, e, &s); err != nil {
		return Accepted{}, err
	}
	a, err := e.writer.inbox.send(ctx, item{submit: &s})
	return e.accepted(ctx, &a), err
}

// accepted turns an answer into the caller's result.
func (e *Engine) accepted(ctx context.Context, a *answer) Accepted {
	out := Accepted{Run: a.run, Existing: a.existing, View: a.view}
	if v := a.view; v != nil {
		var err error
		v.Leader, err = e.HandlerByID(ctx, v.RunRow.Leader)
		failed := v.Counts[dag.Failed] > 0
		switch {
		case err != nil, v.Claim.InLine(), failed && v.Final == nil:
			out.View = nil // the position in the queue and the names of failed tasks must be read from the store
		case failed:
			v.Failed = e.FailedOf(&v.RunRow)
		}
	}
	return out
}

// SubmitAll starts runs together, in as few transactions as possible, and waits for all of them. It returns
// the first error. After an error, some of the runs may have been accepted.
func (e *Engine) SubmitAll(ctx context.Context, all []Submission) ([]Accepted, error) {
	all = slices.Clone(all) // the writer may still use the slice after the caller has given up
	for i := range all {
		if err := e.admit(&all[i]); err != nil {
			return nil, err
		}
		if err := admitQuotas(ctx, e, &all[i]); err != nil {
			return nil, err
		}
	}
	out, errs := submitEach(ctx, e, all)
	for _, err := range errs {
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// SubmitEach starts runs together, like SubmitAll. It returns a result or an error for each.
func (e *Engine) SubmitEach(ctx context.Context, all []Submission) ([]Accepted, []error) {
	good, at := make([]Submission, 0, len(all)), make([]int, 0, len(all))
	out, errs := make([]Accepted, len(all)), make([]error, len(all))
	for i := range all {
		s := all[i]
		if errs[i] = e.admit(&s); errs[i] == nil {
			errs[i] = admitQuotas(ctx, e, &s)
		}
		if errs[i] == nil {
			good, at = append(good, s), append(at, i)
		}
	}
	as, es := submitEach(ctx, e, good)
	for n, i := range at {
		out[i], errs[i] = as[n], es[n]
	}
	return out, errs
}

// submitEach passes submissions to the writer and waits for the answers. Afterwards the submissions belong to
// the writer.
func submitEach(ctx context.Context, e *Engine, all []Submission) ([]Accepted, []error) {
	out, errs := make([]Accepted, len(all)), make([]error, len(all))
	if len(all) == 0 {
		return out, errs
	}
	items := make([]item, len(all))
	got := make(chan numbered, len(all)) // large enough, so that the writer never waits for a reader
	for i := range all {
		items[i] = item{submit: &all[i], done: func(a answer) { got <- numbered{i, a} }}
	}
	refused := e.writer.inbox.put(items...)
	for i := range errs {
		errs[i] = cmp.Or(refused, errUnanswered)
	}
	if refused != nil {
		return out, errs
	}
	for range all {
		select {
		case n := <-got:
			out[n.i], errs[n.i] = e.accepted(ctx, &n.a), n.a.err
		case <-ctx.Done():
			for i := range errs {
				if errors.Is(errs[i], errUnanswered) {
					errs[i] = fmt.Errorf("%w: %w", errUnanswered, ctx.Err())
				}
			}
			return out, errs
		}
	}
	return out, errs
}

// numbered is the answer to a submission with its index.
type numbered struct {
	i int
	a answer
}

// errUnanswered is the error of a caller that stopped waiting for the writer. A later submission with the
// same key finds the run.
var errUnanswered = fmt.Errorf("%w: no answer yet; the submission may have been accepted", errkind.ErrUnavailable)

// admit checks a submission and completes it, before it is passed to the writer.
func (e *Engine) admit(s *Submission) error {
	if err := e.Accepting(); err != nil {
		return err
	}
	if s.named = !s.ID.IsZero(); !s.named {
		s.ID = dag.RunID(e.host.ID())
	}
	if s.Workflow.ID == 0 {
		return fmt.Errorf("%w: the submission names no workflow", errkind.ErrInvalid)
	}
	if s.Priority >= dag.Levels {
		return fmt.Errorf("%w: there is no priority %d", errkind.ErrInvalid, s.Priority)
	}
	return checkTexts("user", s.User, "idempotency key", s.Key, "task", s.From)
}

// Report is a holder's report about its attempt.
type Report struct {
	Run     dag.RunID
	Task    dag.TaskID
	Token   dag.Token
	Result  dag.Result
	Started dag.Micros // the time since which the attempt runs; if it is set, Result is ignored
	Handle  string     // handle of the attempt, with Started; "" if there is none
	Adopts  bool       // see dag.Result; only with Handle
	Lost    string     // why the attempt no longer runs without a known result; if it is set, Result is ignored
}

// Report accepts the ends of attempts from the executor of this process. While the process lives, no report
// is lost: after a failed transaction, its reports are applied again. Report removes those parts of texts
// that no store can hold, because they must not make the run fail.
func (e *Engine) Report(rs ...Report) {
	// The inbox is closed only when the process ends. Then the next process declares the attempts lost.
	_ = e.writer.inbox.put(e.reported(e.me().ID, rs...)...)
}

// reported makes the items of reports of one holder. Their events share one array.
func (e *Engine) reported(from dag.HandlerID, rs ...Report) []item {
	items, evs := make([]item, len(rs)), make([]dag.Event, len(rs))
	for i := range rs {
		items[i] = item{run: rs[i].Run, ev: &evs[i]}
		fillReport(&evs[i], from, &rs[i])
		items[i].gone = evs[i].Kind == dag.EvLost
	}
	return items
}

// fillReport makes ev the event of a report.
func fillReport(ev *dag.Event, from dag.HandlerID, r *Report) {
	*ev = dag.Event{Kind: dag.EvReport, Task: r.Task, Token: r.Token, Handler: from}
	if r.Started != 0 {
		ev.Kind, ev.At, ev.Handle, ev.Adopts = dag.EvStarted, r.Started, cleanHandle(r.Handle), r.Adopts
		return
	}
	if r.Lost != "" {
		ev.Kind, ev.Reason, ev.Here = dag.EvLost, clean(r.Lost), true
		return
	}
	ev.Result = r.Result
	res := &ev.Result
	res.Handle = cleanHandle(res.Handle)
	res.Cause, res.Signal, res.Message = dag.Cause(clean(string(res.Cause))), clean(res.Signal), clean(res.Message)
	if len(res.Outputs) > outputsMax {
		res.State, res.Cause = dag.AttemptFailed, dag.CauseOutput
		res.Message = fmt.Sprintf("its outputs have %d bytes, at most %d are kept", len(res.Outputs), outputsMax)
		res.Outputs = nil
	}
}

// Barrier waits until every report that the engine has received so far is durable.
func (e *Engine) Barrier(ctx context.Context) error {
	_, err := e.writer.inbox.send(ctx, item{behind: true, ask: func(*writer) error { return nil }})
	return err
}

// Check makes the owner compare a run with its rows. Memory is replaced by the rows, and an attempt that does
// not run is sent again.
func (e *Engine) Check(ctx context.Context, id dag.RunID) error {
	_, err := e.writer.inbox.send(ctx, item{run: id, ask: func(w *writer) error { return w.check(id) }})
	return err
}

// check replaces a run in memory by the run that its rows describe.
func (w *writer) check(id dag.RunID) error {
	ctx := context.Background()
	page, err := w.e.store.Load(ctx, store.LoadQuery{IDs: []dag.RunID{id}})
	if err != nil {
		return errkind.FromStore("run "+id.String(), err)
	}
	if len(page) == 0 {
		return errkind.NoRun(id)
	}
	w.leave(id)
	w.quotas.forget()
	if page[0].Bad == nil && page[0].Run.State.Terminal() {
		return nil
	}
	var f found
	if err := w.adopt(&page[0], &f); err != nil {
		w.unsure = errors.Join(w.unsure, err) // the run was dropped and could not be loaded
		return err
	}
	if r := w.runs[id]; r != nil {
		w.nudge(r)
	}
	if err := w.takeOver(ctx, &f); err != nil {
		w.unsure = errors.Join(w.unsure, err)
		return err
	}
	return nil
}

// addRun takes up a new run, from a submission or from a trigger. The run begins, or waits at a concurrency
// limit. If inline is set, the run may be split and may even end in this transaction. inline is false for a
// run that starts because another run has ended, so that a cycle of workflows does not run within one
// transaction.
func (w *writer) addRun(r *dag.Run, inline bool, own *dag.Graph) error {
	w.tx.current = r
	ev := dag.Event{Kind: dag.EvSubmit, Handler: w.e.me().ID, Graph: own, Own: own != nil}
	if inline && own == nil {
		ev.Graph = w.e.graphs.Peek(r.Workflow, r.Version)
	}
	why, d, err := w.limits.enter(r)
	if err != nil {
		return err
	}
	if ev.Wait = why; d != nil {
		ev = denial(d)
	}
	r.Step(&ev, w.tx.now, &w.tx.fx)
	w.runs[r.ID] = r
	w.alerts.expect(r)
	w.touch(r)
	w.tx.current = nil
	w.tx.tally.accepted++
	return nil
}
