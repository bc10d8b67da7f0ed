package main

import (
	"context"

	"github.com/spf13/cobra"

	api "skein.dev/skein/sdk/api/v1"
)

// taskVerb applies a verb to one task.
type taskVerb func(ctx context.Context, s *session, run, task, why string) (api.Task, error)

func taskStop(ctx context.Context, s *session, run, task, why string) (api.Task, error) {
	return s.StopTask(ctx, run, task, why, once())
}

func taskRetry(ctx context.Context, s *session, run, task, why string) (api.Task, error) {
	return s.RetryTask(ctx, run, task, why, once())
}

func taskSkip(ctx context.Context, s *session, run, task, why string) (api.Task, error) {
	return s.SkipTask(ctx, run, task, why, once())
}

func (c *cli) taskVerbCmd(name, short string, do taskVerb) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: name + " RUN/TASK", Short: short,
		Long:    short + ".\nIf the task has ended, this begins a new generation of the run.\n" + runRefHelp,
		Example: "  skein task " + name + " nightly-orders@latest/load --reason 'by hand'",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			run, task, err := findTask(ctx, s, args[0])
			if err != nil {
				return err
			}
			t, err := do(ctx, s, run, task, reason)
			if err != nil {
				return err
			}
			return one(c, t, t.Name, func() error { return c.taskTable([]api.Task{t}) })
		})),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the history")
	return cmd
}

func (c *cli) taskMarkCmd() *cobra.Command {
	var reason string
	var outputs []string
	cmd := &cobra.Command{
		Use: "mark RUN/TASK succeeded|failed", Short: "Set the result of a task, with a reason",
		Long: "Sets the result of a task, with a reason that stays in the history. Tasks that need this task use that result. A mark of\n" +
			"a task that has ended begins a new generation of the run. A running task cannot be marked: stop it first, with skein task\n" +
			"stop. You must give all outputs that the task declares, in their types.\n" + runRefHelp,
		Example: "  skein task mark nightly-orders@latest/load succeeded --reason 'loaded by hand' --output rows=1200",
		Args:    cobra.ExactArgs(2),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			req := api.MarkRequest{State: args[1], Reason: reason}
			if req.State != "succeeded" && req.State != "failed" {
				return usage("mark %s: use succeeded or failed", req.State)
			}
			if reason == "" {
				return usage("mark needs a --reason, which is kept in the history")
			}
			var err error
			if req.Texts, err = splitPairs("--output", outputs); err != nil {
				return err
			}
			run, task, err := findTask(ctx, s, args[0])
			if err != nil {
				return err
			}
			t, err := s.MarkTask(ctx, run, task, req, once())
			if err != nil {
				return err
			}
			return one(c, t, t.Name, func() error { return c.taskTable([]api.Task{t}) })
		})),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason; required")
	cmd.Flags().StringArrayVar(&outputs, "output", nil, "output of the task, as name=value, of the type that the task declares; may be repeated")
	return cmd
}
