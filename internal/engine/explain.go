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
	Holder   string // the run, worker or person that it waits for
	Since    dag.Micros
	Unblocks string // what will move it, or what a person can do
	Expected dag.Micros
	Code     string         // what kind of sentence What is: it stays when the words change
	Args     map[string]any // what the sentence names
	Actions  []Action       // what a person can do about it
}

// Action is a verb that would help. It is about the task, the queue or the run that it names first in this order.
type Action struct {
	Verb  string // as in the address of its route: retry
	Run   dag.RunID
	Task  string
	Queue string
}

// on gives actions on one task of a run, or on the run if the task is "".
func on(run dag.RunID, task string, verbs ...string) []Action {
	all := make([]Action, len(verbs))
	for i, verb := range verbs {
		all[i] = Action{Verb: verb, Run: run, Task: task}
	}
	return all
}

// args are what a sentence names.
type args = map[string]any

// Explanation is a run's or a task's state and all reasons for it.
type Explanation struct {
	ID      string
	State   string
	Reasons []Reason
}

const (
	// reasonsMax bounds an explanation.
	reasonsMax = 50
	// goingMax bounds the reasons for tasks that have started or wait outside the run, so that the others have
	// room.
	goingMax = 40
)

// holderPages bounds the search for the run that another one waits for, in pages of 1,000.
const holderPages = 10

// explaining is an explanation that is being made, and what it rests on.
type explaining struct {
	Explanation
	*sight // nil until the tasks of the run are looked at
}

