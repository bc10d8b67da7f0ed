package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) taskCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "task", Short: "Show the tasks of a run, and decide about a task", Args: cobra.NoArgs,
		Example: "  skein task list hello@latest\n  skein task get hello@latest/greet -o json",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.taskListCmd(), c.taskGetCmd(), c.taskLogsCmd(), c.taskArtifactsCmd(), c.taskApproveCmd(),
		c.taskVerbCmd("stop", "Stop a task; its run continues, but tasks that need it cannot run", taskStop),
		c.taskVerbCmd("retry", "Run a task again now, also a task that waits for its next retry", taskRetry),
		c.taskVerbCmd("skip", "Skip a task: it counts as skipped", taskSkip), c.taskMarkCmd(),
		taskOrphansCmd(c), taskReleaseCmd(c), taskDismissCmd(c))
	return cmd
}

// needsVerb makes a noun without a verb an error of usage, which shows the verbs.
func needsVerb(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var verbs []string
		for _, sub := range cmd.Commands() {
			verbs = append(verbs, sub.Name())
		}
		if len(args) > 0 {
			return fmt.Errorf("%s has no verb %q; the verbs are %s", cmd.CommandPath(), args[0], strings.Join(verbs, ", "))
		}
		return fmt.Errorf("%s needs a verb: %s", cmd.CommandPath(), strings.Join(verbs, ", "))
	}
}

// taskTable prints a list of tasks.
func (c *cli) taskTable(tasks []api.Task) error {
	return show(c, tasks, func(t api.Task) string { return t.Name }, []column[api.Task]{
		{head: "TASK", get: func(t api.Task) string { return t.Name }},
		{head: "STATE", get: func(t api.Task) string { return c.state(t.State) }},
		{head: "ATTEMPTS", get: func(t api.Task) string { return fmt.Sprint(len(t.Attempts)) }},
		{head: "TIME", get: taskTime},
		{head: "WHY", get: taskWhy},
	})
}

func taskTime(t api.Task) string {
	if len(t.Attempts) == 0 {
		return "-"
	}
	a := t.Attempts[len(t.Attempts)-1]
	return took(a.StartedAt, a.FinishedAt)
}

func taskWhy(t api.Task) string {
	if strings.HasSuffix(t.Name, foldedName) {
		return text(t.Cause)
	}
	switch t.State {
	case "failed", "retry_wait":
		return taskFailure(&t)
	case "succeeded":
		return ""
	}
	return text(t.Cause)
}

func (c *cli) taskListCmd() *cobra.Command {
	var state string
	var all bool
	cmd := &cobra.Command{
		Use: "list RUN", Aliases: []string{"ls"}, Short: "List the tasks of a run", Long: "Lists the tasks of a run.\n" + runRefHelp,
		Example: "  skein task list hello@latest --state failed",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			id, err := findRun(ctx, s, args[0])
			if err != nil {
				return err
			}
			tasks := []api.Task{}
			for t, err := range s.EachTask(ctx, id) {
				if err != nil {
					return err
				}
				if state == "" || t.State == state {
					tasks = append(tasks, t)
				}
			}
			if err := sayConditions(ctx, s, id, tasks); err != nil {
				return err
			}
			return c.taskTable(c.folded(tasks, all))
		})),
	}
	instancesFlag(cmd, &all)
	cmd.Flags().StringVar(&state, "state", "", "only in this state")
	return cmd
}

func (c *cli) taskGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get RUN/TASK", Short: "Show a task with its attempts and outputs", Long: "Shows a task with its attempts and outputs.\n" + runRefHelp,
		Example: "  skein task get access-log@latest/parse",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			id, name, err := findTask(ctx, s, args[0])
			if err != nil {
				return err
			}
			t, err := s.Task(ctx, id, name)
			if err != nil {
				return err
			}
			tasks := []api.Task{t}
			if err := sayConditions(ctx, s, id, tasks); err != nil {
				return err
			}
			return one(c, tasks[0], t.Name, func() error { return c.taskCard(&tasks[0]) })
		})),
	}
}

// findTask parses RUN/TASK.
func findTask(ctx context.Context, s *session, arg string) (run, task string, err error) {
	ref, task := splitRef(arg)
	if task == "" {
		return "", "", usage("%s: use RUN/TASK", arg)
	}
	run, err = findRun(ctx, s, ref)
	return run, task, err
}

func (c *cli) taskCard(t *api.Task) error {
	if err := c.taskTable([]api.Task{*t}); err != nil {
		return err
	}
	if c.outTTY {
		fmt.Fprintln(c.out)
	}
	err := show(c, t.Attempts, func(a api.Attempt) string { return fmt.Sprint(a.Number) }, []column[api.Attempt]{
		{head: "ATTEMPT", get: func(a api.Attempt) string { return fmt.Sprint(a.Number) }},
		{head: "STATE", get: func(a api.Attempt) string { return c.state(a.State) }},
		{head: "EXIT", get: func(a api.Attempt) string { return exitText(&a) }},
		{head: "STARTED", get: func(a api.Attempt) string { return c.when(a.StartedAt) }},
		{head: "TIME", get: func(a api.Attempt) string { return took(a.StartedAt, a.FinishedAt) }},
		{head: "NODE", get: func(a api.Attempt) string { return a.Node }},
		{head: "MESSAGE", get: func(a api.Attempt) string { return text(a.Message) }},
	})
	if len(t.Outputs) > 0 && string(t.Outputs) != "{}" && err == nil {
		_, err = fmt.Fprintf(c.out, "outputs\t%s\n", t.Outputs)
	}
	return err
}

func exitText(a *api.Attempt) string {
	switch {
	case a.ExitCode != nil:
		return fmt.Sprint(*a.ExitCode)
	case a.Signal != nil:
		return *a.Signal
	}
	return "-"
}

func (c *cli) taskLogsCmd() *cobra.Command {
	cmd := c.logsCmd()
	cmd.Use, cmd.Example = "logs RUN[/TASK]", "  skein task logs hello@latest/greet"
	return cmd
}
