package memory

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Retention = (*Store)(nil)

// FinishedBut finds the newest finished run that is not among the newest keep.
func (s *Store) FinishedBut(ctx context.Context, w dag.WorkflowID, keep int) (pos store.RunPos, err error) {
	err = s.read(ctx, Read, func() error {
		finished := finishedLocked(s, w)
		if n := len(finished) - 1 - keep; n >= 0 {
			pos = store.RunPos(finished[n].ID)
		}
		return nil
	})
	return pos, err
}

// Expire deletes finished runs that may be deleted.
func (s *Store) Expire(ctx context.Context, owner dag.HandlerID, x store.Expiry) (did store.Expired, err error) {
	err = s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		if !hasShard(s, x.Shard) || s.shards[x.Shard].owner != owner {
			return fmt.Errorf("shard %d belongs to another owner: %w", x.Shard, store.ErrFenced)
		}
		did = expiredLocked(s, &x)
		for _, id := range did.Runs {
			if x.Tallied {
				s.tallies.goneLocked(&s.runs[id].row)
			}
			expireLocked(s, id)
		}
		return nil
	})
	if err != nil {
		return store.Expired{}, err
	}
	return did, nil
}

// ExpireVersions deletes versions that need not be kept.
func (s *Store) ExpireVersions(ctx context.Context, owner dag.HandlerID, x store.VersionExpiry) (n int, err error) {
	err = s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		if !hasShard(s, x.Shard) || s.shards[x.Shard].owner != owner {
			return fmt.Errorf("shard %d belongs to another owner: %w", x.Shard, store.ErrFenced)
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

// finishedLocked lists the finished runs of a workflow, ordered by id.
func finishedLocked(s *Store, w dag.WorkflowID) (finished []*dag.RunRow) {
	if list := s.byWorkflow[w]; list != nil {
		for _, id := range *list {
			if r := &s.runs[id].row; r.FinishedAt > 0 {
				finished = append(finished, r)
			}
		}
	}
	return finished
}

func expiredLocked(s *Store, x *store.Expiry) (did store.Expired) {
	filling := false
	for _, b := range s.backfills {
		filling = filling || b.Workflow == x.Workflow && (b.State == store.BackfillRunning || b.State == store.BackfillPaused)
	}
	looked := 0
	for _, r := range finishedLocked(s, x.Workflow) {
		pos := store.RunPos(r.ID)
		if pos.Compare(x.After) <= 0 {
			continue
		}
		if len(did.Runs) == x.Limit || looked == store.ExpireLooks*x.Limit {
			return did
		}
		looked++
		did.Next, did.Old = pos, did.Old || r.FinishedAt < x.Before
		kept := x.Tallied && endedAfter(s.runs[r.ID], x.Counted) || r.FinishedAt >= x.Before && pos.Compare(x.To) > 0 ||
			r.Key != "" && r.FinishedAt >= x.KeptFrom(r.Key) && pos.Compare(x.KeyedTo) > 0 ||
			r.Origin == dag.OriginBackfill && filling
		if !kept {
			did.Runs = append(did.Runs, r.ID)
		}
	}
	did.Next = store.RunPos{}
	return did
}

func expireLocked(s *Store, id dag.RunID) {
	row := s.runs[id].row
	if wf, there := s.workflows[row.Workflow]; there && row.Kept != 0 {
		s.namespaces.addKept(wf.Namespace, -row.Kept)
	}
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
