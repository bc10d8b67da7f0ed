package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// pastEvery is how often the ledger, the backfills and the versions of a workflow are cleaned up.
	pastEvery = 24 * time.Hour
	// pastRows bounds the rows of one transaction. pastSteps bounds the transactions of one kind for one workflow
	// in a pass: the next pass continues.
	pastRows  = 500
	pastSteps = 200
	// deletedMin is the least time for which a deleted workflow is kept.
	deletedMin = 7 * 24 * time.Hour
	// recordsShard is the shard whose owner deletes the rows that belong to no workflow.
	recordsShard dag.ShardID = 0
	// failuresShown bounds the failures of workflows that the error of a pass contains.
	failuresShown = 10
	// unansweredMax is the number of workflows in a row that may fail because the database does not answer. Then
	// the pass ends.
	unansweredMax = 5
)

// before returns the instant that is age before now. It returns 0 for the age 0, which means for ever.
func before(now dag.Micros, age time.Duration) dag.Micros {
	if age == 0 {
		return 0
	}
	return max(0, now-dag.Micros(age.Microseconds()))
}

// failures collects the failures of one pass.
type failures struct {
	all        int
	unanswered int // in a row
	shown      []error
}

// add counts a failure. It returns an error if the pass must end.
func (x *failures) add(ctx context.Context, what string, err error) error {
	if err == nil {
		x.unanswered = 0
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = fmt.Errorf("%s: %w", what, err)
	if x.all++; len(x.shown) < failuresShown {
		x.shown = append(x.shown, err)
	}
	if x.unanswered++; !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
		x.unanswered = 0
	}
	if x.unanswered == unansweredMax {
		return err
	}
	return nil
}

// sum returns all failures as one error.
func (x *failures) sum() error {
	if x.all > len(x.shown) {
		return errors.Join(append(x.shown, fmt.Errorf("and %d more", x.all-len(x.shown)))...)
	}
	return errors.Join(x.shown...)
}

// tables deletes rows of all workflows whose shards this node owns, also of deleted workflows, and rows that
// belong to no workflow. A failure of one workflow does not end the pass.
func (f *forgetting) tables(ctx context.Context) error {
	now, err := f.n.store.Clock(ctx)
	if err != nil {
		return err
	}
	f.passes++
	failed := &failures{}
	for after := ""; ; {
		page, err := f.n.store.Workflows(ctx, store.WorkflowQuery{After: after, Limit: 100})
		if err != nil {
			return errors.Join(failed.sum(), err)
		}
		for i := range page {
			after = page[i].Namespace + "/" + page[i].Name
			if err := f.look(ctx, &page[i], now, failed); err != nil {
				return errors.Join(failed.sum(), err)
			}
		}
		if len(page) < 100 {
			break
		}
	}
	for after := dag.WorkflowID(0); ; {
		page, err := f.rows.DeletedWorkflows(ctx, after, 100)
		if err != nil {
			return errors.Join(failed.sum(), err)
		}
		for i := range page {
			after = page[i].ID
			if err := f.look(ctx, &page[i], now, failed); err != nil {
				return errors.Join(failed.sum(), err)
			}
		}
		if len(page) < 100 {
			break
		}
	}
	f.dropUnseen()
	return errors.Join(failed.sum(), f.records(ctx, now))
}

// dropUnseen drops the memory of workflows that this pass has not seen: they are gone, or their shards belong
// to another node.
func (f *forgetting) dropUnseen() {
	maps.DeleteFunc(f.turns, func(_ dag.WorkflowID, t turn) bool { return t.pass != f.passes })
	maps.DeleteFunc(f.rules, func(id dag.WorkflowID, _ rule) bool { return f.turns[id].pass != f.passes })
}

// look deletes rows of a workflow if its turn has come. It returns an error only if the pass must end.
func (f *forgetting) look(ctx context.Context, w *store.Workflow, now dag.Micros, failed *failures) error {
	if !f.owns(w.Shard) {
		return nil
	}
	t := f.turns[w.ID]
	if t.pass = f.passes; now < t.next {
		f.turns[w.ID] = t
		return nil
	}
	gone, err := f.workflow(ctx, w, &t, now)
	if errors.Is(err, store.ErrFenced) {
		return nil // another node owns the shard by now
	}
	if t.wait = min(2*t.wait, forgetIdle); gone > 0 || t.wait == 0 {
		t.wait = forgetEvery
	}
	t.next = now + dag.Micros(t.wait.Microseconds()) - dag.Micros(forgetEvery.Microseconds())/2
	f.turns[w.ID] = t
	return failed.add(ctx, "workflow "+w.Namespace+"/"+w.Name, err)
}

// workflow deletes runs of a workflow and, once in pastEvery, its other rows. It returns the number of
// deleted rows.
func (f *forgetting) workflow(ctx context.Context, w *store.Workflow, t *turn, now dag.Micros) (gone int, err error) {
	r, err := f.rule(ctx, w)
	if err != nil {
		return 0, err
	}
	if gone, err = f.runs(ctx, w, &r, now); err != nil || now < t.past {
		return gone, err
	}
	n, more, err := f.past(ctx, w, &r, t, now)
	gone += n
	if err == nil && w.State == store.WorkflowDeleted {
		n, moreRows, failed := f.deleted(ctx, w, now)
		gone, more, err = gone+n, more || moreRows, failed
	}
	switch {
	case more:
		t.wait = 0 // the next pass continues
	case err == nil:
		t.past = now + dag.Micros(pastEvery.Microseconds())
	}
	return gone, err
}

