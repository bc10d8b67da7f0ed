package retention

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
	// pastEvery is the interval at which the ledger, the backfills and the versions of a workflow are cleaned up.
	pastEvery = 24 * time.Hour
	// pastRows bounds the rows of one transaction. pastSteps bounds the transactions of one kind for one workflow
	// in a pass: the next pass continues.
	pastRows  = 500
	pastSteps = 200
	// tallyHours is the greatest age of counts of ended runs by hour.
	tallyHours = 35 * 24 * time.Hour
	// deletedMin is the least time for which a deleted workflow is kept.
	deletedMin = 7 * 24 * time.Hour
	// recordsShard is the shard whose owner deletes the rows that belong to no workflow.
	recordsShard dag.ShardID = 0
	// failuresShown bounds the failures of workflows that the error of a pass contains.
	failuresShown = 10
	// unansweredMax is the number of consecutive workflows without an answer of the database after which a
	// pass ends.
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
	unanswered int // the number of consecutive unanswered calls
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
func (c *Cleaner) tables(ctx context.Context) error {
	now, err := c.cfg.Store.Clock(ctx)
	if err != nil {
		return err
	}
	c.passes++
	failed := &failures{}
	for after := ""; ; {
		page, err := c.cfg.Store.Workflows(ctx, store.WorkflowQuery{After: after, Limit: 100})
		if err != nil {
			return errors.Join(failed.sum(), err)
		}
		for i := range page {
			after = page[i].Namespace + "/" + page[i].Name
			if err := c.look(ctx, &page[i], now, failed); err != nil {
				return errors.Join(failed.sum(), err)
			}
		}
		if len(page) < 100 {
			break
		}
	}
	for after := dag.WorkflowID(0); ; {
		page, err := c.rows.DeletedWorkflows(ctx, after, 100)
		if err != nil {
			return errors.Join(failed.sum(), err)
		}
		for i := range page {
			after = page[i].ID
			if err := c.look(ctx, &page[i], now, failed); err != nil {
				return errors.Join(failed.sum(), err)
			}
		}
		if len(page) < 100 {
			break
		}
	}
	c.dropUnseen()
	return errors.Join(failed.sum(), c.records(ctx, now))
}

// dropUnseen removes the state of workflows that this pass did not find, because they were deleted or their
// shards belong to another node.
func (c *Cleaner) dropUnseen() {
	maps.DeleteFunc(c.turns, func(_ dag.WorkflowID, t turn) bool { return t.pass != c.passes })
	maps.DeleteFunc(c.rules, func(id dag.WorkflowID, _ rule) bool { return c.turns[id].pass != c.passes })
}

// look deletes rows of a workflow if it is due. It returns an error only if the pass must end.
func (c *Cleaner) look(ctx context.Context, w *store.Workflow, now dag.Micros, failed *failures) error {
	if !c.cfg.Owns(w.Shard) {
		return nil
	}
	t := c.turns[w.ID]
	if t.pass = c.passes; now < t.next {
		c.turns[w.ID] = t
		return nil
	}
	gone, err := c.workflow(ctx, w, &t, now)
	if errors.Is(err, store.ErrFenced) {
		return nil // another node owns the shard now
	}
	if t.wait = min(2*t.wait, forgetIdle); gone > 0 || t.wait == 0 {
		t.wait = forgetEvery
	}
	t.next = now + dag.Micros(t.wait.Microseconds()) - dag.Micros(forgetEvery.Microseconds())/2
	c.turns[w.ID] = t
	return failed.add(ctx, "workflow "+w.Namespace+"/"+w.Name, err)
}

