package memory

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Retention = (*Store)(nil)

// Expire deletes finished runs that need not be kept.
func (s *Store) Expire(ctx context.Context, owner dag.HandlerID, x store.Expiry) ([]dag.RunID, error) {
	var gone []dag.RunID
	err := s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		if !hasShard(s, x.Shard) || s.shards[x.Shard].owner != owner {
			return fmt.Errorf("shard %d is another's: %w", x.Shard, store.ErrFenced)
		}
		gone = expiredLocked(s, &x)
		for _, id := range gone {
			s.expireLocked(id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

// ExpireVersions deletes versions that need not be kept.
func (s *Store) ExpireVersions(ctx context.Context, owner dag.HandlerID, x store.VersionExpiry) (n int, err error) {
	err = s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		if !hasShard(s, x.Shard) || s.shards[x.Shard].owner != owner {
			return fmt.Errorf("shard %d is another's: %w", x.Shard, store.ErrFenced)
		}
		w, all := s.workflows[x.Workflow], s.versions[x.Workflow]
		least := min(w.Version, w.Latest-int32(max(x.Keep, 1))+1)
		if list := s.byWorkflow[x.Workflow]; list != nil {
			for _, id := range *list {
				least = min(least, s.runs[id].row.Version)
			}
		}
		for n < min(len(all)-1, x.Limit) && all[n].Version < least &&
			slices.ContainsFunc(all[n+1:], func(v store.Version) bool { return v.Created < x.Superseded }) {
			n++
		}
		s.versions[x.Workflow] = slices.Clone(all[n:])
		return nil
	})
	return n, err
}

func expiredLocked(s *Store, x *store.Expiry) (gone []dag.RunID) {
	filling := false
	for _, b := range s.backfills {
		filling = filling || b.Workflow == x.Workflow && (b.State == store.BackfillRunning || b.State == store.BackfillPaused)
	}
	var finished []*dag.RunRow
	if list := s.byWorkflow[x.Workflow]; list != nil {
		for _, id := range *list {
			if r := &s.runs[id].row; r.FinishedAt > 0 {
				finished = append(finished, r)
			}
		}
	}
	for i, r := range finished {
		kept := r.FinishedAt >= x.Before && i >= len(finished)-max(x.Keep, 1) || r.Key != "" && r.FinishedAt >= x.KeptFrom(r.Key) && (x.KeyedKeep == 0 || i >= len(finished)-x.KeyedKeep) ||
			r.Origin == dag.OriginBackfill && filling
		if !kept && len(gone) < x.Limit {
			gone = append(gone, r.ID)
		}
	}
	return gone
}

func (s *Store) expireLocked(id dag.RunID) {
	row := s.runs[id].row
	delete(s.runs, id)
	s.all.remove(id)
	s.byWorkflow[row.Workflow].remove(id)
	s.byUser[row.User].remove(id)
	if row.Key != "" {
		delete(s.byKey, runKey{row.Workflow, row.Key})
	}
	for log := range s.logs {
		if log.Run == id {
			delete(s.logs, log)
		}
	}
}
