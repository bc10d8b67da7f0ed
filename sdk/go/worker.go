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
	Name   string            // name in the cluster, which must be free; "" means host and process
	Slots  int               // bounds the concurrent task functions; 0 means four per core
	Groups []string          // worker groups that the worker belongs to
	Labels map[string]string // labels that tasks may require
	Token  string            // a token of the kind worker, if the nodes require one
	Drain  time.Duration     // how long task functions may continue when the worker must end; 0 means a minute
	Log    *slog.Logger      // the worker's own log; nil means slog.Default
	// Transport sends the calls. nil means HTTP with kept connections.
	Transport http.RoundTripper
}

// Worker runs task functions of this program for tasks of the kinds that were registered with [Handle]. It
// is attached to one node. If the node is lost, the worker attaches to another node, or to the same one when
// it is back.
type Worker struct {
	urls     []string
	o        WorkerOptions
	handlers map[string]handler
	err      error // the error of NewWorker, which Run returns
}

// handler runs one attempt. Its input and outputs are JSON.
type handler func(ctx context.Context, t *Task, input []byte) (outputs []byte, err error)

// NewWorker makes a worker for the nodes at servers, which is one URL or several URLs separated by commas. It
// does not connect. [Worker.Run] connects, and also returns the errors of the URLs and options.
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

// Handle registers the task function of a kind of task.
//
// The task's input (with: in the workflow file) is decoded into In and must fit it exactly: a key that In
// does not have fails the attempt. Out, a struct or a map, becomes the task's outputs.
//
// The function runs once per attempt, and a task may have several attempts. [Task] says how to make effects
// happen once. The function must return soon after its context has ended; context.Cause gives the reason.
//
// An error fails the attempt. The task is then tried again as the workflow says, unless the error is
// [Permanent]. A panic fails the attempt, too, and its stack is in the log.
//
// Register all functions before Run.
func Handle[In, Out any](w *Worker, kind string, h func(ctx context.Context, t *Task, in In) (Out, error)) {
	switch out := reflect.TypeFor[Out](); {
	case !kindName.MatchString(kind):
		w.err = errors.Join(w.err, fmt.Errorf("kind %q: use 1 to 100 letters, digits, _, . and -", kind))
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

// Permanent marks an error of a task function as one that a retry cannot remove. The task is not tried again.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// These errors say why the context of a task function has ended. context.Cause returns them.
var (
	ErrStopped  = errors.New("the attempt was ordered to stop")
	ErrTimedOut = errors.New("the attempt has reached its timeout")
	// ErrFenced means that another worker has the task now. The result of the task function is discarded.
	ErrFenced = errors.New("another worker has the task now, or the attempt counts as lost")
	// ErrCutOff means that no node has answered for the length of the worker's lease.
	ErrCutOff = errors.New("no node of the cluster answers this worker")
	// ErrDraining means that the worker must end, and that its time to drain has passed. Another attempt will
	// run the task again.
	ErrDraining = errors.New("the worker ends")
)

// Task is the attempt that a task function works on. Bytes that are written to it as an [io.Writer] go into
// the attempt's log.
//
// Tasks are executed at least once: if the worker of an attempt dies, another attempt begins. To make an
// effect in another system happen once, send IdempotencyKey with the request, or guard the effect by Token.
type Task struct {
	Run, Name           string // id of the run, and name of the task
	Workflow, Namespace string
	Kind                string
	// Attempt is the number of this attempt, from 1. Token rises with every attempt of the task, also after
	// the database has gone back to an earlier state. So if a request has a lower token than an earlier
	// request, it comes from an attempt that has ended.
	Attempt, Token int
	// IdempotencyKey is the same for all attempts of the task. It changes when the run is recovered or
	// started again.
	IdempotencyKey string
	// Traceparent is the W3C trace context of the program that started the run, or "" if there is none. Make
	// the spans of the task its children.
	Traceparent string
	LockToken   int64     // rises with every grant of the run's locks; 0 if the run holds no lock
	Instant     time.Time // the logical instant of the run, such as the instant of its trigger

	ctx context.Context
	log *attemptLog
}

var _ io.Writer = (*Task)(nil)

// Write appends to the attempt's log.
func (t *Task) Write(p []byte) (int, error) { return t.log.Write(p) }

// Logger writes to the attempt's log.
func (t *Task) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(t, nil)) }

// progressEvery is the shortest time between two lines of progress in the log.
const progressEvery = time.Second

// Progress writes the progress of the attempt into its log, at most once a second. If the attempt is to end,
// it returns an error with the reason. A task function that calls Progress regularly and returns this error
// can be stopped.
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
// WorkerOptions.Drain, and leaves the cluster. Tasks that have not ended by then are repeated on another
// worker. Run retries temporary errors, and returns all others.
func (w *Worker) Run(ctx context.Context) error {
	switch {
	case w.err != nil:
		return fmt.Errorf("worker %s: %w", w.o.Name, w.err)
	case len(w.handlers) == 0:
		return fmt.Errorf("worker %s: %w: it has no task functions: register some with skein.Handle", w.o.Name, ErrInvalid)
	}
	return newAttached(w).run(ctx)
}

// taskOf makes the Task of a task function from a job.
func taskOf(j *workerv1.Job, l *attemptLog) *Task {
	return &Task{Run: j.Attempt.Run, Name: j.Task, Workflow: j.Workflow, Namespace: j.Namespace, Kind: j.Kind, Attempt: int(j.Attempt.Token % workerv1.TokensOfEra),
		Token: int(j.Attempt.Token), IdempotencyKey: j.IdempotencyKey, Traceparent: j.Traceparent, LockToken: j.LockToken, Instant: time.UnixMicro(j.InstantMicros).UTC(), log: l}
}
