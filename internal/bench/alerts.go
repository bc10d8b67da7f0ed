package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// AlertsConfig is the configuration of a measurement of alerts.
type AlertsConfig struct {
	Config
	Failures int // runs of each turn that fail, in addition to Runs
}

// AlertsResult is one line of the table. Half of the turns have no alert rule.
type AlertsResult struct {
	Store    string `json:"store"`
	Shape    string `json:"shape"`
	Turns    int    `json:"turns"` // turns of each of the two kinds
	Runs     int    `json:"runs"`  // runs of each turn, without the failing ones
	Failures int    `json:"failures"`
	// FailuresPerMin is the median rate of failing runs in the turns with the rule.
	FailuresPerMin float64 `json:"failures_per_min"`
	// OffPerS and OnPerS are the medians of the tasks a second, without and with the rule. Change compares
	// each turn with the rule to the turn without it that is next to it: the median of the quotients, less 1.
	OffPerS float64 `json:"off_tasks_per_s"`
	OnPerS  float64 `json:"on_tasks_per_s"`
	Change  float64 `json:"change"`
	// OffCPUUS and OnCPUUS are the medians of the processor time of this process for one task.
	OffCPUUS  float64 `json:"off_cpu_us"`
	OnCPUUS   float64 `json:"on_cpu_us"`
	CPUChange float64 `json:"cpu_change"`
	Groups    int     `json:"groups"`   // groups of failures
	Messages  int64   `json:"messages"` // messages that the channel got

	FdatasyncP50 float64 `json:"fdatasync_p50_us"`
	LimitPerS    float64 `json:"limit_tasks_per_s"`
	Ratio        float64 `json:"ratio"` // quotient of the turns with the rule
}

const (
	alertTurns   = 10 // turns of each kind
	alertGroups  = 10 // groups of the failures of each workflow
	alertTag     = "team"
	alertChannel = "ops"
	// alertsSent bounds the wait for the messages after the last turn.
	alertsSent = 10 * time.Second
)

// Alerts measures the cost of an alert rule that groups failures. It runs the shape alternately without and
// with the rule, while other runs fail. A sender sends the notices to a channel that accepts them at once.
func Alerts(ctx context.Context, c AlertsConfig) (AlertsResult, error) {
	c.complete()
	limits, err := Measure(ctx, c.Dir, c.At)
	if err != nil {
		return AlertsResult{}, err
	}
	res, err := alerting(ctx, c)
	if err != nil {
		return res, err
	}
	one := limits.Complete(Result{Runs: res.Runs + res.Failures, Tasks: res.Runs*len(c.Shape.Tasks()) + res.Failures, TasksPerS: res.OnPerS})
	res.FdatasyncP50, res.LimitPerS, res.Ratio = one.FdatasyncP50, one.LimitPerS, one.Ratio
	return res, nil
}

// alerting runs the turns on an engine of its own.
func alerting(ctx context.Context, c AlertsConfig) (res AlertsResult, err error) {
	c.complete()
	st, err := c.At.Open(ctx)
	if err != nil {
		return res, fmt.Errorf("bench: %w", err)
	}
	defer st.Close()
	var got receiver
	sender := notify.New(notify.Options{Store: st, Shards: allShards(ctx, st), Transport: func(context.Context, string) (http.RoundTripper, error) { return &got, nil },
		Secret: func(context.Context, string, string) ([]byte, error) { return nil, store.ErrNotFound },
		Jitter: func(d time.Duration) time.Duration { return d / 2 }, Log: slog.New(slog.DiscardHandler)})
	b, err := start(ctx, st, nil, "bench", sender.Wake)
	if err != nil {
		return res, err
	}
	f := fleet{b}
	var sending sync.WaitGroup
	sendCtx, end := context.WithCancel(ctx)
	defer func() {
		end()
		sending.Wait()
		err = errors.Join(err, f.stop())
	}()
	if err := f.own(ctx); err != nil {
		return res, err
	}
	if _, err := st.PutAlertChannel(ctx, store.AlertChannel{Namespace: "bench", Name: alertChannel, Version: 1, Data: []byte(`{"webhook":{"url":"http://bench.example/"}}`)}); err != nil {
		return res, fmt.Errorf("bench: %w", err)
	}
	sending.Go(func() { sender.Run(sendCtx) })
	if res, err = f.turns(ctx, c); err != nil {
		return res, err
	}
	for until := time.Now().Add(alertsSent); got.n.Load() < int64(res.Groups) && time.Now().Before(until) && err == nil; {
		err = wait(ctx, 10*time.Millisecond)
	}
	res.Messages = got.n.Load()
	return res, err
}

// allShards returns a function that returns all shards of a store.
func allShards(ctx context.Context, st store.Store) func() []dag.ShardID {
	return sync.OnceValue(func() (all []dag.ShardID) {
		info, err := st.Info(ctx)
		for s := 0; err == nil && s < info.Shards; s++ {
			all = append(all, dag.ShardID(s))
		}
		return all
	})
}

