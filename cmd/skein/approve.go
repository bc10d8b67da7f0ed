package main

import (
	"context"

	"github.com/spf13/cobra"

	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) taskApproveCmd() *cobra.Command {
	var in api.ApproveRequest
	var answers []string
	cmd := &cobra.Command{
		Use: "approve RUN/TASK", Short: "Approve or reject a task that waits for an approval",
		Long:    "Approves a task that waits for an approval. With --reject the task fails. The workflow file says who may decide.\nIf the approval has a form, --set gives its answers. skein explain names those that are required.\n" + runRefHelp,
		Example: "  skein task approve release@latest/sign-off --comment \"checked the report\"\n  skein task approve refund@latest/check --set amount=25 --set reason=goodwill\n  skein task approve release@latest/sign-off --reject --comment \"wrong day\"",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			given, err := splitPairs("--set", answers)
			if err != nil {
				return err
			}
			if len(given) > 0 {
				in.Answers = api.Params{}
			}
			for name, value := range given {
				in.Answers[name] = value
			}
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
	cmd.Flags().StringArrayVar(&answers, "set", nil, "answer to a field of the form, as name=value; may be repeated")
	return cmd
}
