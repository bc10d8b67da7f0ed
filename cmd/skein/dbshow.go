package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/errkind"
)

func dbShowCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "show RUN", Short: "Show the stored rows of a run, decoded",
		Long: `Decodes the rows of a run: the run, the reason why it waits, its tasks, its attempts with the row that stores
each, and its history by transaction. The command changes nothing and needs no server, so it also reads a backup
or a copy of a database.
The reasons come from the rows alone. A node also knows which slots are free (skein explain).
Rows that cannot be decoded are listed under "damage". All other rows are shown.`,
		Example: "  skein db show 019ab6a2-7c1e-7d52-8f0e-3f5f0d6c2b11\n  skein db show 019ab6a2-7c1e-7d52-8f0e-3f5f0d6c2b11 --db sqlite:/backup/skein.db -o json",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			id, err := dag.ParseRunID(args[0])
			if err != nil {
				return usage("%q is not a run id: %v", args[0], err)
			}
			rows, err := dbadmin.ShowRun(ctx, c.cfg, id)
			if errors.Is(err, errkind.ErrNotFound) {
				return &said{errNotFound, "the database has no run " + id.String()}
			}
			if err != nil {
				return dbHint(err)
			}
			if c.format == "table" {
				c.format = "yaml"
			}
			return one(c, rows, rows.Run.ID, nil)
		}),
	}
}
