package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// loadPage is how many runs one read of a reload brings.
	loadPage = 1000
	// ownPauseMax bounds the pause between two tries to take the shards.
	ownPauseMax = 2 * time.Second
)

// own takes the shards and loads them, and tries again until it succeeds or ctx ends. At
// the start of a process an error that no waiting will cure is returned.
func (w *writer) own(ctx context.Context, why string) error {
	pause := 10 * time.Millisecond
	for {
		w.forget()
		err := w.acquire(ctx)
		if err == nil {
			err = w.load(ctx)
		}
		switch {
		case err == nil:
			w.e.setState(stateRunning)
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrFormat):
			return fromStore("take the shards", err)
		}
		w.e.setState("retaking its shards: " + why)
		w.e.log.Warn("cannot take the shards yet", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, ownPauseMax)
	}
}

func (w *writer) acquire(ctx context.Context) error {
	got, err := w.e.store.Acquire(ctx, w.e.handler.ID, w.e.shards)
	if err != nil {
		return err
	}
	w.batch.Fences = w.batch.Fences[:0]
	for _, a := range got {
		w.batch.Fences = append(w.batch.Fences, a.Fence)
		w.clock.start(a.Now)
	}
	w.taken = append(w.taken[:0], w.batch.Fences...)
	return nil
}

// load brings back every unfinished run. What earlier lives of this process held is lost:
// its processes are killed first, then the tasks go to new attempts.
func (w *writer) load(ctx context.Context) error {
	var lost []dag.AttemptRow
	var mine []Assignment
	now := w.clock.now()
	for _, shard := range w.e.shards {
		var after dag.RunID
		for {
			page, err := w.e.store.Load(ctx, store.LoadQuery{Shard: shard, After: after, Limit: loadPage})
			if err != nil {
				return err
			}
			for i := range page {
				after = page[i].Run.ID
				if err := w.adopt(&page[i], now, &lost, &mine); err != nil {
					return err
				}
			}
			if len(page) < loadPage {
				break
			}
		}
	}
	for _, t := range w.fx.Timers {
		w.timers.push(t)
	}
	if len(w.fx.Cancels) > 0 {
		w.e.cfg.Executor.Cancel(w.fx.Cancels)
	}
	w.fx.Reset()
	w.e.stats.ActiveRuns.Store(int64(len(w.runs)))
	return w.takeOver(ctx, lost, mine)
}

// adopt makes a run of its rows. One that cannot be is quarantined and the node lives; an
// error is the store's.
func (w *writer) adopt(rec *store.RunRecord, now dag.Now, lost *[]dag.AttemptRow, mine *[]Assignment) error {
	r, err := w.revived(rec, now)
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	if err != nil {
		w.quarantine(rec.Run.ID, err)
		return nil
	}
	w.runs[r.ID] = r
	r.Held(func(a *dag.AttemptRow) {
		switch {
		case a.Handler != w.e.handler.ID:
			*lost = append(*lost, *a)
		case a.Task == dag.LeaderTask || !w.e.cfg.Executor.Running(r.ID, a.Task, a.Token):
			*mine = append(*mine, assignment(r, a.Task, a.Token))
		}
	})
	stuck := r.Active() == 0 && (r.Unsettled() == 0 || r.Intent != dag.IntentRun)
	switch {
	case r.State == dag.RunSubmitted, r.State == dag.RunSplitting, stuck:
		w.nudge(r)
	default:
		w.queue.Update(r)
	}
	return nil
}

// nudge looks once more at a run that nothing else would move: one that somebody inserted
// as submitted, whose Leader work was never handed out, or whose end was not written.
func (w *writer) nudge(r *dag.Run) {
	ev := dag.Event{Kind: dag.EvCheck}
	if r.State == dag.RunSubmitted {
		ev = dag.Event{Kind: dag.EvSubmit, Handler: w.e.handler.ID, Graph: w.e.graphs.peek(r.Workflow, r.Version)}
	}
	w.kept = append(w.kept, item{run: r.ID, ev: ev})
}

