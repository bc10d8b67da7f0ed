package dbadmin

import (
	"context"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/workflow"
)

// ShowRun decodes all that the database of the settings keeps of a run, with or without a running node.
func ShowRun(ctx context.Context, cfg *config.Config, id dag.RunID) (inspect.Rows, error) {
	db, err := OpenReadOnly(ctx, cfg)
	if err != nil {
		return inspect.Rows{}, err
	}
	defer db.Close()
	return inspect.New(inspect.Config{Store: db, Graphs: inspect.NewGraphs(db, new(workflow.Compiler).Condition)}).Rows(ctx, id)
}
