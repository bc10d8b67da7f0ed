package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/dbadmin"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) verifyCmd() *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Check every invariant of the database",
		Long: `Checks every invariant of the database against its base tables, in one read snapshot, also while a server runs.
It prints {"violations":[]} and exits with 0, or prints the violations and exits with 1.`,
		Example: "  skein verify\n  skein verify --server http://node-1:8080\n  skein verify --db sqlite:/backup/skein.db",
		Args:    cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			v, err := c.verification(ctx)
			if err != nil {
				return err
			}
			if c.format == "table" || c.format == "name" {
				c.format = "json"
			}
			if err := one(c, v, "", nil); err != nil {
				return err
			}
			if n := len(v.Violations); n > 0 {
				return fmt.Errorf("%s found", count(n, "violation"))
			}
			return nil
		}),
	}
}

// verification makes the named server verify its database. If no server is named, this process does it.
func (c *cli) verification(ctx context.Context) (v api.Verification, err error) {
	if len(c.servers()) > 0 {
		s, err := c.remote(ctx)
		if err != nil {
			return v, err
		}
		defer s.close()
		return s.Verify(ctx)
	}
	found, err := dbadmin.Verify(ctx, c.cfg)
	v.Violations = make([]api.Violation, len(found))
	for i := range found {
		v.Violations[i] = api.Violation(found[i])
	}
	return v, err
}
