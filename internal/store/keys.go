package store

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// RunKey is an idempotency key of the runs of a workflow.
type RunKey struct {
	Workflow dag.WorkflowID
	Key      string
}

// Keys is the part of a store that finds runs by their idempotency keys.
type Keys interface {
	// RunsByKeys finds the runs under many keys, in any order. A key without a run adds nothing.
	RunsByKeys(ctx context.Context, keys []RunKey) ([]dag.RunRow, error)
}

// RunByKey finds the run under one key. It returns ErrNotFound if there is none.
func RunByKey(ctx context.Context, s Keys, w dag.WorkflowID, key string) (dag.RunRow, error) {
	rows, err := s.RunsByKeys(ctx, []RunKey{{w, key}})
	switch {
	case err != nil:
		return dag.RunRow{}, err
	case len(rows) == 0:
		return dag.RunRow{}, fmt.Errorf("run with key %s of workflow %d: %w", key, w, ErrNotFound)
	}
	return rows[0], nil
}
