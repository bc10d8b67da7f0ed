package nodebench

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/bench"
	"skein.dev/skein/internal/config"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// Shell runs tasks `run: true` as real processes through a whole node. For comparison it runs fork and exec
// of the same command, with the same concurrency. c names the place of the measurement, and the shape of the
// load.
func Shell(ctx context.Context, cfg *config.Config, c bench.Config) (bench.Result, error) {
	shape, runs := c.Shape, max(c.Runs, 1)
	// The limits of disk and store, and the hop, as for every other shape.
	chain, err := bench.ParseShape("chain:100")
	if err != nil {
		return bench.Result{}, err
	}
	res, err := bench.Run(ctx, bench.Config{Shape: chain, Runs: 1, Workflows: 1, Dir: c.Dir, At: c.At})
	if err != nil {
		return res, err
	}
	chosen := !cfg.Default("slots")
	if cfg, err = cfg.At(c.At.Database()); err != nil {
		return res, err
	}
	if !chosen {
		cfg.Slots = shellSlotsPerCore * runtime.NumCPU()
	}
	limits := bench.Limits{FdatasyncP50: res.FdatasyncP50, RawRowsPerS: res.RawRowsPerS}
	before, err := floor(ctx, shape.N, cfg.Slots)
	if err != nil {
		return res, err
	}
	seconds, rows, err := shellLoad(ctx, cfg, c.Dir, shape.N, runs)
	if err != nil {
		return res, err
	}
	after, err := floor(ctx, shape.N, cfg.Slots)
	if err != nil {
		return res, err
	}
	mean := (before + after) / 2 // the machine may be busier before the round than after it, or the other way round
	tasks := shape.N * runs
	res.Shape, res.Runs, res.Tasks, res.Seconds = shape.Name, runs, tasks, seconds
	res.TasksPerS, res.RowsPerTask, res.FloorPerS = float64(tasks)/seconds, float64(rows)/float64(tasks), &mean
	return limits.Complete(res), nil
}

// shellSlotsPerCore is the number of slots for each core. A slot waits for a commit between two tasks. So the
// two slots per core that suit ordinary tasks would leave cores idle when a task takes a millisecond. Bare
// fork and exec runs with the same concurrency.
const shellSlotsPerCore = 20

// floorTasks is enough for a steady figure.
const floorTasks = 1000

func floor(ctx context.Context, n, slots int) (float64, error) {
	return bench.Floor(ctx, min(n, floorTasks), slots, []string{"sh", "-c", "true"})
}

// shellLoad runs the load on a node of its own and returns its duration and the number of rows that it wrote.
func shellLoad(ctx context.Context, cfg *config.Config, dir string, tasks, runs int) (seconds float64, rows int64, err error) {
	var source strings.Builder
	source.WriteString("name: bench\ntasks:\n")
	for i := range tasks {
		fmt.Fprintf(&source, "  t%05d: {run: \"true\"}\n", i)
	}
	err = withNode(ctx, cfg, dir, source.String(), func(node *app.Node, k *skein.Client) error {
		rows = node.Rows()
		began := time.Now()
		for range runs {
			run, _, err := k.Start(ctx, api.RunRequest{Workflow: "bench"})
			for err == nil && !run.Ended() {
				run, err = k.Run(ctx, run.ID, skein.Wait(time.Minute))
			}
			if err != nil {
				return err
			}
			if run.State != "succeeded" {
				return fmt.Errorf("bench: a run of `true` is %s", run.State)
			}
		}
		seconds, rows = time.Since(began).Seconds(), node.Rows()-rows
		return nil
	})
	return seconds, rows, err
}

// withNode runs a node of its own in a folder, with a workflow bench, for as long as f takes. k calls the
// node without a socket.
func withNode(ctx context.Context, cfg *config.Config, dir, source string, f func(n *app.Node, k *skein.Client) error) (err error) {
	own := *cfg
	own.Data, own.Listen, own.ListenChosen, own.Drain = dir, "127.0.0.1:0", true, 0
	node, err := app.Open(ctx, &own, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	work, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(work) }()
	defer func() {
		cancel()
		if e := <-ended; err == nil {
			err = e
		}
	}()
	select {
	case <-node.Ready():
	case err := <-ended:
		ended <- nil
		return fmt.Errorf("bench: the node ended at once: %w", err)
	}
	k, err := skein.New(node.URL(), skein.WithHandler(node.Handler()))
	if err != nil {
		return err
	}
	if _, err := k.Apply(ctx, "bench", api.ApplyRequest{Source: source}); err != nil {
		return err
	}
	return f(node, k)
}
