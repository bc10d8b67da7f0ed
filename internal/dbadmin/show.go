package dbadmin

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// ShowRun decodes every row that the database of the settings has of a run, and says why the run waits. Nodes
// may use the database meanwhile. ShowRun changes nothing. It returns ErrFormat for a database of an older
// format, because opening that would migrate it, and ErrNoData if there is no database.
func ShowRun(ctx context.Context, cfg *config.Config, id dag.RunID) (inspect.Rows, error) {
	seen, _, err := lookAt(ctx, cfg)
	switch {
	case err != nil:
		return inspect.Rows{}, err
	case seen.Format == 0:
		return inspect.Rows{}, fmt.Errorf("database %s: %w", cfg.DBName(), ErrNoData)
	case len(seen.Pending) > 0:
		return inspect.Rows{}, fmt.Errorf("database %s: %w: it has format %d, this program reads %d: show it with the program that wrote it, "+
			"or bring it to this format with skein db migrate", cfg.DBName(), store.ErrFormat, seen.Format, seen.Known)
	}
	db, err := OpenReadOnly(ctx, cfg)
	if err != nil {
		return inspect.Rows{}, err
	}
	defer db.Close()
	return inspect.New(inspect.Config{Store: db, Onlooker: true, Graphs: inspect.NewGraphs(db, new(workflow.Compiler).Condition)}).Rows(ctx, id)
}
