package skein

import (
	"context"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/mask"
	"skein.dev/skein/sdk/shared/session"
)

// Prepare implements session.Owner.
func (s *attached) Prepare(j *workerv1.Job, _ session.Caller) *attempt {
	masks := mask.NewSet(j.Secrets)
	a := &attempt{job: j, masks: masks, log: &attemptLog{to: s.logs, of: j, mask: masks.NewWriter()}, began: time.Now()}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	return a
}

// Start implements session.Owner.
func (s *attached) Start(a *session.Attempt[*attempt]) {
	ctx, release := a.Of.ctx, func() {}
	if j := a.Of.job; j.TimeoutMillis > 0 && !j.WarnOnTimeout {
		ctx, release = context.WithDeadlineCause(ctx, a.Of.began.Add(time.Duration(j.TimeoutMillis)*time.Millisecond), ErrTimedOut)
	}
	s.dispatch(func() {
		defer release()
		s.work(ctx, a)
	})
}

// runnerIdleMax is the time for which a goroutine waits for its next task function. The goroutine is kept
// because its stack has already grown to the needed size.
const runnerIdleMax = time.Second

// dispatch runs a task function on a goroutine of its own: an idle one, or a new one.
func (s *attached) dispatch(handle func()) {
	select {
	case s.handlers <- handle:
	default:
		go s.runner(handle)
	}
}

func (s *attached) runner(handle func()) {
	idle := time.NewTimer(runnerIdleMax)
	defer idle.Stop()
	for {
		handle()
		idle.Reset(runnerIdleMax)
		select {
		case handle = <-s.handlers:
		case <-idle.C:
			return
		case <-s.over:
			return
		}
	}
}

// work runs an attempt.
func (s *attached) work(ctx context.Context, a *session.Attempt[*attempt]) {
	h := s.w.handlers[a.Of.job.Kind]
	if h == nil {
		kind := a.Of.job.Kind
		h = func(context.Context, *Task, []byte) ([]byte, error) { return nil, &failure{"start", unknownKind(kind)} }
	}
	returned := false
	defer func() {
		if !returned { // a runtime.Goexit ends this goroutine, so another one continues
			go s.finish(a, a.Of.judge(ctx, nil, errGoexit))
		}
	}()
	raw, err := a.Of.call(ctx, h)
	returned = true
	s.finish(a, a.Of.judge(ctx, raw, err))
}

// finish passes the result of an attempt to the session. A nil result means that there is none.
func (s *attached) finish(a *session.Attempt[*attempt], result *workerv1.Result) {
	size := a.Of.log.end()
	if result != nil {
		result.LogBytes = size
	}
	a.Of.cancel(nil)
	s.s.Finish(s.life, a, result)
}

type unknownKind string

func (k unknownKind) Error() string {
	if k == "" {
		return "this worker has handlers and runs no processes"
	}
	return "this worker has no handler of kind " + string(k)
}

// endings maps the reasons for an end to the causes of the contexts of task functions.
var endings = map[session.Ending]error{session.Stopped: ErrStopped, session.Killed: ErrStopped, session.TakenAway: ErrFenced}

// End implements session.Owner.
func (s *attached) End(a *session.Attempt[*attempt], why session.Ending) {
	if why == session.TakenAway {
		s.s.Disown(a)
	}
	if a.Of != nil {
		a.Of.cancel(endings[why])
	}
}

// cancelAll orders all task functions to end.
func (s *attached) cancelAll(why error) {
	for _, a := range s.s.Select(func(*session.Attempt[*attempt]) bool { return true }) {
		if why == ErrFenced {
			s.End(a, session.TakenAway)
		} else {
			a.Of.cancel(why)
		}
	}
}

// startedAfter is the age at which an attempt is reported as started. A shorter attempt has ended before the
// report is useful.
const startedAfter = time.Second

// tellStarted reports the attempts that have run for startedAfter. Only one goroutine calls it.
func (s *attached) tellStarted() {
	for _, a := range s.s.Select(func(a *session.Attempt[*attempt]) bool { return !a.Of.told && time.Since(a.Of.began) >= startedAfter }) {
		a.Of.told = true
		s.s.Started(a, a.Of.began, "", false)
	}
}
