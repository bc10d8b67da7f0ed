package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) workflowCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workflow", Aliases: []string{"wf"}, Short: "Manage workflows: apply, list, compare, roll back, pause",
		Example: "  skein workflow apply nightly.yaml\n  skein workflow graph nightly-orders",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.workflowApplyCmd(), c.workflowListCmd(), c.workflowGetCmd(), c.workflowDiffCmd(), c.workflowDeleteCmd(),
		c.workflowVersionsCmd(), c.workflowRollbackCmd(), c.workflowGraphCmd(), workflowStatsCmd(c),
		c.workflowStateCmd("pause", "Pause a workflow, so that it starts no new run (logoff)", (*skein.Client).PauseWorkflow),
		c.workflowStateCmd("resume", "Resume a paused workflow (release)", (*skein.Client).ResumeWorkflow))
	return cmd
}

// systemHelp is the help text of --system.
const systemHelp = "also items of the namespace system, which come with the program"

// workflowTable prints a list of workflows. Descriptions are in the files, which lists do not read.
func (c *cli) workflowTable(all []api.Workflow, described bool) error {
	cols := []column[api.Workflow]{
		{head: "WORKFLOW", get: func(w api.Workflow) string { return w.Workflow }},
		{head: "STATE", get: func(w api.Workflow) string { return c.state(w.State) }},
		{head: "VERSION", get: func(w api.Workflow) string { return versionText(&w) }},
		{head: "CHANGED", get: func(w api.Workflow) string { return c.when(&w.ModifiedAt) }},
	}
	if described {
		cols = append(cols, column[api.Workflow]{head: "DESCRIPTION", get: func(w api.Workflow) string { return text(w.Description) }})
	}
	return show(c, all, func(w api.Workflow) string { return w.Workflow }, cols)
}

func versionText(w *api.Workflow) string {
	if w.Version != w.Latest {
		return fmt.Sprintf("%d of %d", w.Version, w.Latest)
	}
	return fmt.Sprint(w.Version)
}

// warn prints the warnings about runs of the applied workflow.
func (c *cli) warn(a *api.Applied) {
	for _, w := range a.Warnings {
		c.say("%s: %s", a.Workflow.Workflow, w)
	}
}

func changed(yes bool) string {
	if yes {
		return "changed"
	}
	return "unchanged"
}

func (c *cli) workflowListCmd() *cobra.Command {
	var q skein.WorkflowsQuery
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List workflows",
		Example: "  skein workflow list\n  skein workflow list -o name",
		Args:    cobra.NoArgs,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all := []api.Workflow{}
			for w, err := range s.EachListedWorkflow(ctx, q) {
				if err != nil {
					return err
				}
				all = append(all, w)
			}
			return c.workflowTable(all, false)
		})),
	}
	cmd.Flags().StringVar(&q.Namespace, "namespace", "", "only of this namespace")
	tagFlag(cmd.Flags(), &q.Tags, "only workflows with this tag, as KEY=VALUE; may be repeated")
	cmd.Flags().BoolVar(&q.System, "system", false, systemHelp)
	c.emptyIsFine(cmd)
	return cmd
}

func (c *cli) workflowGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a workflow and its source",
		Example: "  skein workflow get hello\n  skein workflow get hello -o json | jq -r .source > hello.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			w, err := s.Workflow(ctx, args[0])
			if err != nil {
				return err
			}
			return one(c, w, w.Workflow, func() error {
				if err := c.workflowTable([]api.Workflow{w}, true); err != nil {
					return err
				}
				if err := c.workflowTriggers(ctx, s, args[0]); err != nil {
					return err
				}
				if r := w.Retention; r != nil {
					fmt.Fprintf(c.out, "\nfinished runs are kept: %s\n", retentionText(r))
				}
				_, err := fmt.Fprintf(c.out, "\n%s", text(w.Source))
				return err
			})
		})),
	}
}

func retentionText(r *api.Retention) string {
	s := fmt.Sprintf("the newest %d", r.Runs)
	if r.Age != "0s" {
		s += ", for " + r.Age
	}
	if r.Default {
		s += " (the default)"
	}
	return s
}

// workflowTriggers lists the triggers of a workflow, each with its next fire.
func (c *cli) workflowTriggers(ctx context.Context, s *session, name string) error {
	all, err := allSchedules(ctx, s, skein.SchedulesQuery{Workflow: name})
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(all))
	for _, t := range all {
		var soon []time.Time
		if t.Next != nil {
			next, err := s.NextFires(ctx, name, t.Name, skein.NextQuery{N: soonMax})
			if err != nil {
				return err
			}
			list, err := comingOf(&next, "")
			if err != nil {
				return err
			}
			for _, i := range list {
				soon = append(soon, i.at)
			}
		}
		rows = append(rows, []string{t.Name, c.state(t.State), scheduleWords(t) + nextWords(soon)})
	}
	if c.outTTY {
		return writeRows(c, rows)
	}
	return c.plainRows(rows)
}

