package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// listSize bounds lists for which the contract has a bound.
func listSize(limit int) int { return min(pageSize(limit), pageMax) }

// Clock reads the clock of the store.
func (s *Store) Clock(ctx context.Context) (dag.Micros, error) {
	var now dag.Micros
	err := s.read(ctx, Read, func() error {
		now = s.clock()
		return nil
	})
	return now, err
}

// Trigger reads one trigger.
func (s *Store) Trigger(ctx context.Context, w dag.WorkflowID, name string) (store.Trigger, error) {
	var t store.Trigger
	err := s.read(ctx, Read, func() error {
		row, found := s.triggers[store.TriggerKey{Workflow: w, Name: name}]
		if !found {
			return fmt.Errorf("trigger %s of workflow %d: %w", name, w, store.ErrNotFound)
		}
		t = cloneTrigger(row)
		return nil
	})
	return t, err
}

// selectTriggers copies the triggers that match, up to the limit, in an order.
func (s *Store) selectTriggers(ctx context.Context, limit int, match func(*store.Trigger) bool, order func(a, b store.Trigger) int) ([]store.Trigger, error) {
	var found []store.Trigger
	err := s.read(ctx, Read, func() error {
		var rows []store.Trigger
		for _, t := range s.triggers {
			if match(&t) {
				rows = append(rows, t)
			}
		}
		slices.SortFunc(rows, order)
		found = page(rows, limit, cloneTrigger)
		return nil
	})
	return found, err
}

func byKeyOf(a, b store.Trigger) int { return byTriggerKey(keyOf(&a), keyOf(&b)) }

func byNext(a, b store.Trigger) int { return cmp.Or(cmp.Compare(a.Next, b.Next), byKeyOf(a, b)) }

// Triggers lists triggers, ordered by their keys.
func (s *Store) Triggers(ctx context.Context, q store.TriggerQuery) ([]store.Trigger, error) {
	return s.selectTriggers(ctx, listSize(q.Limit), func(t *store.Trigger) bool {
		return (q.Workflow == 0 || t.Workflow == q.Workflow) && (q.State == "" || t.State == q.State) && byTriggerKey(keyOf(t), q.After) > 0
	}, byKeyOf)
}

// Due reads the triggers that are due, the earliest first.
func (s *Store) Due(ctx context.Context, shards []dag.ShardID, until dag.Micros, limit int) ([]store.Trigger, error) {
	return s.selectTriggers(ctx, limit, func(t *store.Trigger) bool {
		return t.Next > 0 && t.Next <= until && slices.Contains(shards, t.Shard)
	}, byNext)
}

// NextDue returns the earliest Next of the triggers of some shards, or 0 if none of them has a next instant.
func (s *Store) NextDue(ctx context.Context, shards []dag.ShardID) (dag.Micros, error) {
	due, err := s.Due(ctx, shards, math.MaxInt64, 1)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	return due[0].Next, nil
}

// Listening reads the active triggers that listen to a workflow's runs.
func (s *Store) Listening(ctx context.Context, workflow string, limit int) ([]store.TriggerKey, error) {
	found, err := s.selectTriggers(ctx, limit, func(t *store.Trigger) bool {
		return t.State == store.TriggerActive && slices.Contains(t.On, workflow)
	}, byKeyOf)
	var keys []store.TriggerKey
	for i := range found {
		keys = append(keys, keyOf(&found[i]))
	}
	return keys, err
}

// Sensors lists the active triggers of some kinds.
func (s *Store) Sensors(ctx context.Context, shards []dag.ShardID, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error) {
	return s.selectTriggers(ctx, listSize(limit), func(t *store.Trigger) bool {
		return t.State == store.TriggerActive && slices.Contains(kinds, t.Kind) && slices.Contains(shards, t.Shard) &&
			byTriggerKey(keyOf(t), after) > 0
	}, byKeyOf)
}

// fire reads the newest of those lines of a trigger that match.
func (s *Store) fire(ctx context.Context, k store.TriggerKey, match func(*store.Fire) bool) (store.Fire, error) {
	var f store.Fire
	err := s.read(ctx, Read, func() error {
		for _, f = range slices.Backward(s.ledger[k]) {
			if match(&f) {
				return nil
			}
		}
		f = store.Fire{}
		return fmt.Errorf("fire of trigger %s of workflow %d: %w", k.Name, k.Workflow, store.ErrNotFound)
	})
	return f, err
}

