package sqlite

import (
	"fmt"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// schedules writes the changes of a transaction to triggers, their ledger and backfills.
func (d *DB) schedules(b *store.Batch) error {
	if err := b.ScheduleChanges.Check(); err != nil {
		return err
	}
	for _, step := range []func(*store.ScheduleChanges) error{d.triggers, d.fires, d.backfills} {
		if err := step(&b.ScheduleChanges); err != nil {
			return err
		}
	}
	if b.Watermark == 0 {
		return nil
	}
	for _, f := range b.Fences {
		if err := d.stmts.raiseWatermark.row().int(int64(f.Shard)).int(int64(b.Watermark)).one(d.conn); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) triggers(c *store.ScheduleChanges) error {
	for i := range c.TriggerInserts {
		if err := d.insertTrigger(&c.TriggerInserts[i]); err != nil {
			return err
		}
	}
	for i := range c.TriggerUpdates {
		if err := d.updateTrigger(&c.TriggerUpdates[i]); err != nil {
			return err
		}
	}
	for i := range c.TriggerDeletes {
		t := &c.TriggerDeletes[i]
		heard, err := d.whatTriggerHears(t)
		if err != nil {
			return err
		}
		if err := d.stmts.dropTrigger.row().int(int64(t.Workflow)).text(t.Name).int(t.Revision).one(d.conn); err != nil {
			return err
		}
		if err := d.listen(d.stmts.unhear, t, heard); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) insertTrigger(t *store.Trigger) error {
	if err := checkShard(t.Shard); err != nil {
		return fmt.Errorf("trigger %s: %w", t.Name, err)
	}
	hears, err := packed.PackHears(t.On, checkText)
	if err != nil {
		return err
	}
	s := d.stmts.insertTrigger.row().int(int64(t.Workflow)).text(t.Name).int(int64(t.Shard)).int(int64(t.Created)).
		text(t.Kind).text(t.State).textOrNull(hears)
	if _, err := triggerState(s, t).exec(d.conn); err != nil {
		return err
	}
	return d.hear(t)
}

// updateTrigger writes a changed trigger. It first tries the statement for the update that a fire makes,
// because nearly all updates are of this form. A fire changes no column on which other tables depend.
func (d *DB) updateTrigger(t *store.Trigger) error {
	hears, err := packed.PackHears(t.On, checkText)
	if err != nil {
		return err
	}
	key := func(s *stmt) *stmt {
		return triggerState(s.row().int(int64(t.Workflow)).text(t.Name).text(t.Kind).text(t.State).textOrNull(hears), t)
	}
	if n, err := key(d.stmts.moveTrigger).exec(d.conn); err != nil || n == 1 {
		return err
	}
	heard, err := d.whatTriggerHears(t)
	if err != nil {
		return err
	}
	if err := key(d.stmts.editTrigger).one(d.conn); err != nil {
		return err
	}
	if err := d.listen(d.stmts.unhear, t, heard); err != nil {
		return err
	}
	return d.hear(t)
}

// triggerState binds the columns of a trigger that any update changes.
func triggerState(s *stmt, t *store.Trigger) *stmt {
	return s.int(t.Revision).int(int64(t.Version)).text(t.Actor).text(t.Reason).int(int64(t.Next)).int(int64(t.Decided)).
		int(int64(t.Since)).int(t.Fired).int(int64(t.MaxRuns)).int(int64(t.Modified)).blob(t.Data).blob(t.Spec)
}

func (d *DB) hear(t *store.Trigger) error {
	if t.State != store.TriggerActive {
		return nil
	}
	return d.listen(d.stmts.hear, t, t.On)
}

func (d *DB) listen(s *stmt, t *store.Trigger, names []string) error {
	for _, name := range names {
		if _, err := s.row().text(name).int(int64(t.Workflow)).text(t.Name).exec(d.conn); err != nil {
			return err
		}
	}
	return nil
}

// whatTriggerHears reads the names of workflows in a trigger's row inside the transaction.
func (d *DB) whatTriggerHears(t *store.Trigger) ([]string, error) {
	s := d.stmts.whatTriggerHears.row().int(int64(t.Workflow)).text(t.Name)
	if s.fail != nil {
		return nil, s.fail
	}
	found, err := s.Step()
	if err != nil {
		return nil, translate(s.name, err)
	}
	text := ""
	if found {
		text = s.ColumnText(0)
	}
	if err := s.Reset(); err != nil {
		return nil, translate(s.name, err)
	}
	return packed.UnpackHears(text)
}

func (d *DB) fires(c *store.ScheduleChanges) error {
	for i := range c.Fires {
		if _, err := fireState(d.stmts.insertFire, &c.Fires[i]).exec(d.conn); err != nil {
			return err
		}
	}
	for i := range c.FireUpdates {
		u := &c.FireUpdates[i]
		if err := fireState(d.stmts.updateFire, &u.Fire).text(u.WasOutcome).int(u.WasCount).one(d.conn); err != nil {
			return err
		}
	}
	return nil
}

// fireState binds the columns of a line that can change.
func fireState(s *stmt, f *store.Fire) *stmt {
	s.row().int(int64(f.Workflow)).text(f.Trigger).int(int64(f.At)).text(f.Key).int(int64(f.Last)).int(f.Count).
		text(f.Outcome).text(string(f.Reason))
	if f.Run.IsZero() {
		s.null()
	} else {
		s.blob(f.Run[:])
	}
	return s.int(int64(f.Decided))
}

func (d *DB) backfills(c *store.ScheduleChanges) error {
	for i := range c.BackfillInserts {
		f := &c.BackfillInserts[i]
		if err := checkShard(f.Shard); err != nil {
			return fmt.Errorf("backfill %d: %w", f.ID, err)
		}
		s := backfillState(d.stmts.insertBackfill, f).int(int64(f.Workflow)).int(int64(f.Shard)).text(f.Trigger).int(f.Total).
			text(f.User).int(int64(f.Created)).blob(f.Spec).blob(f.Instants)
		if _, err := s.exec(d.conn); err != nil {
			return err
		}
	}
	for i := range c.BackfillUpdates {
		if err := backfillState(d.stmts.updateBackfill, &c.BackfillUpdates[i]).one(d.conn); err != nil {
			return err
		}
	}
	for i := range c.BackfillRuns {
		r := &c.BackfillRuns[i]
		s := d.stmts.insertBackfillRun.row().int(r.Backfill).int(int64(r.Instant)).int(int64(r.Workflow)).blob(r.Run[:])
		if _, err := s.exec(d.conn); err != nil {
			return err
		}
	}
	return nil
}

// backfillState binds the progress of a backfill.
func backfillState(s *stmt, f *store.Backfill) *stmt {
	return s.row().int(f.ID).text(f.State).int(f.Started).int(f.Ended).int(f.Failed).int(int64(f.Parallel)).
		int(f.Revision).int(int64(f.Modified))
}