// past deletes lines of the ledger, backfills and versions of a workflow. more reports whether the next pass
// has to continue.
func (f *forgetting) past(ctx context.Context, w *store.Workflow, r *rule, t *turn, now dag.Micros) (gone int, more bool, err error) {
	b := &f.n.keeping().Bounds
	x := store.FireExpiry{Shard: w.Shard, Workflow: w.ID, Plain: before(now, b.FiresAge), Exceptions: before(now, b.ExceptionsAge), Keep: b.Fires,
		Limit: pastRows, Days: store.DayOf(before(now, b.DaysAge)), After: t.fires}
	lines, moreLines, err := f.steps(ctx, func() (n int, more bool, err error) {
		did, err := f.rows.ExpireFires(ctx, f.owner(), x)
		if err == nil {
			x.After = did.Next
		}
		return did.Gone, did.Next != store.FireKey{}, err
	})
	t.fires = x.After
	fills := store.BackfillExpiry{Shard: w.Shard, Workflow: w.ID, Before: before(now, b.BackfillsAge), Keep: b.Backfills, Limit: pastRows}
	instants, moreFills, failed := f.steps(ctx, func() (n int, more bool, err error) {
		n, err = f.rows.ExpireBackfills(ctx, f.owner(), fills)
		return n, n > 0, err
	})
	err = errors.Join(err, failed)
	v := store.VersionExpiry{Shard: w.Shard, Workflow: w.ID, Superseded: now - dag.Micros(f.superseded.Microseconds()), Keep: b.Versions, Limit: forgetVersions}
	if r.emitted {
		v.Keep = 1 // each other list of tasks is another version
	}
	versions, moreVersions, failed := f.steps(ctx, func() (n int, more bool, err error) {
		n, err = f.rows.ExpireVersions(ctx, f.owner(), v)
		return n, n == v.Limit, err
	})
	err = errors.Join(err, failed)
	if gone = lines + instants + versions; gone > 0 {
		f.n.log.Info("old fires, backfills and versions deleted", "code", "past_deleted", "workflow", w.Namespace+"/"+w.Name, "fires", lines,
			"backfill_rows", instants, "versions", versions)
	}
	return gone, moreLines || moreFills || moreVersions, err
}

// steps repeats a step until it reports that there is no more to do, at most pastSteps times. After each step
// it rests for forgetRest times as long as the step took. more reports whether work is left.
func (f *forgetting) steps(ctx context.Context, step func() (n int, more bool, err error)) (all int, more bool, err error) {
	for range pastSteps {
		began := time.Now()
		var n int
		n, more, err = step()
		all += n
		if err != nil || !more {
			return all, more, err
		}
		select {
		case <-ctx.Done():
			return all, more, ctx.Err()
		case <-time.After(forgetRest * time.Since(began)):
		}
	}
	return all, more, nil
}

// deleted deletes the rows of a deleted workflow once its runs are gone, and at last its own row. A retention
// age of 0 keeps it for ever.
func (f *forgetting) deleted(ctx context.Context, w *store.Workflow, now dag.Micros) (gone int, more bool, err error) {
	age := f.n.keeping().RetentionAge
	if age == 0 {
		return 0, false, nil
	}
	x := store.WorkflowExpiry{Shard: w.Shard, Workflow: w.ID, Before: before(now, max(age, deletedMin)), Limit: pastRows}
	gone, more, err = f.steps(ctx, func() (n int, more bool, err error) {
		n, err = f.rows.ExpireWorkflow(ctx, f.owner(), x)
		return n, n > 0, err
	})
	if gone > 0 && err == nil && !more {
		f.folders(ctx, w)
		f.n.log.Info("deleted workflow removed", "code", "workflow_gone", "workflow", w.Namespace+"/"+w.Name, "rows", gone)
	}
	return gone, more, err
}

// folders deletes the empty folders of a workflow that is gone. A folder that is not empty stays: the files
// of runs are deleted separately.
func (f *forgetting) folders(ctx context.Context, w *store.Workflow) {
	if _, err := f.n.store.Workflow(ctx, w.Namespace, w.Name); !errors.Is(err, store.ErrNotFound) {
		return // there is a new one of this name
	}
	for _, root := range f.roots() {
		_ = os.Remove(filepath.Join(root, w.Namespace, w.Name))
	}
}

// records deletes rows that belong to no workflow.
func (f *forgetting) records(ctx context.Context, now dag.Micros) error {
	if !f.owns(recordsShard) {
		return nil
	}
	b := &f.n.keeping().Bounds
	x := store.RecordExpiry{Shard: recordsShard, Requests: before(now, b.KeysAge), RequestsKeep: b.Keys,
		Calls: before(now, b.CallsAge), CallsKeep: b.Calls, Records: before(now, b.RecordsAge),
		RecordsMin: before(now, f.n.keeping().RetentionAge), RecordsKeep: b.Records, Limit: pastRows}
	n, _, err := f.steps(ctx, func() (n int, more bool, err error) {
		n, err = f.rows.ExpireRecords(ctx, f.owner(), x)
		return n, n > 0, err
	})
	if n > 0 {
		f.n.log.Info("old records deleted", "code", "records_deleted", "rows", n)
	}
	if errors.Is(err, store.ErrFenced) {
		return nil
	}
	return err
}
