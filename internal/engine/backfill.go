package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// backfills are those that are not over, as this owner knows them. The cursor (Started), the
// run and its place in the backfill are one transaction: dying in between is not possible,
// and starting an instant twice is not either.
type backfills struct {
	known    map[int64]*store.Backfill
	instants map[int64][]dag.Micros // unpacked, of those that start some
	open     map[int64]bool         // may start more
	over     []int64                // nothing of them will happen any more
}

func (b *backfills) forget() {
	b.known, b.instants, b.open = map[int64]*store.Backfill{}, map[int64][]dag.Micros{}, map[int64]bool{}
	b.over = nil
}

// retire drops the backfills that have ended. It is called between transactions.
func (b *backfills) retire() {
	for _, id := range b.over {
		delete(b.known, id)
		delete(b.instants, id)
	}
	b.over = b.over[:0]
}

// openBackfills looks again at those of a workflow that may have been resumed; those of one
// that was deleted end.
func (w *writer) openBackfills(wf *store.Workflow) {
	for _, id := range slices.Sorted(maps.Keys(w.backfills.known)) {
		b := w.backfills.known[id]
		switch {
		case b.Workflow != wf.ID || b.State != store.BackfillRunning && b.State != store.BackfillPaused:
		case wf.State == store.WorkflowDeleted:
			next := *b
			next.State = store.BackfillCancelled
			w.putBackfill(next)
		case b.State == store.BackfillRunning:
			w.backfills.open[id] = true
		}
	}
}

