package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// pastEvery is how often what happened besides runs is looked at, of each workflow.
	pastEvery = 24 * time.Hour
	// pastRows bounds a transaction; pastSteps bounds those of one kind in a pass: the next pass goes on.
	pastRows  = 500
	pastSteps = 10_000
	// deletedMin is how long a workflow that was deleted is kept at least.
	deletedMin = 7 * 24 * time.Hour
	// recordsShard is the shard whose owner forgets what belongs to no workflow.
	recordsShard dag.ShardID = 0
)

// before is the instant an age ago; 0: there is none, for the age is.
func before(now dag.Micros, age time.Duration) dag.Micros {
	if age == 0 {
		return 0
	}
	return max(0, now-dag.Micros(age.Microseconds()))
}

// tables goes through all workflows whose shards are owned here, those that are deleted too, and what belongs
// to none.
func (f *forgetting) tables(ctx context.Context) error {
	now, err := f.n.store.Clock(ctx)
	if err != nil {
		return err
	}
	for after := ""; ; {
		page, err := f.n.store.Workflows(ctx, store.WorkflowQuery{After: after, Limit: 100})
		if err != nil {
			return err
		}
		for i := range page {
			after = page[i].Namespace + "/" + page[i].Name
			if err := f.look(ctx, &page[i], now); err != nil {
				return err
			}
		}
		if len(page) < 100 {
			break
		}
	}
	for after := dag.WorkflowID(0); ; {
		page, err := f.rows.DeletedWorkflows(ctx, after, 100)
		if err != nil {
			return err
		}
		for i := range page {
			after = page[i].ID
			if err := f.look(ctx, &page[i], now); err != nil {
				return err
			}
		}
		if len(page) < 100 {
			break
		}
	}
	return f.records(ctx, now)
}

// look forgets what need not be kept of a workflow, if its turn has come.
func (f *forgetting) look(ctx context.Context, w *store.Workflow, now dag.Micros) error {
	if !f.owns(w.Shard) {
		delete(f.rules, w.ID)
		delete(f.turns, w.ID)
		return nil
	}
	t := f.turns[w.ID]
	if now < t.next {
		return nil
	}
	gone, err := f.workflow(ctx, w, &t, now)
	switch {
	case errors.Is(err, store.ErrFenced):
		return nil // it is another's by now
	case err != nil:
		return fmt.Errorf("workflow %s/%s: %w", w.Namespace, w.Name, err)
	}
	if t.wait = min(2*t.wait, forgetIdle); gone > 0 || t.wait == 0 {
		t.wait = forgetEvery
	}
	t.next = now + dag.Micros(t.wait.Microseconds()) - dag.Micros(forgetEvery.Microseconds())/2
	f.turns[w.ID] = t
	return nil
}

func (f *forgetting) workflow(ctx context.Context, w *store.Workflow, t *turn, now dag.Micros) (gone int, err error) {
	r, err := f.rule(ctx, w)
	if err != nil {
		return 0, err
	}
	if gone, err = f.runs(ctx, w, &r, now); err != nil {
		return gone, err
	}
	if now < t.past {
		return gone, nil
	}
	if err := f.past(ctx, w, &r, now); err != nil {
		return gone, err
	}
	t.past = now + dag.Micros(pastEvery.Microseconds())
	if w.State == store.WorkflowDeleted {
		return gone, f.deleted(ctx, w, now)
	}
	return gone, nil
}

