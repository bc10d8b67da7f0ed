package main

import (
	"context"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/access"
)

func (c *cli) accessCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "access", Short: "What each call to a node needs",
		Example: "  skein access table\n  skein access table -o json",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.accessTableCmd())
	return cmd
}

func (c *cli) accessTableCmd() *cobra.Command {
	return &cobra.Command{
		Use: "table", Short: "List every route with the verb that it needs", Args: cobra.NoArgs,
		Long: `Lists every route of this program: REST, the protocol of workers, and what the nodes of a cluster call. VERB is what a
caller needs. OBJECT says in which namespace it needs that: in the one of the run, workflow, schedule or backfill in the
path, of the object that the body names, or of each item of a list, or in the whole cluster. A node does not start if it has a route that is not in this table.`,
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
