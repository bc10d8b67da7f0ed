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

// verb does something to one run.
type verb func(ctx context.Context, s *session, id, why string) (api.Run, error)

// verbFlags choose the runs of a verb.
type verbFlags struct {
	reason          string
	all, yes, dry   bool
	workflow, state string
	user, since     string
}

const verbHelp = `
Without RUN, by --workflow, --state, --user, --since or --all: several runs; --dry-run shows which. Several need --yes where
skein cannot ask.`

// verbCmd is stop, kill, pause or resume: one run without a question, several with --yes.
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
	fl.StringVar(&f.reason, "reason", "", "why, for the history")
	fl.BoolVar(&f.all, "all", false, "every run in that state")
	fl.StringVar(&f.workflow, "workflow", "", "the runs of this workflow")
	fl.StringVar(&f.state, "state", f.state, "the runs in this state")
	fl.StringVar(&f.user, "user", "", "the runs of this user")
	fl.StringVar(&f.since, "since", "", "the runs since 24h ago, or since an instant")
	fl.BoolVar(&f.dry, "dry-run", false, "only show the runs")
	fl.BoolVar(&f.yes, "yes", false, "do not ask, for several runs")
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.all = f.all || f.workflow != "" || f.user != "" || f.since != "" || cmd.Flags().Changed("state")
		return inner(cmd, args)
	}
}

// onRuns applies a verb to the chosen runs, and shows their states afterwards.
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

// choose finds the selected runs. Runs from a filter are complete; runs that were named have only their id.
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

// once makes a verb happen once, however often its request is sent.
func once() skein.CallOption { return skein.Key(uuid.NewString()) }

func (c *cli) recoverCmd() *cobra.Command {
	f := &verbFlags{state: "failed"}
	var req api.RecoverRequest
	cmd := &cobra.Command{
		Use: "recover RUN…", Short: "Bring runs back after their end: do again what failed, keep the results",
		Long: "Brings runs back after their end, as a new generation of the same run: everything that did not succeed is done again, and\n" +
			"what depends on it; results are kept. --from TASK does that task again, too, and all that depends on it. --task-only,\n" +
			"--upstreams and --dependents narrow that to the task, to it and what it needs, to it and what needs it.\n" + runRefHelp + verbHelp,
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
	fl.StringVar(&req.From, "from", "", "also this task, and all that depends on it")
	fl.BoolVar(&req.TaskOnly, "task-only", false, "with --from: only that task")
	fl.BoolVar(&req.Upstreams, "upstreams", false, "with --from: only that task and all it needs")
	fl.BoolVar(&req.Dependents, "dependents", false, "with --from: only that task and all that needs it")
	f.register(cmd)
	return cmd
}

func (c *cli) rerunCmd() *cobra.Command {
	f := &verbFlags{state: "failed"}
	var req api.RerunRequest
	var params []string
	cmd := &cobra.Command{
		Use: "rerun RUN…", Short: "Start runs again, from the start, as new runs",
		Long: "Starts runs again as new runs, from the start: of the same version, with the same parameters and for the same instant,\n" +
			"unless told otherwise. To go on with a run instead, with its results: skein run recover.\n" + runRefHelp + verbHelp,
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
	fl.BoolVar(&req.Newest, "newest", false, "the workflow's current version instead of the run's")
	fl.StringArrayVarP(&params, "param", "p", nil, "another value of a parameter, as name=value; may be repeated")
	fl.StringVar(&req.Priority, "priority", "", "highest | high | medium | low | lowest (default the run's)")
	fl.StringVar(&req.From, "from", "", "begin at this task: what does not depend on it counts as skipped")
	f.register(cmd)
	return cmd
}
