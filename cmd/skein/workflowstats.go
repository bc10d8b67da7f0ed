package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func workflowStatsCmd(c *cli) *cobra.Command {
	var q skein.StatsQuery
	var since, until string
	cmd := &cobra.Command{
		Use: "stats NAME", Short: "Count the ended runs of a workflow, with their durations",
		Long: `Counts the ended runs of a workflow by day, hour or task, with percentiles of their durations. The counts are
kept longer than the runs. A run counts each time it ends. So a run that failed and was recovered counts as
failed, and again at its next end. With --by task, the command counts the attempts of each task, and TREND
compares the p95 of the second half of the period with that of the first half. Days and hours are in UTC.
` + momentHelp,
		Example: "  skein workflow stats nightly-orders --since -7d\n  skein workflow stats nightly-orders --by task\n  skein workflow stats nightly-orders --task load -o json",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) (err error) {
			when := moments{now: time.Now(), zone: time.UTC}
			if q.From, err = when.from("--since", since); err != nil {
				return err
			}
			if q.To, err = when.until("--until", until); err != nil {
				return err
			}
			stats, err := skein.NewStats(s.Client).Of(ctx, args[0], q)
			if err != nil {
				return err
			}
			if !stats.Counted {
				c.say("ended runs are not counted as long as a node of an earlier version is in the cluster")
			}
			if stats.Damaged > 0 {
				c.say("%d periods are left out, because their counts are damaged; skein verify names them", stats.Damaged)
			}
			return statsTable(c, stats.Items)
		})),
	}
	cmd.Flags().StringVar(&since, "since", "", "only runs that ended since T, in whole days or hours (default 30 days)")
	cmd.Flags().StringVar(&until, "until", "", "only runs that ended until T; a date includes its whole day")
	cmd.Flags().StringVar(&q.By, "by", "", "day (the default), hour or task")
	cmd.Flags().StringVar(&q.Task, "task", "", "count the attempts of this task")
	return cmd
}

func statsName(r api.StatsRow) string {
	switch {
	case r.At != nil:
		return r.At.UTC().Format(time.RFC3339)
	case r.Task != nil:
		return *r.Task
	}
	return ""
}

func statsTable(c *cli, rows []api.StatsRow) error {
	number := func(head string, get func(r api.StatsRow) int64) column[api.StatsRow] {
		return column[api.StatsRow]{head: head, get: func(r api.StatsRow) string { return strconv.FormatInt(get(r), 10) }}
	}
	seconds := func(head string, get func(r api.StatsRow) *float64) column[api.StatsRow] {
		return column[api.StatsRow]{head: head, get: func(r api.StatsRow) string {
			if get(r) == nil {
				return "-"
			}
			return (time.Duration(*get(r)*1e6) * time.Microsecond).Round(time.Millisecond).String()
		}}
	}
	first := "PERIOD"
	if len(rows) > 0 && rows[0].At == nil {
		first = "TASK"
	}
	return show(c, rows, statsName, []column[api.StatsRow]{
		{head: first, get: statsName},
		number("ENDED", func(r api.StatsRow) int64 { return r.N }),
		number("SUCCEEDED", func(r api.StatsRow) int64 { return r.Succeeded }),
		number("FAILED", func(r api.StatsRow) int64 { return r.Failed }),
		number("STOPPED", func(r api.StatsRow) int64 { return r.Stopped }),
		number("SKIPPED", func(r api.StatsRow) int64 { return r.Skipped }),
		seconds("P50", func(r api.StatsRow) *float64 { return r.P50 }),
		seconds("P95", func(r api.StatsRow) *float64 { return r.P95 }),
		seconds("P99", func(r api.StatsRow) *float64 { return r.P99 }),
		seconds("MAX", func(r api.StatsRow) *float64 { return r.Max }),
		seconds("WAIT P95", func(r api.StatsRow) *float64 { return r.WaitP95 }),
		{head: "TREND", get: func(r api.StatsRow) string {
			if r.Trend == nil {
				return "-"
			}
			return fmt.Sprintf("×%.2f", *r.Trend)
		}},
	})
}
