package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) workerGroupCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "worker-group", Short: "Show the groups of workers", Example: "  skein worker-group list"}
	needsVerb(cmd)
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the groups that tasks can choose",
		Long: `Lists the groups that tasks can choose (group: in the workflow file). A worker or node sets its groups at its
start (--group). A group exists while it has a member. SLOTS shows busy and all slots.`,
		Example: "  skein worker-group list\n  skein worker-group list -o json",
		Args:    cobra.NoArgs,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			page, err := s.WorkerGroups(ctx)
			if err != nil {
				return err
			}
			return show(c, page.Items, func(g api.WorkerGroup) string { return g.Name }, []column[api.WorkerGroup]{
				{head: "GROUP", get: func(g api.WorkerGroup) string { return g.Name }},
				{head: "SLOTS", get: func(g api.WorkerGroup) string { return slotsText(g.Slots) }},
				{head: "WORKERS", get: func(g api.WorkerGroup) string { return strings.Join(g.Workers, ",") }},
			})
		})),
	})
	return cmd
}
