package memory

import (
	"cmp"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// schedules are the rows of triggers, their ledger and backfills.
type schedules struct {
	triggers     map[store.TriggerKey]store.Trigger
	ledger       map[store.TriggerKey][]store.Fire    // sorted by At, then Key
	days         map[store.TriggerKey][]store.FireDay // sorted by Day
	backfills    map[int64]store.Backfill
	backfillRuns map[int64][]store.BackfillRun // sorted by Instant
}

func newSchedules() schedules {
	return schedules{
		triggers: map[store.TriggerKey]store.Trigger{}, ledger: map[store.TriggerKey][]store.Fire{},
		days:      map[store.TriggerKey][]store.FireDay{},
		backfills: map[int64]store.Backfill{}, backfillRuns: map[int64][]store.BackfillRun{},
	}
}

func keyOf(t *store.Trigger) store.TriggerKey {
	return store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
}

func cloneTrigger(t store.Trigger) store.Trigger {
	t.Spec, t.Data, t.On = blob(t.Spec), blob(t.Data), slices.Clone(t.On)
	return t
}

func cloneFire(f store.Fire) store.Fire { return f }

func cloneBackfill(f store.Backfill) store.Backfill {
	f.Spec, f.Instants = blob(f.Spec), blob(f.Instants)
	return f
}

func cloneBackfillRun(r store.BackfillRun) store.BackfillRun { return r }

func byTriggerKey(a, b store.TriggerKey) int {
	return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Name, b.Name))
}

func byInstant(a, b store.Fire) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key))
}

func byBackfillInstant(a, b store.BackfillRun) int { return cmp.Compare(a.Instant, b.Instant) }

func (x *tx) applySchedules(c *store.ScheduleChanges) error {
	return firstError(
		c.Check,
		func() error { return each(c.TriggerInserts, x.insertTrigger) },
		func() error { return each(c.TriggerUpdates, x.updateTrigger) },
		func() error { return each(c.TriggerDeletes, x.deleteTrigger) },
		func() error { return each(c.Fires, x.insertFire) },
		func() error { return each(c.FireUpdates, x.updateFire) },
		func() error { return each(c.BackfillInserts, x.insertBackfill) },
		func() error { return each(c.BackfillUpdates, x.updateBackfill) },
		func() error { return each(c.BackfillRuns, x.insertBackfillRun) },
		func() error { return x.raiseWatermark(c.Watermark) },
	)
}

// fenced checks that the shard of a new row exists and that the transaction may write it.
func (x *tx) fenced(id dag.ShardID, what string) error {
	if !hasShard(x.s, id) {
		return refused("%s: there is no shard %d", what, id)
	}
	if _, fenced := x.seqs[id]; !fenced {
		return missed("%s is of shard %d, which has no fence", what, id)
	}
	return nil
}

func checkTrigger(t *store.Trigger) error {
	if err := checkTexts("trigger", append([]string{t.Name, t.Kind, t.Actor, t.Reason}, t.On...)...); err != nil {
		return err
	}
	return checkSize("trigger "+t.Name, len(t.Name)+len(t.Kind)+len(t.Actor)+len(t.Reason))
}

func (x *tx) insertTrigger(t *store.Trigger) error {
	if err := checkTrigger(t); err != nil {
		return err
	}
	if err := x.fenced(t.Shard, "trigger "+t.Name); err != nil {
		return err
	}
	s, k := x.s, keyOf(t)
	if _, exists := s.triggers[k]; exists {
		return refused("trigger %s of workflow %d exists", t.Name, t.Workflow)
	}
	s.triggers[k] = cloneTrigger(*t)
	x.onUndo(func() { delete(s.triggers, k) })
	return nil
}

// trigger finds the row that the transaction changes, at a revision.
func (x *tx) trigger(t *store.Trigger, revision int64) (store.Trigger, error) {
	old, exists := x.s.triggers[keyOf(t)]
	if !exists || old.Revision != revision {
		return old, missed("trigger %s of workflow %d is at revision %d, not %d", t.Name, t.Workflow, old.Revision, revision)
	}
	return old, x.fenced(old.Shard, "trigger "+t.Name)
}

func (x *tx) updateTrigger(t *store.Trigger) error {
	if err := checkTrigger(t); err != nil {
		return err
	}
	old, err := x.trigger(t, t.Revision-1)
	if err != nil {
		return err
	}
	s, k, next := x.s, keyOf(t), cloneTrigger(*t)
	next.Shard, next.Created = old.Shard, old.Created // written once
	s.triggers[k] = next
	x.onUndo(func() { s.triggers[k] = old })
	return nil
}