// Explain says why a run, or one task of it, stands where it stands.
func (e *Engine) Explain(ctx context.Context, id dag.RunID, task string) (Explanation, error) {
	v, err := e.outline(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	x := &explaining{Explanation: Explanation{ID: id.String(), State: v.State.String()}}
	if task == "" {
		if !v.State.Terminal() {
			e.explainNobody(x)
		}
		if err := e.explainRun(ctx, &v, x); err != nil {
			return x.Explanation, err
		}
		return x.Explanation, e.explainCircle(ctx, &v, x)
	}
	t, err := e.taskOf(ctx, &v, task, x)
	if errors.Is(err, ErrNotFound) && v.SplitAt == 0 && e.declares(&v.RunRow, task) { // it has no tasks yet, and the reason is the same
		x.ID = id.String() + "/" + task
		err = e.explainRun(ctx, &v, x)
		return x.Explanation, err
	}
	if err != nil {
		return x.Explanation, err
	}
	x.ID, x.State = id.String()+"/"+task, t.State.String()
	if !t.State.Terminal() {
		e.explainNobody(x)
	}
	err = e.explainTask(ctx, &v, &t, x)
	return x.Explanation, err
}

// startServer is the remedy if no server runs.
const startServer = "a server over this data folder: skein server"

// explainNobody adds a reason if no server holds the data folder: this engine only reads.
func (e *Engine) explainNobody(x *explaining) {
	if e.reads() {
		x.add(Reason{Kind: "nobody", Code: "no_server",
			What:     "no server holds the data folder: no attempt runs or starts",
			Unblocks: startServer})
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

func (x *explaining) add(r Reason) {
	if r.Code == "" {
		r.Code = r.Kind
	}
	if len(x.Reasons) < reasonsMax {
		x.Reasons = append(x.Reasons, r)
	}
}

func (e *Engine) explainRun(ctx context.Context, v *RunView, x *explaining) error {
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
		r := Reason{Kind: "splitting", What: "the Leader is making its tasks", Since: v.Created, Holder: e.cfg.Node, Unblocks: "the end of that work"}
		if e.reads() {
			r.What, r.Holder, r.Unblocks = "its tasks are not made yet", "", startServer
		}
		x.add(r)
		return nil
	}
	if err := x.look(ctx, e, v, dag.LeaderTask); err != nil {
		return err
	}
	waiting, err := e.explainGoing(ctx, v, x)
	if err != nil {
		return err
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

// explainGoing covers the tasks that have started or wait outside the run, and returns those that wait for a
// slot.
func (e *Engine) explainGoing(ctx context.Context, v *RunView, x *explaining) (waiting []dag.TaskID, err error) {
	looks := 0
	for t := range x.views {
		t := dag.TaskID(t)
		switch state := x.views[t].State; {
		case v.Intent == dag.IntentRun && (state == dag.Ready || x.again[t]),
			state == dag.Ready && (x.views[t].Token == 0 || looks >= goingMax):
			waiting = append(waiting, t)
		case len(x.Reasons) >= goingMax:
		case state == dag.RetryWait, state == dag.Deferred, state == dag.Ready, state.Held():
			looks++
			task, err := e.viewOf(ctx, v, t, x)
			if err != nil {
				return nil, err
			}
			if len(task.Attempts) == 0 || task.State == dag.Ready { // it has moved on meanwhile
				waiting = append(waiting, t)
			} else if state != dag.Deferred {
				e.explainHeld(v, &task, x)
			} else if err := e.explainDeferred(ctx, v, &task, x); err != nil {
				return nil, err
			}
		}
	}
	return waiting, nil
}

// explainWaiting says which limit holds a run back, and which runs it has let through.
func (e *Engine) explainWaiting(ctx context.Context, v *RunView, x *explaining) error {
	r := Reason{Kind: "limit", Code: "run_limit", What: "a limit on concurrent runs holds it back",
		Since: v.Created, Unblocks: "the end of one of them"}
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
		r.Unblocks += "; if it has not started by the expected time, it ends as skipped"
		r.Expected = v.Fire.StartBy
	}
	r.Args = args{"limit": r.What, "holder": r.Holder}
	x.add(r)
	return nil
}

// waitsFor is the oldest run that is through where v waits: at the gate of its trigger, or at
// that of its workflow. It is zero if there is none among those that are looked at.
func (e *Engine) waitsFor(ctx context.Context, v *RunView, atTrigger bool) (oldest dag.RunID, err error) {
	q := store.RunQuery{Workflow: v.Workflow.ID, States: []string{store.StateActive}, Limit: 1000}
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

// isDue reports whether the try after an attempt is due. A task that waits for a person's decision has no
// such time.
func isDue(a *dag.AttemptRow, now dag.Micros) bool { return a.RetryAt != 0 && a.RetryAt <= now }

// explainHeld covers a task with an open attempt, or one that waits for its next try.
func (e *Engine) explainHeld(v *RunView, t *TaskView, x *explaining) {
	a := &t.Attempts[len(t.Attempts)-1]
	if t.State == dag.RetryWait && a.Cause == dag.CauseAsk {
		x.add(Reason{Kind: "operator", Code: "lost_asks", Args: args{"task": t.Name},
			Actions: on(v.ID, t.Name, "retry", "skip", "mark"),
			What:    fmt.Sprintf("task %s lost its handler and waits for a person (on_lost: ask)", t.Name),
			Since:   a.Finished, Unblocks: "skein task retry, skip or mark " + a.Run.String() + "/" + t.Name})
		return
	}
	if t.State == dag.RetryWait {
		r := Reason{Kind: "retry",
			Args:  args{"task": t.Name, "attempt": a.Token.Number(), "why": describe(&a.AttemptRow)},
			What:  fmt.Sprintf("task %s failed (%s) and is tried again", t.Name, describe(&a.AttemptRow)),
			Since: a.Finished, Unblocks: "time", Expected: a.RetryAt}
		if a.State == dag.AttemptLost {
			r.What = fmt.Sprintf("task %s was lost again (%s) and is dispatched again", t.Name, describe(&a.AttemptRow))
			r.Unblocks = "time, or skein task retry " + a.Run.String() + "/" + t.Name
			r.Code, r.Actions = "lost_again", on(v.ID, t.Name, "retry")
		}
		if v.Intent == dag.IntentPause { // no time can be given for the end of a pause
			r.What += ", once its run continues"
			r.Unblocks, r.Expected = "skein run resume "+v.ID.String(), 0
			r.Actions = on(v.ID, "", "resume")
			if a.RetryAt > x.now {
				r.Unblocks += "; it is tried no sooner than " + a.RetryAt.Time().UTC().Format(time.RFC3339)
			}
		}
		x.add(r)
		return
	}
	r := Reason{Kind: "running", Code: "attempt_" + t.State.String(),
		Args:    args{"task": t.Name, "attempt": a.Token.Number(), "node": a.By.Node},
		Actions: on(v.ID, t.Name, "stop"),
		What:    fmt.Sprintf("task %s, attempt %s, is %s", t.Name, a.Token.Name(), t.State),
		Holder:  a.By.Node + " (" + store.PublicID(a.By.UUID) + ")", Since: max(a.Assigned, a.Started), Unblocks: "the end of that attempt"}
	if e.reads() {
		r.What = fmt.Sprintf("task %s, attempt %s, was %s on a node that is gone; it is lost", t.Name, a.Token.Name(), t.State)
		r.Unblocks, r.Code, r.Actions = startServer, "attempt_gone", nil
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

func (e *Engine) explainTask(ctx context.Context, v *RunView, t *TaskView, x *explaining) error {
	switch t.State {
	case dag.Assigned, dag.Running:
		e.explainHeld(v, t, x)
		return nil
	case dag.RetryWait:
		if v.Intent == dag.IntentRun && x.again[t.ID] {
			return e.explainReady(ctx, v, t, x)
		}
		_, err := e.explainIntent(ctx, v, x)
		e.explainHeld(v, t, x)
		return err
	case dag.Deferred:
		return e.explainDeferred(ctx, v, t, x)
	case dag.Ready:
		if err := e.explainReady(ctx, v, t, x); err != nil {
			return err
		}
		return e.explainStartBy(ctx, v, x, t.ID)
	case dag.Pending:
		if _, err := e.explainIntent(ctx, v, x); err != nil {
			return err
		}
		return e.explainNeeds(ctx, v, t, x)
	}
	return e.explainEnded(ctx, v, t, x)
}

// explainReady says what a task waits for that needs nothing more but to be handed over.
func (e *Engine) explainReady(ctx context.Context, v *RunView, t *TaskView, x *explaining) error {
	if complete, err := e.explainIntent(ctx, v, x); complete || v.Intent != dag.IntentRun || err != nil {
		return err
	}
	if groups, err := e.misplaced(ctx, v, x, t.ID); len(groups) == 0 || err != nil {
		return err
	}
	if n, err := e.explainShares(ctx, v, t.Name, x); n > 0 || err != nil {
		return err
	}
	q := wanting{run: v, task: t.ID, place: x.g.Policy(t.ID).Place, what: "it is ready and waits for a slot", since: t.Modified}
	if n := len(t.Attempts); n > 0 && t.Attempts[n-1].RetryAt != 0 { // the owner calls it ready
		a := &t.Attempts[n-1]
		q.what, q.since = fmt.Sprintf("its next try is due (%s) and waits for a slot", describe(&a.AttemptRow)), a.RetryAt
	}
	r, err := e.roomReason(ctx, q)
	if err != nil {
		return err
	}
	x.add(r)
	return nil
}

func (e *Engine) explainNeeds(ctx context.Context, v *RunView, t *TaskView, x *explaining) error {
	needs := false
	for _, n := range x.g.Needs(t.ID) {
		s := x.views[n].State
		if s.Terminal() {
			continue
		}
		needs = true
		if s == dag.Ready && x.views[n].Token != 0 { // it may be its next try that is due
			need, err := e.viewOf(ctx, v, n, x)
			if err != nil {
				return err
			}
			s = need.State
		}
		x.add(Reason{Kind: "needs", Args: args{"task": x.g.Name(n), "state": s.String()},
			What: fmt.Sprintf("it needs task %s, which is %s", x.g.Name(n), s), Holder: x.g.Name(n),
			Since: v.SplitAt, Unblocks: "the end of task " + x.g.Name(n)})
		if len(x.Reasons) == reasonsMax {
			break
		}
	}
	if !needs && v.Intent == dag.IntentRun { // a step decides such a task at once, unless its condition is costly
		x.add(Reason{Kind: "evaluating", Args: args{"task": t.Name},
			What: "its condition costs more than a step may take, and is being evaluated outside of the step", Since: t.Modified,
			Unblocks: "the result of the condition"})
	}
	return nil
}
