package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) logsCmd() *cobra.Command {
	var follow bool
	var attempt int
	var last int64
	var raw bool
	cmd := &cobra.Command{
		Use: "logs RUN[/TASK]", Short: "Show the output of tasks",
		Long: `Shows the output of a task. Without TASK, it shows the output of all tasks of the run, each after a line with
the task's name (on stderr). In a pipe or a file the output is unchanged. A terminal shows only text and
colours, because other control sequences could move the cursor or write to the clipboard. --raw shows all bytes.
` + runRefHelp,
		Example: `  skein logs timezones@latest/extract
  skein logs nightly-orders@latest -f
  skein logs 0190a0b0/load --attempt 1 > load.log`,
		Args: cobra.ExactArgs(1),
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			ref, task := splitRef(args[0])
			id, err := findRun(ctx, s, ref)
			if err != nil {
				return err
			}
			if c.outTTY && !raw {
				c.out = &shown{to: c.rawOut, sgr: allColours}
			} else {
				c.out = c.rawOut
			}
			q := skein.LogQuery{Attempt: attempt, Follow: follow}
			if last > 0 {
				q.Offset = -last
			}
			switch {
			case task != "":
				return c.copyLog(ctx, s, id, task, q)
			case attempt != 0:
				return usage("--attempt needs a task: skein logs %s/TASK --attempt %d", args[0], attempt)
			case follow:
				return c.followRun(ctx, args[0])
			}
			return c.allLogs(ctx, s, id, q)
		})),
	}
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "follow the output until its end")
	f.IntVar(&attempt, "attempt", 0, "number of the attempt (default: the newest)")
	f.BoolVar(&raw, "raw", false, "show all bytes of the output, also on a terminal")
	f.Int64Var(&last, "tail-bytes", 0, "show only this number of bytes from the end")
	return cmd
}

func (c *cli) copyLog(ctx context.Context, s *session, run, task string, q skein.LogQuery) error {
	log, err := s.Logs(ctx, run, task, q)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := io.Copy(c.out, log); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("log of %s: %w", task, err)
	}
	return nil
}

// allLogs shows the logs of a run's tasks in the order of its graph.
func (c *cli) allLogs(ctx context.Context, s *session, run string, q skein.LogQuery) error {
	var tasks []api.Task
	for t, err := range s.EachTask(ctx, run) {
		if err != nil {
			return err
		}
		if len(t.Attempts) > 0 {
			tasks = append(tasks, t)
		}
	}
	if len(tasks) == 0 {
		c.say("no task of it has run yet; why: skein explain %s", run)
	}
	for i := range tasks {
		if len(tasks) > 1 {
			c.say("── %s (%s)", tasks[i].Name, tasks[i].State)
		}
		if err := c.copyLog(ctx, s, run, tasks[i].Name, q); err != nil && !errors.Is(err, skein.ErrNotFound) {
			return err
		}
	}
	return nil
}

// followRun shows all logs of a run as they grow, on stdout, until it ends.
func (c *cli) followRun(ctx context.Context, ref string) error {
	w := c.newWaiter(true)
	defer w.stopSignals()
	w.own = false
	w.screen.moves = false
	w.logs.out = c.out
	var err error
	if w.s, err = c.forWatching(ctx, ref); err != nil {
		return err
	}
	id, err := findRun(ctx, w.s, ref)
	if err != nil {
		return err
	}
	err = w.withServer(ctx, func(*session) error {
		_, err := w.watch(ctx, id)
		return err
	})
	w.logs.wait()
	w.leave(ctx)
	return err
}
