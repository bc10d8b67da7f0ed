package main

import (
	"context"

	"github.com/spf13/cobra"

	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) taskApproveCmd() *cobra.Command {
	var in api.ApproveRequest
	cmd := &cobra.Command{
		Use: "approve RUN/TASK", Short: "Approve or reject a task that waits for an approval",
		Long:    "Approves a task that waits for an approval. With --reject the task fails. The workflow file says who may decide.\n" + runRefHelp,
		Example: "  skein task approve release@latest/sign-off --comment \"checked the report\"\n  skein task approve release@latest/sign-off --reject --comment \"wrong day\"",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			id, name, err := findTask(ctx, s, args[0])
			if err != nil {
				return err
			}
			t, err := s.ApproveTask(ctx, id, name, in)
			if err != nil {
				return err
			}
			return one(c, t, t.Name, func() error { return c.taskTable([]api.Task{t}) })
		})),
	}
	cmd.Flags().BoolVar(&in.Reject, "reject", false, "reject the task, so that it fails")
	cmd.Flags().StringVar(&in.Comment, "comment", "", "comment, for the history and as an output of the task")
	return cmd
}
