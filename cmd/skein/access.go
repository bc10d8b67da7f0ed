package main

import (
	"context"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/access"
)

func (c *cli) accessCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "access", Short: "Show which verb each call to a node needs",
		Example: "  skein access table\n  skein access table -o json",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.accessTableCmd())
	return cmd
}

func (c *cli) accessTableCmd() *cobra.Command {
	return &cobra.Command{
		Use: "table", Short: "List every route with the verb that it needs", Args: cobra.NoArgs,
		Long: `Lists every route of this program: REST, the protocol of workers, and the calls between nodes. VERB is the verb
that a caller needs. OBJECT names the object in whose namespace the caller needs the verb: the object in the
path (a run, workflow, schedule or backfill), the object that the body names, each item of a list, or the whole
cluster. A node does not start if one of its routes is not in this table.`,
		Example: "  skein access table\n  skein access table -o json",
		RunE: c.do(func(context.Context, []string) error {
			return show(c, access.Table(), func(r access.Row) string { return r.Method + " " + r.Path }, []column[access.Row]{
				{head: "METHOD", get: func(r access.Row) string { return r.Method }},
				{head: "PATH", get: func(r access.Row) string { return r.Path }},
				{head: "VERB", get: func(r access.Row) string { return r.Verb.String() }},
				{head: "OBJECT", get: func(r access.Row) string { return r.Of.String() }},
			})
		}),
	}
}
