package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/bench"
	"skein.dev/skein/internal/nodebench"
)

type benchFlags struct {
	store, shape, dir string
	runs, workflows   int
	history, nodes    int
	triggers, due     int
	failures          int
	within            time.Duration
	cold              bool
}

// benchNodesMax bounds the schedulers of a benchmark, because each has its own connections.
const benchNodesMax = 8

func (c *cli) benchCmd() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure this machine: tasks per second, compared with the raw limit of the disk and the store",
		Long: `Runs empty tasks through the complete program, durably, and measures the raw limit of the same disk and store in
the same run. With --store postgres it uses a schema of its own in the database of --db (or the setting db), and
drops the schema at the end. A benchmark that is killed leaves a schema with the name skein_bench_….

Shapes: single, chain:N, fan:N (1 → N → 1), dag9 (nine tasks), wide:N, shell:N, all, http. shell:N runs real
processes with logs, and compares them with the same number of concurrent processes from bare fork and exec; its
default of --slots is twenty per core. http measures starts and lists over the listener of a whole node, with a
token, in turn with a route that does nothing; --runs is the number of turns (default 5).

--failures N adds N runs that fail to each turn, and measures in turn without an alert rule and with one that groups
these failures. A channel takes the messages.`,
		Example: "  skein bench\n  skein bench --shape fan:100 -o json\n  skein bench --shape all\n  skein bench --triggers 1000000 --due 10000 --within 1m\n" +
			"  skein bench --store postgres --db 'postgres://skein@127.0.0.1:5432/skein'",
		Args: cobra.NoArgs,
		RunE: c.do(func(ctx context.Context, _ []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			return c.bench(ctx, f)
		}),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.store, "store", "sqlite", "sqlite | postgres")
	fl.StringVar(&f.shape, "shape", "single", "single | chain:N | fan:N | dag9 | wide:N | shell:N | all | http")
	fl.IntVar(&f.runs, "runs", 0, "number of runs (the default depends on the shape)")
	fl.IntVar(&f.workflows, "workflows", 4, "number of workflows over which the runs are spread")
	fl.IntVar(&f.history, "history", 0, "number of finished tasks in the database before the measurement")
	fl.BoolVar(&f.cold, "cold", false, "measure the first runs of a new process; without it, the same number of runs (at most 20,000 tasks) warms the process up")
	fl.IntVar(&f.nodes, "nodes", 1, "number of concurrent schedulers, each with its share of the workflows (postgres only)")
	fl.IntVar(&f.triggers, "triggers", 0, "measure schedules instead of runs, with this number of stored schedules")
	fl.IntVar(&f.due, "due", 10_000, "with --triggers: number of due schedules")
	fl.DurationVar(&f.within, "within", 0, "with --triggers: the time over which the due schedules are spread (default: all are due in the same second)")
	fl.IntVar(&f.failures, "failures", 0, "measure alerts: number of runs that fail in each turn, in turn without and with an alert rule")
	nodeFlags(cmd)
	cmd.AddCommand(c.benchCallsCmd())
	return cmd
}