// LastFire reads the newest line of a trigger.
func (s *Store) LastFire(ctx context.Context, w dag.WorkflowID, trigger string) (store.Fire, error) {
	return s.fire(ctx, store.TriggerKey{Workflow: w, Name: trigger}, func(*store.Fire) bool { return true })
}

// FireByKey finds the line of an event or of an instant.
func (s *Store) FireByKey(ctx context.Context, k store.TriggerKey, at dag.Micros, key string) (store.Fire, error) {
	return s.fire(ctx, k, func(f *store.Fire) bool {
		return f.Key == key && (key != "" || f.At <= at && at <= f.Last)
	})
}

// Fires selects lines of the ledger, newest first.
func (s *Store) Fires(ctx context.Context, q store.FireQuery) ([]store.Fire, error) {
	var found []store.Fire
	err := s.read(ctx, Read, func() error {
		var rows []store.Fire
		for k, lines := range s.ledger {
			if q.Workflow != 0 && (k.Workflow != q.Workflow || q.Trigger != "" && k.Name != q.Trigger) {
				continue
			}
			for i := range lines {
				if matchesFire(&lines[i], &q) {
					rows = append(rows, lines[i])
				}
			}
		}
		slices.SortFunc(rows, func(a, b store.Fire) int { return byFireKey(fireKey(&b), fireKey(&a)) })
		found = page(rows, listSize(q.Limit), cloneFire)
		return nil
	})
	return found, err
}

func matchesFire(f *store.Fire, q *store.FireQuery) bool {
	switch {
	case q.From != 0 && f.Last < q.From:
	case q.Until != 0 && f.At > q.Until:
	case q.Before != (store.FireKey{}) && byFireKey(fireKey(f), q.Before) >= 0:
	case q.Outcome == store.FireUnfired:
		return f.Run.IsZero()
	default:
		return q.Outcome == "" || f.Outcome == q.Outcome
	}
	return false
}

func fireKey(f *store.Fire) store.FireKey {
	return store.FireKey{Decided: f.Decided, Workflow: f.Workflow, Trigger: f.Trigger, At: f.At, Key: f.Key}
}

func byFireKey(a, b store.FireKey) int {
	return cmp.Or(cmp.Compare(a.Decided, b.Decided), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Trigger, b.Trigger),
		cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key))
}

// Backfill reads one backfill.
func (s *Store) Backfill(ctx context.Context, id int64) (store.Backfill, error) {
	var f store.Backfill
	err := s.read(ctx, Read, func() error {
		row, found := s.backfills[id]
		if !found {
			return fmt.Errorf("backfill %d: %w", id, store.ErrNotFound)
		}
		f = cloneBackfill(row)
		return nil
	})
	return f, err
}

// Backfills lists backfills, the newest first.
func (s *Store) Backfills(ctx context.Context, w dag.WorkflowID, state string, before int64, limit int) ([]store.Backfill, error) {
	var found []store.Backfill
	err := s.read(ctx, Read, func() error {
		var rows []store.Backfill
		for _, f := range s.backfills {
			if (w == 0 || f.Workflow == w) && (state == "" || f.State == state) && (before == 0 || f.ID < before) {
				rows = append(rows, f)
			}
		}
		slices.SortFunc(rows, func(a, b store.Backfill) int { return cmp.Compare(b.ID, a.ID) })
		found = page(rows, listSize(limit), cloneBackfill)
		return nil
	})
	return found, err
}

// BackfillRuns lists the runs of a backfill, ordered by their instants.
func (s *Store) BackfillRuns(ctx context.Context, id int64, after dag.Micros, limit int) ([]store.BackfillRun, error) {
	var found []store.BackfillRun
	err := s.read(ctx, Read, func() error {
		rows := s.backfillRuns[id]
		from, exact := slices.BinarySearchFunc(rows, store.BackfillRun{Instant: after}, byBackfillInstant)
		if exact {
			from++
		}
		found = page(rows[from:], listSize(limit), cloneBackfillRun)
		return nil
	})
	return found, err
}

// RunsAt finds the runs that backfills have made for an instant.
func (s *Store) RunsAt(ctx context.Context, w dag.WorkflowID, instant dag.Micros) ([]dag.RunID, error) {
	var found ids
	err := s.read(ctx, Read, func() error {
		for _, rows := range s.backfillRuns {
			i, exact := slices.BinarySearchFunc(rows, store.BackfillRun{Instant: instant}, byBackfillInstant)
			if exact && rows[i].Workflow == w {
				found.add(rows[i].Run)
			}
		}
		return nil
	})
	return found, err
}
