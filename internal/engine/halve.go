package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// halve handles a transaction that was refused for its content, or that met a bug: memory
// is put back to what the rows say, and the next transaction takes half as many items,
// until the guilty one is alone.
func (w *writer) halve(ctx context.Context, n int, cause error) error {
	tried := max(n, len(w.assigns), 1)
	w.e.log.Warn("a transaction was refused", "items", n, "err", cause)
	guilty := append([]*dag.Run(nil), w.touched...)
	if err := w.putBack(ctx); err != nil {
		return w.failed(ctx, 0, err)
	}
	if tried > 1 {
		w.itemsMax = max(tried/2, 1)
		return nil
	}
	if n == 0 { // only an assignment: its run is guilty
		for _, r := range guilty {
			w.quarantine(r.ID, cause)
		}
		return nil
	}
	it := w.kept[0]
	w.drop(1)
	w.punish(&it, cause)
	return nil
}

// punish answers the guilty item. One that brought new content is refused; an event of a
// run that cannot be written or stepped ends that run.
func (w *writer) punish(it *item, cause error) {
	err := fmt.Errorf("%w: %w", ErrInvalid, cause)
	if errors.Is(cause, errGuilty) {
		err = fmt.Errorf("%w: a bug; see the node's log", ErrUnavailable)
	}
	if it.submit == nil && it.define == nil && it.req == nil {
		w.quarantine(it.run, cause)
	}
	it.reply(answer{run: it.run, err: err})
}

// putBack undoes, in memory, the transaction being made: the runs that it touched are
// loaded again.
func (w *writer) putBack(ctx context.Context) error {
	ids := make([]dag.RunID, 0, len(w.touched))
	for _, r := range w.touched {
		ids = append(ids, r.ID)
		w.queue.Remove(r)
		delete(w.runs, r.ID)
	}
	w.e.home.unbook(len(w.assigns))
	w.dropBatch()
	return w.reload(ctx, ids)
}

// reload makes memory of these runs equal to their rows.
func (w *writer) reload(ctx context.Context, ids []dag.RunID) error {
	if len(ids) == 0 {
		return nil
	}
	page, err := w.e.store.Load(ctx, store.LoadQuery{IDs: ids})
	if err != nil {
		return err
	}
	now := w.clock.now()
	var lost []dag.AttemptRow
	var mine []Assignment
	for i := range page {
		if page[i].Run.State.Terminal() {
			continue
		}
		if err := w.adopt(&page[i], now, &lost, &mine); err != nil {
			return err
		}
	}
	for _, t := range w.fx.Timers {
		w.timers.push(t)
	}
	w.fx.Reset()
	return w.takeOver(ctx, lost, mine)
}

// messageMax bounds the sentence that a quarantined run shows.
const messageMax = 500

// quarantine ends a run whose rows or events make no sense, in a transaction of its own, so
// that everything else goes on. If even that is refused, the run is left alone until an
// operator looks at it.
func (w *writer) quarantine(id dag.RunID, cause error) {
	w.e.stats.Quarantined.Add(1)
	w.e.log.Error("run quarantined", "run", id.String(), "err", cause)
	if r := w.runs[id]; r != nil {
		w.queue.Remove(r)
		delete(w.runs, id)
	}
	w.bad[id] = cause.Error()
	ctx := context.Background()
	row, err := w.e.store.Run(ctx, id)
	if err != nil || row.State.Terminal() {
		return
	}
	w.killAll(ctx, id)
	upd := dag.RunUpdate{RunRow: row, Was: row.State}
	upd.State, upd.Cause, upd.FinishedAt = dag.RunFailed, dag.CauseCorrupt, w.clock.now().Wall
	upd.Message = "quarantined: " + firstLine(cause.Error())
	b := store.Batch{Fences: w.batch.Fences}
	b.RunUpdates = []dag.RunUpdate{upd}
	b.Events = []dag.EventRow{{Run: id, At: upd.FinishedAt, Records: dag.PackRecords([]dag.Record{
		{Kind: dag.RecState, Task: dag.LeaderTask, Text: dag.RunFailed.String(), Reason: upd.Message},
	})}}
	if _, err := w.e.store.Commit(ctx, &b); err != nil {
		w.e.log.Error("quarantined run keeps its state", "run", id.String(), "err", err)
		return
	}
	for i := range w.batch.Fences {
		w.batch.Fences[i].Seq++
	}
}

// killAll ends whatever a run left running here.
func (w *writer) killAll(ctx context.Context, id dag.RunID) {
	attempts, err := w.e.store.Attempts(ctx, store.AttemptQuery{Run: id})
	if err != nil {
		return
	}
	var cancels []dag.Cancel
	for i := range attempts {
		if a := &attempts[i]; !a.State.Ended() {
			cancels = append(cancels, dag.Cancel{Run: id, Task: a.Task, Token: a.Token, Kill: true})
		}
	}
	w.e.cfg.Executor.Cancel(cancels)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s[:min(len(s), messageMax)]
}
