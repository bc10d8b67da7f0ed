// Package bench measures the engine and the store with tasks that do nothing, together with the raw limit of
// the same disk and the same database, so that a figure means something on any machine.
//
// The package makes no assertions: it prints. docs/performance.md has the figures.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// Config says what to measure.
type Config struct {
	Shape     Shape
	Runs      int    // 0 means the shape's default
	Workflows int    // the number of workflows over which the runs are spread
	Nodes     int    // the number of schedulers; more than one only over a shared database
	History   int    // finished tasks in the database before the measurement
	Cold      bool   // measure the first runs of a new process, without a warm-up
	Dir       string // an empty folder on the disk to measure
	At        Place  // the location of the database; nil means a database in Dir
}

func (c *Config) complete() {
	if c.At == nil {
		c.At = InFolder(c.Dir)
	}
}

// Result is one line of the table.
type Result struct {
	Store        string  `json:"store"`
	Shape        string  `json:"shape"`
	Runs         int     `json:"runs"`
	Tasks        int     `json:"tasks"`
	Seconds      float64 `json:"seconds"`
	TasksPerS    float64 `json:"tasks_per_s"`
	HopP50US     float64 `json:"hop_p50_us"`
	HopP99US     float64 `json:"hop_p99_us"`
	FdatasyncP50 float64 `json:"fdatasync_p50_us"`
	RawRowsPerS  float64 `json:"raw_rows_per_s"`
	RowsPerTask  float64 `json:"rows_per_task"`
	LimitPerS    float64 `json:"limit_tasks_per_s"`
	Ratio        float64 `json:"ratio"`
	// History is the number of finished tasks that the database held before.
	History int `json:"history,omitempty"`
	Nodes   int `json:"nodes,omitempty"` // schedulers, if more than one
	// WarmUpTasks is the number of tasks that ran before the measurement: none if Cold.
	WarmUpTasks int `json:"warm_up_tasks,omitempty"`
	// FloorPerS is the rate of a bare fork and exec of the same command. It is set only for shell:N.
	FloorPerS *float64 `json:"floor_tasks_per_s,omitempty"`
}

// slots is the number of no-op tasks that run at the same time. It is so large that the executor is never the
// limit.
const slots = 1 << 16

// hopTasks is the length of the idle chain in which hops are measured.
const hopTasks = 300

// Run measures one shape of no-op tasks.
func Run(ctx context.Context, c Config) (Result, error) {
	c.complete()
	limits, err := Measure(ctx, c.Dir, c.At)
	if err != nil {
		return Result{}, err
	}
	res, err := load(ctx, c)
	if err != nil {
		return res, err
	}
	return limits.Complete(res), nil
}

// load runs the shape on engines of its own.
func load(ctx context.Context, c Config) (res Result, err error) {
	c.complete()
	var f fleet
	defer func() { err = errors.Join(err, f.stop()) }()
	for i := range max(c.Nodes, 1) {
		st, err := c.At.Open(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("bench: %w", err)
		}
		defer st.Close()
		b, err := start(ctx, st, nil, fmt.Sprint("bench-", i), nil)
		if err != nil {
			return Result{}, err
		}
		f = append(f, b)
	}
	if err := f.own(ctx); err != nil {
		return Result{}, err
	}
	return f.measure(ctx, c)
}

// bench is an engine under load.
type bench struct {
	engine *engine.Engine
	store  store.Store
	noop   *noop
	cancel context.CancelFunc
	ended  chan error
}

func start(ctx context.Context, st store.Store, planner engine.Planner, name string, noticed func()) (*bench, error) {
	x := newNoop()
	e, err := engine.New(ctx, engine.Config{
		Store: st, Executor: x, Slots: slots, Node: name, Planner: planner, Peers: peers(st), Rules: alert.Rules, Noticed: noticed,
		Compile: func(string) (dag.Condition, error) { return nil, errors.New("no conditions here") },
	})
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	x.engine = e
	b := &bench{engine: e, store: st, noop: x, ended: make(chan error, 1)}
	ctx, b.cancel = context.WithCancel(ctx)
	go func() { b.ended <- e.Run(ctx) }()
	go x.loop()
	select {
	case <-e.Ready():
		return b, nil
	case err := <-b.ended:
		b.cancel()
		close(x.queue)
		return nil, fmt.Errorf("bench: the engine ended at once: %w", err)
	}
}

func (b *bench) stop() error {
	b.cancel()
	err := <-b.ended
	b.noop.close()
	return err
}

// warmUpTasks bounds the tasks that run before the clock starts; at most as many run as are measured. Without
// a warm-up, a shape takes a fifth of a second, and for a third of this time the process is still allocating
// its memory. The raw limit needs no warm-up, because it writes for much longer.
const warmUpTasks = 20_000

