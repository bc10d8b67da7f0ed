package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Tallies = (*Store)(nil)

// tallies implements store.Tallies for the store that embeds it. The bytes of its rows are never changed in
// place.
type tallies struct {
	s      *Store
	counts map[store.TallyKey]store.TallyRow
	marks  map[markKey]store.TallyMark
}

type markKey struct {
	shard    dag.ShardID
	workflow dag.WorkflowID // 0 for the mark of the shard
}

// TallyStands implements store.Tallies.
func (e *tallies) TallyStands() bool { return true }

// TallyMarks implements store.Tallies.
func (e *tallies) TallyMarks(ctx context.Context, shard dag.ShardID) (all []store.TallyMark, err error) {
	return all, e.s.read(ctx, Read, func() error {
		for k, m := range e.marks {
			if k.shard == shard {
				all = append(all, m)
			}
		}
		slices.SortFunc(all, func(a, b store.TallyMark) int { return cmp.Compare(a.Workflow, b.Workflow) })
		return nil
	})
}

// PutTally implements store.Tallies.
func (e *tallies) PutTally(ctx context.Context, owner dag.HandlerID, s store.TallyStep) error {
	return e.s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		if !hasShard(e.s, s.Shard) {
			return fmt.Errorf("shard %d: %w", s.Shard, store.ErrFenced)
		}
		h, whole := &e.s.shards[s.Shard], markKey{shard: s.Shard}
		is := e.marks[whole]
		if h.owner != owner || h.epoch != s.Epoch || h.seq < s.Seq || is.Rev != s.Rev {
			return fmt.Errorf("the tally of shard %d is at %d: %w", s.Shard, is.Rev, store.ErrFenced)
		}
		is.Shard, is.Rev = s.Shard, is.Rev+1
		if s.Seq >= 0 || s.Rev == 0 {
			is.Seq, is.At = max(s.Seq, 0), s.At
		}
		e.marks[whole] = is
		if s.Whole {
			maps.DeleteFunc(e.marks, func(k markKey, _ store.TallyMark) bool { return k.shard == s.Shard && k.workflow != 0 })
		}
		for _, m := range s.Marks {
			m.Shard, m.Rev = s.Shard, 0
			e.marks[markKey{s.Shard, m.Workflow}] = m
		}
		maps.DeleteFunc(e.counts, func(k store.TallyKey, _ store.TallyRow) bool { return slices.Contains(s.Drop, k.Workflow) })
		for _, r := range s.Rows {
			r.Data = slices.Clone(r.Data)
			e.counts[r.TallyKey] = r
		}
		return nil
	})
}

// Tally implements store.Tallies.
func (e *tallies) Tally(ctx context.Context, q store.TallyQuery) (all []store.TallyRow, err error) {
	order := func(a, b store.TallyKey) int { return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.At, b.At)) }
	return all, e.s.read(ctx, Read, func() error {
		for k, r := range e.counts {
			if k.Workflow == q.Workflow && k.Span == q.Span && k.At >= q.From && k.At <= q.To && (q.Tasks || k.Task == q.Task) &&
				(q.After == store.TallyKey{} || order(k, q.After) > 0) {
				all = append(all, r)
			}
		}
		slices.SortFunc(all, func(a, b store.TallyRow) int { return order(a.TallyKey, b.TallyKey) })
		all = all[:min(len(all), pageSize(q.Limit))]
		return nil
	})
}

// ExpireTally implements store.Tallies.
func (e *tallies) ExpireTally(ctx context.Context, owner dag.HandlerID, x store.TallyExpiry) (n int, err error) {
	err = expireAs(ctx, e.s, x.Shard, owner, func() {
		for k := range e.counts {
			before := x.Days
			if k.Span == store.TallyHour {
				before = x.Hours
			}
			if k.Workflow == x.Workflow && k.At < before && n < x.Limit {
				delete(e.counts, k)
				n++
			}
		}
	})
	return n, err
}

// goneLocked counts a run that is deleted.
func (e *tallies) goneLocked(r *dag.RunRow) {
	states := []string{r.State.String()}
	if r.Generation > 1 {
		states = append(states, store.TallyAgain)
	}
	for _, state := range states {
		k := store.TallyKey{Workflow: r.Workflow, Span: store.TallyGone, At: store.DayOf(r.FinishedAt), Task: state}
		e.counts[k] = store.TallyRow{TallyKey: k, N: e.counts[k].N + 1}
	}
}

// endedAfter reports whether a finished run may have ended after a transaction of its shard, because its
// history has a later row. Any later row counts as an end: of the runs that ended before, only those that
// began again have later rows.
func endedAfter(r *run, seq int64) bool {
	return len(r.events) > 0 && r.events[len(r.events)-1].Seq > seq
}