// receiver takes the messages of a channel.
type receiver struct{ n atomic.Int64 }

// RoundTrip implements http.RoundTripper.
func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	r.n.Add(1)
	if q.Body != nil {
		_, _ = io.Copy(io.Discard, q.Body)
		_ = q.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusNoContent, Status: "204 No Content", Body: http.NoBody, Request: q}, nil
}

// turn is the measurement of one turn.
type turn struct {
	perS    float64 // tasks a second
	cpuUS   float64 // processor time of a task
	seconds float64
}

// turns measures turns in pairs. Every second pair begins with the turn with the rule.
func (f fleet) turns(ctx context.Context, c AlertsConfig) (res AlertsResult, err error) {
	specs, n := c.Shape.Tasks(), max(c.Workflows, 1)
	if c.Runs == 0 {
		c.Runs = c.Shape.Runs
	}
	res = AlertsResult{Store: c.At.Engine(), Shape: c.Shape.Name, Turns: alertTurns, Runs: c.Runs, Failures: c.Failures, Groups: n * min(alertGroups, c.Failures/n)}
	targets, err := f.apply(ctx, "load", n, specs)
	if err != nil {
		return res, err
	}
	var failing [2][]target // without and with the rule
	for i, def := range [][]byte{scheduledDef(), alertingDef()} {
		if failing[i], err = f.applyDef(ctx, []string{"failing", "alerting"}[i], def, make([]target, n), Shape{}.Tasks()); err != nil {
			return res, err
		}
	}
	f[0].noop.fails(slices.Concat(failing[0], failing[1]))
	var got [2][]turn
	for i := range alertTurns + 1 { // the first pair warms up
		for _, on := range [][2]int{{0, 1}, {1, 0}}[i%2] {
			t, err := f.turn(ctx, c, targets, failing[on])
			if err != nil {
				return res, err
			}
			if i > 0 {
				got[on] = append(got[on], t)
			}
		}
	}
	res.judge(got[0], got[1])
	return res, nil
}

func (f fleet) turn(ctx context.Context, c AlertsConfig, targets, failing []target) (t turn, err error) {
	runtime.GC()
	mixed := make([]target, len(targets))
	for i := range mixed {
		mixed[i] = targets[i]
		mixed[i].failing = &failing[i].Workflow
		mixed[i].failures = c.Failures / len(targets)
		if i < c.Failures%len(targets) {
			mixed[i].failures++
		}
	}
	cpu, began := processorTime(), time.Now()
	if err := f.drive(ctx, mixed, c.Runs); err != nil {
		return t, err
	}
	tasks := float64(c.Runs*len(c.Shape.Tasks()) + c.Failures)
	t.seconds = time.Since(began).Seconds()
	t.perS, t.cpuUS = tasks/t.seconds, float64((processorTime()-cpu).Nanoseconds())/1e3/tasks
	return t, nil
}

// judge compares the turns without and with the rule.
func (r *AlertsResult) judge(off, on []turn) {
	of := func(all []turn, of func(turn) float64) []float64 {
		out := make([]float64, len(all))
		for i := range all {
			out[i] = of(all[i])
		}
		return out
	}
	change := func(off, on []float64) float64 {
		all := make([]float64, len(off))
		for i := range all {
			all[i] = on[i]/off[i] - 1
		}
		return median(all)
	}
	perS, cpu := func(t turn) float64 { return t.perS }, func(t turn) float64 { return t.cpuUS }
	r.Change, r.CPUChange = change(of(off, perS), of(on, perS)), change(of(off, cpu), of(on, cpu))
	r.OffPerS, r.OnPerS = median(of(off, perS)), median(of(on, perS))
	r.OffCPUUS, r.OnCPUUS = median(of(off, cpu)), median(of(on, cpu))
	r.FailuresPerMin = float64(r.Failures) * 60 / median(of(on, func(t turn) float64 { return t.seconds }))
}

// median sorts its argument.
func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// alertingDef returns a definition with a rule that groups failures by a tag.
func alertingDef() []byte {
	def, err := json.Marshal(workflow.Workflow{Namespace: "bench", Name: "alerting", Alerts: []workflow.Alert{
		{Name: "failed", On: []string{"failed"}, To: []string{alertChannel}, Severity: "error", GroupBy: []string{"tag:" + alertTag}}}})
	if err != nil {
		panic(err) // the value consists of texts, so it can always be encoded
	}
	return def
}

// failure returns the start of the i-th run that fails.
func failure(w *store.Workflow, i int) engine.Submission {
	return engine.Submission{Workflow: *w, Origin: dag.OriginAPI, User: "bench", Priority: dag.Medium,
		Tags: dag.Tags(alertTag + "=" + strconv.Itoa(i%alertGroups))}
}
