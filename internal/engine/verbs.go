package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Command is an operator's verb on one run or on one of its tasks. The verb is Recover, Mark or, if neither
// is set, Intent.
type Command struct {
	Run     dag.RunID
	Intent  dag.Intent // resume (run), pause, stop, kill
	Recover bool
	Scope   dag.Scope // scope of a Recover; every scope but the first needs Task
	Mark    dag.Mark
	Task    string // name of the task
	Outputs []byte // a JSON object, or nil; only with MarkSucceeded
	Actor   string
	Reason  string
	// Request, if not nil, stores the answer under its idempotency key.
	Request *store.Request
}

// scopeVerb is the scope of verbs whose caller gave no key. After a commit with an unknown outcome, verbs are
// applied again. An intent may be applied twice, but other verbs may not. So their results are stored under
// this scope.
const scopeVerb = "verb"

// item makes an item that applies a command.
func (e *Engine) item(c *Command) (item, error) {
	if err := checkTexts("reason", c.Reason, "actor", c.Actor, "task", c.Task); err != nil {
		return item{}, err
	}
	if len(c.Outputs) > outputsMax {
		return item{}, fmt.Errorf("%w: the outputs have %d bytes; at most %d are stored", errkind.ErrInvalid, len(c.Outputs), outputsMax)
	}
	it := item{run: c.Run, task: c.Task, ev: &dag.Event{Kind: dag.EvIntent, Task: dag.LeaderTask, Intent: c.Intent, Actor: c.Actor, Reason: c.Reason}}
	switch {
	case c.Recover:
		it.ev.Kind, it.ev.Scope = dag.EvRecover, c.Scope
	case c.Mark != 0:
		it.ev.Kind, it.ev.Mark, it.ev.Outputs = dag.EvMark, c.Mark, c.Outputs
	}
	switch {
	case c.Request != nil:
		req := *c.Request
		if err := checkTexts("scope", req.Scope, "idempotency key", req.Key); err != nil {
			return item{}, err
		}
		it.req = &req
	case it.ev.Kind != dag.EvIntent:
		it.req = &store.Request{Scope: scopeVerb, Key: e.host.ID().String()}
	}
	return it, nil
}

// Do carries out a command. When it returns without an error, the effect of the command is durable. Do
// returns no error if the verb was applied before.
func (e *Engine) Do(ctx context.Context, c Command) error {
	it, err := e.item(&c)
	if err != nil {
		return err
	}
	if _, err := e.store.Run(ctx, c.Run); err != nil {
		return errkind.FromStore("run "+c.Run.String(), err)
	}
	a, err := e.writer.inbox.send(ctx, it)
	if err != nil || a.verdict <= dag.Duplicate {
		return err
	}
	row, err := e.store.Run(ctx, c.Run) // the state of the run when the verb arrived
	if err != nil {
		return errkind.FromStore("run "+c.Run.String(), err)
	}
	if a.verdict != dag.RunEnded {
		return fmt.Errorf("%w: a run whose intent is %s does not accept %s", errkind.ErrConflict, row.Intent, verbs[c.Intent])
	}
	if row.Intent == c.Intent && c.Intent >= dag.IntentStop {
		return nil // this verb itself has ended the run
	}
	can := "recover, rerun"
	if row.SplitAt == 0 {
		can = "rerun"
	}
	return errkind.Tell(fmt.Errorf("%w: run %s has ended: it is %s; possible verbs: %s", errkind.ErrConflict, c.Run, row.State, can),
		"run_ended", "run", c.Run.String(), "state", row.State.String())
}

var verbs = map[dag.Intent]string{dag.IntentRun: "resume", dag.IntentPause: "pause", dag.IntentStop: "stop", dag.IntentKill: "be killed"}

// wanted finds the run of a verb, and the verb's task. The run may have ended.
func (w *writer) wanted(it *item) (r *dag.Run, revived bool, err error) {
	if r = w.runs[it.run]; r == nil {
		if why, bad := w.bad[it.run]; bad {
			return nil, false, fmt.Errorf("%w: run %s is quarantined: %s", errkind.ErrConflict, it.run, why)
		}
		if r, err = w.revive(it.run); err != nil {
			return nil, false, err
		}
		revived = true
	}
	if it.task == "" || r.Graph == nil {
		return r, revived, nil
	}
	t, ok := r.Graph.Find(it.task)
	if !ok {
		err = noTask(r, it.task)
	}
	it.ev.Task = t
	return r, revived, err
}

// noTask returns the error for a task that does not exist. The error suggests a similar name.
func noTask(r *dag.Run, name string) error {
	near := r.Graph.Near(name)
	if near == "" {
		return fmt.Errorf("%w: run %s has no task %q; skein run get %s lists its tasks", errkind.ErrNotFound, r.ID, name, r.ID)
	}
	return fmt.Errorf("%w: run %s has no task %q; did you mean %s?", errkind.ErrNotFound, r.ID, name, near)
}

// revive loads a run that is not in memory.
func (w *writer) revive(id dag.RunID) (*dag.Run, error) {
	row, err := w.e.store.Run(context.Background(), id)
	if err == nil {
		err = w.here(row.Shard)
	}
	if err != nil {
		return nil, errkind.FromStore("run "+id.String(), err)
	}
	page, err := w.e.store.Load(context.Background(), store.LoadQuery{IDs: []dag.RunID{id}})
	if err != nil {
		return nil, errkind.FromStore("run "+id.String(), err)
	}
	if len(page) == 0 {
		return nil, errkind.NoRun(id)
	}
	r, err := w.revived(&page[0], &w.tx.fx)
	switch {
	case errors.Is(err, errkind.ErrUnavailable):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: run %s cannot be read: %w", errkind.ErrConflict, id, err)
	case row.Cause == dag.CauseCorrupt:
		return nil, fmt.Errorf("%w: run %s is quarantined: %s", errkind.ErrConflict, id, row.Message)
	}
	w.runs[id] = r
	if r.Claim.Aside() { // the run was not in memory, so the limits did not count it
		w.limits.count(r)
		w.limits.aside = max(w.limits.aside-1, 0)
	}
	return r, nil
}

// endedNow reports whether an item is a verb about a run that has ended in the transaction being made. The
// consequences of that end must be applied before the verb revives the run.
func (w *writer) endedNow(it *item) bool {
	if it.kind() != dag.EvRecover && it.kind() != dag.EvMark {
		return false
	}
	r := w.runs[it.run]
	return r != nil && w.tx.touches(r) && !r.Unfinished()
}

// verb steps a run for a verb that may revive the run.
func (w *writer) verb(it *item) answer {
	r, revived, err := w.wanted(it)
	if err == nil {
		err = w.quotas.mayReturn(r)
	}
	a := answer{run: it.run, err: err}
	if err == nil {
		over := !r.Unfinished()
		if a = w.step(it, r); over && a.verdict == dag.Accepted {
			w.tx.tally.revived++
			w.quotas.checked(r)
		}
		if (over || revived) && r.Unfinished() {
			w.alerts.expect(r)
		}
		if a.verdict == dag.NoSuchTask {
			a.err = fmt.Errorf("%w: run %s has no such task", errkind.ErrNotFound, it.run)
		}
		if a.verdict == dag.WrongState {
			a.err = fmt.Errorf("%w: run %s: %s", errkind.ErrConflict, it.run, r.Refusal(it.ev))
		}
	}
	if revived && r != nil && !w.tx.touches(r) && r.Gate == gateNone {
		delete(w.runs, r.ID) // the run was loaded only for this verb, which has no effect
	}
	return a
}
