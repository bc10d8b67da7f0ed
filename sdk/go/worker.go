package skein

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// WorkerOptions describes a worker. The zero value works.
type WorkerOptions struct {
	Name   string            // the name of this worker in the cluster; "": host and process. It replaces a listed worker of the same name
	Slots  int               // task functions that run at the same time; 0: four per core
	Groups []string          // worker groups that it belongs to
	Labels map[string]string // the labels that tasks may require
	Token  string            // a token of the kind worker, if the nodes require one
	Drain  time.Duration     // how long task functions may continue when the worker is to end; 0: a minute
	Log    *slog.Logger      // the log of the worker itself; nil: slog.Default
	// Transport carries its calls; nil: HTTP with kept connections.
	Transport http.RoundTripper
}

// Worker runs task functions of this program for tasks of the kinds that were registered with [Handle]. It is
// attached to one node. If the node is lost, the worker attaches to another one, or to the same one when it
// is back.
type Worker struct {
	urls     []string
	o        WorkerOptions
	handlers map[string]handler
	err      error // the error of NewWorker, which Run returns
}

// handler runs one attempt: input in, outputs out, both JSON.
type handler func(ctx context.Context, t *Task, input []byte) (outputs []byte, err error)

// NewWorker makes a worker of the nodes at servers, one URL or several with commas between.
// Nothing happens until [Worker.Run], which also returns the errors of the URLs and options.
func NewWorker(servers string, o WorkerOptions) *Worker {
	w := &Worker{o: o, handlers: map[string]handler{}}
	for _, s := range strings.Split(servers, ",") {
		c, err := New(strings.TrimSpace(s))
		if err != nil {
			w.err = errors.Join(w.err, err)
			continue
		}
		w.urls = append(w.urls, c.URL())
	}
	if w.o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "worker"
		}
		w.o.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if w.o.Slots == 0 {
		w.o.Slots = 4 * runtime.GOMAXPROCS(0)
	}
	if w.o.Drain == 0 {
		w.o.Drain = time.Minute
	}
	if w.o.Log == nil {
		w.o.Log = slog.Default()
	}
	if w.o.Transport == nil {
		w.o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute}
	}
	return w
}

var kindName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// Handle registers the handler of a kind of task. In is made of the task's input (with: in the workflow
// file), which must fit it exactly: a key that In does not have fails the attempt. Out, a struct or a map,
// becomes the task's outputs.
//
// A handler runs once per attempt, and an attempt may be tried again: see [Task] for what makes effects
// happen once. It must return soon after its context has ended; context.Cause says why that was. An error
// fails the attempt, which is tried again as the workflow says, unless it is [Permanent]. A panic fails it,
// too, and its stack is in the log.
//
// Handlers are registered before Run.
func Handle[In, Out any](w *Worker, kind string, h func(ctx context.Context, t *Task, in In) (Out, error)) {
	switch out := reflect.TypeFor[Out](); {
	case !kindName.MatchString(kind):
		w.err = errors.Join(w.err, fmt.Errorf("kind %q: want 1 to 100 letters, digits, _, . and -", kind))
	case w.handlers[kind] != nil:
		w.err = errors.Join(w.err, fmt.Errorf("kind %s has two task functions", kind))
	case !slices.Contains([]reflect.Kind{reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface}, out.Kind()) && out != reflect.TypeFor[json.RawMessage]():
		w.err = errors.Join(w.err, fmt.Errorf("the task function of kind %s returns a %s, but outputs have names: return a struct or a map", kind, out))
	}
	w.handlers[kind] = func(ctx context.Context, t *Task, input []byte) ([]byte, error) {
		var in In
		dec := json.NewDecoder(bytes.NewReader(input))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil {
			return nil, Permanent(fmt.Errorf("the input does not fit the type of the task function of kind %s: %w", kind, err))
		}
		out, err := h(ctx, t, in)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return nil, fmt.Errorf("the outputs cannot be written as JSON: %w", err)
		}
		return raw, nil
	}
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error of a task function for which a retry cannot help: the task is not tried again.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// The reasons why the context of a task function has ended. context.Cause returns them.
var (
	ErrStopped  = errors.New("the attempt was ordered to stop")
	ErrTimedOut = errors.New("the attempt has reached its timeout")
	// ErrFenced: the attempt is another worker's by now. Whatever the handler returns is discarded.
	ErrFenced = errors.New("another worker has the task now, or the attempt counts as lost")
	// ErrCutOff: no node has answered for the length of the worker's lease.
	ErrCutOff = errors.New("no node of the cluster answers this worker")
	// ErrDraining: the worker ends, and its time to drain has passed. The attempt will be repeated.
	ErrDraining = errors.New("the worker ends")
)