func (c *cli) workflowDiffCmd() *cobra.Command {
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use: "diff FILE | NAME [VERSION [VERSION]]", Short: "Compare a file with the applied version, or two versions",
		Long: `Compares a file with the current version of its workflow, or two versions (default: the current one and the one
before). It prints a patch, or nothing if there is no difference. The exit code is 0 in both cases.`,
		Example: `  skein workflow diff nightly.yaml
  skein workflow diff nightly.yaml | patch -R nightly.yaml   # the file becomes what was applied again
  skein workflow diff nightly-orders 3 5
  skein workflow diff nightly-orders 5 3 | patch nightly.yaml`,
		Args: cobra.RangeArgs(1, 3),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			var from, to labelled
			var err error
			if !isName(cmd, args[0]) {
				if len(args) > 1 {
					return usage("a file is compared with the current version; give NAME VERSION VERSION to compare versions")
				}
				from, to, err = fileAndCurrent(ctx, s, args[0], c.cfg.TasksMax)
			} else {
				from, to, err = twoVersions(ctx, s, args)
			}
			if err != nil {
				return err
			}
			for _, line := range diff(from, to) {
				colour := map[byte]string{'+': green, '-': red, '@': blue}[line[0]]
				fmt.Fprintln(c.out, c.paint(colour, line))
			}
			return nil
		})),
	}
	return cmd
}

func fileAndCurrent(ctx context.Context, s *session, path string, tasksMax int) (from, to labelled, err error) {
	d, err := readDefinition(path, tasksMax)
	if err != nil {
		return from, to, err
	}
	to = labelled{path, "the file", d.request.Source}
	w, err := s.Workflow(ctx, d.fullName())
	if errors.Is(err, skein.ErrNotFound) {
		return labelled{name: path, what: d.fullName() + ", not applied yet"}, to, nil
	}
	return labelled{path, fmt.Sprintf("%s, version %d", d.fullName(), w.Version), text(w.Source)}, to, err
}

func twoVersions(ctx context.Context, s *session, args []string) (from, to labelled, err error) {
	w, err := s.Workflow(ctx, args[0])
	if err != nil {
		return from, to, noSuchName(err, args[0])
	}
	numbers := []int32{max(1, w.Version-1), w.Version}
	for i, arg := range args[1:] {
		n, err := strconv.ParseInt(arg, 10, 32)
		if err != nil || n < 1 {
			return from, to, usage("%q is not a version", arg)
		}
		numbers[i] = int32(n)
	}
	sides := make([]labelled, 2)
	for i, n := range numbers {
		v, err := s.Version(ctx, args[0], n)
		if err != nil {
			return from, to, err
		}
		sides[i] = labelled{args[0], fmt.Sprintf("version %d", n), text(v.Source)}
	}
	return sides[0], sides[1], nil
}

func (c *cli) workflowDeleteCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "delete NAME…", Short: "Delete workflows; their runs stay readable",
		Example: "  skein workflow delete old-report\n  skein workflow delete a b c --yes",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if len(args) > 1 {
				if err := c.confirm(yes, "delete "+count(len(args), "workflow")); err != nil {
					return err
				}
			}
			for _, name := range args {
				if err := s.DeleteWorkflow(ctx, name); err != nil {
					return err
				}
				c.say("deleted %s", name)
			}
			return nil
		})),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before several workflows are deleted")
	return cmd
}

func (c *cli) workflowVersionsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "versions NAME", Short: "List the versions of a workflow, newest first",
		Example: "  skein workflow versions nightly-orders",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			all := []api.Version{}
			for v, err := range s.EachVersion(ctx, args[0]) {
				if err != nil {
					return err
				}
				all = append(all, v)
			}
			return show(c, all, func(v api.Version) string { return fmt.Sprint(v.Version) }, []column[api.Version]{
				{head: "VERSION", get: func(v api.Version) string { return fmt.Sprint(v.Version) }},
				{head: "CURRENT", get: func(v api.Version) string { return map[bool]string{true: "current"}[v.Current] }},
				{head: "MADE", get: func(v api.Version) string { return c.when(&v.CreatedAt) }},
				{head: "BY", get: func(v api.Version) string { return v.User }},
				{head: "DIGEST", get: func(v api.Version) string { return v.Digest[:min(12, len(v.Digest))] }},
			})
		})),
	}
}

func (c *cli) workflowRollbackCmd() *cobra.Command {
	var to int32
	cmd := &cobra.Command{
		Use: "rollback NAME", Short: "Make an earlier version the current one",
		Example: "  skein workflow rollback nightly-orders\n  skein workflow rollback nightly-orders --to 3",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if to < 0 {
				return usage("--to %d: use the number of a version", to)
			}
			if to == 0 {
				w, err := s.Workflow(ctx, args[0])
				if err != nil {
					return err
				}
				if to = w.Version - 1; to < 1 {
					return &said{errConflict, args[0] + " has no version before the current one"}
				}
			}
			w, err := s.Rollback(ctx, args[0], to)
			if err != nil {
				return err
			}
			return c.workflowTable([]api.Workflow{w}, true)
		})),
	}
	cmd.Flags().Int32Var(&to, "to", 0, "version (default: the one before the current one)")
	return cmd
}

type workflowVerb func(k *skein.Client, ctx context.Context, workflow string, opts ...skein.CallOption) (api.Workflow, error)

func (c *cli) workflowStateCmd(name, short string, do workflowVerb) *cobra.Command {
	return &cobra.Command{
		Use: name + " NAME", Short: short, Example: "  skein workflow " + name + " nightly-orders",
		Args: cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			w, err := do(s.Client, ctx, args[0])
			if err != nil {
				return err
			}
			return c.workflowTable([]api.Workflow{w}, true)
		})),
	}
}