func (c *cli) bench(ctx context.Context, f benchFlags) error {
	switch {
	case f.store != "sqlite" && f.store != "postgres":
		return usage("--store %s: use sqlite or postgres", f.store)
	case f.store == "postgres" && c.cfg.Postgres == "":
		return hint(usage("--store postgres: no database is named"), "name one: --db postgres://user@host:5432/database (or SKEIN_DB, or db in the config file)")
	}
	if f.runs < 0 || f.history < 0 || f.workflows < 1 {
		return usage("--runs and --history must be 0 or more, --workflows 1 or more")
	}
	if f.nodes < 1 || f.nodes > benchNodesMax || f.nodes > 1 && (f.store != "postgres" || f.triggers != 0) {
		return usage("--nodes %d: from 1 to %d, and more than 1 only with --store postgres and without --triggers", f.nodes, benchNodesMax)
	}
	if f.triggers != 0 {
		return c.benchTriggers(ctx, f)
	}
	if f.failures != 0 {
		return benchAlerts(ctx, c, f)
	}
	if f.shape == "http" {
		return c.benchDoor(ctx, f)
	}
	names := []string{f.shape}
	if f.shape == "all" {
		names = bench.Shapes()
	}
	var results []bench.Result
	for _, name := range names {
		shape, err := bench.ParseShape(name)
		if err != nil {
			return usage("--shape: %v", err)
		}
		r, err := c.benchShape(ctx, shape, f)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	table := func() error { return c.benchTable(results) }
	if len(results) == 1 {
		return one(c, results[0], results[0].Shape, table)
	}
	if c.format != "table" {
		return show(c, results, func(r bench.Result) string { return r.Shape }, nil)
	}
	return table()
}

func (c *cli) benchShape(ctx context.Context, shape bench.Shape, f benchFlags) (r bench.Result, err error) {
	cfg := bench.Config{Shape: shape, Runs: f.runs, Workflows: f.workflows, Nodes: f.nodes, History: f.history, Cold: f.cold}
	err = c.benchPlace(ctx, f, func(dir string, at bench.Place) error {
		c.say("measuring %s …", shape.Name)
		if cfg.Dir, cfg.At = dir, at; shape.Shell {
			r, err = nodebench.Shell(ctx, c.cfg, cfg)
		} else {
			r, err = bench.Run(ctx, cfg)
		}
		return err
	})
	return r, err
}

// benchPlace makes an empty folder with an empty database, or an empty schema in a database, and calls
// measure with them. It removes both when measure returns, even with an error.
func (c *cli) benchPlace(ctx context.Context, f benchFlags, measure func(dir string, at bench.Place) error) (err error) {
	dir, remove, err := bench.Folder(c.cfg.Data)
	if err != nil {
		return err
	}
	defer remove()
	at := bench.InFolder(dir)
	if f.store == "postgres" {
		if at, err = bench.InSchema(ctx, c.cfg.Postgres); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	return measure(dir, at)
}

func (c *cli) benchTable(results []bench.Result) error {
	return show(c, results, func(r bench.Result) string { return r.Shape }, []column[bench.Result]{
		{head: "SHAPE", get: func(r bench.Result) string { return r.Shape }},
		{head: "RUNS", get: func(r bench.Result) string { return fmt.Sprint(r.Runs) }},
		{head: "TASKS", get: func(r bench.Result) string { return fmt.Sprint(r.Tasks) }},
		{head: "SECONDS", get: func(r bench.Result) string { return fmt.Sprintf("%.2f", r.Seconds) }},
		{head: "TASKS/S", get: func(r bench.Result) string { return fmt.Sprintf("%.0f", r.TasksPerS) }},
		{head: "LIMIT/S", get: func(r bench.Result) string { return fmt.Sprintf("%.0f", r.LimitPerS) }},
		{head: "RATIO", get: func(r bench.Result) string { return fmt.Sprintf("%.2f", r.Ratio) }},
		{head: "HOP p50/p99 µs", get: func(r bench.Result) string { return fmt.Sprintf("%.0f/%.0f", r.HopP50US, r.HopP99US) }},
		{head: "FDATASYNC µs", get: func(r bench.Result) string { return fmt.Sprintf("%.0f", r.FdatasyncP50) }},
		{head: "ROWS/TASK", get: func(r bench.Result) string { return fmt.Sprintf("%.2f", r.RowsPerTask) }},
		{head: "FLOOR/S", get: func(r bench.Result) string {
			if r.FloorPerS == nil {
				return "-"
			}
			return fmt.Sprintf("%.0f", *r.FloorPerS)
		}},
	})
}

func (c *cli) benchTriggers(ctx context.Context, f benchFlags) error {
	if f.due < 1 || f.triggers < f.due {
		return usage("--due must be 1 or more, and --triggers at least as many as --due")
	}
	if f.within < 0 || f.within > time.Hour {
		return usage("--within %v: from 0 to 1h", f.within)
	}
	var r bench.TriggersResult
	err := c.benchPlace(ctx, f, func(_ string, at bench.Place) (err error) {
		c.say("storing %d triggers, then a minute in which nothing and %d of them are due …", f.triggers, f.due)
		r, err = bench.Triggers(ctx, bench.TriggersConfig{Triggers: f.triggers, Due: f.due, Within: f.within, At: at})
		return err
	})
	if err != nil {
		return err
	}
	ms := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	return one(c, r, "triggers", func() error {
		return show(c, []bench.TriggersResult{r}, func(bench.TriggersResult) string { return "triggers" }, []column[bench.TriggersResult]{
			{head: "TRIGGERS", get: func(r bench.TriggersResult) string { return fmt.Sprint(r.Triggers) }},
			{head: "DUE", get: func(r bench.TriggersResult) string { return fmt.Sprint(r.Due) }},
			{head: "WITHIN s", get: func(r bench.TriggersResult) string { return fmt.Sprintf("%.0f", r.WithinS) }},
			{head: "DATABASE MB", get: func(r bench.TriggersResult) string { return ms(r.DatabaseMB) }},
			{head: "START ms", get: func(r bench.TriggersResult) string { return ms(r.StartMS) }},
			{head: "MEMORY MB", get: func(r bench.TriggersResult) string { return ms(r.MemoryMB) }},
			{head: "IDLE CPU ms/min", get: func(r bench.TriggersResult) string { return ms(r.IdleCPUMS) }},
			{head: "LAG p50/p99 ms", get: func(r bench.TriggersResult) string { return ms(r.LagP50MS) + "/" + ms(r.LagP99MS) }},
			{head: "DONE p99 ms", get: func(r bench.TriggersResult) string { return ms(r.DoneP99) }},
		})
	})
}

func benchAlerts(ctx context.Context, c *cli, f benchFlags) error {
	shape, err := bench.ParseShape(f.shape)
	if err != nil || shape.Shell || f.nodes != 1 || f.history != 0 || f.failures < 0 {
		return usage("--failures %d: want 1 or more, and a --shape of empty tasks, without --nodes and --history", f.failures)
	}
	var r bench.AlertsResult
	err = c.benchPlace(ctx, f, func(dir string, at bench.Place) (err error) {
		c.say("measuring %s with %d failures, in turn without and with an alert rule …", shape.Name, f.failures)
		r, err = bench.Alerts(ctx, bench.AlertsConfig{Config: bench.Config{Shape: shape, Runs: f.runs, Workflows: f.workflows, Dir: dir, At: at}, Failures: f.failures})
		return err
	})
	if err != nil {
		return err
	}
	change := func(v float64) string { return fmt.Sprintf("%+.1f %%", 100*v) }
	return one(c, r, "alerts", func() error {
		return show(c, []bench.AlertsResult{r}, func(bench.AlertsResult) string { return "alerts" }, []column[bench.AlertsResult]{
			{head: "SHAPE", get: func(r bench.AlertsResult) string { return r.Shape }},
			{head: "RUNS", get: func(r bench.AlertsResult) string { return fmt.Sprint(r.Runs) }},
			{head: "FAILURES", get: func(r bench.AlertsResult) string { return fmt.Sprint(r.Failures) }},
			{head: "A MINUTE", get: func(r bench.AlertsResult) string { return fmt.Sprintf("%.0f", r.FailuresPerMin) }},
			{head: "OFF/S", get: func(r bench.AlertsResult) string { return fmt.Sprintf("%.0f", r.OffPerS) }},
			{head: "ON/S", get: func(r bench.AlertsResult) string { return fmt.Sprintf("%.0f", r.OnPerS) }},
			{head: "CHANGE", get: func(r bench.AlertsResult) string { return change(r.Change) }},
			{head: "OFF/ON CPU µs", get: func(r bench.AlertsResult) string { return fmt.Sprintf("%.2f/%.2f", r.OffCPUUS, r.OnCPUUS) }},
			{head: "CPU CHANGE", get: func(r bench.AlertsResult) string { return change(r.CPUChange) }},
			{head: "GROUPS", get: func(r bench.AlertsResult) string { return fmt.Sprint(r.Groups) }},
			{head: "MESSAGES", get: func(r bench.AlertsResult) string { return fmt.Sprint(r.Messages) }},
			{head: "LIMIT/S", get: func(r bench.AlertsResult) string { return fmt.Sprintf("%.0f", r.LimitPerS) }},
			{head: "RATIO", get: func(r bench.AlertsResult) string { return fmt.Sprintf("%.2f", r.Ratio) }},
			{head: "FDATASYNC µs", get: func(r bench.AlertsResult) string { return fmt.Sprintf("%.0f", r.FdatasyncP50) }},
		})
	})
}
