package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// backfills holds the unfinished backfills, as this owner knows them. One transaction writes the cursor
// (Started), the run and its entry in the backfill. So a crash cannot separate them, and no instant starts
// two runs.
type backfills struct {
	known    map[int64]*store.Backfill
	instants map[int64][]dag.Micros // backfill → the unpacked instants for which runs are started
	open     map[int64]bool         // backfills that may start more runs now
	over     []int64                // backfills that have ended
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

// openBackfills checks the backfills of a workflow that may have been resumed. It ends the backfills of a
// deleted workflow.
func (s *schedule) openBackfills(wf *store.Workflow) {
	for _, id := range slices.Sorted(maps.Keys(s.backfills.known)) {
		b := s.backfills.known[id]
		switch {
		case b.Workflow != wf.ID || b.State != store.BackfillRunning && b.State != store.BackfillPaused:
		case wf.State == store.WorkflowDeleted:
			next := *b
			next.State = store.BackfillCancelled
			s.putBackfill(next)
		case b.State == store.BackfillRunning:
			s.backfills.open[id] = true
		}
	}
}

// loadBackfills loads the backfills that have instants left to start.
func (s *schedule) loadBackfills(ctx context.Context) error {
	s.backfills.forget()
	if s.planner == nil {
		return nil
	}
	for _, state := range [...]string{store.BackfillRunning, store.BackfillPaused} {
		if err := s.loadBackfillsIn(ctx, state); err != nil {
			return err
		}
	}
	return nil
}

func (s *schedule) loadBackfillsIn(ctx context.Context, state string) error {
	before := int64(0)
	for {
		page, err := s.store.Backfills(ctx, 0, state, before, loadPage)
		if err != nil {
			return err
		}
		for i := range page {
			before = page[i].ID
			s.backfills.known[before] = &page[i]
			s.backfills.open[before] = true
		}
		if len(page) < loadPage {
			return nil
		}
	}
}

// backfill returns a backfill as the transaction being made leaves it.
func (s *schedule) backfill(id int64) (*store.Backfill, error) {
	if b := s.backfills.known[id]; b != nil {
		return b, nil
	}
	b, err := s.store.Backfill(context.Background(), id)
	if err != nil {
		return nil, errkind.FromStore(fmt.Sprintf("backfill %d", id), err)
	}
	s.backfills.known[id] = &b
	return &b, nil
}

// putBackfill writes a changed row, once per transaction.
func (s *schedule) putBackfill(b store.Backfill) {
	b.Modified = s.txn().now.Wall
	same := func(o store.Backfill) bool { return o.ID == b.ID }
	batch := &s.txn().batch
	if !s.txn().filled[b.ID] {
		b.Revision++
		batch.BackfillUpdates = append(batch.BackfillUpdates, b)
		s.txn().filled[b.ID] = true
		s.backfills.known[b.ID] = &b
		return
	}
	b.Revision = s.backfills.known[b.ID].Revision // the caller's copy may be out of date
	if i := slices.IndexFunc(batch.BackfillInserts, same); i >= 0 {
		batch.BackfillInserts[i] = b
	} else if i := slices.IndexFunc(batch.BackfillUpdates, same); i >= 0 {
		batch.BackfillUpdates[i] = b
	}
	s.backfills.known[b.ID] = &b
}

// backfilled counts the end of a run of a backfill.
func (s *schedule) backfilled(r *dag.Run) error {
	b, err := s.backfill(r.Fire.Backfill)
	if errors.Is(err, errkind.ErrNotFound) {
		return nil // the backfill is no longer kept
	}
	if err != nil {
		return err
	}
	next := *b
	before, again := r.EndedBefore()
	if !counted(&next, again, before == dag.RunSucceeded, r.State == dag.RunSucceeded) {
		return nil
	}
	s.over(&next)
	s.putBackfill(next)
	return nil
}

// counted counts the end of a run, and reports whether the backfill has changed. A run that had ended before
// was already counted, and only its outcome may differ now.
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

// buried counts the end of a run whose rows are damaged, in the batch that ends the run. The caller must call
// the returned function once the batch has committed.
func (s *schedule) buried(r *dag.RunRow, batch *store.Batch) (then func(), err error) {
	if r.Fire == nil || r.Fire.Backfill == 0 {
		return func() {}, nil
	}
	b, err := s.backfill(r.Fire.Backfill)
	if errors.Is(err, errkind.ErrNotFound) {
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
		s.backfills.known[next.ID] = &next
		s.over(&next)
	}, nil
}

// finished ends a backfill that has nothing left to do.
func finished(b *store.Backfill) {
	if b.Ended == b.Total && (b.State == store.BackfillRunning || b.State == store.BackfillPaused) {
		b.State = store.BackfillDone
	}
}

// over updates a backfill after the end of one of its runs.
func (s *schedule) over(b *store.Backfill) {
	finished(b)
	if b.State == store.BackfillRunning {
		s.backfills.open[b.ID] = true
	} else if b.State != store.BackfillPaused && b.Ended == b.Started {
		s.backfills.over = append(s.backfills.over, b.ID)
	}
}

// refill starts the runs that backfills may start now.
func (s *schedule) refill() error {
	if len(s.backfills.open) == 0 {
		return nil
	}
	for i, id := range slices.Sorted(maps.Keys(s.backfills.open)) {
		if s.txn().rows >= takeMax*rowsPerItem || i > 0 && s.expr.full() {
			return nil // the next transaction continues
		}
		if err := s.refillOne(id); err != nil {
			return err
		}
	}
	return nil
}

func (s *schedule) refillOne(id int64) error {
	delete(s.backfills.open, id)
	b := s.backfills.known[id]
	if b == nil || s.held(b.Shard) == nil || b.State != store.BackfillRunning {
		return nil
	}
	wf, err := s.defs.workflow(b.Workflow)
	if err != nil {
		return err
	}
	if wf.State != store.WorkflowActive {
		return nil // resuming the workflow continues the backfill
	}
	at, err := s.instants(b)
	if err != nil {
		return s.spoil(*b, err)
	}
	pol, err := s.planner.BackfillPolicy(b)
	if err != nil {
		return s.spoil(*b, err)
	}
	begun := 0
	for next := *b; next.Started < next.Total && next.Started-next.Ended < int64(next.Parallel); next = *s.backfills.known[id] {
		if s.txn().rows >= takeMax*rowsPerItem || begun > 0 && s.expr.full() {
			s.backfills.open[id] = true
			break
		}
		if s.holds(&next, &wf) {
			break // the backfill continues when it may start more runs
		}
		begun++
		next.Started++
		// The row comes first, because it counts a run that ends in this transaction.
		s.putBackfill(next)
		if err := s.backfillRun(&next, &wf, &pol, at[next.Started-1]); err != nil {
			return err
		}
	}
	return nil
}

// instants unpacks the instants of a backfill, once.
func (s *schedule) instants(b *store.Backfill) ([]dag.Micros, error) {
	if at := s.backfills.instants[b.ID]; at != nil {
		return at, nil
	}
	at, err := dag.UnpackInstants(b.Instants, 0, int(b.Total))
	if err == nil && int64(len(at)) != b.Total {
		err = fmt.Errorf("its list has %d instants, but its row says %d", len(at), b.Total)
	}
	s.backfills.instants[b.ID] = at
	return at, err
}

// spoil cancels a backfill whose row is invalid, because it could never end.
func (s *schedule) spoil(b store.Backfill, cause error) error {
	s.log.Error("a backfill was cancelled, because its instants cannot be read; create it again", "code", "backfill_unreadable", "backfill", b.ID, "err", cause)
	b.State = store.BackfillCancelled
	s.putBackfill(b)
	return nil
}

func (s *schedule) backfillRun(b *store.Backfill, wf *store.Workflow, pol *Policy, at dag.Micros) error {
	version, err := s.startVersion(wf)
	if err != nil {
		return err
	}
	s.txn().rows += 2 * rowsPerItem
	params, err := s.expr.plannedParams(ParamsQuery{Workflow: wf.ID, Version: version, Given: pol.Params, Instant: at})
	if errors.Is(err, errkind.ErrInvalid) { // no run can be made for the instant, so it counts as failed
		s.log.Warn("the parameters of an instant of a backfill cannot be evaluated; correct them, and create the backfill again", "code", "backfill_params_invalid", "backfill", b.ID, "instant", at.Time(), "err", err)
		next := *b
		next.Ended++
		next.Failed++
		s.over(&next)
		s.putBackfill(next)
		return nil
	}
	if err != nil {
		return err
	}
	r := dag.NewRun(dag.Header{
		ID: NewRunID(), Shard: wf.Shard, Workflow: wf.ID, Version: version, Priority: pol.Priority,
		Origin: dag.OriginBackfill, User: b.User, Params: params, Created: s.txn().now.Wall,
		Fire: &dag.Fire{Trigger: b.Trigger, Instant: at, Backfill: b.ID, Tags: wf.Tags},
	})
	s.txn().batch.BackfillRuns = append(s.txn().batch.BackfillRuns, store.BackfillRun{Backfill: b.ID, Workflow: wf.ID, Instant: at, Run: r.ID})
	if err := s.addRun(r, true, nil); err != nil {
		return err
	}
	s.limits.quotas.checked(r)
	return nil
}

func (s *schedule) changeBackfill(id int64, state, actor string) answer {
	b, err := s.backfill(id)
	if err == nil {
		err = s.here(b.Shard)
	}
	if err != nil {
		return answer{err: err}
	}
	from := map[string]string{store.BackfillPaused: store.BackfillRunning, store.BackfillRunning: store.BackfillPaused}[state]
	switch {
	case b.State == state:
		return answer{more: &result{backfill: *b}}
	case state == store.BackfillCancelled && (b.State == store.BackfillRunning || b.State == store.BackfillPaused):
	case from == "" || b.State != from:
		return answer{err: fmt.Errorf("%w: backfill %d is %s", errkind.ErrConflict, id, b.State)}
	}
	next := *b
	next.State = state
	s.putBackfill(next)
	switch state {
	case store.BackfillRunning:
		s.backfills.open[id] = true
	case store.BackfillCancelled:
		s.stopWaiting(id, actor)
	}
	return answer{more: &result{backfill: next}}
}

// stopWaiting ends the runs of a backfill that wait at a gate.
func (s *schedule) stopWaiting(id int64, actor string) {
	waiting := map[dag.RunID]*dag.Run{}
	for rid, r := range s.inMemory() {
		if r.State == dag.RunWaiting && r.Fire != nil && r.Fire.Backfill == id {
			waiting[rid] = r
		}
	}
	for _, r := range sortedRuns(waiting) {
		s.stepSelf(r, dag.Event{Kind: dag.EvIntent, Intent: dag.IntentStop, Actor: actor, Reason: "its backfill was cancelled"})
	}
}

// StartBackfill begins a backfill. It uses these fields of b: workflow, trigger, spec, instants, counts,
// bound and user. It returns the row with the new id.
func (e *Engine) StartBackfill(ctx context.Context, b store.Backfill, once *store.Request) (store.Backfill, error) {
	if b.Total < 1 || b.Parallel < 1 {
		return b, fmt.Errorf("%w: the backfill has %d instants and runs %d at a time; both must be at least 1", errkind.ErrInvalid, b.Total, b.Parallel)
	}
	b.ID = e.host.Now().UnixMicro() // the id is chosen here, so that a second application finds the same row
	a, err := e.operated(ctx, once, func(w *writer) answer { return w.schedule.startBackfill(b) })
	return a.result().backfill, err
}

// ChangeBackfill pauses (store.BackfillPaused), resumes (store.BackfillRunning) or cancels
// (store.BackfillCancelled) a backfill. A cancellation stops the waiting runs, while active runs continue.
func (e *Engine) ChangeBackfill(ctx context.Context, id int64, state, actor string, once *store.Request) (store.Backfill, error) {
	if err := checkTexts("actor", actor); err != nil {
		return store.Backfill{}, err
	}
	a, err := e.operated(ctx, once, func(w *writer) answer { return w.schedule.changeBackfill(id, state, actor) })
	if err == nil && a.existing {
		b, err := e.store.Backfill(ctx, id)
		return b, errkind.FromStore(fmt.Sprintf("backfill %d", id), err)
	}
	return a.result().backfill, err
}

func (s *schedule) startBackfill(b store.Backfill) answer {
	wf, err := s.defs.workflow(b.Workflow)
	if err == nil {
		err = s.here(wf.Shard)
	}
	if err != nil {
		return answer{err: err}
	}
	if wf.State != store.WorkflowActive {
		return answer{err: notActive(&wf)}
	}
	for ; ; b.ID++ {
		is, err := s.backfill(b.ID)
		if errors.Is(err, errkind.ErrNotFound) {
			break
		}
		if err != nil {
			return answer{err: err}
		}
		if is.Workflow == b.Workflow && bytes.Equal(is.Spec, b.Spec) {
			return answer{more: &result{backfill: *is}, existing: true}
		}
	}
	b.Shard, b.State, b.Started, b.Ended, b.Failed = wf.Shard, store.BackfillRunning, 0, 0, 0
	b.Revision, b.Created, b.Modified = 1, s.txn().now.Wall, s.txn().now.Wall
	s.txn().batch.BackfillInserts = append(s.txn().batch.BackfillInserts, b)
	s.txn().filled[b.ID] = true
	s.backfills.known[b.ID] = &b
	s.backfills.open[b.ID] = true
	return answer{more: &result{backfill: b}}
}
