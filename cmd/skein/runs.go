package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// runTable prints a list of runs.
func (c *cli) runTable(runs []api.Run) error {
	return show(c, runs, func(r api.Run) string { return r.ID }, []column[api.Run]{
		{head: "RUN", get: func(r api.Run) string { return r.ID }},
		{head: "WORKFLOW", get: func(r api.Run) string { return r.Workflow }},
		{head: "STATE", get: func(r api.Run) string { return c.state(r.State) }},
		{head: "TASKS", get: tasksDone},
		{head: "TIME", get: func(r api.Run) string { return took(&r.CreatedAt, r.FinishedAt) }},
		{head: "STARTED", get: func(r api.Run) string { return c.when(&r.CreatedAt) }},
		{head: "BY", get: func(r api.Run) string { return r.User }},
		{head: "FOR", get: func(r api.Run) string { return firedFor(&r, minute) },
			plain: func(r api.Run) string { return firedFor(&r, api.Time.String) }},
		{head: "IN LINE", get: inLine},
	})
}

// inLine returns a run's position in its queue, as in "3 of 17", or "" if the run is not queued.
func inLine(r api.Run) string {
	p := r.Position
	if p == nil {
		return ""
	}
	of := strconv.Itoa(p.Of)
	if p.More {
		of = "more than " + of
	}
	if p.Number == nil {
		return "behind " + of
	}
	return fmt.Sprintf("%d of %s", *p.Number, of)
}

// firedFor returns the trigger that started a run and the instant of the fire, or "" if no trigger started
// the run.
func firedFor(r *api.Run, form func(api.Time) string) string {
	switch {
	case r.Trigger != nil:
		return *r.Trigger + " " + form(r.Instant)
	case r.Backfill != nil:
		return fmt.Sprintf("backfill %d %s", *r.Backfill, form(r.Instant))
	}
	return ""
}

// tasksDone returns a text such as "7/9", with the number of failed tasks.
func tasksDone(r api.Run) string {
	done, total := 0, 0
	for state, n := range r.Counts {
		total += n
		if terminal(state) {
			done += n
		}
	}
	s := fmt.Sprintf("%d/%d", done, total)
	if n := r.Counts["failed"]; n > 0 {
		s += fmt.Sprintf(" (%d failed)", n)
	}
	return s
}

func (c *cli) runListCmd() *cobra.Command {
	var q skein.RunsQuery
	var since, until string
	var all bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List runs, newest first",
		Example: "  skein run list --state failed --since 24h\n  skein run list --workflow nightly-orders -o name",
		Args:    cobra.NoArgs,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) (err error) {
			if q.Since, err = momentOf("since", since); err != nil {
				return err
			}
			if q.Until, err = momentOf("until", until); err != nil {
				return err
			}
			q.Params = c.format == "json" || c.format == "jsonl" || c.format == "yaml"
			limit := q.Limit
			if limit < 0 {
				return usage("--limit %d: use 0 or more", limit)
			}
			if all {
				limit = 0
			}
			q.Limit = min(limit, 1000)
			runs := []api.Run{}
			for r, err := range s.EachRun(ctx, q) {
				if err != nil {
					return err
				}
				if runs = append(runs, r); limit > 0 && len(runs) == limit {
					c.say("the newest %d; all of them: --all", limit)
					break
				}
			}
			return c.runTable(runs)
		}))}
	f := cmd.Flags()
	f.StringVar(&q.Workflow, "workflow", "", "only of this workflow")
	f.StringVar(&q.Namespace, "namespace", "", "only runs of workflows of this namespace")
	f.StringSliceVar(&q.States, "state", nil, "only runs in this state, or in one of several; active: all unfinished runs")
	f.StringVar(&q.User, "user", "", "only of this user")
	tagFlag(f, &q.Tags, "only runs with this tag, as KEY=VALUE; may be repeated")
	f.StringVar(&q.Trigger, "trigger", "", "only runs started by the trigger of this name")
	f.StringVar(&q.Text, "search", "", "only runs with this text in the id, workflow, key, user, cause or message")
	f.StringVar(&since, "since", "", "only runs started since then: an age (24h) or an RFC 3339 instant")
	f.StringVar(&until, "until", "", "only runs started before then: an age (24h) or an RFC 3339 instant")
	f.IntVar(&q.Limit, "limit", 50, "largest number of items; 0: all")
	f.BoolVar(&all, "all", false, "show all items")
	f.BoolVar(&q.System, "system", false, systemHelp)
	c.emptyIsFine(cmd)
	return cmd
}

