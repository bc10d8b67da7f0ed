package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Reason is one answer to "why does it not move?". Zero times do not apply.
type Reason struct {
	Kind     string // ended, paused, stopping, limit, queue, lock, splitting, needs, slot, place, resources, retry, operator, running, wait, approval, call, circle, start_deadline, nobody
	What     string // a sentence
	Holder   string // who has what it waits for
	Since    dag.Micros
	Unblocks string // what will move it, or what a person can do
	Expected dag.Micros
}

// Explanation is a run's or a task's state and all reasons for it.
type Explanation struct {
	ID      string
	State   string
	Reasons []Reason
}

const (
	// reasonsMax bounds an explanation.
	reasonsMax = 50
	// goingMax bounds what it says of tasks that somebody has, or that wait outside the run: room is left for those that nobody has.
	goingMax = 40
)

// holderPages bounds the search for the run that another one waits for, in pages of 1,000.
const holderPages = 10

// Explain says why a run, or one task of it, stands where it stands.
func (e *Engine) Explain(ctx context.Context, id dag.RunID, task string) (Explanation, error) {
	v, err := e.GetRun(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{ID: id.String(), State: v.State.String()}
	if task == "" {
		if !v.State.Terminal() {
			e.explainNobody(&x)
		}
		if err := e.explainRun(ctx, &v, &x); err != nil {
			return x, err
		}
		return x, e.explainCircle(ctx, &v, &x)
	}
	t, err := e.Task(ctx, id, task)
	if errors.Is(err, ErrNotFound) && v.SplitAt == 0 && e.declares(&v.RunRow, task) { // it has no tasks yet, and the reason is the same
		x.ID = id.String() + "/" + task
		return x, e.explainRun(ctx, &v, &x)
	}
	if err != nil {
		return x, err
	}
	x.ID, x.State = id.String()+"/"+task, t.State.String()
	if !t.State.Terminal() {
		e.explainNobody(&x)
	}
	return x, e.explainTask(ctx, &v, &t, &x)
}

// startServer unblocks whatever stands because nobody is there.
const startServer = "a server over this data folder: skein server"

// explainNobody says that nobody works here: this engine only reads, and who ever had something is gone.
func (e *Engine) explainNobody(x *Explanation) {
	if e.reads() {
		x.add(Reason{Kind: "nobody", What: "no server holds the data folder: nothing runs and nothing new starts", Unblocks: startServer})
	}
}

// reads reports whether this engine owns no shard (yet): it can look at rows and do nothing.
func (e *Engine) reads() bool {
	select {
	case <-e.ready:
		return false
	default:
		return true
	}
}

func (x *Explanation) add(r Reason) {
	if len(x.Reasons) < reasonsMax {
		x.Reasons = append(x.Reasons, r)
	}
}

func (e *Engine) explainRun(ctx context.Context, v *RunView, x *Explanation) error {
	if complete, err := e.explainIntent(ctx, v, x); complete || err != nil {
		return err
	}
	if v.Claim != nil && (v.Claim.Stage == dag.ClaimAsked || v.Claim.Stage == dag.ClaimAgain) {
		return e.explainClaim(ctx, v, x)
	}
	if v.State == dag.RunWaiting {
		return e.explainWaiting(ctx, v, x)
	}
	if v.SplitAt == 0 {
		r := Reason{Kind: "splitting", What: "the Leader makes tasks of it", Since: v.Created, Holder: e.cfg.Node, Unblocks: "the end of that work"}
		if e.reads() {
			r.What, r.Holder, r.Unblocks = "no tasks were made of it yet", "", startServer
		}
		x.add(r)
		return nil
	}
	tasks, _, err := e.Tasks(ctx, v.ID, 0, -1)
	if err != nil {
		return err
	}
	now, err := e.Clock(ctx)
	if err != nil {
		return err
	}
	var waiting []*TaskView
	for i := range tasks {
		switch t := &tasks[i]; {
		case t.State == dag.Ready, v.Intent == dag.IntentRun && dueAgain(t, now):
			waiting = append(waiting, t)
		case len(x.Reasons) >= goingMax:
		case t.State == dag.Assigned, t.State == dag.Running, t.State == dag.RetryWait:
			e.explainHeld(v, t, now, x)
		case t.State == dag.Deferred:
			if err := e.explainDeferred(ctx, v, t, x); err != nil {
				return err
			}
		}
	}
	if len(waiting) > 0 && v.Intent == dag.IntentRun {
		groups, err := e.misplaced(ctx, v, x, waiting...)
		if err != nil {
			return err
		}
		queued, err := e.explainShares(ctx, v, "", x)
		if err != nil {
			return err
		}
		if err := e.explainSlots(ctx, v, groups, queued, x); err != nil {
			return err
		}
	}
	return e.explainStartBy(ctx, v, x, waiting...)
}

// explainWaiting says which limit holds a run back, and who is through it.
func (e *Engine) explainWaiting(ctx context.Context, v *RunView, x *Explanation) error {
	r := Reason{Kind: "limit", What: "a limit on concurrent runs holds it back", Since: v.Created, Unblocks: "the end of one of them"}
	rows, err := e.store.Events(ctx, v.ID, 0, 1)
	if err != nil {
		return fromStore("read the run's history", err)
	}
	for i := range rows {
		recs, err := dag.UnpackRecords(rows[i].Records)
		if err != nil {
			return err
		}
		for j := range recs {
			if recs[j].Kind == dag.RecWaiting {
				r.What, r.Since = recs[j].Text, rows[i].At
			}
		}
	}
	holder, err := e.waitsFor(ctx, v, strings.HasPrefix(r.What, "trigger "))
	if err != nil {
		return err
	}
	if holder != (dag.RunID{}) {
		r.Holder = "run " + holder.String()
	}
	if v.Fire != nil && v.Fire.StartBy != 0 {
		r.Unblocks += "; not begun by then, it ends skipped"
		r.Expected = v.Fire.StartBy
	}
	x.add(r)
	return nil
}

// waitsFor is the oldest run that is through where v waits: at the gate of its trigger, or at
// that of its workflow. It is zero if there is none among those that are looked at.
func (e *Engine) waitsFor(ctx context.Context, v *RunView, atTrigger bool) (oldest dag.RunID, err error) {
	q := store.RunQuery{Workflow: v.Workflow.ID, State: "active", Limit: 1000}
	for range holderPages {
		page, err := e.store.Runs(ctx, q)
		if err != nil {
			return oldest, fromStore("list the workflow's runs", err)
		}
		for i := range page.Runs { // newest first
			o := &page.Runs[i]
			if o.ID == v.ID || o.State == dag.RunWaiting || o.State == dag.RunSubmitted {
				continue
			}
			if atTrigger && (v.Fire == nil || o.Fire == nil || o.Fire.Trigger != v.Fire.Trigger || o.Fire.Backfill != 0) {
				continue
			}
			oldest = o.ID
		}
		if page.Next == (dag.RunID{}) {
			break
		}
		q.Before = page.Next
	}
	return oldest, nil
}

// dueAgain reports whether the next try of a task is due. It waits for a slot then, as one does that is ready, which its rows
// do not tell.
func dueAgain(t *TaskView, now dag.Micros) bool {
	return t.State == dag.RetryWait && isDue(&t.Attempts[len(t.Attempts)-1].AttemptRow, now)
}

// isDue reports whether the try after an attempt is due: who waits for a person has none.
func isDue(a *dag.AttemptRow, now dag.Micros) bool { return a.RetryAt != 0 && a.RetryAt <= now }

// explainHeld covers a task that somebody has, or that waits for its next try.
func (e *Engine) explainHeld(v *RunView, t *TaskView, now dag.Micros, x *Explanation) {
	a := &t.Attempts[len(t.Attempts)-1]
	if t.State == dag.RetryWait && a.Cause == dag.CauseAsk {
		x.add(Reason{Kind: "operator", What: fmt.Sprintf("task %s lost its handler, and on_lost: ask has it wait for a person", t.Name),
			Since: a.Finished, Unblocks: "skein task retry, skip or mark " + a.Run.String() + "/" + t.Name})
		return
	}
	if t.State == dag.RetryWait {
		r := Reason{Kind: "retry", What: fmt.Sprintf("task %s failed (%s) and is tried again", t.Name, describe(&a.AttemptRow)),
			Since: a.Finished, Unblocks: "time", Expected: a.RetryAt}
		if a.State == dag.AttemptLost {
			r.What = fmt.Sprintf("task %s was lost again (%s) and is handed over once more", t.Name, describe(&a.AttemptRow))
			r.Unblocks = "time, or skein task retry " + a.Run.String() + "/" + t.Name
		}
		if v.Intent == dag.IntentPause { // who knows when that ends
			r.What += ", once its run goes on"
			r.Unblocks, r.Expected = "skein run resume "+v.ID.String(), 0
			if a.RetryAt > now {
				r.Unblocks += "; it is tried no sooner than " + a.RetryAt.Time().UTC().Format(time.RFC3339)
			}
		}
		x.add(r)
		return
	}
	r := Reason{Kind: "running", What: fmt.Sprintf("task %s, attempt %d, is %s", t.Name, a.Token, t.State),
		Holder: a.By.Node + " (" + a.By.UUID + ")", Since: max(a.Assigned, a.Started), Unblocks: "the end of that attempt"}
	if e.reads() {
		r.What = fmt.Sprintf("task %s, attempt %d, was %s on a node that is gone; it is lost", t.Name, a.Token, t.State)
		r.Unblocks = startServer
	}
	x.add(r)
}

// describe says why an attempt failed: an exit code or a signal alone only if there is nothing more to it.
func describe(a *dag.AttemptRow) string {
	switch {
	case a.Message != "" && a.Cause != dag.CauseExit:
		return a.Message
	case a.Exited:
		return fmt.Sprintf("exit %d", a.ExitCode)
	case a.Message != "":
		return a.Message
	case a.Signal != "":
		return a.Signal
	}
	return string(a.Cause)
}

func (e *Engine) explainTask(ctx context.Context, v *RunView, t *TaskView, x *Explanation) error {
	switch t.State {
	case dag.Assigned, dag.Running:
		e.explainHeld(v, t, 0, x)
		return nil
	case dag.RetryWait:
		now, err := e.Clock(ctx)
		if err != nil {
			return err
		}
		if v.Intent == dag.IntentRun && dueAgain(t, now) {
			return e.explainReady(ctx, v, t, x)
		}
		_, err = e.explainIntent(ctx, v, x)
		e.explainHeld(v, t, now, x)
		return err
	case dag.Deferred:
		return e.explainDeferred(ctx, v, t, x)
	case dag.Ready:
		if err := e.explainReady(ctx, v, t, x); err != nil {
			return err
		}
		return e.explainStartBy(ctx, v, x, t)
	case dag.Pending:
		if _, err := e.explainIntent(ctx, v, x); err != nil {
			return err
		}
		return e.explainNeeds(ctx, v, t, x)
	}
	return e.explainEnded(ctx, v, t, x)
}

// explainReady says what a task waits for that needs nothing more but to be handed over.
func (e *Engine) explainReady(ctx context.Context, v *RunView, t *TaskView, x *Explanation) error {
	if complete, err := e.explainIntent(ctx, v, x); complete || v.Intent != dag.IntentRun || err != nil {
		return err
	}
	if groups, err := e.misplaced(ctx, v, x, t); len(groups) == 0 || err != nil {
		return err
	}
	if n, err := e.explainShares(ctx, v, t.Name, x); n > 0 || err != nil {
		return err
	}
	q := wanting{run: v, task: t, what: "it is ready and waits for a slot", since: t.Modified}
	if t.State == dag.RetryWait {
		a := &t.Attempts[len(t.Attempts)-1]
		q.what, q.since = fmt.Sprintf("its next try is due (%s) and waits for a slot", describe(&a.AttemptRow)), a.RetryAt
	}
	r, err := e.roomReason(ctx, q)
	if err != nil {
		return err
	}
	x.add(r)
	return nil
}

func (e *Engine) explainNeeds(ctx context.Context, v *RunView, t *TaskView, x *Explanation) error {
	g, _, states, err := e.derive(ctx, &v.RunRow)
	if err != nil {
		return err
	}
	for _, n := range g.Needs(t.ID) {
		s := states[n].State
		if s.Terminal() {
			continue
		}
		x.add(Reason{Kind: "needs", What: fmt.Sprintf("it needs task %s, which is %s", g.Name(n), s), Holder: g.Name(n),
			Since: v.SplitAt, Unblocks: "the end of task " + g.Name(n)})
	}
	return nil
}
