package memory

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Standing implements store.Sweeps.
func (s *Store) Standing(ctx context.Context, shard dag.ShardID, after dag.RunID, limit int) ([]store.Standing, error) {
	var all []store.Standing
	err := s.read(ctx, Load, func() error {
		for _, id := range s.selectLocked(store.LoadQuery{Shard: shard, After: after, Limit: limit}) {
			all = append(all, s.runs[id].standing())
		}
		return nil
	})
	return all, err
}

func (r *run) standing() store.Standing {
	row := &r.row
	is := store.Standing{Run: row.ID, Shard: row.Shard, Workflow: row.Workflow, State: row.State, Intent: row.Intent,
		Created: row.Created, Moved: max(row.Created, row.SplitAt, row.StartedAt), Claim: cloneClaim(row.Claim)}
	if p := row.Parent(); p != nil && row.Origin == dag.OriginParent {
		is.Parent = p.Up().Run
	}
	for i := range r.attempts {
		a := &r.attempts[i]
		is.See(&store.Live{Task: a.Task, Token: a.Token, Handler: a.Handler, State: a.State, Assigned: a.Assigned}, a.Started, a.Finished, a.RetryAt)
	}
	return is
}
