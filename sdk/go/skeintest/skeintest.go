// Package skeintest runs task functions and splitters of package skein without a server. A test sets the
// input of an attempt, and sees what a server would receive: state, cause, outputs and log.
//
//	func register(w *skein.Worker) { skein.Handle(w, "orders.price", price) } // main calls it, too
//
//	func TestPrice(t *testing.T) {
//		r := skeintest.New(t, register).Run(skeintest.Task{Kind: "orders.price", With: Order{"bread", 2}})
//		if got := skeintest.Outputs[Price](t, r); got.Cents != 640 {
//			t.Errorf("%+v", r)
//		}
//	}
//
// A real worker of package skein runs each attempt. So input, outputs, errors, panics, timeouts and the end
// of contexts are the same as in production. The expressions of the workflow file are not evaluated: With
// holds their values.
package skeintest

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// Task is the input of an attempt. Kind is required. The zero value of each other field has a default.
type Task struct {
	Kind string
	With any // input, encoded as JSON; nil means {}
	// Outputs holds the types of the outputs that the task declares: string, int, float, bool or json. The
	// attempt fails if a declared output is missing or has another type.
	Outputs map[string]string
	Timeout time.Duration // 0 means none
	Attempt int           // number of the attempt, from 1; 0 means 1

	Run, Name, Workflow, Namespace string
	IdempotencyKey                 string // "" means Run/Name
	Instant                        time.Time
	LockToken                      int64
	Traceparent                    string
}

// Split is the input of a splitter. Use it as Task.With.
type Split struct {
	Params  any `json:"params"`
	Version int `json:"version"`
	With    any `json:"with,omitempty"`
}

// The states of results.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
	Stopped   = "stopped"
	// Lost means that the attempt was taken from the worker. Its result is discarded, and another attempt
	// begins.
	Lost = "lost"
)

// Result is the result of an attempt as a server would receive it.
type Result struct {
	State string
	// Cause is the kind of a failure: error, permanent, panic, timeout, output or start.
	Cause   string
	Message string
	// Retried reports whether the server would try the task again, if the workflow file has retry.
	Retried bool
	Outputs json.RawMessage // a JSON object; nil if there are none
	Log     string          // the log of the attempt, and its progress
}

// Worker runs attempts of the kinds that a program registers.
type Worker struct {
	t        testing.TB
	register func(*skein.Worker)
}

// New makes a Worker. register is called for each attempt.
func New(t testing.TB, register func(*skein.Worker)) *Worker {
	return &Worker{t: t, register: register}
}

// Run runs one attempt and returns its result.
func (w *Worker) Run(task Task) *Result {
	w.t.Helper()
	return w.Start(task).Wait()
}

// Attempt is a running attempt.
type Attempt struct {
	t      testing.TB
	desk   *desk
	cancel context.CancelFunc
	ended  chan error // capacity 1: the error of the worker
	result *Result
}

// Start begins an attempt. The test must call Wait.
func (w *Worker) Start(task Task) *Attempt {
	w.t.Helper()
	job, err := jobOf(&task)
	if err != nil {
		w.t.Fatalf("skeintest: the input of kind %s: %v", task.Kind, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &Attempt{t: w.t, desk: newDesk(job), cancel: cancel, ended: make(chan error, 1)}
	// The time to drain is short, because the worker ends after its only attempt, or at once.
	is := skein.NewWorker("http://skein.test", skein.WorkerOptions{Name: "skeintest", Slots: 1, Token: "skeintest", Drain: time.Millisecond,
		Log: slog.New(slog.DiscardHandler), Transport: a.desk.transport()})
	w.register(is)
	go func() { a.ended <- is.Run(ctx) }()
	w.t.Cleanup(func() {
		if a.result == nil {
			a.Stop()
			cancel()
			<-a.ended
		}
	})
	return a
}

// Wait waits until the task function has returned, and returns the result of the attempt. If the task
// function never returns, the test ends with the timeout of go test.
func (a *Attempt) Wait() *Result {
	a.t.Helper()
	if a.result != nil {
		return a.result
	}
	var err error
	select {
	case <-a.desk.over:
		a.cancel() // makes the worker send the rest of the log, and leave
		err = <-a.ended
	case err = <-a.ended:
	}
	a.cancel()
	if err != nil {
		a.t.Fatalf("skeintest: %v", err)
	}
	a.result = a.desk.outcome()
	return a.result
}

// Stop ends the attempt as a person would: its context ends with skein.ErrStopped.
func (a *Attempt) Stop() { a.desk.stop() }

// Fence takes the attempt from its worker, as if the worker had been declared dead. The context of the
// attempt ends with skein.ErrFenced.
func (a *Attempt) Fence() { a.desk.fence() }

// CutOff keeps the worker from reaching a node until the attempt ends. The context of the attempt ends with
// skein.ErrCutOff after less than a second.
func (a *Attempt) CutOff() { a.desk.cutOff() }

// End ends the worker. The context of the attempt ends with skein.ErrDraining.
func (a *Attempt) End() { a.cancel() }

// Logged waits until the log contains a text. Logs arrive about once a second. The test fails if the attempt
// ends before.
func (a *Attempt) Logged(text string) {
	a.t.Helper()
	for {
		log, more := a.desk.log()
		if strings.Contains(log, text) {
			return
		}
		select {
		case <-more:
		case <-a.desk.over:
			if r := a.Wait(); !strings.Contains(r.Log, text) {
				a.t.Fatalf("skeintest: the attempt has ended (%s: %s), and its log does not contain %q:\n%s", r.State, r.Message, text, r.Log)
			}
			return
		}
	}
}

// Outputs decodes the outputs of an attempt. The test fails if the attempt did not succeed.
func Outputs[T any](t testing.TB, r *Result) (out T) {
	t.Helper()
	if r.State != Succeeded {
		t.Fatalf("skeintest: the attempt is %s (%s): %s\n%s", r.State, r.Cause, r.Message, r.Log)
	}
	raw := r.Outputs
	if raw == nil {
		raw = json.RawMessage("{}")
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("skeintest: the outputs %s: %v", raw, err)
	}
	return out
}

// Names lists the tasks that a splitter made, in order of their names.
func Names(t testing.TB, r *Result) []string {
	t.Helper()
	var names []string
	for _, task := range Outputs[struct {
		Tasks []struct{ Name string }
	}](t, r).Tasks {
		names = append(names, task.Name)
	}
	slices.Sort(names)
	return names
}

// jobOf returns a task in the form in which a worker receives it.
func jobOf(t *Task) (*workerv1.Job, error) {
	input, err := json.Marshal(t.With)
	if t.With == nil {
		input = []byte("{}")
	}
	or := func(text, other string) string {
		if text == "" {
			return other
		}
		return text
	}
	run, name := or(t.Run, "01890a5d-ac96-774b-bcce-b302099a8057"), or(t.Name, "task")
	instant := t.Instant
	if instant.IsZero() {
		instant = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return &workerv1.Job{Attempt: &workerv1.Attempt{Run: run, Task: 0, Token: int64(max(t.Attempt, 1))}, Namespace: or(t.Namespace, "default"),
		Workflow: or(t.Workflow, "workflow"), Task: name, Kind: t.Kind, Input: input, Outputs: maps.Clone(t.Outputs),
		IdempotencyKey: or(t.IdempotencyKey, run+"/"+name), TimeoutMillis: t.Timeout.Milliseconds(), LockToken: t.LockToken,
		InstantMicros: instant.UnixMicro(), Traceparent: t.Traceparent}, err
}