// measure runs the load, and afterwards the chain of hops, with no other load.
func (f fleet) measure(ctx context.Context, c Config) (Result, error) {
	specs := c.Shape.Tasks()
	if c.Runs == 0 {
		c.Runs = c.Shape.Runs
	}
	targets, err := f.apply(ctx, "load", max(c.Workflows, 1), specs)
	if err != nil {
		return Result{}, err
	}
	if err := f.past(ctx, c.History); err != nil {
		return Result{}, err
	}
	warm := 0
	if !c.Cold {
		warm = min(c.Runs, max(warmUpTasks/len(specs), 1))
		if err := f.drive(ctx, targets, warm); err != nil {
			return Result{}, err
		}
	}
	runtime.GC() // garbage of the preparation
	written := func(s *engine.Stats) *atomic.Int64 { return &s.Rows }
	rows := f.sum(written)
	began := time.Now()
	if err := f.drive(ctx, targets, c.Runs); err != nil {
		return Result{}, err
	}
	seconds := time.Since(began).Seconds()
	rows = f.sum(written) - rows
	tasks := c.Runs * len(specs)
	res := Result{
		Store: c.At.Engine(), Shape: c.Shape.Name, Runs: c.Runs, Tasks: tasks, Seconds: seconds,
		TasksPerS: float64(tasks) / seconds, RowsPerTask: float64(rows) / float64(tasks), History: c.History,
		WarmUpTasks: warm * len(specs),
	}
	if len(f) > 1 {
		res.Nodes = len(f)
	}
	chain, err := f.apply(ctx, "hops", 1, Chain(hopTasks))
	if err != nil {
		return res, err
	}
	x := chain[0].at.noop
	x.watchHops()
	if err := f.drive(ctx, chain, 1); err != nil {
		return res, err
	}
	res.HopP50US, res.HopP99US = x.hops()
	return res, nil
}

// past fills the database with finished tasks, in runs of the fan.
func (f fleet) past(ctx context.Context, tasks int) error {
	if tasks <= 0 {
		return nil
	}
	specs := fan(historyFan)
	targets, err := f.apply(ctx, "history", 1, specs)
	if err != nil {
		return err
	}
	return f.drive(ctx, targets, (tasks+len(specs)-1)/len(specs))
}

// historyFan is the width of the runs that make a history.
const historyFan = 100

const (
	// submitChunk is the number of runs that are started together.
	submitChunk = 500
	// endPoll is the pause between two looks whether all runs have ended.
	endPoll = 200 * time.Microsecond
)

// drive starts runs, spread over the workflows, and waits until all have ended.
func (f fleet) drive(ctx context.Context, targets []target, runs int) error {
	ended := func(s *engine.Stats) *atomic.Int64 { return &s.RunsEnded }
	goal := f.sum(ended) + int64(runs)
	for i := range targets {
		goal += int64(targets[i].failures)
	}
	// There are as many submitters as workflows. A single one would wait for its own commits.
	errs := make(chan error, len(targets))
	for i := range targets {
		share := runs / len(targets)
		if i < runs%len(targets) {
			share++
		}
		go func() { errs <- targets[i].at.submit(ctx, &targets[i], share) }()
	}
	for range targets {
		if err := <-errs; err != nil {
			return fmt.Errorf("bench: submit: %w", err)
		}
	}
	tick := time.NewTicker(endPoll)
	defer tick.Stop()
	for f.sum(ended) < goal {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// submit starts runs of a target in chunks. Each chunk has its share of the runs that fail.
func (b *bench) submit(ctx context.Context, t *target, runs int) error {
	begun, failed := 0, 0
	for begun < runs {
		n := min(runs-begun, submitChunk)
		begun += n
		fail := begun*t.failures/runs - failed
		subs := make([]engine.Submission, n, n+fail)
		for i := range subs {
			subs[i] = engine.Submission{Workflow: t.Workflow, Origin: dag.OriginAPI, User: "bench", Priority: dag.Medium}
		}
		for range fail {
			subs = append(subs, failure(t.failing, failed))
			failed++
		}
		if _, err := b.engine.SubmitAll(ctx, subs); err != nil {
			return err
		}
	}
	return nil
}

// Folder makes an empty folder to measure in and gives the function that removes it.
func Folder(parent string) (dir string, remove func(), err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, fmt.Errorf("bench: %w", err)
	}
	dir, err = os.MkdirTemp(parent, "bench-")
	if err != nil {
		return "", nil, fmt.Errorf("bench: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
