package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) explainCmd() *cobra.Command {
	return &cobra.Command{
		Use: "explain RUN[/TASK] | WORKFLOW", Short: "Explain why a run or a task waits, or how it ended, or why a workflow starts no runs",
		Long: "Explains why a run or a task waits: the reason, since when, and the event that will let it continue.\n" +
			"For a workflow, explains why its triggers start no runs: one is paused, or its source of events does not\n" +
			"reach the other system. It also names the next instants.\n" +
			"docs/errors.md lists the codes of the reasons, which -o json shows.\n" + runRefHelp,
		Example: "  skein explain nightly-orders@latest\n  skein explain nightly-orders@latest/load -o json\n  skein explain nightly-orders",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			ref, task := splitRef(args[0])
			id, err := findRun(ctx, s, ref)
			if errors.Is(err, errNotFound) && !strings.Contains(args[0], "@") {
				if x, flowErr := skein.ExplainWorkflow(ctx, s.Client, args[0]); flowErr == nil {
					return one(c, x, x.ID, func() error { return c.explained(&x) })
				}
			}
			if err != nil {
				return err
			}
			x, err := s.Explain(ctx, id, task)
			if err != nil {
				return err
			}
			return one(c, x, x.ID, func() error {
				if c.outTTY {
					if run, err := s.Run(ctx, id); err == nil && firedFor(&run, minute) != "" {
						fmt.Fprintf(c.out, "%s, fired by %s\n", run.Workflow, firedFor(&run, minute))
					}
				}
				return c.explained(&x)
			})
		})),
	}
}

func (c *cli) explained(x *api.Explanation) error {
	if !c.outTTY {
		return show(c, x.Reasons, func(r api.Reason) string { return r.Kind }, []column[api.Reason]{
			{get: func(r api.Reason) string { return r.Kind }},
			{get: func(r api.Reason) string { return r.What }},
			{get: func(r api.Reason) string { return text(r.Holder) }},
			{get: func(r api.Reason) string { return c.when(r.Since) }},
			{get: func(r api.Reason) string { return text(r.Unblocks) }},
			{get: func(r api.Reason) string { return c.when(r.ExpectedAt) }},
		})
	}
	fmt.Fprintf(c.out, "%s  %s\n", x.ID, c.state(x.State))
	if len(x.Reasons) == 0 {
		fmt.Fprintln(c.out, "  nothing holds it back")
	}
	for _, r := range x.Reasons {
		fmt.Fprintf(c.out, "  %s\n", r.What)
		if r.Since != nil {
			fmt.Fprintf(c.out, "    %s %s\n", c.paint(dim, "since   "), c.when(r.Since))
		}
		if r.Holder != nil && *r.Holder != "" {
			fmt.Fprintf(c.out, "    %s %s\n", c.paint(dim, "held by "), *r.Holder)
		}
		if r.ExpectedAt != nil {
			fmt.Fprintf(c.out, "    %s %s\n", c.paint(dim, "expected"), r.ExpectedAt.Local().Format("2006-01-02 15:04:05"))
		}
		if r.Unblocks != nil && *r.Unblocks != "" {
			fmt.Fprintf(c.out, "    %s %s\n", c.paint(dim, "unblocks"), *r.Unblocks)
		}
	}
	return nil
}
