package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// backfillRefHelp is part of every help text that takes BACKFILL.
const backfillRefHelp = `BACKFILL is an id, WORKFLOW@latest (the newest backfill of WORKFLOW), or WORKFLOW@-1 (the backfill before it).`

func (c *cli) backfillCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backfill", Short: "Start runs for past instants: a range or a list, with a limit on concurrent runs",
		Example: "  skein backfill create nightly-orders --from 2027-03-01 --to 2027-03-31 --dry-run\n  skein backfill list",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.backfillCreateCmd(), c.backfillListCmd(), c.backfillGetCmd(), c.backfillWatchCmd(), c.backfillRunsCmd(),
		c.backfillVerbCmd("pause", "Pause a backfill: it starts no more runs; active runs continue", (*skein.Client).PauseBackfill),
		c.backfillVerbCmd("resume", "Continue a paused backfill", (*skein.Client).ResumeBackfill),
		c.backfillVerbCmd("cancel", "Cancel a backfill: waiting runs are stopped, runs that have begun continue", (*skein.Client).CancelBackfill))
	return cmd
}

// backfillTable prints a list of backfills.
func (c *cli) backfillTable(all []api.Backfill) error {
	return show(c, all, backfillName, []column[api.Backfill]{
		{head: "BACKFILL", get: backfillName},
		{head: "WORKFLOW", get: func(b api.Backfill) string { return b.Workflow }},
		{head: "STATE", get: func(b api.Backfill) string {
			if b.WaitsFor != nil {
				return c.state(b.State) + " (waits for a quota)"
			}
			return c.state(b.State)
		}},
		{head: "RUNS", get: backfillDone},
		{head: "ACTIVE", get: func(b api.Backfill) string { return fmt.Sprintf("%d of %d", b.Active, b.Parallel) }},
		{head: "INSTANTS", get: backfillSpan, plain: func(b api.Backfill) string { return b.First.String() + "/" + b.Last.String() }},
		{head: "MADE", get: func(b api.Backfill) string { return c.when(b.CreatedAt) }},
		{head: "BY", get: func(b api.Backfill) string { return b.User }},
	})
}

func backfillName(b api.Backfill) string { return strconv.FormatInt(b.ID, 10) }

// backfillDone returns a text such as "7/31", with the number of failed runs.
func backfillDone(b api.Backfill) string {
	s := fmt.Sprintf("%d/%d", b.Ended, b.Total)
	if b.Failed > 0 {
		s += fmt.Sprintf(" (%d failed)", b.Failed)
	}
	return s
}

func backfillSpan(b api.Backfill) string { return minute(b.First) + " … " + minute(b.Last) }

func (c *cli) backfillListCmd() *cobra.Command {
	var q skein.BackfillsQuery
	var all bool
	cmd := &cobra.Command{
		Use: "list [WORKFLOW]", Aliases: []string{"ls"}, Short: "List backfills, newest first",
		Example: "  skein backfill list --state running\n  skein backfill list nightly-orders",
		Args:    cobra.MaximumNArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			if q.Limit < 0 {
				return usage("--limit %d: use 0 or more", q.Limit)
			}
			limit := q.Limit
			if all {
				limit = 0
			}
			q.Limit = min(limit, 1000)
			if len(args) > 0 {
				q.Workflow = args[0]
			}
			list := []api.Backfill{}
			for b, err := range s.EachBackfill(ctx, q) {
				if err != nil {
					return err
				}
				if list = append(list, b); limit > 0 && len(list) == limit {
					c.say("the newest %d; all of them: --all", limit)
					break
				}
			}
			return c.backfillTable(list)
		})),
	}
	f := cmd.Flags()
	f.StringVar(&q.State, "state", "", "only in this state: running | paused | cancelled | done")
	f.IntVar(&q.Limit, "limit", 50, "largest number of items; 0: all")
	f.BoolVar(&all, "all", false, "show all items")
	c.emptyIsFine(cmd)
	return cmd
}

