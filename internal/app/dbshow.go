package app

import (
	"context"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
)

// ShowRun decodes all that the database of the settings keeps of a run, beside running nodes or without one.
func ShowRun(ctx context.Context, cfg *config.Config, id dag.RunID) (inspect.Rows, error) {
	db, err := readStore(ctx, cfg)
	if err != nil {
		return inspect.Rows{}, err
	}
	defer db.Close()
	return inspect.New(inspect.Config{Store: db, Graphs: inspect.NewGraphs(db, compiler())}).Rows(ctx, id)
}
