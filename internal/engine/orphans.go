package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// OrphanCommand is an operator's decision about the orphans of a task: the handles for whose release its run
// no longer waits.
type OrphanCommand struct {
	Run     dag.RunID
	Task    string    // its name
	Token   dag.Token // the attempt; 0: all attempts of the task that have orphans
	Dismiss bool      // remove the orphans and stop their errands; false: try their errands again
	Actor   string
	Reason  string
}

// OnOrphans carries out a decision about orphans. It returns ErrConflict if the task has none.
func OnOrphans(ctx context.Context, e *Engine, c OrphanCommand) error {
	if err := checkTexts("reason", c.Reason, "actor", c.Actor, "task", c.Task); err != nil {
		return err
	}
	if _, err := e.store.Run(ctx, c.Run); err != nil {
		return errkind.FromStore("run "+c.Run.String(), err)
	}
	done := false
	_, err := e.writer.inbox.send(ctx, item{run: c.Run, op: func(w *writer) answer {
		err := w.calls.onOrphans(&c, &done)
		return answer{run: c.Run, err: err}
	}})
	return err
}

// onOrphans applies a decision. done says that it was applied before, in a transaction whose outcome was
// unknown: a second application then finds nothing to do.
func (c *calls) onOrphans(o *OrphanCommand, done *bool) error {
	r := c.inMemory()[o.Run]
	if r == nil {
		var err error
		if r, err = c.revive(o.Run); err != nil {
			return err
		}
		defer func() {
			if r.Pending() == 0 && !c.txn().touches(r) {
				delete(c.inMemory(), r.ID)
			}
		}()
	}
	if r.Graph == nil {
		return noTask(r, o.Task)
	}
	t, ok := r.Graph.Find(o.Task)
	if !ok {
		return noTask(r, o.Task)
	}
	found := false
	for _, a := range dag.OrphansOf(r, t) {
		if o.Token != 0 && a.Token != o.Token {
			continue
		}
		found = true
		err := c.tryAgain(r, &a)
		if o.Dismiss {
			err = c.dismiss(r, &a, o)
		}
		if err != nil {
			return err
		}
	}
	if !found && !*done {
		return fmt.Errorf("%w: task %s of run %s has no orphan%s; skein task orphans lists all orphans", errkind.ErrConflict, o.Task, o.Run, ofAttempt(o.Token))
	}
	*done = true
	return nil
}

func ofAttempt(t dag.Token) string {
	if t == 0 {
		return ""
	}
	return fmt.Sprintf(" of attempt %d", t.Number())
}

// dismiss removes an orphan, and stops its errand so that the errand cannot end other work of the same name.
func (c *calls) dismiss(r *dag.Run, a *dag.AttemptRow, o *OrphanCommand) error {
	ev := dag.Event{Kind: dag.EvReleased, Task: a.Task, Token: a.Token, Actor: o.Actor, Reason: clean(o.Reason)}
	if r.Unfinished() {
		c.stepSelf(r, ev)
	} else {
		c.stepEnded(r, ev)
	}
	errands, err := c.defs.releasing()
	if err != nil || errands == 0 {
		return err
	}
	return c.sendChild(letter{Child: &childLetter{Workflow: errands, Order: &childOrder{Run: dag.ChildID(a), Intent: dag.IntentStop,
		Reason: "its orphan was dismissed"}}})
}

// tryAgain starts the errand of an orphan. If the errand has ended, it is recovered. If it is under way,
// tryAgain changes nothing.
func (c *calls) tryAgain(r *dag.Run, a *dag.AttemptRow) error {
	h, _ := dag.HandleOf(a)
	row, err := c.store.Run(context.Background(), dag.ChildID(a))
	switch {
	case errors.Is(err, store.ErrNotFound): // it was never started, or retention has deleted it
		return c.errand(r, &dag.Errand{Handle: h.Text, Attempt: dag.AttemptRow{Run: r.ID, Task: a.Task, Token: a.Token, Assigned: a.Assigned}})
	case err != nil:
		return errkind.FromStore("read the errand", err)
	case !row.State.Terminal():
		return nil
	}
	return c.sendChild(letter{Child: &childLetter{Workflow: row.Workflow, Start: &childStart{Run: row.ID, Generation: row.Generation + 1, Workflow: row.Workflow}}})
}

// quarantinedWhy says why no errand releases the handles of a quarantined run.
const quarantinedWhy = "its run was quarantined, so no errand releases it"

// outsideTasksMax bounds the tasks whose handles are read when their run is quarantined.
const outsideTasksMax = 1000

// leftBehind returns the handles of a run that is being quarantined, except those that are reported as
// orphans already, and the records of its history that name them. The rows of the attempts stay as they
// are. If the rows or the graph cannot be read, leftBehind returns nothing.
func leftBehind(ctx context.Context, w *writer, row *dag.RunRow) (all []dag.Orphan, records []dag.Record) {
	g, err := w.e.graphs.Of(row)
	if err != nil {
		return nil, nil
	}
	attempts, err := w.e.store.Attempts(ctx, store.AttemptQuery{Run: row.ID})
	if err != nil {
		return nil, nil
	}
	tasks := map[dag.TaskID]bool{}
	for i := range attempts {
		a := &attempts[i]
		if a.Task < 0 || int(a.Task) >= g.Len() || tasks[a.Task] || len(tasks) == outsideTasksMax || !g.Policy(a.Task).Handles() {
			continue
		}
		tasks[a.Task] = true
		rows, err := w.e.store.Attempts(ctx, store.AttemptQuery{Run: row.ID, Task: a.Task, One: true, Outputs: true, Sparing: true})
		if err != nil {
			continue
		}
		for j := range rows {
			h, ok := dag.HandleOf(&rows[j])
			if !ok || h.State == dag.HandleOrphan {
				continue
			}
			all = append(all, dag.Orphan{Run: row.ID, Task: g.Name(a.Task), Token: rows[j].Token, Handle: h.Text, Why: quarantinedWhy})
			records = append(records, dag.Record{Kind: dag.RecOrphan, Task: a.Task, Token: rows[j].Token, Text: h.Text, Reason: quarantinedWhy})
		}
	}
	return all, records
}