// findBackfill finds the backfill that the argument names.
func findBackfill(ctx context.Context, s *session, ref string) (int64, error) {
	name, which, named := strings.Cut(ref, "@")
	if !named {
		id, err := strconv.ParseInt(ref, 10, 64)
		if err != nil || id < 1 {
			return 0, usage("%q is not a backfill: use an id, or WORKFLOW@latest", ref)
		}
		return id, nil
	}
	back, err := placesBack(name, which)
	if err != nil {
		return 0, err
	}
	for b, err := range s.EachBackfill(ctx, skein.BackfillsQuery{Workflow: name, Limit: back + 1}) {
		if err != nil {
			return 0, err
		}
		if back--; back < 0 {
			return b.ID, nil
		}
	}
	return 0, hint(&said{errNotFound, fmt.Sprintf("workflow %s has no backfill %s", name, which)}, "list backfills: skein backfill list")
}

// withBackfill wraps a command about one backfill.
func withBackfill(f func(ctx context.Context, s *session, id int64) error) func(context.Context, *session, []string) error {
	return func(ctx context.Context, s *session, args []string) error {
		id, err := findBackfill(ctx, s, args[0])
		if err != nil {
			return err
		}
		err = f(ctx, s, id)
		if errors.Is(err, skein.ErrNotFound) {
			err = hint(err, "list backfills: skein backfill list")
		}
		return err
	}
}

func (c *cli) backfillGetCmd() *cobra.Command {
	return &cobra.Command{
		Use: "get BACKFILL", Short: "Show a backfill: its request and its state", Long: "Shows a backfill.\n" + backfillRefHelp,
		Example: "  skein backfill get nightly-orders@latest\n  skein backfill get 17 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(withBackfill(func(ctx context.Context, s *session, id int64) error {
			b, err := s.Backfill(ctx, id)
			if err != nil {
				return err
			}
			return one(c, b, backfillName(b), func() error { return c.backfillCard(&b) })
		}))),
	}
}

// backfillCard shows one backfill: as a card on a terminal, and as a row in a pipe.
func (c *cli) backfillCard(b *api.Backfill) error {
	if !c.outTTY {
		return c.backfillTable([]api.Backfill{*b})
	}
	what := "instants that were given"
	if b.Trigger != nil {
		what = "instants of trigger " + *b.Trigger
	}
	rows := [][]string{
		{"backfill", backfillName(*b)},
		{"workflow", b.Workflow},
		{"state", c.state(b.State)},
		{"instants", fmt.Sprintf("%d %s, %s, %s", b.Total, what, backfillSpan(*b), b.Order)},
		{"runs", fmt.Sprintf("%s %s, %d active of at most %d", bar(int(b.Ended), int(b.Total)), backfillDone(*b), b.Active, b.Parallel)},
		{"made", c.when(b.CreatedAt) + " by " + b.User},
	}
	if b.Only != "all" {
		rows = append(rows, []string{"only", strings.ReplaceAll(b.Only, "_", " ")})
	}
	if b.NextInstant != nil && b.State != "cancelled" {
		rows = append(rows, []string{"next", minute(*b.NextInstant)})
	}
	for i := range rows {
		rows[i][0] = c.paint(dim, rows[i][0])
	}
	return writeRows(c, rows)
}

func (c *cli) backfillRunsCmd() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use: "runs BACKFILL", Short: "List the runs of a backfill by their instants", Long: "Lists the runs of a backfill by their instants.\n" + backfillRefHelp,
		Example: "  skein backfill runs nightly-orders@latest --state failed",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(withBackfill(func(ctx context.Context, s *session, id int64) error {
			runs := []api.BackfillRun{}
			for r, err := range s.EachBackfillRun(ctx, id) {
				if err != nil {
					return err
				}
				if state == "" || text(r.State) == state || state == "active" && r.State != nil && r.FinishedAt == nil {
					runs = append(runs, r)
				}
			}
			return show(c, runs, func(r api.BackfillRun) string { return r.Run }, []column[api.BackfillRun]{
				{head: "INSTANT", get: func(r api.BackfillRun) string { return minute(r.Instant) }, plain: func(r api.BackfillRun) string { return r.Instant.String() }},
				{head: "RUN", get: func(r api.BackfillRun) string { return r.Run }},
				{head: "STATE", get: func(r api.BackfillRun) string { return c.state(text(r.State)) }},
				{head: "TIME", get: func(r api.BackfillRun) string { return took(r.CreatedAt, r.FinishedAt) }},
				{head: "WHY", get: func(r api.BackfillRun) string { return text(r.Cause) }},
			})
		}))),
	}
	cmd.Flags().StringVar(&state, "state", "", "only runs in this state; active: all unfinished runs")
	return cmd
}

type backfillVerb func(k *skein.Client, ctx context.Context, id int64, opts ...skein.CallOption) (api.Backfill, error)

