package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// OrphanCommand is an operator's decision about the orphans of a task: the handles for whose release its run
// no longer waits.
type OrphanCommand struct {
	Run     dag.RunID
	Task    string    // its name
	Token   dag.Token // the attempt; 0 stands for all attempts of the task that have orphans
	Dismiss bool      // true removes the orphans and stops their errands; false tries their errands again
	Actor   string
	Reason  string
}

// OnOrphans carries out a decision about orphans. It returns ErrConflict if the task has none.
func OnOrphans(ctx context.Context, e *Engine, c OrphanCommand) error {
	if err := checkTexts("reason", c.Reason, "actor", c.Actor, "task", c.Task); err != nil {
		return err
	}
	row, err := e.store.Run(ctx, c.Run)
	if err != nil {
		return errkind.FromStore("run "+c.Run.String(), err)
	}
	done := false
	_, err = e.writer.inbox.send(ctx, item{run: c.Run, op: func(w *writer) answer {
		var err error
		if row.State.Terminal() && row.Cause == dag.CauseCorrupt {
			err = w.calls.onBuried(&row, &c, &done)
		} else {
			err = w.calls.onOrphans(&c, &done)
		}
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
	return o.found(found, done)
}

// found returns the answer to a decision.
func (o *OrphanCommand) found(found bool, done *bool) error {
	if !found && !*done {
		return fmt.Errorf("%w: task %s of run %s has no orphan%s; skein task orphans lists all orphans", errkind.ErrConflict, o.Task, o.Run, ofAttempt(o.Token))
	}
	*done = true
	return nil
}

// onBuried applies a decision about the orphans of a quarantined run. Such a run cannot step, so a dismissal
// removes the handle from the row of the attempt.
func (c *calls) onBuried(row *dag.RunRow, o *OrphanCommand, done *bool) error {
	if c.held(row.Shard) == nil {
		return &errkind.Elsewhere{Shard: row.Shard}
	}
	g, err := c.graphs.Of(row)
	if err != nil {
		return err
	}
	t, ok := g.Find(o.Task)
	if !ok {
		return errkind.NoTask(o.Task, o.Run)
	}
	attempts, err := c.store.Attempts(context.Background(), store.AttemptQuery{Run: row.ID, Task: t, One: true, Outputs: true, Sparing: true})
	if err != nil {
		return errkind.FromStore("read the attempts of task "+o.Task, err)
	}
	found := false
	for i := range attempts {
		a := &attempts[i]
		h, ok := dag.HandleOf(a)
		if !ok || o.Token != 0 && a.Token != o.Token {
			continue
		}
		errand, err := c.store.Run(context.Background(), dag.ChildID(a))
		if errors.Is(err, store.ErrNotFound) || err == nil && errand.State == dag.RunSucceeded {
			continue
		}
		if err != nil {
			return errkind.FromStore("read the errand", err)
		}
		found = true
		switch {
		case o.Dismiss:
			err = c.dismissBuried(row, a, &h, o)
		case errand.State.Terminal():
			err = c.recoverErrand(&errand)
		}
		if err != nil {
			return err
		}
	}
	return o.found(found, done)
}

func (c *calls) dismissBuried(row *dag.RunRow, a *dag.AttemptRow, h *dag.Handle, o *OrphanCommand) error {
	tx := c.txn()
	next := *a
	next.Outputs = nil
	tx.batch.AttemptUpdates = append(tx.batch.AttemptUpdates, dag.AttemptUpdate{AttemptRow: next, Was: a.State})
	tx.batch.Events = append(tx.batch.Events, dag.EventRow{Run: row.ID, Workflow: row.Workflow, Version: row.Version, Seq: c.held(row.Shard).Seq + 1, At: tx.now.Wall, Records: dag.PackRecords([]dag.Record{
		{Kind: dag.RecReleased, Task: a.Task, Token: a.Token, Text: h.Text, Actor: o.Actor, Reason: clean(o.Reason)}})})
	tx.addressed = append(tx.addressed, row.Shard)
	return c.stopErrand(a)
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
	return c.stopErrand(a)
}

func (c *calls) stopErrand(a *dag.AttemptRow) error {
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
	case errors.Is(err, store.ErrNotFound): // the errand was never started, or retention has deleted it
		return c.errand(r, errandFor(r.ID, a, h.Text))
	case err != nil:
		return errkind.FromStore("read the errand", err)
	case !row.State.Terminal():
		return nil
	}
	return c.recoverErrand(&row)
}

// recoverErrand makes an errand that has ended try again.
func (c *calls) recoverErrand(row *dag.RunRow) error {
	return c.sendChild(letter{Child: &childLetter{Workflow: row.Workflow, Start: &childStart{Run: row.ID, Generation: row.Generation + 1, Workflow: row.Workflow}}})
}

// QuarantinedWhy says why the handle of a quarantined run is an orphan.
const QuarantinedWhy = "its run was quarantined"

const (
	// leftMax bounds the handles of a quarantined run that become orphans.
	leftMax = 1000
	// leftLetters is the number of errands whose starts share one message.
	leftLetters = 50
)

// leftovers are the handles of a run that is being quarantined.
type leftovers struct {
	all     []dag.Orphan
	records []dag.Record
	starts  []letter
	to      dag.ShardID // the shard of the errands
}

// leftBehind returns the handles among the attempts of a run that is being quarantined, except those that are
// orphans already. The rows of the attempts stay as they are. If the graph of the run cannot be read,
// leftBehind returns nothing. An error is one of the store.
func leftBehind(w *writer, row *dag.RunRow, attempts []dag.AttemptRow) (l leftovers, err error) {
	g, err := w.e.graphs.Of(row)
	if err != nil {
		return l, nil
	}
	r := dag.NewRun(row.Header)
	r.Graph = g
	for i := range attempts {
		a := &attempts[i]
		if a.Task < 0 || int(a.Task) >= g.Len() || len(l.all) == leftMax || !g.Policy(a.Task).Handles() {
			continue
		}
		h, ok := dag.HandleOf(a)
		if !ok || h.State == dag.HandleOrphan {
			continue
		}
		l.all = append(l.all, dag.Orphan{Run: row.ID, Task: g.Name(a.Task), Token: a.Token, Handle: h.Text, Why: QuarantinedWhy})
		l.records = append(l.records, dag.Record{Kind: dag.RecOrphan, Task: a.Task, Token: a.Token, Text: h.Text, Reason: QuarantinedWhy})
		if id, err := w.defs.releasing(); err != nil || id == 0 {
			return l, err
		}
		space, err := w.spaces.of(r)
		if err != nil {
			return l, err
		}
		start, err := w.calls.errandStart(&row.Header, g, space.Place(g.Policy(a.Task).Place), errandFor(row.ID, a, h.Text))
		if err != nil {
			return l, err
		}
		l.starts = append(l.starts, letter{Child: &childLetter{Workflow: start.Workflow, Start: start}})
	}
	if len(l.starts) > 0 {
		wf, err := w.defs.workflow(w.defs.release)
		l.to = wf.Shard
		return l, err
	}
	return l, nil
}

// errandFor returns the errand for the handle of an attempt.
func errandFor(run dag.RunID, a *dag.AttemptRow, handle string) *dag.Errand {
	return &dag.Errand{Handle: handle, Attempt: dag.AttemptRow{Run: run, Task: a.Task, Token: a.Token, Assigned: a.Assigned}}
}

// messages returns the messages that start the errands. They are written in the transaction that ends the
// run, so the handles are in the list of orphans however this process ends.
func (l *leftovers) messages(from dag.ShardID, at dag.Micros) (all []store.Message) {
	for some := range slices.Chunk(l.starts, leftLetters) {
		all = append(all, store.Message{From: from, To: l.to, Payload: envelope(some), Created: at})
	}
	return all
}

// posted makes the owner of the errands read the messages.
func (l *leftovers) posted(w *writer) error {
	switch {
	case len(l.starts) == 0:
		return nil
	case w.held(l.to) != nil:
		return w.collect(context.Background())
	default:
		w.e.cfg.Peers.Nudge(l.to)
		return nil
	}
}

// buryLater makes the workflow of errands, which is missing, and then ends a quarantined run. If this process
// ends before, the next owner of the run does the same.
func buryLater(w *writer, row *dag.RunRow, cause error) {
	c, id, shard := &w.calls, row.ID, row.Shard
	c.helper(func(ctx context.Context) {
		for ctx.Err() == nil {
			err := c.makeErrands(ctx)
			if err == nil {
				_, err = c.inbox.send(ctx, item{ask: func(w *writer) error {
					if w.held(shard) == nil {
						return nil
					}
					err := w.quarantine(id, cause)
					if err != nil {
						w.unsure = errors.Join(w.unsure, err)
					}
					return err
				}})
			}
			if err == nil {
				return
			}
			if times := c.hindrance.count(err.Error(), c.host.Now()); times > 0 {
				c.log.Warn("a handle cannot be released yet, because the workflow system/release does not exist", "code", "release_missing",
					"run", id.String(), "times", times, "err", err)
			}
			c.host.Await(ctx, nil, releasePause)
		}
	})
}
