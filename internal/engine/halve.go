package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// halve handles a transaction whose content the store refused, or in which a bug occurred. It restores memory
// from the rows. The next transaction has half as many items. This repeats until the faulty item or
// assignment is alone.
func (w *writer) halve(ctx context.Context, n int, cause error) error {
	tried := w.tx.tried
	if _, over := quotaRefusal(cause); !over { // the caller whose run exceeds the quota gets the error as its answer
		w.e.log.Warn("a transaction was refused; the node looks for the run at fault", "code", "transaction_refused", "tried", tried, "err", cause)
	}
	var guilty dag.RunID // the run of an assignment that no item has requested
	switch {
	case w.tx.current != nil:
		guilty = w.tx.current.ID
	case len(w.tx.assigns) > 0:
		guilty = w.tx.assigns[0].Run
	}
	if err := w.putBack(ctx); err != nil {
		return w.retake(ctx, 0, err)
	}
	// The faulty run may be one that no item names, because a gate may have admitted it. If the store's error
	// does not name the run, the items are searched.
	if about := (*store.RunError)(nil); errors.As(cause, &about) && about.Run != w.blamed {
		w.blamed = about.Run
		if err := w.quarantine(about.Run, cause); err != nil {
			return w.retake(ctx, 0, err)
		}
		return nil
	}
	if tried > 1 {
		w.itemsMax = max(tried/2, 1)
		return nil
	}
	if w.quotas.refused(cause) { // the items are applied again, and the item gets the answer for a used-up quota
		return nil
	}
	err := error(nil)
	if n == 1 {
		err = w.punish(cause)
	} else {
		err = w.quarantine(guilty, cause)
	}
	if err != nil {
		return w.retake(ctx, 0, err)
	}
	return nil
}

// punish removes the faulty item from the kept items. If the item has new content, its caller gets an error.
// A report settles its attempt without its result. Any other event ends its run.
func (w *writer) punish(cause error) error {
	it := &w.kept[0]
	bug := errors.Is(cause, errkind.ErrPanic)
	err := fmt.Errorf("%w: %w", errkind.ErrInvalid, cause)
	if over, is := quotaRefusal(cause); is {
		err = over
	}
	if bug {
		err = fmt.Errorf("%w: an error in Skein; see the node's log", errkind.ErrUnavailable)
	}
	switch {
	case !bug && it.kind() == dag.EvReport && !it.stripped:
		strip(it)
		return nil
	case !bug && it.submit != nil && !it.refused: // another node may have stored the run meanwhile; then the next try finds it
		it.again, it.refused = true, true
		return nil
	case !bug && it.op != nil && it.mail == 0 && !it.refused: // another owner may have stored the same call in the meantime
		it.refused = true
		return nil
	case it.submit != nil || it.define != nil || it.ask != nil || it.op != nil || !bug && it.done != nil:
	default:
		if err := w.quarantine(it.run, cause); err != nil {
			return err
		}
	}
	if it.mail != 0 { // the message stays in w.reading: it is not read again here, but the next owner may be able to process it
		w.e.log.Error("a message between shards was refused and stays in the database; run skein verify, and report this bug", "code", "message_refused", "message", it.mail, "err", cause)
	}
	it.reply(answer{run: it.run, err: err})
	w.drop(1)
	return nil
}

// strip removes from a report everything that a store could refuse. The attempt then ends with a message that
// says why it has no result.
func strip(it *item) {
	res := &it.ev.Result
	it.stripped = true
	it.ev.Result = dag.Result{State: res.State, Exited: res.Exited, ExitCode: res.ExitCode, TimedOut: res.TimedOut,
		Logged: res.Logged, Started: res.Started, Finished: res.Finished, Message: "the store refused what the attempt reported"}
	if res.State == dag.AttemptSucceeded { // a success whose outputs are lost counts as a failure
		it.ev.Result.State = dag.AttemptFailed
	}
	if it.ev.Result.State == dag.AttemptFailed {
		it.ev.Result.Cause = dag.CauseOutput
	}
}

// putBack undoes the transaction being made, in memory. It loads again the runs that the transaction touched.
// It keeps the items.
func (w *writer) putBack(ctx context.Context) error {
	ids := make([]dag.RunID, 0, len(w.tx.touched)+1)
	if r := w.tx.current; r != nil && !w.tx.touches(r) {
		w.tx.touched = append(w.tx.touched, r)
	}
	for _, r := range w.tx.touched {
		ids = append(ids, r.ID)
		w.queue.Remove(r)
		w.limits.exit(r)
		delete(w.runs, r.ID)
		w.evaluating.drop(r.ID) // the load requests the evaluations again
	}
	for i := range w.tx.assigns {
		w.e.slots.unassign(&w.tx.assigns[i])
	}
	w.quotas.undo()
	w.tx.reset()
	w.defs.forget()
	w.schedule.triggers.forget()
	w.limits.forgetAdmission()
	w.alerts.back()
	w.schedule.due.looked = time.Time{}
	w.limits.gates.reopen()
	if w.unsure != nil {
		return w.unsure
	}
	if err := w.schedule.loadBackfills(ctx); err != nil {
		return err
	}
	return w.reload(ctx, ids)
}

