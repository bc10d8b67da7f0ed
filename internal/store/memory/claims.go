package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func (x *tx) applyQueues(b *store.Batch) error {
	c := &b.QueueChanges
	return firstError(
		func() error { return c.Check(b.Fences) },
		func() error { return each(c.QueueInserts, x.insertQueue) },
		func() error { return each(c.QueueUpdates, x.updateQueue) },
		func() error { return each(c.QueueDeletes, x.deleteQueue) },
		func() error { return each(c.QueuePaces, x.paceQueue) },
	)
}

func checkQueue(q *store.Queue) error {
	return checkTexts("queue", q.Name, q.PerKey, q.Actor, q.Reason)
}

func (x *tx) setQueue(q store.Queue) {
	old, existed := x.s.queues[q.Name]
	x.s.queues[q.Name] = q
	x.onUndo(func() {
		if existed {
			x.s.queues[q.Name] = old
		} else {
			delete(x.s.queues, q.Name)
		}
	})
}

func (x *tx) insertQueue(q *store.Queue) error {
	if err := checkQueue(q); err != nil {
		return err
	}
	if _, exists := x.s.queues[q.Name]; exists {
		return refused("queue %s exists", q.Name)
	}
	x.setQueue(*q)
	return nil
}

func (x *tx) updateQueue(q *store.Queue) error {
	if err := checkQueue(q); err != nil {
		return err
	}
	old, exists := x.s.queues[q.Name]
	if !exists || old.Revision != q.Revision-1 {
		return missed("queue %s is at revision %d, the batch makes %d", q.Name, old.Revision, q.Revision)
	}
	next := *q
	next.Paced, next.Created = old.Paced, old.Created
	x.setQueue(next)
	return nil
}

func (x *tx) deleteQueue(q *store.Queue) error {
	old, exists := x.s.queues[q.Name]
	if !exists || old.Revision != q.Revision {
		return missed("queue %s is at revision %d, not %d", q.Name, old.Revision, q.Revision)
	}
	delete(x.s.queues, q.Name)
	x.onUndo(func() { x.s.queues[q.Name] = old })
	return nil
}

func (x *tx) paceQueue(p *store.QueuePace) error {
	old, exists := x.s.queues[p.Name]
	if !exists {
		return missed("there is no queue %s", p.Name)
	}
	old.Paced = p.Paced
	x.setQueue(old)
	return nil
}

// Queue implements store.Claims.
func (s *Store) Queue(ctx context.Context, name string) (store.Queue, error) {
	var q store.Queue
	err := s.read(ctx, Read, func() error {
		found := false
		if q, found = s.queues[name]; !found {
			return fmt.Errorf("queue %s: %w", name, store.ErrNotFound)
		}
		return nil
	})
	return q, err
}

// Queues implements store.Claims.
func (s *Store) Queues(ctx context.Context, after string, limit int) ([]store.Queue, error) {
	var found []store.Queue
	err := s.read(ctx, Read, func() error {
		for _, name := range slices.Sorted(maps.Keys(s.queues)) {
			if name > after && len(found) < pageSize(limit) {
				found = append(found, s.queues[name])
			}
		}
		return nil
	})
	return found, err
}

// claimants returns the unfinished runs whose claims a function selects, ordered by id.
func (s *Store) claimants(which func(*store.Claimant) bool) []store.Claimant {
	var found []store.Claimant
	for _, active := range s.active {
		for _, id := range active {
			r := &s.runs[id].row
			c := store.Claimant{Run: r.ID, Shard: r.Shard, Workflow: r.Workflow, Priority: r.Priority, Created: r.Created, Shares: slices.Clone(r.Shares)}
			if r.Claim != nil {
				c.Claim = *cloneClaim(r.Claim)
			}
			if which(&c) {
				found = append(found, c)
			}
		}
	}
	slices.SortFunc(found, func(a, b store.Claimant) int { return bytes.Compare(a.Run[:], b.Run[:]) })
	return found
}

func cloneClaim(c *dag.Claim) *dag.Claim {
	if c == nil {
		return nil
	}
	next := *c
	next.Locks = slices.Clone(c.Locks)
	return &next
}

// Holding implements store.Claims.
func (s *Store) Holding(ctx context.Context, after dag.RunID, limit int) ([]store.Claimant, error) {
	var found []store.Claimant
	err := s.read(ctx, Read, func() error {
		for _, c := range s.claimants((*store.Claimant).Holds) {
			if bytes.Compare(c.Run[:], after[:]) > 0 && len(found) < pageSize(limit) {
				found = append(found, c)
			}
		}
		return nil
	})
	return found, err
}

// Holders implements store.Claims.
func (s *Store) Holders(ctx context.Context, q store.HolderQuery) ([]store.Claimant, int, error) {
	found := store.FirstHolders[store.Claimant]{Most: q.First}
	err := s.read(ctx, Read, func() error {
		for _, c := range s.claimants(func(c *store.Claimant) bool { return q.Of(&c.Claim) }) {
			found.Add(c.Claim.Grant, c)
		}
		return nil
	})
	return found.First, found.Count, err
}

// Lines implements store.Claims.
func (s *Store) Lines(ctx context.Context) ([]store.Line, error) {
	var found []store.Line
	err := s.read(ctx, Read, func() error {
		count := map[store.Line]int64{}
		for _, c := range s.claimants(func(c *store.Claimant) bool { return c.Claim.InLine() }) {
			count[store.Line{Name: c.Claim.Line(), Level: c.Claim.Level}]++
		}
		for l, n := range count {
			l.Runs = n
			found = append(found, l)
		}
		slices.SortFunc(found, func(a, b store.Line) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Level, b.Level)) })
		return nil
	})
	return found, err
}

// InLine implements store.Claims.
func (s *Store) InLine(ctx context.Context, line string, level dag.Priority, from dag.Micros, limit int) ([]store.Claimant, error) {
	var found []store.Claimant
	err := s.read(ctx, Read, func() error {
		all := s.claimants(func(is *store.Claimant) bool {
			c := &is.Claim
			return c.InLine() && c.Line() == line && c.Level == level && c.Asked >= from
		})
		slices.SortStableFunc(all, func(a, b store.Claimant) int { return cmp.Compare(a.Claim.Asked, b.Claim.Asked) })
		found = all[:min(len(all), pageSize(limit))]
		return nil
	})
	return found, err
}

// Places implements store.Claims.
func (s *Store) Places(ctx context.Context, q *store.SeatQuery) (places []store.Place, err error) {
	err = s.read(ctx, Read, func() error {
		waiting := s.claimants(func(c *store.Claimant) bool { return c.Claim.InLine() })
		places, err = store.CountSeats(q, nil, func(spans []store.Span) ([]int, error) {
			counts := make([]int, len(spans))
			for i := range spans {
				for k := range waiting {
					c := &waiting[k].Claim
					at := store.Seat{Run: waiting[k].Run, Line: c.Line(), Level: c.Level, Asked: c.Asked}
					if counts[i] < spans[i].Most && at.Line == spans[i].Line && !before(&at, &spans[i].From) && before(&at, &spans[i].To) {
						counts[i]++
					}
				}
			}
			return counts, nil
		})
		return err
	})
	return places, err
}

// before reports whether a seat is before another of its line.
func before(a, b *store.Seat) bool {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Asked, b.Asked), bytes.Compare(a.Run[:], b.Run[:])) < 0
}
