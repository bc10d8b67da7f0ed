package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// expireAs makes a change that deletes old rows, for the owner of a shard.
func expireAs(ctx context.Context, s *Store, shard dag.ShardID, owner dag.HandlerID, change func()) error {
	return s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		if !hasShard(s, shard) || s.shards[shard].owner != owner {
			return fmt.Errorf("shard %d belongs to another owner: %w", shard, store.ErrFenced)
		}
		change()
		return nil
	})
}

// ExpireFires deletes lines of the ledger and counts them by day.
func (s *Store) ExpireFires(ctx context.Context, owner dag.HandlerID, x store.FireExpiry) (did store.FiresExpired, err error) {
	err = expireAs(ctx, s, x.Shard, owner, func() {
		var all []store.Fire
		for k, lines := range s.ledger {
			if k.Workflow == x.Workflow {
				all = append(all, lines...)
			}
		}
		slices.SortFunc(all, func(a, b store.Fire) int { return byFireKey(fireKey(&a), fireKey(&b)) })
		least := dag.Micros(-1)
		if n := len(all) - 1 - max(x.Keep, 1); n >= 0 {
			least = all[n].Decided
		}
		looked := 0
		for i := range all {
			f := &all[i]
			if byFireKey(fireKey(f), x.After) <= 0 || f.Decided >= max(x.Plain, x.Exceptions, least+1) {
				continue
			}
			if looked++; looked == x.Limit {
				did.Next = fireKey(f)
			}
			bound := x.Exceptions
			if f.Plain() {
				bound = x.Plain
			}
			if (f.Decided < bound || f.Decided <= least) && !newestLocked(s, f) {
				forgetFireLocked(s, f)
				did.Gone++
			}
			if looked == x.Limit {
				break
			}
		}
		if x.After == (store.FireKey{}) {
			forgetDaysLocked(s, &x)
		}
	})
	return did, err
}

// newestLocked reports whether a line is the newest of a trigger that exists.
func newestLocked(s *Store, f *store.Fire) bool {
	k := store.TriggerKey{Workflow: f.Workflow, Name: f.Trigger}
	_, exists := s.triggers[k]
	last := &s.ledger[k][len(s.ledger[k])-1]
	return exists && last.At == f.At && last.Key == f.Key
}

func forgetFireLocked(s *Store, f *store.Fire) {
	k := store.TriggerKey{Workflow: f.Workflow, Name: f.Trigger}
	s.ledger[k] = slices.DeleteFunc(slices.Clone(s.ledger[k]), func(l store.Fire) bool { return l.At == f.At && l.Key == f.Key })
	day := store.DayOf(f.At)
	i, found := slices.BinarySearchFunc(s.days[k], day, func(d store.FireDay, day int32) int { return cmp.Compare(d.Day, day) })
	if !found {
		s.days[k] = slices.Insert(s.days[k], i, store.FireDay{Workflow: k.Workflow, Trigger: k.Name, Day: day})
	}
	s.days[k][i].Add(f)
}

func forgetDaysLocked(s *Store, x *store.FireExpiry) {
	for k, days := range s.days {
		_, exists := s.triggers[k]
		if k.Workflow != x.Workflow {
			continue
		}
		n := 0
		for n < len(days) && days[n].Day < x.Days && (!exists || n < len(days)-1) {
			n++
		}
		s.days[k] = slices.Clone(days[n:])
	}
}

// FireDays implements store.Schedules.
func (s *Store) FireDays(ctx context.Context, k store.TriggerKey, before int32, limit int) ([]store.FireDay, error) {
	var found []store.FireDay
	err := s.read(ctx, Read, func() error {
		for _, d := range slices.Backward(s.days[k]) {
			if (before == 0 || d.Day < before) && len(found) < pageSize(limit) {
				found = append(found, d)
			}
		}
		return nil
	})
	return found, err
}

// ExpireBackfills implements store.Retention.
func (s *Store) ExpireBackfills(ctx context.Context, owner dag.HandlerID, x store.BackfillExpiry) (n int, err error) {
	err = expireAs(ctx, s, x.Shard, owner, func() {
		var over []int64
		for _, id := range slices.Sorted(maps.Keys(s.backfills)) {
			if b := s.backfills[id]; b.Workflow == x.Workflow && (b.State == store.BackfillDone || b.State == store.BackfillCancelled) {
				over = append(over, id)
			}
		}
		for i, id := range over {
			if s.backfills[id].Modified >= x.Before && i >= len(over)-max(x.Keep, 1) {
				continue
			}
			n = min(len(s.backfillRuns[id]), x.Limit)
			if s.backfillRuns[id] = slices.Clone(s.backfillRuns[id][n:]); len(s.backfillRuns[id]) == 0 {
				delete(s.backfillRuns, id)
				delete(s.backfills, id)
				n++
			}
			return
		}
	})
	return n, err
}

