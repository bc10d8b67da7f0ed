package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
)

const (
	// completeWait bounds the time that completion takes after a Tab. Later results are not offered.
	completeWait = time.Second
	// The other constants bound the suggestions.
	completeRunsMax      = 30
	completeWorkflowsMax = 200
	completeTriggersMax  = 200
)

type completion = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective)

// completions adds completions to every command below cmd. The words in its usage decide which: FILE, NAME,
// RUN.
func (c *cli) completions(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		c.completions(sub)
	}
	if f := c.argumentOf(cmd.Use); f != nil && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = f
	}
	values := map[string][]string{"output": formats, "priority": {"highest", "high", "medium", "low", "lowest"},
		"on-lease-loss": {"rejoin", "exit"}, "registry-away": {"database", "stop"}, "log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"},
		"outcome": outcomes, "dst-gap": {"run_after", "skip", "run_before"}, "dst-repeat": {"once", "second", "both"},
		"only": {"failed", "missing", "failed-or-missing"}, "order": {"asc", "desc"}}
	switch cmd.CommandPath() {
	case "skein run list":
		values["state"] = runStates
	case "skein task list":
		values["state"] = taskStates
	case "skein workflow graph":
		values["format"] = []string{"ascii", "mermaid", "dot"}
	case "skein schedule list":
		values["state"] = []string{"active", "paused", "ended"}
		values["kind"] = triggerKinds
	case "skein backfill list":
		values["state"] = []string{"running", "paused", "cancelled", "done"}
	case "skein backfill runs":
		values["state"] = runStates
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		// The only error is that the flag already has a function, because commands share some flags.
		switch words, ok := values[f.Name]; {
		case ok:
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		case f.Name == "workflow":
			_ = cmd.RegisterFlagCompletionFunc(f.Name, c.offers(c.workflowNames, cobra.ShellCompDirectiveNoFileComp))
		}
	})
}

// The following are the states by which lists can be filtered, in the order in which they occur.
var (
	runStates = []string{"active", "submitted", "waiting", "splitting", "running", "suspended", "paused", "finalising", "succeeded", "failed",
		"stopped", "skipped"}
	triggerKinds = append([]string{workflow.KindCron, workflow.KindEvery, workflow.KindAt, workflow.KindDaily, workflow.KindWeekly, workflow.KindMonthly,
		workflow.KindAnnually, workflow.KindStart, workflow.KindWebhook, workflow.KindFile, workflow.KindRunOf, workflow.KindAgain, workflow.KindAbsent,
		workflow.KindEvent, workflow.KindPoll, workflow.KindQuery, workflow.KindObject}, workflow.OutsideKinds()...)
	taskStates = []string{"pending", "ready", "assigned", "running", "retry_wait", "deferred", "succeeded", "failed", "upstream_failed", "stopped", "skipped"}
)

// argumentOf returns the completion of the first argument of a command. It returns nil for files, or if
// there is no argument.
func (c *cli) argumentOf(use string) completion {
	file, name, run := strings.Contains(use, "FILE"), strings.Contains(use, "NAME"), strings.Contains(use, "RUN")
	files := cobra.ShellCompDirectiveNoFileComp
	if file {
		files = cobra.ShellCompDirectiveDefault
	}
	if strings.Contains(use, "RUN/TASK") {
		files |= cobra.ShellCompDirectiveNoSpace // the user types the task next
	}
	var all completion
	switch {
	case strings.Contains(use, "/TRIGGER"):
		all = c.offers(c.triggerRefs, files)
	case strings.Contains(use, "BACKFILL"):
		all = c.offers(c.backfillRefs, files)
	case name || strings.Contains(use, "WORKFLOW"):
		all = c.offers(c.workflowNames, files)
	case run:
		all = c.offers(c.runRefs, files)
	default:
		return nil
	}
	several := strings.Contains(use, "…")
	return func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !several {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return all(cmd, args, begin)
	}
}

// offers returns the completions that list finds at a server or in the data folder. After any error it offers
// nothing and prints nothing, because the user is typing a line.
func (c *cli) offers(list func(context.Context, *session) []cobra.Completion, files cobra.ShellCompDirective) completion {
	return func(cmd *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeWait)
		defer cancel()
		var err error
		if c.cfg, err = config.Load(changedFlags(cmd), c.configFile); err != nil {
			return nil, files
		}
		s, err := c.forReading(ctx)
		if err != nil {
			return nil, files
		}
		defer s.close()
		all := list(ctx, s)
		return slices.DeleteFunc(all, func(o string) bool { return !strings.HasPrefix(o, begin) }), files
	}
}

func (c *cli) workflowNames(ctx context.Context, s *session) (all []cobra.Completion) {
	for w, err := range s.EachWorkflow(ctx, "") {
		if err != nil || len(all) == completeWorkflowsMax {
			break
		}
		all = append(all, w.Workflow)
	}
	return all
}

// triggerRefs completes WORKFLOW/TRIGGER.
func (c *cli) triggerRefs(ctx context.Context, s *session) (all []cobra.Completion) {
	for t, err := range s.EachSchedule(ctx, skein.SchedulesQuery{Limit: completeTriggersMax}) {
		if err != nil || len(all) == completeTriggersMax {
			break
		}
		all = append(all, cobra.CompletionWithDesc(scheduleName(t), t.Description))
	}
	return all
}

// backfillRefs returns the ids of the newest backfills.
func (c *cli) backfillRefs(ctx context.Context, s *session) (all []cobra.Completion) {
	page, err := s.Backfills(ctx, skein.BackfillsQuery{Limit: completeRunsMax})
	if err != nil {
		return nil
	}
	for _, b := range page.Items {
		all = append(all, cobra.CompletionWithDesc(backfillName(b), b.Workflow+", "+b.State))
	}
	return all
}

// runRefs returns NAME@latest for workflows, and the ids of the newest runs.
func (c *cli) runRefs(ctx context.Context, s *session) []cobra.Completion {
	page, err := s.Runs(ctx, skein.RunsQuery{Limit: completeRunsMax})
	if err != nil {
		return nil
	}
	var names, ids []cobra.Completion
	for i := range page.Items {
		r := &page.Items[i]
		if latest := r.Workflow + "@latest"; !slices.Contains(names, latest) {
			names = append(names, latest)
		}
		ids = append(ids, cobra.CompletionWithDesc(r.ID, r.Workflow+", "+r.State))
	}
	return append(names, ids...)
}