// quarantine ends a run whose rows or events are invalid, in a separate transaction, so that the other runs
// continue. If the store refuses that transaction, too, the engine does not change the run until an operator
// repairs it. If it returns an error, this node must claim its shards again.
func (w *writer) quarantine(id dag.RunID, cause error) error {
	rec := &store.RunRecord{Run: dag.RunRow{Header: dag.Header{ID: id}}}
	if r := w.runs[id]; r != nil {
		_ = errkind.Guarded(func() {
			rec.Attempts = dag.Outside(r)
			r.Held(func(a *dag.AttemptRow) { rec.Attempts = append(rec.Attempts, *a) })
		})
	} else if page, err := w.e.store.Load(context.Background(), store.LoadQuery{IDs: []dag.RunID{id}}); err == nil && len(page) > 0 {
		rec = &page[0]
	}
	return bury(w, rec, cause)
}

// bury puts a run into quarantine. rec contains the attempts that are held or have handles. They come from
// memory or from a load, so bury does not read them.
func bury(w *writer, rec *store.RunRecord, cause error) error {
	ctx, id := context.Background(), rec.Run.ID
	row, err := w.e.store.Run(ctx, id)
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return err
	case err == nil && row.State.Terminal(), errors.Is(err, store.ErrNotFound):
		w.leave(id)
		return nil
	}
	if w.bad[id] == "" {
		w.e.stats.Quarantined.Add(1)
		w.e.log.Error("a run was quarantined; skein explain says what helps", "code", "run_quarantined", "run", id.String(), "err", cause)
		w.killAll(rec)
	}
	w.leave(id)
	w.bad[id] = firstLine(cause.Error())
	if err != nil {
		w.e.log.Error("a quarantined run keeps its state, because its row cannot be read; run skein verify", "code", "quarantine_unread", "run", id.String(), "err", err)
		return nil
	}
	orphans, err := leftBehind(w, &row, rec.Attempts)
	if err != nil {
		return err
	}
	if len(orphans.all) > 0 && w.defs.release == 0 {
		buryLater(w, &row, cause)
		return nil
	}
	return endBuried(w, &row, orphans)
}

// endBuried writes the end of a quarantined run, and the starts of the errands for its handles.
func endBuried(w *writer, row *dag.RunRow, orphans leftovers) error {
	id := row.ID
	upd := dag.RunUpdate{RunRow: *row, Was: row.State, Claimed: row.Claim}
	upd.State, upd.Cause, upd.FinishedAt = dag.RunFailed, dag.CauseCorrupt, w.clock.now().Wall
	upd.Message = clean("quarantined: " + w.bad[id])
	var b store.Batch
	b.RunUpdates = []dag.RunUpdate{upd}
	b.Messages = orphans.messages(row.Shard, upd.FinishedAt)
	records := append(orphans.records, dag.Record{Kind: dag.RecState, Task: dag.LeaderTask, Text: dag.RunFailed.String(), Reason: upd.Message})
	b.Events = []dag.EventRow{{Run: id, At: upd.FinishedAt, Records: dag.PackRecords(records), Workflow: row.Workflow, Version: row.Version}}
	w.limits.released(&upd.RunRow, &b)
	w.limits.releasedShares(&upd.RunRow, &b)
	w.quotas.buried(row, &b)
	counted, err := w.schedule.buried(&upd.RunRow, &b)
	noted := func() {}
	if err == nil {
		noted, err = w.alerts.buried(&upd.RunRow, orphans.all, &b)
	}
	if err == nil {
		err = w.write(context.Background(), &b)
	}
	if errors.Is(err, store.ErrRefused) {
		w.quotas.forget()
		w.e.log.Error("a quarantined run keeps its state, because its row cannot be written; run skein verify", "code", "quarantine_unwritten", "run", id.String(), "err", err)
		return nil
	}
	if err != nil {
		w.unsure = err
		return err
	}
	counted()
	noted()
	tellOrphans(w.e, orphans.all)
	if len(b.Notices) > 0 {
		w.e.noticed()
	}
	if f := w.held(row.Shard); f != nil {
		b.Events[0].Seq = f.Seq
	}
	tellEnds(w, &b)
	w.e.hub.publish(b.Events)
	return orphans.posted(w)
}

// leave removes a run from memory.
func (w *writer) leave(id dag.RunID) {
	if r := w.runs[id]; r != nil {
		w.queue.Remove(r)
		w.limits.exit(r)
		delete(w.runs, id)
		w.evaluating.drop(id)
	}
}

// killAll ends all attempts of a run here. If a load could not read the attempts of the run, another
// goroutine reads them.
func (w *writer) killAll(rec *store.RunRecord) {
	if rec.Bad != nil {
		id := rec.Run.ID
		w.helper(func(ctx context.Context) {
			if attempts, err := w.e.store.Attempts(ctx, store.AttemptQuery{Run: id}); err == nil {
				kill(w.e, attempts)
			}
		})
		return
	}
	kill(w.e, rec.Attempts)
}

// kill orders the holders of attempts to end them.
func kill(e *Engine, attempts []dag.AttemptRow) {
	var cancels []dag.Cancel
	for i := range attempts {
		if a := &attempts[i]; !a.State.Ended() {
			cancels = append(cancels, dag.Cancel{Run: a.Run, Task: a.Task, Token: a.Token, Handler: a.Handler, Kill: true})
		}
	}
	if len(cancels) > 0 {
		e.slots.cancel(cancels)
	}
}
