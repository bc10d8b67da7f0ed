package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/workflow"
)

// TriggersConfig is the configuration of a measurement of schedules.
type TriggersConfig struct {
	Triggers int // number of stored triggers, spread over 1,000 workflows
	Due      int // the number of these that are due within the span Within
	// Within is at most an hour. If it is below two seconds, all of them are due in the same second.
	Within time.Duration
	At     Place // the location of the database
}

// TriggersResult is one line of the table.
type TriggersResult struct {
	Store      string  `json:"store"`
	Triggers   int     `json:"triggers"`
	Due        int     `json:"due"`
	WithinS    float64 `json:"within_s"`
	DatabaseMB float64 `json:"database_mb"`
	StartMS    float64 `json:"start_ms"`  // the time from opening the database until submissions are accepted
	MemoryMB   float64 `json:"memory_mb"` // resident memory after the start
	// IdleCPUMS is the processor time of a minute in which nothing is due. It is computed from 20 s of
	// measurement.
	IdleCPUMS float64 `json:"idle_cpu_ms_per_minute"`
	// Lags are measured from the instant to the acceptance of the run, and to the end of its last task.
	LagP50MS float64 `json:"lag_p50_ms"`
	LagP99MS float64 `json:"lag_p99_ms"`
	DoneP99  float64 `json:"done_p99_ms"`
}

const (
	triggerWorkflows = 1000
	idleSpan         = 20 * time.Second
	// dueAhead is the time between the start and the due instant of the triggers.
	dueAhead = idleSpan + 5*time.Second
	fillRows = 2000
)

// Triggers measures a scheduler over many stored triggers, a share of which is due at once.
func Triggers(ctx context.Context, c TriggersConfig) (res TriggersResult, err error) {
	res = TriggersResult{Store: c.At.Engine(), Triggers: c.Triggers, Due: c.Due, WithinS: c.Within.Seconds()}
	if res.DatabaseMB, err = fill(ctx, c); err != nil {
		return res, err
	}
	debug.FreeOSMemory()
	began := time.Now()
	st, err := c.At.Open(ctx)
	if err != nil {
		return res, fmt.Errorf("bench: %w", err)
	}
	defer st.Close()
	b, err := start(ctx, st, trigger.New(st), "bench", nil)
	if err != nil {
		return res, err
	}
	if err := (fleet{b}).own(ctx); err != nil {
		return res, errors.Join(err, b.stop())
	}
	res.StartMS = float64(time.Since(began).Microseconds()) / 1e3
	res.MemoryMB = resident()
	cpu, from := processorTime(), time.Now()
	if err := wait(ctx, idleSpan); err != nil {
		return res, errors.Join(err, b.stop())
	}
	res.IdleCPUMS = float64((processorTime() - cpu).Microseconds()) / 1e3 * float64(time.Minute) / float64(time.Since(from))
	for b.engine.Stats().RunsEnded.Load() < int64(c.Due) && err == nil {
		err = wait(ctx, 10*time.Millisecond)
	}
	if err = errors.Join(err, b.stop()); err != nil {
		return res, err
	}
	return res, res.lags(ctx, st)
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// lags reads from the rows how late the runs were.
func (r *TriggersResult) lags(ctx context.Context, st store.Store) error {
	var accepted, done []time.Duration
	err := st.Scan(ctx, func(rec store.RunRecord, _ []dag.EventRow) error {
		due := rec.Run.Instant()
		accepted = append(accepted, time.Duration(rec.Run.Created-due)*time.Microsecond)
		done = append(done, time.Duration(rec.Run.FinishedAt-due)*time.Microsecond)
		return nil
	})
	r.LagP50MS, r.LagP99MS = percentile(accepted, 50)/1e3, percentile(accepted, 99)/1e3
	r.DoneP99 = percentile(done, 99) / 1e3
	return err
}

// fill writes workflows and triggers as an owner would. The due triggers are due at dueAhead after the end of
// fill. It returns the size of the database at that time.
func fill(ctx context.Context, c TriggersConfig) (megabytes float64, err error) {
	st, err := c.At.Open(ctx)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer st.Close()
	b, err := start(ctx, st, nil, "bench", nil)
	if err != nil {
		return 0, err
	}
	var targets []target
	if err = (fleet{b}).own(ctx); err == nil {
		targets, err = fleet{b}.apply(ctx, "scheduled", triggerWorkflows, Shape{}.Tasks())
	}
	if err = errors.Join(err, b.stop()); err != nil {
		return 0, err
	}
	f := filling{st: st, planner: trigger.New(st)}
	for i := range targets {
		f.workflows = append(f.workflows, targets[i].Workflow)
	}
	if err := f.own(ctx); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	if err := f.insert(ctx, c.Due, c.Triggers, f.nightly); err != nil {
		return 0, err
	}
	due := time.Now().UTC().Truncate(time.Second).Add(dueAhead)
	err = f.insert(ctx, 0, c.Due, func(i int) workflow.Trigger {
		at := due.Add(c.Within * time.Duration(i) / time.Duration(c.Due))
		return workflow.Trigger{Kind: workflow.KindCron, Cron: fmt.Sprintf("%d %d %d * * *", at.Second(), at.Minute(), at.Hour()), Timezone: "UTC"}
	})
	if err != nil {
		return 0, err
	}
	info, err := st.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return float64(info.Bytes) / 1e6, nil
}

type filling struct {
	st        store.Store
	planner   *trigger.Planner
	workflows []store.Workflow
	fences    []store.Fence // the fences of all shards
	now       dag.Micros
}

// own acquires all shards.
func (f *filling) own(ctx context.Context) error {
	h, err := f.st.Register(ctx, uuid.NewString(), "bench")
	if err != nil {
		return err
	}
	info, err := f.st.Info(ctx)
	if err != nil {
		return err
	}
	shards := make([]dag.ShardID, info.Shards)
	for i := range shards {
		shards[i] = dag.ShardID(i)
	}
	got, err := f.st.Acquire(ctx, h.ID, shards)
	for _, a := range got {
		f.fences, f.now = append(f.fences, a.Fence), a.Now
	}
	return err
}

// nightly returns a trigger that is due once a day, but not during the measurement.
func (f *filling) nightly(i int) workflow.Trigger {
	at := f.now.Time().Add(time.Hour + time.Duration(i%(22*60))*time.Minute)
	return workflow.Trigger{Kind: workflow.KindCron, Cron: fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()), Timezone: "UTC"}
}

