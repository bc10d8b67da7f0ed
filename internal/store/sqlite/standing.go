package sqlite

import (
	"context"
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// Standing implements store.Sweeps. It runs two statements for a page.
func (d *DB) Standing(ctx context.Context, shard dag.ShardID, after dag.RunID, limit int) (_ []store.Standing, err error) {
	if shard != theShard {
		return nil, nil
	}
	conn, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer d.give(ctx, conn, &err)
	from := int64(0)
	if !after.IsZero() {
		if from, _, err = d.numberOf(conn, after); err != nil {
			return nil, err
		}
	}
	numbers, many := []byte{'['}, 0
	err = d.walkActive(conn, from+1, func(n int64) (bool, error) {
		if many++; many > 1 {
			numbers = append(numbers, ',')
		}
		numbers = strconv.AppendInt(numbers, n, 10)
		return many < limitOf(limit), nil
	})
	if err != nil || many == 0 {
		return nil, err
	}
	list := []any{string(append(numbers, ']'))}
	all, at := make([]store.Standing, 0, many), make(map[int64]int, many)
	err = d.on(conn, "standingRuns", list, func(s *sqlite.Stmt) error {
		all = append(all, store.Standing{})
		at[s.ColumnInt64(0)] = len(all) - 1
		scanStanding(s, &all[len(all)-1])
		return nil
	})
	if err != nil {
		return nil, err
	}
	handed := packed.NewStandingHands(all)
	err = d.on(conn, "standingHands", list, func(s *sqlite.Stmt) error {
		if i, known := at[s.ColumnInt64(0)]; known {
			handed.See(i, (&row{s: s, col: 1}).blob())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = d.on(conn, "standingAttempts", list, func(s *sqlite.Stmt) error {
		if i, known := at[s.ColumnInt64(0)]; known && all[i].Bad == nil {
			task, token := scanLive(s, &all[i])
			handed.Has(i, task, token)
		}
		return nil
	})
	handed.End()
	return all, err
}

// scanStanding records a damaged row in r, because the damage concerns only that run.
func scanStanding(s *sqlite.Stmt, r *store.Standing) {
	c := row{s: s, col: 1}
	r.Run, r.Shard, r.Workflow = c.id(), dag.ShardID(c.int()), dag.WorkflowID(c.int())
	r.State, r.Intent, r.Created = word(&c, dag.ParseRunState), word(&c, dag.ParseIntent), c.micros()
	r.Moved = max(r.Created, c.micros(), c.micros())
	if fire := c.blob(); fire != nil {
		if err := r.Called(fire); err != nil {
			c.bad = err
		}
	}
	if claim := c.blob(); claim != nil {
		is, _, err := dag.UnpackClaims(claim)
		if r.Claim = is; err != nil {
			c.bad = err
		}
	}
	if c.bad != nil {
		r.Bad = fmt.Errorf("run %s: %w: %w", r.Run, store.ErrCorrupt, c.bad)
	}
}

func scanLive(s *sqlite.Stmt, r *store.Standing) (dag.TaskID, dag.Token) {
	c := row{s: s, col: 1}
	a := store.Live{Task: dag.TaskID(c.int()), Token: dag.Token(c.int()), Handler: dag.HandlerID(c.int()),
		State: word(&c, dag.ParseAttemptState), Assigned: c.micros()}
	if r.See(&a, c.micros(), c.micros(), c.micros()); c.bad != nil {
		r.Bad = fmt.Errorf("attempt %s/%d/%d: %w: %w", r.Run, a.Task, a.Token, store.ErrCorrupt, c.bad)
	}
	return a.Task, a.Token
}
