package skein

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/mask"
	"skein.dev/skein/sdk/shared/output"
)

// attempt is the worker's state of an attempt, until its result is acknowledged.
type attempt struct {
	job    *workerv1.Job
	masks  *mask.Set // masks the attempt's secrets; nil if it has none
	log    *attemptLog
	began  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	told   bool // the server knows that the attempt runs
}

// States of results, in the words of the protocol.
const (
	stateSucceeded = "succeeded"
	stateFailed    = "failed"
	stateStopped   = "stopped"
	stateLost      = "lost" // the attempt no longer runs, and its result is unknown
)

// judge makes the report about an attempt from the return values of its task function. It returns nil if no
// report is needed.
func (a *attempt) judge(ctx context.Context, raw []byte, err error) *workerv1.Result {
	r := &workerv1.Result{Attempt: a.job.Attempt, StartedMicros: a.began.UnixMicro(), FinishedMicros: time.Now().UnixMicro(), State: stateSucceeded}
	late := a.job.TimeoutMillis > 0 && time.Since(a.began) >= time.Duration(a.job.TimeoutMillis)*time.Millisecond
	r.TimedOut = late && (a.job.WarnOnTimeout || errors.Is(context.Cause(ctx), ErrTimedOut))
	if err == nil {
		if r.Outputs, err = output.Object(raw, a.job.Outputs); err != nil {
			err = &failure{"output", err}
		}
	}
	if err == nil && a.masks.HoldsJSON(r.Outputs) {
		err = &failure{"secret", errors.New("the outputs hold a secret of the task, and outputs are stored and shown: return something else")}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrTimedOut):
		r.State, r.Cause, r.Message = stateFailed, "timeout", fmt.Sprintf("ran longer than its timeout of %v", time.Duration(a.job.TimeoutMillis)*time.Millisecond)
	case err == nil && r.TimedOut:
		r.Message = fmt.Sprintf("ran longer than its timeout of %v, which only warns", time.Duration(a.job.TimeoutMillis)*time.Millisecond)
	case err == nil:
	case errors.Is(cause, ErrFenced), errors.Is(cause, ErrDraining):
		return nil
	case errors.Is(cause, ErrCutOff):
		r.State, r.Cause = stateLost, cause.Error()
	case errors.Is(cause, ErrStopped):
		r.State, r.Cause, r.Message = stateStopped, "stopped", "stopped"
	default:
		r.State, r.Cause, r.Message = stateFailed, causeOf(err), plain(a.masks.String(err.Error()))
	}
	if r.State != stateSucceeded {
		r.Outputs = nil
	}
	return r
}

// failure is an error with a cause of its own.
type failure struct {
	cause string
	err   error
}

func (f *failure) Error() string { return f.err.Error() }

func causeOf(err error) string {
	var f *failure
	var p permanent
	switch {
	case errors.As(err, &f):
		return f.cause
	case errors.As(err, &p):
		return "permanent"
	}
	return "error"
}

// call runs the task function of an attempt. It converts a panic to an error, and writes the stack to the
// log.
func (a *attempt) call(ctx context.Context, h handler) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(a.log, "panic: %v\n\n%s", p, debug.Stack())
			raw, err = nil, &failure{"panic", fmt.Errorf("panic: %v", p)}
		}
	}()
	t := taskOf(a.job, a.log)
	t.ctx = ctx
	return h(ctx, t, a.job.Input)
}

// errGoexit is the error of a task function that called runtime.Goexit, or a function of package testing that
// does so.
var errGoexit = &failure{"panic", errors.New("the task function has ended its goroutine")}

// messageMax bounds the bytes of a result's message.
const messageMax = 2000

// plain returns a text in a form that every database accepts.
func plain(s string) string {
	if len(s) > messageMax {
		s = s[:messageMax] + "…"
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}
