package dbadmin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// Verify checks every invariant of a database, with or without a running node.
func Verify(ctx context.Context, cfg *config.Config) ([]inspect.Violation, error) {
	db, err := OpenReadOnly(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return verifyStore(ctx, db)
}

// verifyStore checks the invariants of an open database.
func verifyStore(ctx context.Context, db store.Store) ([]inspect.Violation, error) {
	found, err := inspect.Verify(ctx, db, new(workflow.Compiler).Condition)
	if err != nil {
		return found, err
	}
	fires, err := verifyTriggers(ctx, db)
	return append(found, fires...), err
}

const (
	// linesMax bounds how many of a trigger's lines are checked. The newest lines are checked.
	linesMax = 100_000
	// verifyTries bounds how often a trigger is read again because it fired while it was read.
	verifyTries = 20
	verifyPage  = 1000
)

// verifyTriggers checks the ledger of every trigger.
func verifyTriggers(ctx context.Context, st store.Schedules) (found []inspect.Violation, err error) {
	q := store.TriggerQuery{Limit: verifyPage}
	for {
		page, err := st.Triggers(ctx, q)
		if err != nil {
			return found, fmt.Errorf("read the triggers: %w", err)
		}
		for i := range page {
			q.After = store.TriggerKey{Workflow: page[i].Workflow, Name: page[i].Name}
			more, err := verifyTrigger(ctx, st, page[i])
			if err != nil {
				return found, err
			}
			found = append(found, more...)
		}
		if len(page) < q.Limit {
			return found, nil
		}
	}
}

// verifyTrigger checks the ledger of one trigger. The row and the lines are consistent if the row has not
// changed while the lines were read.
func verifyTrigger(ctx context.Context, st store.Schedules, t store.Trigger) ([]inspect.Violation, error) {
	for range verifyTries {
		lines, from, err := lines(ctx, st, &t)
		if err != nil {
			return nil, err
		}
		again, err := st.Trigger(ctx, t.Workflow, t.Name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, nil // deleted meanwhile
		case err != nil:
			return nil, fmt.Errorf("read trigger %s: %w", t.Name, err)
		case again.Revision == t.Revision:
			return trigger.Verify(&t, lines, from), nil
		}
		t = again
	}
	return nil, nil // the trigger fires too often; a later verify checks its new lines
}

// lines reads the newest lines of a trigger. The ledger is complete from the returned time on.
func lines(ctx context.Context, st store.Schedules, t *store.Trigger) (all []store.Fire, from dag.Micros, err error) {
	q := store.FireQuery{Workflow: t.Workflow, Trigger: t.Name, Limit: verifyPage}
	for len(all) < linesMax {
		page, err := st.Fires(ctx, q)
		if err != nil {
			return nil, 0, fmt.Errorf("read the ledger of trigger %s: %w", t.Name, err)
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			from, err := trigger.Forgotten(ctx, st, store.TriggerKey{Workflow: t.Workflow, Name: t.Name})
			return all, from, err
		}
		last := &page[len(page)-1]
		q.Before = store.FireKey{Decided: last.Decided, Workflow: last.Workflow, Trigger: last.Trigger, At: last.At, Key: last.Key}
	}
	// Lines are ordered by the time of their decision. A later decision is about a later instant.
	oldest := slices.MinFunc(all, func(a, b store.Fire) int { return int(a.Decided - b.Decided) })
	return all, oldest.Decided, nil
}