func (f *filling) insert(ctx context.Context, from, to int, declare func(int) workflow.Trigger) error {
	for from < to {
		b := store.Batch{Fences: f.fences}
		for ; from < to && len(b.TriggerInserts) < fillRows; from++ {
			wf := &f.workflows[from%len(f.workflows)]
			t := declare(from)
			t.Name, t.Overlap, t.Catchup = "t"+strconv.Itoa(from), "allow", "latest"
			row := store.Trigger{Workflow: wf.ID, Name: t.Name, Shard: wf.Shard, Version: 1, Kind: t.Kind, Spec: t.Encode(),
				Revision: 1, Created: f.now, Modified: f.now}
			if err := f.planner.Begin(&row, f.now); err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			b.TriggerInserts = append(b.TriggerInserts, row)
		}
		if _, err := f.st.Commit(ctx, &b); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		for i := range f.fences {
			f.fences[i].Seq++
		}
	}
	return nil
}

// scheduledDef returns the definition of the workflows. The planner reads their parameters from it.
func scheduledDef() []byte {
	def, err := json.Marshal(workflow.Workflow{Namespace: "bench", Name: "scheduled"})
	if err != nil {
		panic(err) // the value consists of texts, so it can always be encoded
	}
	return def
}

// resident returns the memory of this process, in MB; 0 if it is not known.
func resident() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	lines := strings.Split(string(status), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "VmRSS:") })
	if i < 0 {
		return 0
	}
	kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(lines[i], "VmRSS:"), "kB")), 64)
	if err != nil {
		return 0
	}
	return kb / 1e3
}
