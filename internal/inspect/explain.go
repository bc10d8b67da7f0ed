package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Reason is one reason why a run or task does not continue. A time that does not apply is zero.
type Reason struct {
	// Kind is one of ended, paused, stopping, limit, queue, lock, splitting, needs, slot, place, resources,
	// retry, operator, running, wait, approval, call, circle, start_deadline, nobody, trigger.
	Kind     string
	What     string // a sentence
	Holder   string // the run, worker or person for which the run or task waits
	Since    dag.Micros
	Unblocks string // the event that ends the wait, or a remedy
	Expected dag.Micros
	Code     string         // the kind of the sentence What; it does not change when the words change
	Args     map[string]any // the values that the sentence names
	Actions  []Action       // the remedies that a person can apply
}

// Action is a verb that would let the run continue. Its object is the first of these that is set: the task,
// the queue, the trigger, the workflow, the run.
type Action struct {
	Verb     string // the verb as in the address of its route, such as retry
	Run      dag.RunID
	Task     string
	Queue    string
	Workflow *store.Workflow
	Trigger  string // a trigger of Workflow
}

// on returns actions on one task of a run, or on the run if the task is "".
func on(run dag.RunID, task string, verbs ...string) []Action {
	all := make([]Action, len(verbs))
	for i, verb := range verbs {
		all[i] = Action{Verb: verb, Run: run, Task: task}
	}
	return all
}

// args are the values that a sentence names.
type args = map[string]any

// Explanation holds the state of a run or a task and all reasons for this state.
type Explanation struct {
	ID      string
	State   string
	Reasons []Reason
}

const (
	// reasonsMax bounds an explanation.
	reasonsMax = 50
	// goingMax bounds the reasons about tasks that have started or wait for something outside of the run, so
	// that other reasons have room, too.
	goingMax = 40
)

// holderPages bounds the search for the run for which another run waits, in pages of 1,000 runs.
const holderPages = 10

// explaining is an explanation under construction, with its sources.
type explaining struct {
	Explanation
	*Sight // nil until the tasks of the run have been read
	rd     *Reader
	run    *RunView
}

