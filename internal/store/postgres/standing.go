package postgres

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// Standing implements store.Sweeps.
func (d *DB) Standing(ctx context.Context, shard dag.ShardID, after dag.RunID, limit int) ([]store.Standing, error) {
	var all []store.Standing
	var handed *packed.StandingHands // made when all runs have been read
	at := map[dag.RunID]int{}
	a := args{}.int4(int32(shard)).id(after).int8(limitOf(limit))
	runs := query{"standingRuns", a, func(c *row) error {
		var r store.Standing
		scanStanding(c, &r)
		at[r.Run] = len(all)
		all = append(all, r)
		return nil
	}}
	page := func() *packed.StandingHands {
		if handed == nil {
			handed = packed.NewStandingHands(all)
		}
		return handed
	}
	hands := query{"loadPageHands", a, func(c *row) error {
		if i, known := at[c.id()]; known {
			page().See(i, c.next())
		}
		return nil
	}}
	attempts := query{"standingAttempts", a, func(c *row) error {
		if i, known := at[c.id()]; known && all[i].Bad == nil {
			task, token := scanLive(c, &all[i])
			page().Has(i, task, token)
		}
		return nil
	}}
	err := d.queries(ctx, query{"snapshot", nil, nil}, runs, hands, attempts, query{"done", nil, nil})
	if err != nil {
		return nil, err
	}
	page().End()
	return all, nil
}

// scanStanding records a damaged row in r, because the damage concerns only that run.
func scanStanding(c *row, r *store.Standing) {
	r.Run, r.Shard, r.Workflow = c.id(), dag.ShardID(c.int()), dag.WorkflowID(c.int())
	r.State, r.Intent, r.Created = word(c, dag.ParseRunState), word(c, dag.ParseIntent), c.micros()
	r.Moved = max(r.Created, c.micros(), c.micros())
	if fire := c.next(); fire != nil {
		if err := r.Called(fire); err != nil {
			c.fail("%v", err)
		}
	}
	var err error
	if r.Claim, _, err = dag.UnpackClaims(c.next()); err != nil {
		c.fail("%v", err)
	}
	r.Bad = c.damaged("run %s", r.Run)
}

// scanLive reads an attempt, whose columns follow the run's id.
func scanLive(c *row, r *store.Standing) (dag.TaskID, dag.Token) {
	a := store.Live{Task: dag.TaskID(c.int()), Token: dag.Token(c.int()), Handler: dag.HandlerID(c.int()),
		State: word(c, dag.ParseAttemptState), Assigned: c.micros()}
	r.See(&a, c.micros(), c.micros(), c.micros())
	r.Bad = c.damaged("attempt %s/%d/%d", r.Run, a.Task, a.Token)
	return a.Task, a.Token
}