// loadBackfills brings back those that have something left to start.
func (w *writer) loadBackfills(ctx context.Context) error {
	w.backfills.forget()
	if w.e.cfg.Planner == nil {
		return nil
	}
	for _, state := range [...]string{store.BackfillRunning, store.BackfillPaused} {
		if err := w.loadBackfillsIn(ctx, state); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) loadBackfillsIn(ctx context.Context, state string) error {
	before := int64(0)
	for {
		page, err := w.e.store.Backfills(ctx, 0, state, before, loadPage)
		if err != nil {
			return err
		}
		for i := range page {
			before = page[i].ID
			w.backfills.known[before] = &page[i]
			w.backfills.open[before] = true
		}
		if len(page) < loadPage {
			return nil
		}
	}
}

// backfill gives a backfill as it is in the transaction being made.
func (w *writer) backfill(id int64) (*store.Backfill, error) {
	if b := w.backfills.known[id]; b != nil {
		return b, nil
	}
	b, err := w.e.store.Backfill(context.Background(), id)
	if err != nil {
		return nil, fromStore(fmt.Sprintf("backfill %d", id), err)
	}
	w.backfills.known[id] = &b
	return &b, nil
}

// putBackfill writes a changed row, once per transaction.
func (w *writer) putBackfill(b store.Backfill) {
	b.Modified = w.tx.now.Wall
	same := func(o store.Backfill) bool { return o.ID == b.ID }
	batch := &w.tx.batch
	if !w.tx.filled[b.ID] {
		b.Revision++
		batch.BackfillUpdates = append(batch.BackfillUpdates, b)
		w.tx.filled[b.ID] = true
		w.backfills.known[b.ID] = &b
		return
	}
	b.Revision = w.backfills.known[b.ID].Revision // the caller's copy may be from before
	if i := slices.IndexFunc(batch.BackfillInserts, same); i >= 0 {
		batch.BackfillInserts[i] = b
	} else if i := slices.IndexFunc(batch.BackfillUpdates, same); i >= 0 {
		batch.BackfillUpdates[i] = b
	}
	w.backfills.known[b.ID] = &b
}

// backfilled counts the end of a run of a backfill.
func (w *writer) backfilled(r *dag.Run) error {
	b, err := w.backfill(r.Fire.Backfill)
	if errors.Is(err, ErrNotFound) {
		return nil // it is no longer kept
	}
	if err != nil {
		return err
	}
	next := *b
	before, again := r.EndedBefore()
	if !counted(&next, again, before == dag.RunSucceeded, r.State == dag.RunSucceeded) {
		return nil
	}
	w.over(&next)
	w.putBackfill(next)
	return nil
}

// counted counts the end of a run, and reports whether it changes anything: one that was
// ended before was counted then, and only how it stands now may differ.
func counted(b *store.Backfill, again, wasGood, good bool) bool {
	switch {
	case again && good == wasGood:
		return false
	case again && good:
		b.Failed = max(b.Failed-1, 0)
		return true
	case !good:
		b.Failed++
	}
	if !again {
		b.Ended++
	}
	return true
}

// buried counts, in the batch that ends a run whose rows make no sense, that it did; then is
// to be called once the batch has committed.
func (w *writer) buried(r *dag.RunRow, batch *store.Batch) (then func(), err error) {
	if r.Fire == nil || r.Fire.Backfill == 0 {
		return func() {}, nil
	}
	b, err := w.backfill(r.Fire.Backfill)
	if errors.Is(err, ErrNotFound) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	next := *b
	before, again := dag.EndedBefore(r.Base)
	if !counted(&next, again, before == dag.RunSucceeded, false) {
		return func() {}, nil
	}
	finished(&next)
	next.Revision++
	next.Modified = r.FinishedAt
	batch.BackfillUpdates = append(batch.BackfillUpdates, next)
	return func() {
		w.backfills.known[next.ID] = &next
		w.over(&next)
	}, nil
}

// finished ends a backfill of which nothing is left.
func finished(b *store.Backfill) {
	if b.Ended == b.Total && (b.State == store.BackfillRunning || b.State == store.BackfillPaused) {
		b.State = store.BackfillDone
	}
}

// over notes what the end of one run means for its backfill.
func (w *writer) over(b *store.Backfill) {
	finished(b)
	if b.State == store.BackfillRunning {
		w.backfills.open[b.ID] = true
	} else if b.State != store.BackfillPaused && b.Ended == b.Started {
		w.backfills.over = append(w.backfills.over, b.ID)
	}
}

// refill starts what backfills may start now.
func (w *writer) refill() error {
	if len(w.backfills.open) == 0 {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(w.backfills.open)) {
		if w.tx.rows >= takeMax*rowsPerItem {
			return nil // the next transaction goes on
		}
		if err := w.refillOne(id); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) refillOne(id int64) error {
	delete(w.backfills.open, id)
	b := w.backfills.known[id]
	if b == nil || w.held(b.Shard) == nil || b.State != store.BackfillRunning {
		return nil
	}
	wf, err := w.workflow(b.Workflow)
	if err != nil {
		return err
	}
	if wf.State != store.WorkflowActive {
		return nil // resuming the workflow opens it again
	}
	at, err := w.instants(b)
	if err != nil {
		return w.spoil(*b, err)
	}
	pol, err := w.e.cfg.Planner.BackfillPolicy(b)
	if err != nil {
		return w.spoil(*b, err)
	}
	for next := *b; next.Started < next.Total && next.Started-next.Ended < int64(next.Parallel); next = *w.backfills.known[id] {
		if w.tx.rows >= takeMax*rowsPerItem {
			w.backfills.open[id] = true
			break
		}
		next.Started++
		// The row comes first: a run that ends in this transaction counts in it.
		w.putBackfill(next)
		if err := w.backfillRun(&next, &wf, &pol, at[next.Started-1]); err != nil {
			return err
		}
	}
	return nil
}

// instants unpacks what a backfill starts, once.
func (w *writer) instants(b *store.Backfill) ([]dag.Micros, error) {
	if at := w.backfills.instants[b.ID]; at != nil {
		return at, nil
	}
	at, err := dag.UnpackInstants(b.Instants, 0, int(b.Total))
	if err == nil && int64(len(at)) != b.Total {
		err = fmt.Errorf("it has %d instants, its row says %d", len(at), b.Total)
	}
	w.backfills.instants[b.ID] = at
	return at, err
}

// spoil cancels a backfill whose row makes no sense, so that nothing else waits for it.
func (w *writer) spoil(b store.Backfill, cause error) error {
	w.e.log.Error("a backfill is cancelled, because its instants cannot be read", "code", "backfill_unreadable", "backfill", b.ID, "err", cause)
	b.State = store.BackfillCancelled
	w.putBackfill(b)
	return nil
}

func (w *writer) backfillRun(b *store.Backfill, wf *store.Workflow, pol *Policy, at dag.Micros) error {
	version, err := w.startVersion(wf)
	if err != nil {
		return err
	}
	w.tx.rows += 2 * rowsPerItem
	params, err := w.plannedParams(ParamsQuery{Workflow: wf.ID, Version: version, Given: pol.Params, Instant: at})
	if errors.Is(err, ErrInvalid) { // it has no run, and counts as failed
		w.e.log.Warn("the parameters of an instant of a backfill cannot be evaluated", "code", "backfill_params_invalid", "backfill", b.ID, "instant", at.Time(), "err", err)
		next := *b
		next.Ended++
		next.Failed++
		w.over(&next)
		w.putBackfill(next)
		return nil
	}
	if err != nil {
		return err
	}
	r := dag.NewRun(dag.Header{
		ID: NewRunID(), Shard: wf.Shard, Workflow: wf.ID, Version: version, Priority: pol.Priority,
		Origin: dag.OriginBackfill, User: b.User, Params: params, Created: w.tx.now.Wall,
		Fire: &dag.Fire{Trigger: b.Trigger, Instant: at, Backfill: b.ID},
	})
	w.tx.batch.BackfillRuns = append(w.tx.batch.BackfillRuns, store.BackfillRun{Backfill: b.ID, Workflow: wf.ID, Instant: at, Run: r.ID})
	return w.accept(r, true)
}

func (w *writer) changeBackfill(id int64, state, actor string) answer {
	b, err := w.backfill(id)
	if err == nil {
		err = w.here(b.Shard)
	}
	if err != nil {
		return answer{err: err}
	}
	from := map[string]string{store.BackfillPaused: store.BackfillRunning, store.BackfillRunning: store.BackfillPaused}[state]
	switch {
	case b.State == state:
		return answer{backfill: *b}
	case state == store.BackfillCancelled && (b.State == store.BackfillRunning || b.State == store.BackfillPaused):
	case from == "" || b.State != from:
		return answer{err: fmt.Errorf("%w: backfill %d is %s", ErrConflict, id, b.State)}
	}
	next := *b
	next.State = state
	w.putBackfill(next)
	switch state {
	case store.BackfillRunning:
		w.backfills.open[id] = true
	case store.BackfillCancelled:
		w.stopWaiting(id, actor)
	}
	return answer{backfill: next}
}

// stopWaiting ends the runs of a backfill that wait at a gate.
func (w *writer) stopWaiting(id int64, actor string) {
	waiting := map[dag.RunID]*dag.Run{}
	for rid, r := range w.runs {
		if r.State == dag.RunWaiting && r.Fire != nil && r.Fire.Backfill == id {
			waiting[rid] = r
		}
	}
	for _, r := range sortedRuns(waiting) {
		w.tx.current = r
		ev := dag.Event{Kind: dag.EvIntent, Intent: dag.IntentStop, Actor: actor, Reason: "its backfill was cancelled"}
		r.Step(&ev, w.tx.now, &w.tx.fx)
		w.touch(r)
	}
	w.tx.current = nil
}

// StartBackfill begins a backfill: of b the workflow, trigger, spec, instants, counts, bound
// and user count. It gives the row with its id.
func (e *Engine) StartBackfill(ctx context.Context, b store.Backfill, once *store.Request) (store.Backfill, error) {
	if b.Total < 1 || b.Parallel < 1 {
		return b, fmt.Errorf("%w: a backfill of %d instants, %d at a time", ErrInvalid, b.Total, b.Parallel)
	}
	b.ID = e.host.Now().UnixMicro() // chosen here, so that applying it twice finds the same row
	a, err := e.operated(ctx, once, func(w *writer) answer { return w.startBackfill(b) })
	return a.backfill, err
}

// ChangeBackfill pauses (store.BackfillPaused), resumes (store.BackfillRunning) or cancels
// (store.BackfillCancelled) a backfill. Runs that wait are stopped with a cancelled one; those
// that have begun go on.
func (e *Engine) ChangeBackfill(ctx context.Context, id int64, state, actor string, once *store.Request) (store.Backfill, error) {
	if err := checkTexts("actor", actor); err != nil {
		return store.Backfill{}, err
	}
	a, err := e.operated(ctx, once, func(w *writer) answer { return w.changeBackfill(id, state, actor) })
	if err == nil && a.existing {
		b, err := e.store.Backfill(ctx, id)
		return b, fromStore(fmt.Sprintf("backfill %d", id), err)
	}
	return a.backfill, err
}

func (w *writer) startBackfill(b store.Backfill) answer {
	wf, err := w.workflow(b.Workflow)
	if err == nil {
		err = w.here(wf.Shard)
	}
	if err != nil {
		return answer{err: err}
	}
	if wf.State != store.WorkflowActive {
		return answer{err: fmt.Errorf("%w: workflow %s/%s is %s", ErrConflict, wf.Namespace, wf.Name, wf.State)}
	}
	for ; ; b.ID++ {
		is, err := w.backfill(b.ID)
		if errors.Is(err, ErrNotFound) {
			break
		}
		if err != nil {
			return answer{err: err}
		}
		if is.Workflow == b.Workflow && bytes.Equal(is.Spec, b.Spec) {
			return answer{backfill: *is, existing: true}
		}
	}
	b.Shard, b.State, b.Started, b.Ended, b.Failed = wf.Shard, store.BackfillRunning, 0, 0, 0
	b.Revision, b.Created, b.Modified = 1, w.tx.now.Wall, w.tx.now.Wall
	w.tx.batch.BackfillInserts = append(w.tx.batch.BackfillInserts, b)
	w.tx.filled[b.ID] = true
	w.backfills.known[b.ID] = &b
	w.backfills.open[b.ID] = true
	return answer{backfill: b}
}
