package engine

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// Reason is one answer to "why does it not move?". Zero times do not apply.
type Reason struct {
	Kind     string // ended, paused, stopping, splitting, needs, slot, retry, running
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

// reasonsMax bounds an explanation.
const reasonsMax = 50

// Explain says why a run, or one task of it, stands where it stands.
func (e *Engine) Explain(ctx context.Context, id dag.RunID, task string) (Explanation, error) {
	v, err := e.GetRun(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	x := Explanation{ID: id.String(), State: v.State.String()}
	if task == "" {
		return x, e.explainRun(ctx, &v, &x)
	}
	t, err := e.Task(ctx, id, task)
	if err != nil {
		return x, err
	}
	x.ID, x.State = id.String()+"/"+task, t.State.String()
	return x, e.explainTask(ctx, &v, &t, &x)
}

func (x *Explanation) add(r Reason) {
	if len(x.Reasons) < reasonsMax {
		x.Reasons = append(x.Reasons, r)
	}
}

func (e *Engine) explainRun(ctx context.Context, v *RunView, x *Explanation) error {
	if e.explainIntent(v, x) {
		return nil
	}
	if v.SplitAt == 0 {
		x.add(Reason{Kind: "splitting", What: "the Leader makes tasks of it", Since: v.Created, Holder: e.cfg.Node, Unblocks: "the end of that work"})
		return nil
	}
	tasks, _, err := e.Tasks(ctx, v.ID, 0, -1)
	if err != nil {
		return err
	}
	ready := 0
	for i := range tasks {
		switch t := &tasks[i]; t.State {
		case dag.Ready:
			ready++
		case dag.Assigned, dag.Running, dag.RetryWait:
			e.explainHeld(t, x)
		}
	}
	if ready > 0 && v.Intent == dag.IntentRun {
		x.add(e.slotReason(fmt.Sprintf("%d of its tasks are ready", ready), v.Modified))
	}
	return nil
}

// explainIntent covers what is true of the whole run, whatever its tasks do.
func (e *Engine) explainIntent(v *RunView, x *Explanation) (complete bool) {
	switch {
	case v.State.Terminal():
		what := "it has ended: " + v.State.String()
		if v.Message != "" {
			what += " (" + v.Message + ")"
		}
		x.add(Reason{Kind: "ended", What: what, Since: v.FinishedAt, Unblocks: "nothing; start it again with skein run"})
		return true
	case v.State == dag.RunPaused:
		x.add(Reason{Kind: "paused", What: "it is paused: nothing runs and nothing new starts", Since: v.Modified, Unblocks: "skein run resume " + v.ID.String()})
		return true
	case v.Intent == dag.IntentPause:
		x.add(Reason{Kind: "paused", What: "it is being paused: what runs finishes, nothing new starts", Since: v.Modified, Unblocks: "skein run resume " + v.ID.String()})
	case v.Intent >= dag.IntentStop:
		x.add(Reason{Kind: "stopping", What: "it is being ended (" + v.Intent.String() + "): nothing new starts", Since: v.Modified, Unblocks: "the end of the attempts that still run"})
	}
	return false
}

// explainHeld covers a task that somebody has, or that waits for its next try.
func (e *Engine) explainHeld(t *TaskView, x *Explanation) {
	a := &t.Attempts[len(t.Attempts)-1]
	if t.State == dag.RetryWait {
		x.add(Reason{Kind: "retry", What: fmt.Sprintf("task %s failed (%s) and is tried again", t.Name, describe(&a.AttemptRow)),
			Since: a.Finished, Unblocks: "time", Expected: a.RetryAt})
		return
	}
	x.add(Reason{Kind: "running", What: fmt.Sprintf("task %s, attempt %d, is %s", t.Name, a.Token, t.State),
		Holder: a.By.Node + " (" + a.By.UUID + ")", Since: max(a.Assigned, a.Started), Unblocks: "the end of that attempt"})
}

func describe(a *dag.AttemptRow) string {
	switch {
	case a.Exited:
		return fmt.Sprintf("exit %d", a.ExitCode)
	case a.Signal != "":
		return a.Signal
	case a.Message != "":
		return a.Message
	}
	return string(a.Cause)
}

func (e *Engine) slotReason(what string, since dag.Micros) Reason {
	busy := int64(e.cfg.Slots) - max(e.home.free.Load(), 0)
	return Reason{Kind: "slot", What: fmt.Sprintf("%s and wait for a slot: %d of %d are busy, %d runs have ready tasks", what, busy, e.cfg.Slots, e.stats.ReadyTasks.Load()),
		Holder: e.cfg.Node, Since: since, Unblocks: "the end of any running attempt; more slots: --slots"}
}

func (e *Engine) explainTask(ctx context.Context, v *RunView, t *TaskView, x *Explanation) error {
	switch t.State {
	case dag.Assigned, dag.Running, dag.RetryWait:
		e.explainHeld(t, x)
	case dag.Ready:
		if !e.explainIntent(v, x) && v.Intent == dag.IntentRun {
			x.add(e.slotReason("it is ready", t.Modified))
		}
	case dag.Pending:
		e.explainIntent(v, x)
		return e.explainNeeds(ctx, v, t, x)
	default:
		what := "it has ended: " + t.State.String()
		if n := len(t.Attempts); n > 0 && t.State == dag.Failed {
			what += " (" + describe(&t.Attempts[n-1].AttemptRow) + ")"
		} else if t.Cause != "" {
			what += " (" + t.Cause + ")"
		}
		x.add(Reason{Kind: "ended", What: what, Since: t.Modified, Unblocks: "nothing; start the run again with skein run"})
	}
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
