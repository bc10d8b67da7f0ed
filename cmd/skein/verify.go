package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/engine"
)

// violations is what `skein verify -o json` prints: a contract.
type violations struct {
	Violations []engine.Violation `json:"violations"`
}

func (c *cli) verifyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Recount every invariant from the stored rows",
		Long: `Recounts every invariant from the base tables, in one read snapshot, also beside a running server. Prints
{"violations":[]} and exits 0, or prints the list and exits 1.`,
		Example: "  skein verify\n  skein verify --db sqlite:/backup/skein.db",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			if err := c.localStore(ctx); err != nil {
				return err
			}
			found, err := app.Verify(ctx, c.cfg)
			if err != nil {
				return err
			}
			v := violations{Violations: found}
			if v.Violations == nil {
				v.Violations = []engine.Violation{}
			}
			if c.format == "table" || c.format == "name" {
				c.format = "json"
			}
			if err := one(c, v, "", nil); err != nil {
				return err
			}
			if len(found) > 0 {
				return fmt.Errorf("%s found", count(len(found), "violation"))
			}
			return nil
		}),
	}
}

// localStore points the settings at the database of --server, if one was named: it must be on this machine.
func (c *cli) localStore(ctx context.Context) error {
	if len(c.cfg.Server) == 0 {
		return nil
	}
	s, err := c.remote(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	st, err := s.Status(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(st.Store.Location); err != nil {
		return hint(&said{errNotFound, fmt.Sprintf("the database of %s, %s, is not on this machine", s.URL(), st.Store.Location)}, "run skein verify there")
	}
	c.cfg.DB = st.Store.Location
	return nil
}