// ExpireWorkflow deletes all rows of a deleted workflow.
func (s *Store) ExpireWorkflow(ctx context.Context, owner dag.HandlerID, x store.WorkflowExpiry) (n int, err error) {
	err = expireAs(ctx, s, x.Shard, owner, func() {
		w, is := s.workflows[x.Workflow]
		if list := s.byWorkflow[x.Workflow]; !is || w.State != store.WorkflowDeleted || w.Modified >= x.Before || list != nil && len(*list) > 0 {
			return
		}
		maps.DeleteFunc(s.ledger, func(k store.TriggerKey, _ []store.Fire) bool { return k.Workflow == x.Workflow })
		maps.DeleteFunc(s.days, func(k store.TriggerKey, _ []store.FireDay) bool { return k.Workflow == x.Workflow })
		maps.DeleteFunc(s.backfillRuns, func(id int64, _ []store.BackfillRun) bool { return s.backfills[id].Workflow == x.Workflow })
		maps.DeleteFunc(s.backfills, func(_ int64, b store.Backfill) bool { return b.Workflow == x.Workflow })
		maps.DeleteFunc(s.counts, func(k store.TallyKey, _ store.TallyRow) bool { return k.Workflow == x.Workflow })
		maps.DeleteFunc(s.marks, func(k markKey, _ store.TallyMark) bool { return k.workflow == x.Workflow })
		delete(s.versions, x.Workflow)
		delete(s.byWorkflow, x.Workflow)
		delete(s.workflows, x.Workflow)
		n = 1
	})
	return n, err
}

// DeletedWorkflows lists deleted workflows, ordered by id.
func (s *Store) DeletedWorkflows(ctx context.Context, after dag.WorkflowID, limit int) ([]store.Workflow, error) {
	var found []store.Workflow
	err := s.read(ctx, Read, func() error {
		for _, id := range slices.Sorted(maps.Keys(s.workflows)) {
			if w := s.workflows[id]; id > after && w.State == store.WorkflowDeleted && len(found) < pageSize(limit) {
				found = append(found, w)
			}
		}
		return nil
	})
	return found, err
}

// ExpireRecords deletes answers to requests, calls and events. It keeps tokens and handlers, because this
// store ends with its process.
func (s *Store) ExpireRecords(ctx context.Context, owner dag.HandlerID, x store.RecordExpiry) (n int, err error) {
	err = expireAs(ctx, s, x.Shard, owner, func() {
		n = expireRequests(s, x.Requests, x.RequestsKeep, x.Limit) + expireCalls(s, &x) + expireEvents(s, &x)
	})
	return n, err
}

// requestKeys returns the keys of the requests in some scopes, the oldest first.
func requestKeys(s *Store, in func(scope string) bool) (keys []requestKey) {
	for k := range s.requests {
		if in(k.scope) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b requestKey) int {
		return cmp.Or(cmp.Compare(s.requests[a].Created, s.requests[b].Created), cmp.Compare(a.scope, b.scope), cmp.Compare(a.key, b.key))
	})
	return keys
}

func isCall(scope string) bool { return strings.HasPrefix(scope, store.CallScope) }

// expireCalls deletes old calls of webhooks. While there are more calls than allowed, it deletes the oldest
// call of the scope with the most calls.
func expireCalls(s *Store, x *store.RecordExpiry) (n int) {
	drop := func(k requestKey) {
		delete(s.requests, k)
		n++
	}
	for _, k := range requestKeys(s, isCall) {
		if n < x.Limit && s.requests[k].Created < x.Calls {
			drop(k)
		}
	}
	calls, of, most := 0, map[string]int{}, ""
	for k := range s.requests {
		if isCall(k.scope) {
			calls++
			of[k.scope]++
		}
	}
	if keep := max(x.CallsKeep, 1); calls > keep {
		for scope := range of {
			if of[scope] > of[most] || of[scope] == of[most] && scope < most {
				most = scope
			}
		}
		spare := min(x.Limit, calls-keep, of[most]-keep/len(of))
		for _, k := range requestKeys(s, func(scope string) bool { return scope == most })[:spare] {
			drop(k)
		}
	}
	return n
}

// expireRequests deletes the oldest requests, except calls of webhooks.
func expireRequests(s *Store, before dag.Micros, keep, limit int) (n int) {
	keys := requestKeys(s, func(scope string) bool { return !isCall(scope) })
	for i, k := range keys {
		if n < limit && (s.requests[k].Created < before || i < len(keys)-max(keep, 1)) {
			delete(s.requests, k)
			n++
		}
	}
	return n
}
