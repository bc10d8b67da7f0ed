package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func taskOrphansCmd(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "orphans", Short: "List work outside of processes that no run waits for any more", Args: cobra.NoArgs,
		Long: `Lists orphans: work outside of a process, such as a job of another system, whose release has failed or took longer than
release_timeout. Its run has continued without it. Look in the other system whether the work has ended. Then dismiss the
orphan (skein task dismiss), or try its release again (skein task release). An orphan leaves the list when its release
succeeds, and with its run or the run of its release, which retention deletes.`,
		Example: "  skein task orphans\n  skein task orphans --namespace shop -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.Orphan], error) {
				return skein.NewOrphans(s.Client).List(ctx, namespace, cursor, 200)
			})
			if err != nil {
				return err
			}
			return show(c, all, func(o api.Orphan) string { return o.Run + "/" + o.Task }, []column[api.Orphan]{
				{head: "RUN", get: func(o api.Orphan) string { return o.Run }},
				{head: "WORKFLOW", get: func(o api.Orphan) string { return o.Workflow }},
				{head: "TASK", get: func(o api.Orphan) string { return o.Task }},
				{head: "ATTEMPT", get: func(o api.Orphan) string { return fmt.Sprint(o.Attempt) }},
				{head: "HANDLE", get: func(o api.Orphan) string { return o.Handle }},
				{head: "SINCE", get: func(o api.Orphan) string { return c.when(&o.Since) }},
				{head: "RELEASE", get: func(o api.Orphan) string { return c.state(o.ErrandState) }},
				{head: "WHY", get: func(o api.Orphan) string { return o.Why }},
			})
		})),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only orphans of tasks of this namespace")
	notSettings(cmd.Flags(), "namespace")
	return cmd
}

func taskReleaseCmd(c *cli) *cobra.Command {
	return orphanCmd(c, "release", "Try again to end the orphans of a task", `Tries again to end the orphans of a task (skein task orphans): the run that releases each of them begins again. If the
release still runs, this changes nothing.`, skein.Orphans.Release)
}

func taskDismissCmd(c *cli) *cobra.Command {
	return orphanCmd(c, "dismiss", "Remove the orphans of a task from the list, and stop their release", `Removes the orphans of a task from the list (skein task orphans), and stops the runs that release them. Do this when you
know that the work has ended, or when a later attempt uses the same name in the other system.`, skein.Orphans.Dismiss)
}

func orphanCmd(c *cli, name, short, long string, do func(skein.Orphans, context.Context, string, string, api.OrphanRequest) (api.Task, error)) *cobra.Command {
	var req api.OrphanRequest
	cmd := &cobra.Command{
		Use: name + " RUN/TASK", Short: short, Long: long + "\n" + runRefHelp,
		Example: "  skein task " + name + " nightly-orders@latest/load --attempt 2 --reason 'looked in the cluster'",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			run, task, err := findTask(ctx, s, args[0])
			if err != nil {
				return err
			}
			t, err := do(skein.NewOrphans(s.Client), ctx, run, task, req)
			if err != nil {
				return err
			}
			return one(c, t, t.Name, func() error { return c.taskTable([]api.Task{t}) })
		})),
	}
	cmd.Flags().Int32Var(&req.Attempt, "attempt", 0, "number of the attempt; 0: each attempt of the task that has an orphan")
	cmd.Flags().StringVar(&req.Reason, "reason", "", "reason, for the history")
	return cmd
}