// Task is the attempt that a task function works on. Bytes written to it as an [io.Writer] go into the
// attempt's log.
//
// Tasks are executed at least once: if the worker of an attempt dies, another attempt begins. An effect
// elsewhere happens once if it is requested under IdempotencyKey, or guarded by Token.
type Task struct {
	Run, Name           string // id of the run, name of the task
	Workflow, Namespace string
	Kind                string
	// Attempt is the number of this attempt, from 1. Token rises with every attempt of the task, also after the
	// database has gone back to an earlier state: a request with a lower token than an earlier one is from an
	// attempt that has ended.
	Attempt, Token int
	// IdempotencyKey is the same for all attempts of the task, until the run is recovered or started again.
	IdempotencyKey string
	// Traceparent is the W3C trace context of the program that started the run; "": it gave none. Make the spans
	// of the task its children.
	Traceparent string
	LockToken   int64     // rises with every grant of the run's locks; 0: the run holds no lock
	Instant     time.Time // the time that the run is for: trigger.time

	ctx context.Context
	log *attemptLog
}

var _ io.Writer = (*Task)(nil)

// Write adds to the attempt's log.
func (t *Task) Write(p []byte) (int, error) { return t.log.Write(p) }

// Logger writes to the attempt's log.
func (t *Task) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(t, nil)) }

// progressEvery is how often progress is written down at most.
const progressEvery = time.Second

// Progress writes the progress of the attempt into its log, at most once a second. It returns an error if the
// attempt is to end, and the error says why. So a task function can be stopped if it calls Progress now and
// then and returns this error.
func (t *Task) Progress(done, of int64, what string) error {
	if err := context.Cause(t.ctx); err != nil {
		return err
	}
	if t.log.due(time.Now(), done >= of) {
		fmt.Fprintf(t.log, "progress %d/%d %s\n", done, of, strings.ReplaceAll(what, "\n", " "))
	}
	return nil
}

// Run works until ctx ends. Then it accepts no new tasks, waits for its task functions up to
// WorkerOptions.Drain, and leaves the cluster. Another worker repeats the tasks that have not ended by then.
// Run returns only errors that do not end by themselves.
func (w *Worker) Run(ctx context.Context) error {
	switch {
	case w.err != nil:
		return fmt.Errorf("worker %s: %w", w.o.Name, w.err)
	case len(w.handlers) == 0:
		return fmt.Errorf("worker %s: %w: it has no task functions: register some with skein.Handle", w.o.Name, ErrInvalid)
	}
	return newAttached(w).run(ctx)
}

// taskOf makes the task that a handler gets from a job.
func taskOf(j *workerv1.Job, l *attemptLog) *Task {
	return &Task{Run: j.Attempt.Run, Name: j.Task, Workflow: j.Workflow, Namespace: j.Namespace, Kind: j.Kind, Attempt: int(j.Attempt.Token % workerv1.TokensOfEra),
		Token: int(j.Attempt.Token), IdempotencyKey: j.IdempotencyKey, Traceparent: j.Traceparent, LockToken: j.LockToken, Instant: time.UnixMicro(j.InstantMicros).UTC(), log: l}
}
