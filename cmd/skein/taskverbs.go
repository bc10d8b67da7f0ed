package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	api "skein.dev/skein/api/v1"
)

// taskVerb does something to one task.
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
		Long:    short + ".\nA decision about what has ended begins a new generation of the run.\n" + runRefHelp,
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
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}

func (c *cli) taskMarkCmd() *cobra.Command {
	var reason string
	var outputs []string
	cmd := &cobra.Command{
		Use: "mark RUN/TASK succeeded|failed", Short: "Say how a task ended, with a reason",
		Long: "Says how a task ended, with a reason that stays in the history: what needs it goes by that. Of a task that has ended it\n" +
			"begins a new generation of the run; one that runs is stopped first.\n" + runRefHelp,
		Example: "  skein task mark nightly-orders@latest/load succeeded --reason 'loaded by hand' --output rows=1200",
		Args:    cobra.ExactArgs(2),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			req := api.MarkRequest{State: args[1], Reason: reason}
			if req.State != "succeeded" && req.State != "failed" {
				return usage("mark %s: want succeeded or failed", req.State)
			}
			if reason == "" {
				return usage("mark needs a --reason: it stays in the history")
			}
			given, err := splitParams(outputs)
			if err != nil {
				return err
			}
			for name, value := range given {
				if req.Outputs == nil {
					req.Outputs = map[string]any{}
				}
				req.Outputs[name] = value
				if json.Valid([]byte(value)) {
					req.Outputs[name] = json.RawMessage(value)
				}
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
	cmd.Flags().StringVar(&reason, "reason", "", "why; must be given")
	cmd.Flags().StringArrayVar(&outputs, "output", nil, "an output of the task, as name=value (JSON, else a text); may be repeated")
	return cmd
}