func (x *tx) deleteTrigger(t *store.Trigger) error {
	old, err := x.trigger(t, t.Revision)
	if err != nil {
		return err
	}
	s, k := x.s, keyOf(t)
	delete(s.triggers, k)
	x.onUndo(func() { s.triggers[k] = old })
	return nil
}

func checkFire(f *store.Fire) error {
	if err := checkTexts("fire", f.Trigger, f.Key, string(f.Reason)); err != nil {
		return err
	}
	return checkSize("fire of trigger "+f.Trigger, len(f.Trigger)+len(f.Key)+len(f.Reason))
}

func (x *tx) insertFire(f *store.Fire) error {
	if err := checkFire(f); err != nil {
		return err
	}
	s, k := x.s, store.TriggerKey{Workflow: f.Workflow, Name: f.Trigger}
	i, exists := slices.BinarySearchFunc(s.ledger[k], *f, byInstant)
	if exists {
		return refused("fire of trigger %s of workflow %d at %d with key %q exists", f.Trigger, f.Workflow, f.At, f.Key)
	}
	s.ledger[k] = slices.Insert(s.ledger[k], i, *f)
	x.onUndo(func() { s.ledger[k] = slices.Delete(s.ledger[k], i, i+1) })
	return nil
}

func (x *tx) updateFire(u *store.FireUpdate) error {
	if err := checkFire(&u.Fire); err != nil {
		return err
	}
	lines := x.s.ledger[store.TriggerKey{Workflow: u.Workflow, Name: u.Trigger}]
	i, exists := slices.BinarySearchFunc(lines, u.Fire, byInstant)
	if !exists || lines[i].Outcome != u.WasOutcome || lines[i].Count != u.WasCount {
		return missed("fire of trigger %s of workflow %d at %d is not %d times %s", u.Trigger, u.Workflow, u.At, u.WasCount, u.WasOutcome)
	}
	old := lines[i]
	lines[i] = u.Fire
	x.onUndo(func() { lines[i] = old })
	return nil
}

func (x *tx) insertBackfill(f *store.Backfill) error {
	what := fmt.Sprintf("backfill %d", f.ID)
	if err := checkTexts(what, f.Trigger, f.User); err != nil {
		return err
	}
	if err := checkSize(what, len(f.Trigger)+len(f.User)+len(f.Instants)); err != nil {
		return err
	}
	if err := x.fenced(f.Shard, what); err != nil {
		return err
	}
	s, id := x.s, f.ID
	if _, exists := s.backfills[id]; exists {
		return refused("%s exists", what)
	}
	s.backfills[id] = cloneBackfill(*f)
	x.onUndo(func() { delete(s.backfills, id) })
	return nil
}

func (x *tx) updateBackfill(f *store.Backfill) error {
	s, id := x.s, f.ID
	old, exists := s.backfills[id]
	if !exists || old.Revision != f.Revision-1 {
		return missed("backfill %d is at revision %d, the batch makes %d", id, old.Revision, f.Revision)
	}
	if err := x.fenced(old.Shard, "a backfill"); err != nil {
		return err
	}
	next := old // the request is written once
	next.State, next.Started, next.Ended, next.Failed = f.State, f.Started, f.Ended, f.Failed
	next.Parallel, next.Revision, next.Modified = f.Parallel, f.Revision, f.Modified
	s.backfills[id] = next
	x.onUndo(func() { s.backfills[id] = old })
	return nil
}

func (x *tx) insertBackfillRun(r *store.BackfillRun) error {
	s, id := x.s, r.Backfill
	i, exists := slices.BinarySearchFunc(s.backfillRuns[id], *r, byBackfillInstant)
	if exists {
		return refused("backfill %d has a run for the instant %d", id, r.Instant)
	}
	s.backfillRuns[id] = slices.Insert(s.backfillRuns[id], i, *r)
	x.onUndo(func() { s.backfillRuns[id] = slices.Delete(s.backfillRuns[id], i, i+1) })
	return nil
}

func (x *tx) raiseWatermark(to dag.Micros) error {
	if to == 0 {
		return nil
	}
	for id := range x.seqs {
		sh := &x.s.shards[id]
		old := sh.watermark
		sh.watermark = max(old, to)
		x.onUndo(func() { sh.watermark = old })
	}
	return nil
}
