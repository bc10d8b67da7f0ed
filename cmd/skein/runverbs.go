package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// verb applies a verb to one run.
type verb func(ctx context.Context, s *session, id, why string) (api.Run, error)

// verbFlags select the runs for a verb.
type verbFlags struct {
	reason          string
	all, yes, dry   bool
	workflow, state string
	user, since     string
}

const verbHelp = `
Without RUN, the command applies to the runs that --workflow, --state, --user, --since or --all select.
--dry-run shows them. If skein cannot ask for a confirmation, several runs need --yes.`

// verbCmd makes the commands stop, kill, pause and resume. One run needs no confirmation; several runs need
// --yes.
func (c *cli) verbCmd(name, short string, do verb) *cobra.Command {
	f := &verbFlags{state: "active"}
	cmd := &cobra.Command{
		Use: name + " RUN…", Short: short, Long: short + ".\n" + runRefHelp + verbHelp,
		Example: fmt.Sprintf("  skein run %s hello@latest\n  skein run %s --workflow nightly-orders --since 24h --dry-run", name, name),
		RunE:    c.do(c.writing(func(ctx context.Context, s *session, args []string) error { return c.onRuns(ctx, s, name, args, f, do) })),
	}
	f.register(cmd)
	return cmd
}

func (f *verbFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.reason, "reason", "", "reason, for the history")
	fl.BoolVar(&f.all, "all", false, "select every run in that state")
	fl.StringVar(&f.workflow, "workflow", "", "select runs of this workflow")
	fl.StringVar(&f.state, "state", f.state, "select runs in this state")
	fl.StringVar(&f.user, "user", "", "select runs of this user")
	fl.StringVar(&f.since, "since", "", "select runs since an age such as 24h, or since an instant")
	fl.BoolVar(&f.dry, "dry-run", false, "show the selected runs, and change nothing")
	fl.BoolVar(&f.yes, "yes", false, "do not ask before several runs are changed")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.all = f.all || f.workflow != "" || f.user != "" || f.since != "" || cmd.Flags().Changed("state")
		return inner(cmd, args)
	}
}

// onRuns applies a verb to the selected runs, and shows their states afterwards.
func (c *cli) onRuns(ctx context.Context, s *session, name string, args []string, f *verbFlags, do verb) error {
	chosen, err := f.choose(ctx, s, args)
	if err != nil {
		return err
	}
	if f.dry {
		c.say("would %s %s", name, count(len(chosen), "run"))
		return c.runTable(chosen)
	}
	if len(args) != 1 && len(chosen) > 0 {
		if err := c.confirm(f.yes, fmt.Sprintf("%s %s", name, count(len(chosen), "run"))); err != nil {
			return err
		}
	}
	runs := []api.Run{}
	var errs []error
	for i := range chosen {
		run, err := do(ctx, s, chosen[i].ID, f.reason)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		runs = append(runs, run)
	}
	if len(errs) > 0 && len(chosen) == 1 {
		return errs[0]
	}
	if f.all {
		c.say("%s: %d done, %d not", count(len(chosen), "run"), len(runs), len(errs))
	}
	return errors.Join(c.runTable(runs), errors.Join(errs...))
}

// choose finds the selected runs. Runs from a filter are complete. Runs that were named have only their id.
func (f *verbFlags) choose(ctx context.Context, s *session, args []string) (runs []api.Run, err error) {
	switch {
	case f.all && len(args) > 0:
		return nil, usage("give either RUN…, or --all with filters")
	case !f.all && len(args) == 0:
		return nil, usage("which run? " + runRefHelp)
	}
	for _, ref := range args {
		id, err := findRun(ctx, s, ref)
		if err != nil {
			return nil, err
		}
		run, err := s.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	if !f.all {
		return runs, nil
	}
	q := skein.RunsQuery{State: f.state, Workflow: f.workflow, User: f.user, Limit: 1000}
	if q.Since, err = sinceTime(f.since); err != nil {
		return nil, err
	}
	for run, err := range s.EachRun(ctx, q) {
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// once makes a request take effect only once, even if it is sent several times.
func once() skein.CallOption { return skein.Key(uuid.NewString()) }

func (c *cli) recoverCmd() *cobra.Command {
	f := &verbFlags{state: "failed"}
	var req api.RecoverRequest
	cmd := &cobra.Command{
		Use: "recover RUN…", Short: "Recover ended runs: run failed tasks again, and keep the other results",
		Long: "Recovers runs that have ended, as a new generation of the same run. Tasks that did not succeed run again, and so do the\n" +
			"tasks that depend on them. All other results are kept.\n" +
			"--from TASK also runs that task again, and all tasks that depend on it. --task-only limits this to the task itself,\n" +
			"--upstreams to the task and the tasks that it needs, --dependents to the task and the tasks that need it.\n" + runRefHelp + verbHelp,
		Example: "  skein run recover nightly-orders@latest\n  skein run recover 0190a0b0 --from load --reason 'the table is repaired'\n" +
			"  skein run recover --workflow nightly-orders --since 24h --dry-run",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			return c.onRuns(ctx, s, "recover", args, f, func(ctx context.Context, s *session, id, why string) (api.Run, error) {
				r := req
				r.Reason = why
				return s.Recover(ctx, id, r, once())
			})
		})),
	}
	fl := cmd.Flags()
	fl.StringVar(&req.From, "from", "", "also run this task and all tasks that depend on it")
	fl.BoolVar(&req.TaskOnly, "task-only", false, "with --from: only that task")
	fl.BoolVar(&req.Upstreams, "upstreams", false, "with --from: only that task and all tasks that it needs")
	fl.BoolVar(&req.Dependents, "dependents", false, "with --from: only that task and all tasks that need it")
	f.register(cmd)
	return cmd
}

func (c *cli) rerunCmd() *cobra.Command {
	f := &verbFlags{state: "failed"}
	var req api.RerunRequest
	var params []string
	cmd := &cobra.Command{
		Use: "rerun RUN…", Short: "Start new runs with the values of earlier runs",
		Long: "Starts new runs with the version, the parameters and the instant of earlier runs, unless flags change them.\n" +
			"To continue a run with its results, use skein run recover.\n" + runRefHelp + verbHelp,
		Example: "  skein run rerun nightly-orders@latest\n  skein run rerun 0190a0b0 --newest -p day=2026-11-20",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			given, err := splitPairs("-p", params)
			if err != nil {
				return err
			}
			return c.onRuns(ctx, s, "rerun", args, f, func(ctx context.Context, s *session, id, _ string) (api.Run, error) {
				r := req
				if len(given) > 0 {
					run, err := s.Run(ctx, id)
					if err != nil {
						return run, err
					}
					w, err := s.Workflow(ctx, run.Workflow)
					if err != nil {
						return run, err
					}
					r.Params = typed(given, w.Params)
				}
				return s.Rerun(ctx, id, r, once())
			})
		})),
	}
	req.Origin = "manual"
	fl := cmd.Flags()
	fl.BoolVar(&req.Newest, "newest", false, "use the workflow's current version instead of the run's")
	fl.StringArrayVarP(&params, "param", "p", nil, "another value of parameter, as name=value; may be repeated")
	fl.StringVar(&req.Priority, "priority", "", "highest | high | medium | low | lowest (default: that of the run)")
	fl.StringVar(&req.From, "from", "", "begin at this task; tasks that do not depend on it count as skipped")
	f.register(cmd)
	return cmd
}
