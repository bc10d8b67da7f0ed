package postgres

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// checkSchedules refuses faults that can be found without the database.
func (d *DB) checkSchedules(c *store.ScheduleChanges) error {
	if err := c.Check(); err != nil {
		return err
	}
	for i := range c.TriggerInserts {
		if t := &c.TriggerInserts[i]; !d.hasShard(t.Shard) {
			return fmt.Errorf("trigger %s: there is no shard %d: %w", t.Name, t.Shard, store.ErrRefused)
		}
	}
	for i := range c.BackfillInserts {
		if f := &c.BackfillInserts[i]; !d.hasShard(f.Shard) {
			return fmt.Errorf("backfill %d: there is no shard %d: %w", f.ID, f.Shard, store.ErrRefused)
		}
	}
	return nil
}

// schedules writes the changes of a transaction to triggers, their ledger and backfills.
func (x *tx) schedules(b *store.Batch) {
	c := &b.ScheduleChanges
	for _, step := range []func(*store.ScheduleChanges){x.insertTriggers, x.updateTriggers, x.deleteTriggers, x.fires,
		x.updateFires, x.backfills, x.backfillRuns} {
		if x.fail != nil {
			return
		}
		step(c)
	}
}

func (x *tx) insertTriggers(c *store.ScheduleChanges) {
	rows, hear := x.conn.room("insertTrigger"), x.conn.room("hear")
	for i := range c.TriggerInserts {
		t := &c.TriggerInserts[i]
		rows.row().text(t.Name).int8(int64(t.Workflow)).int4(int32(t.Shard)).int8(int64(t.Created))
		x.triggerState(rows, t)
		hears(hear, t)
		x.full(rows)
		x.full(hear)
	}
	x.push(rows)
	x.push(hear)
}

// triggerState appends the columns of a trigger that any update changes.
func (x *tx) triggerState(rows *rows, t *store.Trigger) {
	names, err := packed.PackHears(t.On, checkText)
	if err != nil && x.fail == nil {
		x.fail = fmt.Errorf("the workflows to which trigger %s listens: %w: %w", t.Name, store.ErrRefused, err)
	}
	rows.text(t.Kind).text(t.State).textOrNull(names).int8(t.Revision).int4(t.Version).text(t.Actor).text(t.Reason).
		int8(int64(t.Next)).int8(int64(t.Decided)).int8(int64(t.Since)).int8(t.Fired).int4(t.MaxRuns).
		int8(int64(t.Modified)).blob(t.Data).blob(t.Spec)
}

// hears appends the names of the workflows to which a trigger listens. In the trigger's row they are JSON.
// They are also appended as texts, so that the database checks their content.
func hears(rows *rows, t *store.Trigger) {
	if t.State != store.TriggerActive {
		return
	}
	for _, target := range t.On {
		rows.row().text(t.Name).int8(int64(t.Workflow)).text(target)
	}
}

func (x *tx) updateTriggers(c *store.ScheduleChanges) {
	rows, unhear, hear := x.conn.room("updateTrigger"), x.conn.room("unhear"), x.conn.room("hear")
	seen := map[store.TriggerKey]bool{}
	push := func() {
		x.push(rows)
		x.push(unhear)
		x.push(hear)
		clear(seen)
	}
	for i := range c.TriggerUpdates {
		t := &c.TriggerUpdates[i]
		k := store.TriggerKey{Workflow: t.Workflow, Name: t.Name}
		if seen[k] || rows.n >= chunkRows { // a statement may change a row only once
			push()
		}
		seen[k] = true
		rows.row().text(t.Name).int8(int64(t.Workflow))
		x.triggerState(rows, t)
		unhear.row().text(t.Name).int8(int64(t.Workflow))
		hears(hear, t)
	}
	push()
}

func (x *tx) deleteTriggers(c *store.ScheduleChanges) {
	rows, unhear := x.conn.room("deleteTrigger"), x.conn.room("unhear")
	for i := range c.TriggerDeletes {
		t := &c.TriggerDeletes[i]
		rows.row().text(t.Name).int8(int64(t.Workflow)).int8(t.Revision)
		unhear.row().text(t.Name).int8(int64(t.Workflow))
		x.full(rows)
		x.full(unhear)
	}
	x.push(rows)
	x.push(unhear)
}

func (x *tx) fires(c *store.ScheduleChanges) {
	rows := x.conn.room("insertFire")
	for i := range c.Fires {
		f := &c.Fires[i]
		fireState(rows.row().text(f.Trigger).int8(int64(f.Workflow)).int8(int64(f.At)).text(f.Key), f)
		x.full(rows)
	}
	x.push(rows)
}

// fireState appends the columns of a line that can change.
func fireState(rows *rows, f *store.Fire) {
	rows.int8(int64(f.Last)).int8(f.Count).text(f.Outcome).text(string(f.Reason)).idOrNull(&f.Run).int8(int64(f.Decided))
}

func (x *tx) updateFires(c *store.ScheduleChanges) {
	type key struct {
		store.TriggerKey
		at  dag.Micros
		key string
	}
	rows := x.conn.room("updateFire")
	seen := map[key]bool{}
	for i := range c.FireUpdates {
		f := &c.FireUpdates[i]
		k := key{store.TriggerKey{Workflow: f.Workflow, Name: f.Trigger}, f.At, f.Key}
		if seen[k] { // a statement may change a row only once
			x.push(rows)
			clear(seen)
		}
		seen[k] = true
		rows.row().text(f.Trigger).int8(int64(f.Workflow)).int8(int64(f.At)).text(f.Key).text(f.WasOutcome).int8(f.WasCount)
		fireState(rows, &f.Fire)
		x.full(rows)
	}
	x.push(rows)
}

func (x *tx) backfills(c *store.ScheduleChanges) {
	rows := x.conn.room("insertBackfill")
	for i := range c.BackfillInserts {
		f := &c.BackfillInserts[i]
		backfillState(rows, f)
		rows.int8(int64(f.Workflow)).int4(int32(f.Shard)).text(f.Trigger).int8(f.Total).text(f.User).int8(int64(f.Created)).
			blob(f.Spec).blob(f.Instants)
		x.full(rows)
	}
	x.push(rows)
	// each update is one statement, because there are few updates and a backfill may occur twice
	for i := range c.BackfillUpdates {
		update := x.conn.room("updateBackfill")
		backfillState(update, &c.BackfillUpdates[i])
		x.push(update)
	}
}

// backfillState appends the columns of a backfill that can change.
func backfillState(rows *rows, f *store.Backfill) {
	rows.row().int8(f.ID).text(f.State).int8(f.Started).int8(f.Ended).int8(f.Failed).int4(f.Parallel).int8(f.Revision).
		int8(int64(f.Modified))
}

func (x *tx) backfillRuns(c *store.ScheduleChanges) {
	rows := x.conn.room("insertBackfillRun")
	for i := range c.BackfillRuns {
		r := &c.BackfillRuns[i]
		rows.row().int8(r.Backfill).int8(int64(r.Instant)).int8(int64(r.Workflow)).id(&r.Run)
		x.full(rows)
	}
	x.push(rows)
}