func (c *cli) backfillVerbCmd(name, short string, do backfillVerb) *cobra.Command {
	return &cobra.Command{
		Use: name + " BACKFILL", Short: short, Long: short + ".\n" + backfillRefHelp,
		Example: "  skein backfill " + name + " nightly-orders@latest",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(withBackfill(func(ctx context.Context, s *session, id int64) error {
			b, err := do(s.Client, ctx, id)
			if err != nil {
				return err
			}
			return c.backfillTable([]api.Backfill{b})
		}))),
	}
}

func (c *cli) backfillWatchCmd() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "watch BACKFILL", Short: "Watch a backfill until it ends",
		Long: `Watches a backfill until it ends. Ctrl-C ends the watching, not the backfill. Exit code: 0 all runs succeeded,
10 some did not, 11 the backfill was cancelled.
` + backfillRefHelp,
		Example: "  skein backfill watch nightly-orders@latest --timeout 1h",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			w := c.newWaiter(false)
			defer w.stopSignals()
			w.own = false
			w.what, w.again = "no server has answered in the time given", "skein backfill watch "+args[0]
			ctx, stop := w.within(ctx, timeout)
			defer stop()
			var id int64
			err := w.withServer(ctx, func(s *session) (err error) {
				id, err = findBackfill(ctx, s, args[0])
				return err
			})
			if err != nil {
				w.leave(ctx)
				return err
			}
			return w.awaitBackfill(ctx, id)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "stop watching after this time (exit 8)")
	return cmd
}

// awaitBackfill waits for the end of a backfill and shows it. It returns the error that determines the exit
// code.
func (w *waiter) awaitBackfill(ctx context.Context, id int64) error {
	var b api.Backfill
	err := w.withServer(ctx, func(s *session) (err error) {
		b, err = w.watchBackfill(ctx, id)
		return err
	})
	w.screen.clear()
	if err == nil {
		if err = one(w.c, b, backfillName(b), func() error { return w.c.backfillTable([]api.Backfill{b}) }); err == nil {
			err = backfillVerdict(w.c, &b)
		}
	}
	if errors.Is(err, errTimedOut) || errors.Is(err, errInterrupted) {
		w.c.say("the backfill continues; to end it: skein backfill cancel %d", id)
		w.disconnect() // the caller did not ask to wait again
		return err
	}
	w.leave(ctx)
	return err
}

// backfillVerdict turns the state of a backfill into an exit code.
func backfillVerdict(c *cli, b *api.Backfill) error {
	switch {
	case b.State == "cancelled":
		return &errEnd{exitRunStopped}
	case b.Failed > 0:
		c.say("%d of %s did not succeed → skein backfill runs %d --state failed", b.Failed, count(int(b.Total), "run"), b.ID)
		return &errEnd{exitRunFailed}
	}
	return nil
}

// watchBackfill follows a backfill until it ends. It shows a bar on a terminal, and prints a line at each
// change in a pipe.
func (w *waiter) watchBackfill(ctx context.Context, id int64) (api.Backfill, error) {
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	told, toldAt := int64(-1), time.Time{}
	for {
		b, err := w.s.Backfill(ctx, id)
		if err != nil {
			return b, err
		}
		w.contact()
		w.what, w.again = "the backfill is still "+b.State, "skein backfill watch "+backfillName(b)
		w.screen.draw([]string{backfillLine(painter{colour: w.c.errTTY && !set("NO_COLOR")}, &b)})
		if !w.screen.moves && b.Ended != told && (b.Over() || time.Since(toldAt) >= drawAnyway) {
			w.screen.print("%s runs have ended", backfillDone(b))
			told, toldAt = b.Ended, time.Now()
		}
		if b.Over() {
			return b, nil
		}
		select {
		case <-tick.C:
		case <-w.signals:
			return b, errInterrupted
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
}

func backfillLine(p painter, b *api.Backfill) string {
	line := fmt.Sprintf("%s  %s  %s %d/%d  %d active", p.paint(bold, b.Workflow), p.state(b.State), bar(int(b.Ended), int(b.Total)), b.Ended, b.Total, b.Active)
	if b.Failed > 0 {
		line += "  " + p.paint(red, fmt.Sprintf("%d failed", b.Failed))
	}
	if b.NextInstant != nil {
		line += "  next " + minute(*b.NextInstant)
	}
	return line
}
