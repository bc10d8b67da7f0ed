package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

const firesDefault = 50

// outcomes lists the outcomes of a fire in alphabetical order.
var outcomes = []string{"fired", "late", "skipped", "merged", "missed"}

// fireQuery selects lines of the ledger.
type fireQuery struct {
	since, until, zone string
	outcome            string
	limit              int
	all, unfired       bool
	system             bool
}

func (c *cli) scheduleMissedCmd() *cobra.Command {
	q := &fireQuery{unfired: true}
	return c.ledgerCmd(q, &cobra.Command{
		Use: "missed [WORKFLOW[/TRIGGER]]", Short: "List the instants that started no run, and why",
		Long: `Lists the instants that started no run, newest first: skipped (a rule of the trigger forbids the run), merged (a
later run covers the instant, too), missed (no node could start the run in time). Successive instants with the
same outcome are one line.
` + momentHelp,
		Example: "  skein schedule missed --since -7d\n  skein schedule missed nightly-orders/nightly -o json",
	})
}

func (c *cli) scheduleFiresCmd() *cobra.Command {
	q := &fireQuery{}
	cmd := c.ledgerCmd(q, &cobra.Command{
		Use: "fires [WORKFLOW[/TRIGGER]]", Short: "List the outcome of every instant and event: the ledger",
		Long: `Lists the outcome of every instant and event, newest first: fired, late (a run started later than it should
have), skipped, merged or missed (see skein schedule missed --help). Each instant is in one line.
` + momentHelp,
		Example: "  skein schedule fires nightly-orders --since 2027-03-01 --until 2027-03-31\n  skein schedule fires --outcome late",
	})
	cmd.Flags().StringVar(&q.outcome, "outcome", "", "only this outcome: "+strings.Join(outcomes, " | "))
	return cmd
}

// ledgerCmd makes a command that lists lines of the ledger.
func (c *cli) ledgerCmd(q *fireQuery, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
		fires, err := c.ledger(ctx, s, args, q)
		if err != nil {
			return err
		}
		return c.fireTable(fires, q.unfired)
	}))
	f := cmd.Flags()
	f.StringVar(&q.since, "since", "", "only since T")
	f.StringVar(&q.until, "until", "", "only until T; a date includes its whole day")
	f.StringVar(&q.zone, "timezone", "", "time zone of dates T (default UTC)")
	f.IntVar(&q.limit, "limit", firesDefault, "largest number of lines; 0: all")
	f.BoolVar(&q.all, "all", false, "show all items")
	f.BoolVar(&q.system, "system", false, systemHelp)
	c.emptyIsFine(cmd)
	return cmd
}

func (c *cli) ledger(ctx context.Context, s *session, args []string, f *fireQuery) ([]api.Fire, error) {
	if f.limit < 0 {
		return nil, usage("--limit %d: use 0 or more", f.limit)
	}
	if f.outcome != "" && !slices.Contains(outcomes, f.outcome) {
		return nil, usage("--outcome %s: use one of %s", f.outcome, strings.Join(outcomes, ", "))
	}
	if f.all {
		f.limit = 0
	}
	when, err := momentsIn(f.zone)
	if err != nil {
		return nil, err
	}
	q := skein.FiresQuery{Outcome: f.outcome, Unfired: f.unfired, System: f.system, Limit: min(f.limit, 1000)}
	if q.Since, err = when.from("--since", f.since); err != nil {
		return nil, err
	}
	if q.Until, err = when.until("--until", f.until); err != nil {
		return nil, err
	}
	if len(args) > 0 {
		r, err := findTriggers(ctx, s, args[0])
		if err != nil {
			return nil, err
		}
		q.Workflow, q.Trigger = r.workflow, r.trigger
	}
	fires := []api.Fire{}
	for line, err := range s.EachFire(ctx, q) {
		if err != nil {
			return nil, err
		}
		if fires = append(fires, line); f.limit > 0 && len(fires) == f.limit {
			c.say("the newest %d; all of them: --all", f.limit)
			break
		}
	}
	return fires, nil
}

// fireTable shows lines of the ledger. If no line has a run, it leaves out the column for runs.
func (c *cli) fireTable(fires []api.Fire, unfired bool) error {
	cols := []column[api.Fire]{
		{head: "INSTANT", get: func(f api.Fire) string { return f.At.UTC().Format("2006-01-02 15:04:05Z") },
			plain: func(f api.Fire) string { return f.At.String() }},
		{head: "UNTIL", get: func(f api.Fire) string { return lastOf(f, "2006-01-02 15:04:05Z") },
			plain: func(f api.Fire) string { return f.Last.String() }},
		{head: "COUNT", get: func(f api.Fire) string { return fmt.Sprint(f.Count) }},
		{head: "TRIGGER", get: func(f api.Fire) string { return f.Workflow + "/" + f.Trigger }},
		{head: "OUTCOME", get: func(f api.Fire) string { return c.state(f.Outcome) }},
	}
	if !unfired {
		cols = append(cols, column[api.Fire]{head: "RUN", get: func(f api.Fire) string { return text(f.Run) }})
	}
	cols = append(cols, column[api.Fire]{head: "WHY", get: fireWhy})
	return show(c, fires, func(f api.Fire) string { return f.At.String() }, cols)
}

// lastOf returns the last instant of a line that covers several instants.
func lastOf(f api.Fire, form string) string {
	if f.Count < 2 {
		return ""
	}
	return f.Last.UTC().Format(form)
}

// fireWhy returns the reason for an outcome. For an event it also names the event.
func fireWhy(f api.Fire) string {
	why := text(f.Reason)
	if f.Key != nil {
		why = strings.TrimPrefix(why+"; event "+*f.Key, "; ")
	}
	return why
}