// past forgets lines of the ledger, backfills and versions of a workflow.
func (f *forgetting) past(ctx context.Context, w *store.Workflow, r *rule, now dag.Micros) error {
	b := &f.n.cfg.Bounds
	x := store.FireExpiry{Shard: w.Shard, Workflow: w.ID, Plain: before(now, b.FiresAge), Exceptions: before(now, b.ExceptionsAge), Keep: b.Fires,
		Limit: pastRows, Days: store.DayOf(before(now, b.DaysAge))}
	lines, err := f.steps(ctx, func() (n int, more bool, err error) {
		did, err := f.rows.ExpireFires(ctx, f.owner(), x)
		x.After = did.Next
		return did.Gone, did.Next != store.FireKey{}, err
	})
	if err != nil {
		return err
	}
	fills := store.BackfillExpiry{Shard: w.Shard, Workflow: w.ID, Before: before(now, b.BackfillsAge), Keep: b.Backfills, Limit: pastRows}
	instants, err := f.steps(ctx, func() (n int, more bool, err error) {
		n, err = f.rows.ExpireBackfills(ctx, f.owner(), fills)
		return n, n > 0, err
	})
	if err != nil {
		return err
	}
	v := store.VersionExpiry{Shard: w.Shard, Workflow: w.ID, Superseded: now - dag.Micros(f.superseded.Microseconds()), Keep: b.Versions, Limit: forgetVersions}
	if r.emitted {
		v.Keep = 1 // each list of tasks that is another is one
	}
	versions, err := f.steps(ctx, func() (n int, more bool, err error) {
		n, err = f.rows.ExpireVersions(ctx, f.owner(), v)
		return n, n == v.Limit, err
	})
	if lines+instants+versions > 0 {
		f.n.log.Info("what happened long ago was deleted", "code", "past_deleted", "workflow", w.Namespace+"/"+w.Name, "fires", lines,
			"backfill_rows", instants, "versions", versions)
	}
	return err
}

// steps carries out a step until there is no more to do. After each it rests for several times as long as
// that took.
func (f *forgetting) steps(ctx context.Context, step func() (n int, more bool, err error)) (all int, err error) {
	for range pastSteps {
		began := time.Now()
		n, more, err := step()
		all += n
		if err != nil || !more {
			return all, err
		}
		select {
		case <-ctx.Done():
			return all, ctx.Err()
		case <-time.After(forgetRest * time.Since(began)):
		}
	}
	return all, nil
}

// deleted forgets a workflow that was deleted, when its runs are gone.
func (f *forgetting) deleted(ctx context.Context, w *store.Workflow, now dag.Micros) error {
	x := store.WorkflowExpiry{Shard: w.Shard, Workflow: w.ID, Before: before(now, max(f.n.cfg.RetentionAge, deletedMin)), Limit: pastRows}
	n, err := f.steps(ctx, func() (n int, more bool, err error) {
		n, err = f.rows.ExpireWorkflow(ctx, f.owner(), x)
		return n, n > 0, err
	})
	if n > 0 && err == nil {
		delete(f.rules, w.ID)
		f.folders(ctx, w)
		f.n.log.Info("a deleted workflow is gone", "code", "workflow_gone", "workflow", w.Namespace+"/"+w.Name, "rows", n)
	}
	return err
}

// folders deletes the empty folders of a workflow that is gone. One that has something in it stays: files of
// runs are deleted on their own.
func (f *forgetting) folders(ctx context.Context, w *store.Workflow) {
	if _, err := f.n.store.Workflow(ctx, w.Namespace, w.Name); !errors.Is(err, store.ErrNotFound) {
		return // there is a new one of this name
	}
	for _, root := range f.roots() {
		_ = os.Remove(filepath.Join(root, w.Namespace, w.Name))
	}
}

// records forgets what belongs to no workflow.
func (f *forgetting) records(ctx context.Context, now dag.Micros) error {
	if !f.owns(recordsShard) {
		return nil
	}
	b := &f.n.cfg.Bounds
	x := store.RecordExpiry{Shard: recordsShard, Requests: before(now, b.KeysAge), RequestsKeep: b.Keys, Records: before(now, b.RecordsAge),
		RecordsKeep: b.Records, Limit: pastRows}
	n, err := f.steps(ctx, func() (n int, more bool, err error) {
		n, err = f.rows.ExpireRecords(ctx, f.owner(), x)
		return n, n > 0, err
	})
	if n > 0 {
		f.n.log.Info("old records were deleted", "code", "records_deleted", "rows", n)
	}
	if errors.Is(err, store.ErrFenced) {
		return nil
	}
	return err
}