func (w *writer) revived(rec *store.RunRecord, now dag.Now) (r *dag.Run, err error) {
	if rec.Bad != nil {
		return nil, rec.Bad
	}
	var g *dag.Graph
	if rec.Run.SplitAt != 0 {
		if g, err = w.e.graphs.get(rec.Run.Workflow, rec.Run.Version); err != nil {
			return nil, err
		}
	}
	if p := guarded(func() { r, err = dag.Load(&rec.Run, g, rec.Attempts, now, &w.fx) }); p != nil {
		return nil, p
	}
	return r, err
}

// revive loads one run that is not in memory, or nil.
func (w *writer) revive(id dag.RunID) *dag.Run {
	page, err := w.e.store.Load(context.Background(), store.LoadQuery{IDs: []dag.RunID{id}})
	if err != nil || len(page) == 0 {
		return nil
	}
	r, err := w.revived(&page[0], w.clock.now())
	if err != nil {
		return nil
	}
	w.runs[id] = r
	return r
}

// takeOver settles what is held after a load: attempts of this process that were never
// dispatched are sent again under their token; those of earlier lives are lost.
func (w *writer) takeOver(ctx context.Context, lost []dag.AttemptRow, mine []Assignment) error {
	if len(lost) > 0 && w.e.cfg.Reap != nil {
		if err := w.e.cfg.Reap(ctx, lost); err != nil {
			return fmt.Errorf("end what an earlier life of this node left running: %w", err)
		}
	}
	for i := range lost {
		a := &lost[i]
		w.kept = append(w.kept, item{run: a.Run, ev: dag.Event{Kind: dag.EvLost, Task: a.Task, Token: a.Token,
			Handler: a.Handler, Reason: "its node ended"}})
	}
	var start []Assignment
	for _, a := range mine {
		if a.Task == dag.LeaderTask {
			w.lead(a)
			continue
		}
		w.e.home.unbook(-1)
		start = append(start, a)
	}
	if len(start) > 0 {
		w.e.cfg.Executor.Start(start)
	}
	return nil
}

// failed handles a transaction of n items that did not surely commit.
func (w *writer) failed(ctx context.Context, n int, cause error) error {
	if errors.Is(cause, errGuilty) || errors.Is(cause, store.ErrRefused) {
		return w.halve(ctx, n, cause)
	}
	w.e.stats.Retaken.Add(1)
	w.e.log.Warn("a transaction did not surely commit; taking the shards again", "err", cause)
	w.e.setState("retaking its shards: " + cause.Error())
	if errors.Is(cause, store.ErrUnavailable) {
		w.refuseNew(n, cause)
		n = 0
	}
	answers := append([]answer(nil), w.answers...)
	var was []store.Fence
	was = append(was, w.batch.Fences...)
	kept := w.kept
	w.kept = nil // own adds what it finds; the old items come after it
	if err := w.own(ctx, cause.Error()); err != nil {
		return err
	}
	w.kept = append(w.kept, w.sift(kept, n, answers, w.happened(was))...)
	return nil
}

// happened tells from the shards' seq whether the transaction of unknown outcome did.
func (w *writer) happened(was []store.Fence) bool {
	if len(was) != len(w.taken) {
		return false
	}
	for i := range was {
		if w.taken[i].Seq != was[i].Seq+1 {
			return false
		}
	}
	return len(was) > 0
}

// sift answers the first n items if their transaction happened; if not, they are to be
// applied again, and marked so.
func (w *writer) sift(items []item, n int, answers []answer, happened bool) []item {
	if happened && len(answers) >= n {
		for i := range n {
			items[i].reply(answers[i])
		}
		return items[n:]
	}
	for i := range items {
		items[i].again = items[i].again || i < n
	}
	return items
}

// refuseNew answers submissions and definitions of a transaction that surely did not
// happen and cannot now, so that nobody waits for a full disk; the rest is kept.
func (w *writer) refuseNew(n int, cause error) {
	rest := w.kept[:0]
	for i := range w.kept {
		it := w.kept[i]
		if i < n && (it.submit != nil || it.define != nil) {
			it.reply(answer{err: fmt.Errorf("%w: nothing was accepted: %w", ErrUnavailable, cause)})
			continue
		}
		rest = append(rest, it)
	}
	w.kept = rest
}