// Explain returns the reasons for the present state of a run, or of one of its tasks.
func (rd *Reader) Explain(ctx context.Context, id dag.RunID, task string) (Explanation, error) {
	run, err := rd.outline(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	x := &explaining{rd: rd, run: &run, Explanation: Explanation{ID: id.String(), State: run.State.String()}}
	if task == "" {
		if !run.State.Terminal() {
			x.explainNobody()
		}
		if err := x.explainRun(ctx); err != nil {
			return x.Explanation, err
		}
		return x.Explanation, x.explainCircle(ctx)
	}
	t, err := x.taskOf(ctx, task)
	if errors.Is(err, errkind.ErrNotFound) && run.SplitAt == 0 && x.declares(task) { // the run has no tasks yet, and the reason is the same
		x.ID = id.String() + "/" + task
		err = x.explainRun(ctx)
		return x.Explanation, err
	}
	if err != nil {
		return x.Explanation, err
	}
	x.ID, x.State = id.String()+"/"+task, t.State.String()
	if !t.State.Terminal() {
		x.explainNobody()
	}
	err = x.explainTask(ctx, &t)
	return x.Explanation, err
}

// startServer is the remedy if no server runs.
const startServer = "a server over this data folder: skein server"

// explainNobody adds a reason if no server runs over the data folder.
func (x *explaining) explainNobody() {
	if x.rd.unserved() {
		x.add(Reason{Kind: "nobody", Code: "no_server",
			What:     "no server holds the data folder: no attempt runs or starts",
			Unblocks: startServer})
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

func (x *explaining) explainRun(ctx context.Context) error {
	if complete, err := x.explainIntent(ctx); complete || err != nil {
		return err
	}
	if x.run.Claim != nil && (x.run.Claim.Stage == dag.ClaimAsked || x.run.Claim.Stage == dag.ClaimAgain) {
		return x.explainClaim(ctx)
	}
	if x.run.State == dag.RunWaiting {
		return x.explainWaiting(ctx)
	}
	if x.run.SplitAt == 0 {
		r := Reason{Kind: "splitting", What: "the Leader is making its tasks", Since: x.run.Created, Holder: x.rd.cfg.Node, Unblocks: "the end of that work"}
		if x.rd.unserved() {
			r.What, r.Holder, r.Unblocks = "its tasks are not made yet", "", startServer
		}
		x.add(r)
		return nil
	}
	if err := x.look(ctx, dag.LeaderTask); err != nil {
		return err
	}
	owing, err := x.explainErrands(ctx, x.tasks()...)
	if err != nil {
		return err
	}
	waiting, err := x.explainGoing(ctx)
	if err != nil {
		return err
	}
	waiting = slices.DeleteFunc(waiting, func(t dag.TaskID) bool { return slices.Contains(owing, t) })
	if len(waiting) > 0 && x.run.Intent == dag.IntentRun {
		groups, err := x.misplaced(ctx, waiting...)
		if err != nil {
			return err
		}
		queued, err := x.explainShares(ctx, "")
		if err != nil {
			return err
		}
		if err := x.explainSlots(ctx, groups, queued); err != nil {
			return err
		}
	}
	return x.explainStartBy(ctx, waiting...)
}

// explainGoing explains the tasks that have started or wait for something outside of the run. It returns the
// tasks that wait for a slot.
func (x *explaining) explainGoing(ctx context.Context) (waiting []dag.TaskID, err error) {
	looks := 0
	for t := range x.Views {
		t := dag.TaskID(t)
		switch state := x.Views[t].State; {
		case x.run.Intent == dag.IntentRun && (state == dag.Ready || x.Again[t]),
			state == dag.Ready && (x.Views[t].Token == 0 || looks >= goingMax):
			waiting = append(waiting, t)
		case len(x.Reasons) >= goingMax:
		case state == dag.RetryWait, state == dag.Deferred, state == dag.Ready, state.Held():
			looks++
			task, err := x.viewOf(ctx, t)
			if err != nil {
				return nil, err
			}
			if len(task.Attempts) == 0 || task.State == dag.Ready { // the state of the task has changed in the meantime
				waiting = append(waiting, t)
			} else if state != dag.Deferred {
				x.explainHeld(&task)
			} else if err := x.explainDeferred(ctx, &task); err != nil {
				return nil, err
			}
		}
	}
	return waiting, nil
}

// explainWaiting names the limit at which a run waits, and the runs that the limit has admitted.
func (x *explaining) explainWaiting(ctx context.Context) error {
	r := Reason{Kind: "limit", Code: "run_limit", What: "a limit on concurrent runs holds the run back",
		Since: x.run.Created, Unblocks: "the end of an active run"}
	rows, err := x.rd.store.Events(ctx, x.run.ID, 0, 1)
	if err != nil {
		return errkind.FromStore("read the run's history", err)
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
	holder, err := x.waitsFor(ctx, strings.HasPrefix(r.What, "trigger "))
	if err != nil {
		return err
	}
	if holder != (dag.RunID{}) {
		r.Holder = "run " + holder.String()
	}
	if x.run.Fire != nil && x.run.Fire.StartBy != 0 {
		r.Unblocks += "; if it has not started by the expected time, it ends as skipped"
		r.Expected = x.run.Fire.StartBy
	}
	r.Args = args{"limit": r.What, "holder": r.Holder}
	x.add(r)
	return nil
}

// waitsFor returns the oldest admitted run at the gate where this run waits. The gate belongs to the trigger
// or to the workflow. It returns the zero ID if no admitted run is among the runs that it reads.
func (x *explaining) waitsFor(ctx context.Context, atTrigger bool) (oldest dag.RunID, err error) {
	q := store.RunQuery{Workflow: x.run.Workflow.ID, States: []string{store.StateActive}, Limit: 1000}
	for range holderPages {
		page, err := x.rd.store.Runs(ctx, q)
		if err != nil {
			return oldest, errkind.FromStore("list the workflow's runs", err)
		}
		for i := range page.Runs { // newest first
			o := &page.Runs[i]
			if o.ID == x.run.ID || o.State == dag.RunWaiting || o.State == dag.RunSubmitted {
				continue
			}
			if atTrigger && (x.run.Fire == nil || o.Fire == nil || o.Fire.Trigger != x.run.Fire.Trigger || o.Fire.Backfill != 0) {
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

// explainHeld explains a task with an open attempt, or one that waits for its next try.
func (x *explaining) explainHeld(t *TaskView) {
	a := &t.Attempts[len(t.Attempts)-1]
	if t.State == dag.RetryWait && a.Cause == dag.CauseAsk {
		x.add(Reason{Kind: "operator", Code: "lost_asks", Args: args{"task": t.Name},
			Actions: on(x.run.ID, t.Name, "retry", "skip", "mark"),
			What:    fmt.Sprintf("task %s lost its handler and waits for a person (on_lost: ask)", t.Name),
			Since:   a.Finished, Unblocks: "skein task retry, skip or mark " + a.Run.String() + "/" + t.Name})
		return
	}
	if t.State == dag.RetryWait {
		r := Reason{Kind: "retry",
			Args:  args{"task": t.Name, "attempt": a.Token.Number(), "why": describe(&a.AttemptRow)},
			What:  fmt.Sprintf("task %s failed (%s) and is tried again", t.Name, describe(&a.AttemptRow)),
			Since: a.Finished, Unblocks: "the end of the delay", Expected: a.RetryAt}
		if a.State == dag.AttemptLost {
			r.What = fmt.Sprintf("task %s was lost again (%s) and is dispatched again", t.Name, describe(&a.AttemptRow))
			r.Unblocks = "the end of the delay, or skein task retry " + a.Run.String() + "/" + t.Name
			r.Code, r.Actions = "lost_again", on(x.run.ID, t.Name, "retry")
		}
		if x.run.Intent == dag.IntentPause { // the end of a pause is unknown
			r.What += ", once its run continues"
			r.Unblocks, r.Expected = "skein run resume "+x.run.ID.String(), 0
			r.Actions = on(x.run.ID, "", "resume")
			if a.RetryAt > x.Now {
				r.Unblocks += "; the task is tried again at the earliest at " + a.RetryAt.Time().UTC().Format(time.RFC3339)
			}
		}
		x.add(r)
		return
	}
	r := Reason{Kind: "running", Code: "attempt_" + t.State.String(),
		Args:    args{"task": t.Name, "attempt": a.Token.Number(), "node": a.By.Node},
		Actions: on(x.run.ID, t.Name, "stop"),
		What:    fmt.Sprintf("task %s, attempt %s, is %s", t.Name, a.Token.Name(), t.State),
		Holder:  a.By.Node + " (" + store.PublicID(a.By.UUID) + ")", Since: max(a.Assigned, a.Started), Unblocks: "the end of that attempt"}
	if t.State == dag.Assigned && x.rd.cfg.Waits != nil {
		if why := x.rd.cfg.Waits(x.run.ID, t.ID, a.Token); why != "" {
			r.What, r.Code, r.Args["reason"] = r.What+" and waits: "+why, "attempt_waits", why
		}
	}
	if x.rd.unserved() {
		r.What = fmt.Sprintf("task %s, attempt %s, was %s on a node that is gone; it is lost", t.Name, a.Token.Name(), t.State)
		r.Unblocks, r.Code, r.Actions = startServer, "attempt_gone", nil
	}
	x.add(r)
}

// describe returns the reason of a failed attempt. It returns only the exit code or the signal if nothing
// more is known.
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

func (x *explaining) explainTask(ctx context.Context, t *TaskView) error {
	if t.State == dag.Ready || t.State == dag.RetryWait {
		if owing, err := x.explainErrands(ctx, t.ID); len(owing) > 0 || err != nil {
			return err
		}
	}
	switch t.State {
	case dag.Assigned, dag.Running:
		x.explainHeld(t)
		return nil
	case dag.RetryWait:
		if x.run.Intent == dag.IntentRun && x.Again[t.ID] {
			return x.explainReady(ctx, t)
		}
		_, err := x.explainIntent(ctx)
		x.explainHeld(t)
		return err
	case dag.Deferred:
		return x.explainDeferred(ctx, t)
	case dag.Ready:
		if err := x.explainReady(ctx, t); err != nil {
			return err
		}
		return x.explainStartBy(ctx, t.ID)
	case dag.Pending:
		if _, err := x.explainIntent(ctx); err != nil {
			return err
		}
		return x.explainNeeds(ctx, t)
	}
	return x.explainEnded(ctx, t)
}

// explainReady returns the reasons of a task that is ready and only has to be assigned.
func (x *explaining) explainReady(ctx context.Context, t *TaskView) error {
	if complete, err := x.explainIntent(ctx); complete || x.run.Intent != dag.IntentRun || err != nil {
		return err
	}
	if groups, err := x.misplaced(ctx, t.ID); len(groups) == 0 || err != nil {
		return err
	}
	if n, err := x.explainShares(ctx, t.Name); n > 0 || err != nil {
		return err
	}
	q := wanting{task: t.ID, place: x.place(t.ID), what: "the task is ready and waits for a slot", since: t.Modified}
	if n := len(t.Attempts); n > 0 && t.Attempts[n-1].RetryAt != 0 { // the owner's memory shows it as ready
		a := &t.Attempts[n-1]
		q.what, q.since = fmt.Sprintf("the next try of the task is due (%s) and waits for a slot", describe(&a.AttemptRow)), a.RetryAt
	}
	r, err := x.roomReason(ctx, q)
	if err != nil {
		return err
	}
	x.add(r)
	return nil
}

func (x *explaining) explainNeeds(ctx context.Context, t *TaskView) error {
	needs := false
	for _, n := range x.Graph.Needs(t.ID) {
		s := x.Views[n].State
		if s.Terminal() {
			continue
		}
		needs = true
		if s == dag.Ready && x.Views[n].Token != 0 { // the next attempt may be due
			need, err := x.viewOf(ctx, n)
			if err != nil {
				return err
			}
			s = need.State
		}
		x.add(Reason{Kind: "needs", Args: args{"task": x.Graph.Name(n), "state": s.String()},
			What: fmt.Sprintf("the task needs task %s, which is %s", x.Graph.Name(n), s), Holder: x.Graph.Name(n),
			Since: x.run.SplitAt, Unblocks: "the end of task " + x.Graph.Name(n)})
		if len(x.Reasons) == reasonsMax {
			break
		}
	}
	if !needs && x.run.Intent == dag.IntentRun { // a step decides such a task at once, unless its condition is costly
		x.add(Reason{Kind: "evaluating", Args: args{"task": t.Name},
			What: "the condition of the task is costly, and is evaluated outside of the scheduler", Since: t.Modified,
			Unblocks: "the result of the condition"})
	}
	return nil
}