// workflow deletes runs of a workflow and, once in pastEvery, its other rows. It returns the number of
// deleted rows.
func (c *Cleaner) workflow(ctx context.Context, w *store.Workflow, t *turn, now dag.Micros) (gone int, err error) {
	r, err := c.rule(ctx, w)
	if err != nil {
		return 0, err
	}
	if gone, err = c.runs(ctx, w, &r, t, now); err != nil || now < t.past {
		return gone, err
	}
	n, more, err := c.past(ctx, w, &r, t, now)
	gone += n
	if err == nil && w.State == store.WorkflowDeleted {
		n, moreRows, failed := c.deleted(ctx, w, now)
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
func (c *Cleaner) past(ctx context.Context, w *store.Workflow, r *rule, t *turn, now dag.Micros) (gone int, more bool, err error) {
	b := c.cfg.Rules().Bounds
	x := store.FireExpiry{Shard: w.Shard, Workflow: w.ID, Plain: before(now, b.FiresAge), Exceptions: before(now, b.ExceptionsAge), Keep: b.Fires,
		Limit: pastRows, Days: store.DayOf(before(now, b.DaysAge)), After: t.fires}
	lines, moreLines, err := c.steps(ctx, func() (n int, more bool, err error) {
		did, err := c.rows.ExpireFires(ctx, c.cfg.Owner(), x)
		if err == nil {
			x.After = did.Next
		}
		return did.Gone, did.Next != store.FireKey{}, err
	})
	t.fires = x.After
	fills := store.BackfillExpiry{Shard: w.Shard, Workflow: w.ID, Before: before(now, b.BackfillsAge), Keep: b.Backfills, Limit: pastRows}
	instants, moreFills, failed := c.steps(ctx, func() (n int, more bool, err error) {
		n, err = c.rows.ExpireBackfills(ctx, c.cfg.Owner(), fills)
		return n, n > 0, err
	})
	err = errors.Join(err, failed)
	counts, moreCounts, failed := c.counts(ctx, w, now)
	err = errors.Join(err, failed)
	v := store.VersionExpiry{Shard: w.Shard, Workflow: w.ID, Superseded: now - dag.Micros(c.cfg.Superseded.Microseconds()), Keep: b.Versions, Limit: forgetVersions}
	if r.emitted {
		v.Keep = 1 // each different list of emitted tasks is another version
	}
	versions, moreVersions, failed := c.steps(ctx, func() (n int, more bool, err error) {
		n, err = c.rows.ExpireVersions(ctx, c.cfg.Owner(), v)
		return n, n == v.Limit, err
	})
	err = errors.Join(err, failed)
	if gone = lines + instants + versions + counts; gone > 0 {
		c.cfg.Log.Info("old fires, backfills and versions were deleted", "code", "past_deleted", "workflow", w.Namespace+"/"+w.Name, "fires", lines,
			"backfill_rows", instants, "versions", versions, "counts", counts)
	}
	return gone, moreLines || moreFills || moreVersions || moreCounts, err
}

// counts deletes old counts of ended runs.
func (c *Cleaner) counts(ctx context.Context, w *store.Workflow, now dag.Micros) (gone int, more bool, err error) {
	age := c.cfg.Rules().TallyAge
	hours := tallyHours
	if age > 0 {
		hours = min(hours, age)
	}
	x := store.TallyExpiry{Shard: w.Shard, Workflow: w.ID, Days: store.DayOf(before(now, age)), Hours: store.HourOf(before(now, hours)), Limit: pastRows}
	return c.steps(ctx, func() (n int, more bool, err error) {
		n, err = c.cfg.Store.ExpireTally(ctx, c.cfg.Owner(), x)
		return n, n == x.Limit, err
	})
}

// steps repeats a step until the step reports that no work is left, at most pastSteps times. After each step
// it pauses for Config.Rest. more reports whether work is left.
func (c *Cleaner) steps(ctx context.Context, step func() (n int, more bool, err error)) (all int, more bool, err error) {
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
		case <-time.After(c.cfg.rest(time.Since(began))):
		}
	}
	return all, more, nil
}

// deleted deletes the rows of a deleted workflow after its runs are gone, and finally the row of the
// workflow. With a retention age of 0, the row is kept for ever.
func (c *Cleaner) deleted(ctx context.Context, w *store.Workflow, now dag.Micros) (gone int, more bool, err error) {
	age := c.cfg.Rules().Age
	if age == 0 {
		return 0, false, nil
	}
	x := store.WorkflowExpiry{Shard: w.Shard, Workflow: w.ID, Before: before(now, max(age, deletedMin)), Limit: pastRows}
	gone, more, err = c.steps(ctx, func() (n int, more bool, err error) {
		n, err = c.rows.ExpireWorkflow(ctx, c.cfg.Owner(), x)
		return n, n > 0, err
	})
	if gone > 0 && err == nil && !more {
		c.folders(ctx, w)
		c.cfg.Log.Info("a deleted workflow was removed for good", "code", "workflow_gone", "workflow", w.Namespace+"/"+w.Name, "rows", gone)
	}
	return gone, more, err
}

// folders deletes the empty folders of a deleted workflow. A folder that is not empty stays, because the
// files of runs are deleted separately.
func (c *Cleaner) folders(ctx context.Context, w *store.Workflow) {
	if _, err := c.cfg.Store.Workflow(ctx, w.Namespace, w.Name); !errors.Is(err, store.ErrNotFound) {
		return // a new workflow has this name
	}
	for _, root := range c.cfg.Roots {
		_ = os.Remove(filepath.Join(root, w.Namespace, w.Name))
	}
}

// records deletes rows that belong to no workflow.
func (c *Cleaner) records(ctx context.Context, now dag.Micros) error {
	if !c.cfg.Owns(recordsShard) {
		return nil
	}
	b := c.cfg.Rules().Bounds
	x := store.RecordExpiry{Shard: recordsShard, Requests: before(now, b.KeysAge), RequestsKeep: b.Keys,
		Calls: before(now, b.CallsAge), CallsKeep: b.Calls, Events: before(now, b.EventsAge), EventsKeep: b.Events, Records: before(now, b.RecordsAge),
		RecordsMin: before(now, c.cfg.Rules().Age), RecordsKeep: b.Records, Limit: pastRows}
	n, _, err := c.steps(ctx, func() (n int, more bool, err error) {
		n, err = c.rows.ExpireRecords(ctx, c.cfg.Owner(), x)
		return n, n > 0, err
	})
	if n > 0 {
		c.cfg.Log.Info("old records were deleted", "code", "records_deleted", "rows", n)
	}
	if errors.Is(err, store.ErrFenced) {
		return nil
	}
	return errors.Join(err, c.incidents(ctx, before(now, b.FiresAge)))
}

// incidentsKeep bounds the number of ended incidents in the database, because a rule with each makes one
// incident for each run.
const incidentsKeep = 100_000

// incidents deletes incidents that ended before a time, or that exceed incidentsKeep, with their notices.
func (c *Cleaner) incidents(ctx context.Context, before dag.Micros) error {
	n, _, err := c.steps(ctx, func() (n int, more bool, err error) {
		n, err = c.cfg.Store.ExpireIncidents(ctx, store.IncidentExpiry{Before: before, Keep: incidentsKeep, Limit: pastRows})
		return n, n > 0, err
	})
	if n > 0 {
		c.cfg.Log.Info("old incidents were deleted", "code", "incidents_deleted", "incidents", n)
	}
	return err
}
