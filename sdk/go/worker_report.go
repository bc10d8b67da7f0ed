package skein

import (
	"context"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// pastMax bounds the attempts with acknowledged results that are remembered. They are not started again.
const pastMax = 16 << 10

// past remembers the attempts that ended last.
type past struct {
	names []attemptName
	next  int
	in    map[attemptName]bool
}

func newPast(n int) past { return past{names: make([]attemptName, n), in: map[attemptName]bool{}} }

func (p *past) add(n attemptName) {
	if p.in[n] {
		return
	}
	delete(p.in, p.names[p.next])
	p.names[p.next], p.in[n] = n, true
	p.next = (p.next + 1) % len(p.names)
}

// startAll runs attempts. It returns false if there was no slot for all of them. The caller holds the
// mutex.
func (s *session) startAll(jobs []*workerv1.Job, lease int64) (all bool) {
	all = true
	for _, j := range jobs {
		all = s.start(j, lease) && all
	}
	return all
}

// start runs the handler of an attempt unless it is or was here. It returns false if there is no slot. The
// caller holds the mutex.
func (s *session) start(j *workerv1.Job, lease int64) bool {
	if j.Attempt == nil {
		return true
	}
	name := nameOf(j.Attempt)
	switch {
	case s.has[name] != nil || s.lease != lease:
		return true
	case s.past.in[name]:
		s.refute(name, j)
		return true
	case s.running >= s.w.o.Slots:
		s.log.Warn("all slots are taken; an attempt is refused", "code", "attempt_refused", "run", j.Attempt.Run, "task", j.Task)
		return false
	}
	a := &attempt{job: j, log: &attemptLog{to: s.logs, of: j}, began: time.Now()}
	var ctx context.Context
	ctx, a.cancel = context.WithCancelCause(context.Background())
	release := func() {}
	if j.TimeoutMillis > 0 && !j.WarnOnTimeout {
		ctx, release = context.WithDeadlineCause(ctx, a.began.Add(time.Duration(j.TimeoutMillis)*time.Millisecond), ErrTimedOut)
	}
	s.has[name] = a
	s.running++
	s.dispatch(func() {
		defer release()
		s.work(ctx, a)
	})
	return true
}

// refute says of an attempt that ended here long ago, and whose result was taken, that it does not run: a
// home that gives it again has forgotten that, as after a failover that lost what its database had taken. The
// mutex is held.
func (s *session) refute(name attemptName, j *workerv1.Job) {
	a := &attempt{job: j, began: time.Now(), cancel: func(error) {},
		result: &workerv1.Result{Attempt: j.Attempt, State: stateLost, Cause: causeDone}}
	s.has[name] = a
	s.ended = append(s.ended, a)
	s.wake()
}

// causeDone is why an attempt is lost that is given out again after its result was taken.
const causeDone = "it has ended at this worker before"

// runnerIdleMax is the time for which a goroutine waits for its next task function. Its stack has already
// grown to the size that task functions need.
const runnerIdleMax = time.Second

// dispatch runs a task function on a goroutine of its own: a waiting one, or a new one.
func (s *session) dispatch(handle func()) {
	select {
	case s.handlers <- handle:
	default:
		go s.runner(handle)
	}
}

func (s *session) runner(handle func()) {
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
func (s *session) work(ctx context.Context, a *attempt) {
	h := s.w.handlers[a.job.Kind]
	if h == nil {
		kind := a.job.Kind
		h = func(context.Context, *Task, []byte) ([]byte, error) { return nil, &failure{"start", unknownKind(kind)} }
	}
	returned := false
	defer func() {
		if !returned { // nothing stops a runtime.Goexit: another goroutine does the rest
			go s.finish(a, a.judge(ctx, nil, errGoexit))
		}
	}()
	raw, err := a.call(ctx, h)
	returned = true
	s.finish(a, a.judge(ctx, raw, err))
}

// finish keeps the result of an attempt until a node has it. nil: there is no result.
func (s *session) finish(a *attempt, result *workerv1.Result) {
	a.log.end()
	s.mu.Lock()
	s.running--
	switch {
	case a.orphaned || result == nil:
		delete(s.has, nameOf(a.job.Attempt))
	default:
		a.result = result
		s.ended = append(s.ended, a)
	}
	alone := s.running == 0 && len(s.ended) == 1
	s.mu.Unlock()
	a.cancel(nil)
	s.stir()
	if !alone || !s.flushHere() {
		s.wake()
	}
}

// flushHere sends the only result of an idle worker at once, on the goroutine of its task function. It
// returns false if too many reports are under way, or the session has ended.
func (s *session) flushHere() bool {
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
		s.flush(s.life)
		return true
	default:
		return false
	}
}

type unknownKind string

func (k unknownKind) Error() string {
	if k == "" {
		return "this worker has handlers and runs no processes"
	}
	return "this worker has no handler of kind " + string(k)
}

// stop orders the task function of an attempt to end.
func (s *session) stop(name attemptName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.has[name]; a != nil {
		a.cancel(ErrStopped)
	}
}

// orphan gives up an attempt that is another worker's.
func (s *session) orphan(name attemptName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.has[name]; a != nil {
		s.disown(a)
	}
}

// disown marks the result of an attempt as not wanted any more. The mutex is held.
func (s *session) disown(a *attempt) {
	a.orphaned = true
	a.cancel(ErrFenced)
	if a.result != nil {
		delete(s.has, nameOf(a.job.Attempt))
	}
}

// cancelAll orders all task functions to end.
func (s *session) cancelAll(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.has {
		if why == ErrFenced {
			s.disown(a)
		} else {
			a.cancel(why)
		}
	}
}

func (s *session) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *session) stir() {
	select {
	case s.idle <- struct{}{}:
	default:
	}
}