// tagFlag adds the flag --tag.
func tagFlag(f *pflag.FlagSet, to *map[string]string, help string) {
	f.Var((*tagsValue)(to), "tag", help)
}

// tagsValue is the value of --tag.
type tagsValue map[string]string

func (v *tagsValue) Type() string { return "stringArray" }

func (v *tagsValue) String() string {
	all := make([]string, 0, len(*v))
	for _, key := range slices.Sorted(maps.Keys(*v)) {
		all = append(all, key+"="+(*v)[key])
	}
	return strings.Join(all, " ")
}

// Set implements pflag.Value.
func (v *tagsValue) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	switch {
	case !ok || key == "" || value == "":
		return errors.New("write KEY=VALUE, such as team=data")
	case *v == nil:
		*v = map[string]string{}
	case (*v)[key] != "":
		return fmt.Errorf("the key %s is given twice", key)
	}
	(*v)[key] = value
	return nil
}

// sinceTime reads an age such as 24h, or an instant.
func sinceTime(text string) (time.Time, error) { return momentOf("since", text) }

// momentOf reads the value of a flag: an instant, or an age such as 24h.
func momentOf(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, usage("--%s %s: use a length of time such as 24h, or an instant such as 2026-11-21T08:00:00Z", flag, text)
	}
	return t, nil
}

// emptyIsFine makes a list show nothing, instead of an error, if the data folder has no database yet.
func (c *cli) emptyIsFine(cmd *cobra.Command) {
	inner := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := inner(cmd, args)
		if isNoData(err) {
			c.say("nothing yet in %s; try: skein run FILE", c.cfg.Data)
			return show(c, []api.Run{}, func(api.Run) string { return "" }, nil)
		}
		return err
	}
}

func (c *cli) runGetCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "get RUN", Short: "Show a run with its tasks", Long: "Shows a run with its tasks.\n" + runRefHelp,
		Example: "  skein run get hello@latest\n  skein run get 0190a0b0 -o json",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			id, err := findRun(ctx, s, args[0])
			if err != nil {
				return err
			}
			run, err := s.Run(ctx, id)
			if err == nil {
				err = fillTasks(ctx, s, &run)
			}
			if err != nil {
				return err
			}
			return one(c, run, run.ID, func() error {
				run.Tasks = c.folded(run.Tasks, all)
				return c.runCard(&run)
			})
		})),
	}
	instancesFlag(cmd, &all)
	return cmd
}

// runCard shows one run: as a card on a terminal, and in a pipe as its row, followed by a row per task.
func (c *cli) runCard(run *api.Run) error {
	if !c.outTTY {
		if err := c.runTable([]api.Run{*run}); err != nil {
			return err
		}
		return c.taskTable(run.Tasks)
	}
	rows := [][]string{
		{"run", run.ID},
		{"workflow", fmt.Sprintf("%s, version %d", run.Workflow, run.Version)},
		{"state", c.state(run.State)},
		{"started", c.when(&run.CreatedAt) + " by " + run.User},
		{"took", took(&run.CreatedAt, run.FinishedAt)},
		{"tasks", tasksDone(*run)},
	}
	if fired := firedFor(run, minute); fired != "" {
		if run.Trigger != nil && run.Backfill != nil {
			fired += fmt.Sprintf(", backfill %d", *run.Backfill)
		}
		rows = append(rows, []string{"fired by", fired})
	}
	if run.Intent != "run" {
		rows = append(rows, []string{"wanted", run.Intent})
	}
	if run.Message != nil {
		rows = append(rows, []string{"message", *run.Message})
	}
	names := make([]string, 0, len(run.Params))
	for name := range run.Params {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		rows = append(rows, []string{"param " + name, fmt.Sprint(run.Params[name])})
	}
	for i := range rows {
		rows[i][0] = c.paint(dim, rows[i][0])
	}
	if err := writeRows(c, rows); err != nil {
		return err
	}
	fmt.Fprintln(c.out)
	return c.taskTable(run.Tasks)
}

func (c *cli) runWatchCmd() *cobra.Command {
	var timeout time.Duration
	var follow bool
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "Watch a run until it ends",
		Long:    "Watches a run until it ends, and exits with the code of the run. Ctrl-C ends the watching, not the run.\n" + runRefHelp,
		Example: "  skein run watch nightly-orders@latest --follow\n  skein run watch 0190a0b0 --timeout 10m",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(func(ctx context.Context, args []string) error {
			w := c.newWaiter(follow)
			defer w.stopSignals()
			w.own = false
			w.what, w.again = "no server has answered in the time given", "skein run watch "+args[0]
			ctx, stop := w.within(ctx, timeout)
			defer stop()
			var err error
			if w.s, err = c.forWatching(ctx, args[0]); err != nil {
				return w.late(ctx, err)
			}
			id, err := findRun(ctx, w.s, args[0])
			if err != nil {
				w.leave(ctx)
				return w.late(ctx, err)
			}
			if !w.screen.moves {
				c.say("watching run %s", id)
			}
			return w.await(ctx, id)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "stop watching after this time (exit 8)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show the output of the tasks on stderr")
	return cmd
}

// forWatching finds a server that can watch a run. If the run has ended, the data folder is enough. If the
// run is active and there is no server, this process becomes a server, and the run continues in it.
func (c *cli) forWatching(ctx context.Context, ref string) (*session, error) {
	s, err := c.forReading(ctx)
	if err != nil {
		return nil, err
	}
	id, err := findRun(ctx, s, ref)
	if err == nil && !s.observing {
		return s, nil
	}
	if err == nil {
		var run api.Run
		if run, err = s.Run(ctx, id); err == nil && run.Ended() {
			return s, nil
		}
	}
	s.close()
	if err != nil {
		return nil, err
	}
	c.say("no server holds %s: the run continues in this process", c.cfg.Data)
	return c.forWriting(ctx, false)
}

func (c *cli) runEventsCmd() *cobra.Command {
	return &cobra.Command{
		Use: "events RUN", Short: "Show the history of a run, with times and users",
		Long:    "Shows the history of a run, with the decisions of people.\n" + runRefHelp,
		Example: "  skein run events hello@latest",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			id, err := findRun(ctx, s, args[0])
			if err != nil {
				return err
			}
			events := []api.Event{}
			for ev, err := range s.EachEvent(ctx, id) {
				if err != nil {
					return err
				}
				events = append(events, ev)
			}
			return show(c, events, func(e api.Event) string { return fmt.Sprint(e.Seq) }, []column[api.Event]{
				{head: "TIME", get: func(e api.Event) string { return e.At.Local().Format("15:04:05.000") },
					plain: func(e api.Event) string { return e.At.String() }},
				{head: "EVENT", get: func(e api.Event) string { return e.Kind }},
				{head: "TASK", get: func(e api.Event) string { return text(e.Task) }},
				{head: "ATTEMPT", get: func(e api.Event) string { return number(e.Attempt) }},
				{head: "STATE", get: func(e api.Event) string { return c.state(text(e.State)) }},
				{head: "DETAIL", get: eventDetail},
			})
		})),
	}
}

func number(n *int32) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func eventDetail(e api.Event) string {
	var parts []string
	if e.ExitCode != nil {
		parts = append(parts, fmt.Sprintf("exit %d", *e.ExitCode))
	}
	if e.Tasks != nil {
		parts = append(parts, count(int(*e.Tasks), "task"))
	}
	for _, s := range []*string{e.Text, e.Reason} {
		if s != nil && *s != "" {
			parts = append(parts, *s)
		}
	}
	if e.Actor != nil && *e.Actor != "" {
		parts = append(parts, "by "+*e.Actor)
	}
	if e.Node != nil && *e.Node != "" {
		parts = append(parts, "on "+*e.Node)
	}
	return strings.Join(parts, ", ")
}