const (
	// reportsMax bounds the concurrent reports. Results that arrive in the meantime share the next report.
	reportsMax = 4
	// resultsMax bounds the results of one report.
	resultsMax = 500
	// startedAfter is the age at which an attempt is reported as started. A shorter attempt has ended before the
	// report is useful.
	startedAfter = time.Second
)

// reports sends results until each has its verdict.
func (s *session) reports(ctx context.Context) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			for range reportsMax {
				s.room <- struct{}{} // those under way
			}
			return
		case <-s.kick:
		case <-again.C:
		}
		s.room <- struct{}{}
		go func() {
			defer func() { <-s.room }()
			s.flush(ctx)
		}()
	}
}

// flush sends what waits, once.
func (s *session) flush(ctx context.Context) {
	s.mu.Lock()
	if s.lease == 0 || len(s.ended) == 0 {
		s.mu.Unlock()
		return
	}
	n := min(len(s.ended), resultsMax)
	sent := append([]*attempt(nil), s.ended[:n]...)
	s.ended = append(s.ended[:0], s.ended[n:]...)
	more := len(s.ended) > 0
	in, home := &workerv1.ReportRequest{Handler: s.handler, Lease: s.lease, Uuid: s.uuid, Results: make([]*workerv1.Result, n), Starts: !s.draining}, s.home
	for i, a := range sent {
		in.Results[i] = a.result
	}
	s.mu.Unlock()
	if more {
		s.wake()
	}
	try, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	out, err := s.report(try, home, in)
	if err != nil && ctx.Err() == nil {
		s.log.Debug("results do not reach the home yet", "err", err)
	}
	later := false
	s.mu.Lock()
	for i, a := range sent {
		verdict := workerv1.Verdict_VERDICT_UNAVAILABLE
		if err == nil && i < len(out.Verdicts) {
			verdict = out.Verdicts[i]
		}
		later = !s.acknowledge(a, verdict) || later
	}
	if err != nil && in.Starts || !s.startAll(out.GetStart(), in.Lease) {
		s.missed()
	}
	s.mu.Unlock()
	s.stir()
	if later {
		wait(ctx, pauseMin)
		s.wake()
	}
}

// acknowledge processes the verdict on a result. It returns false if the result must be sent again. The
// caller holds the mutex.
func (s *session) acknowledge(a *attempt, v workerv1.Verdict) bool {
	name := nameOf(a.job.Attempt)
	if s.has[name] != a {
		return true // it was given up meanwhile
	}
	if v == workerv1.Verdict_VERDICT_UNAVAILABLE || v == workerv1.Verdict_VERDICT_UNSPECIFIED {
		s.ended = append(s.ended, a)
		return false
	}
	delete(s.has, name)
	s.past.add(name)
	if v != workerv1.Verdict_VERDICT_ACCEPTED && v != workerv1.Verdict_VERDICT_DUPLICATE {
		s.log.Warn("a result was rejected", "code", "result_rejected", "run", name.run, "task", a.job.Task, "token", name.token, "verdict", v.String())
	}
	return true
}

// tellStarted reports as started the attempts that have run for a while.
func (s *session) tellStarted(ctx context.Context) {
	s.mu.Lock()
	in, home := &workerv1.ReportRequest{Handler: s.handler, Lease: s.lease, Uuid: s.uuid}, s.home
	var of []*attempt
	for _, a := range s.has {
		if a.result == nil && !a.told && !a.orphaned && time.Since(a.began) >= startedAfter && len(of) < resultsMax && in.Lease != 0 {
			a.told = true
			of = append(of, a)
			in.Results = append(in.Results, &workerv1.Result{Attempt: a.job.Attempt, Running: true, StartedMicros: a.began.UnixMicro()})
		}
	}
	s.mu.Unlock()
	if len(of) == 0 {
		return
	}
	s.asks.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, callMax)
		defer cancel()
		out, err := s.client(home).Report(ctx, in)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, a := range of {
			v := workerv1.Verdict_VERDICT_UNAVAILABLE
			if err == nil && i < len(out.Verdicts) {
				v = out.Verdicts[i]
			}
			switch v {
			case workerv1.Verdict_VERDICT_UNAVAILABLE, workerv1.Verdict_VERDICT_UNSPECIFIED:
				a.told = false
			case workerv1.Verdict_VERDICT_STALE, workerv1.Verdict_VERDICT_RUN_ENDED: // it was taken away
				s.disown(a)
			}
		}
	})
}
