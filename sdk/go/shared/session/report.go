package session

import (
	"context"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

const (
	// reportsMax bounds the number of concurrent reports. Results that arrive while all reports are under way
	// share the next report.
	reportsMax = 4
	// resultsMax bounds the results of one report.
	resultsMax = 500
)

// stateLost is the state of an attempt that no longer runs and has no known result.
const stateLost = "lost"

// causeDone is the cause of the loss of an attempt whose result was already accepted, and which was assigned
// again.
const causeDone = "it has ended at this worker before"

// startAll starts attempts. It returns false if there was no slot for all of them.
func (s *Session[T]) startAll(jobs []*workerv1.Job, from Caller) (all bool) {
	all = true
	for _, j := range jobs {
		all = s.start(j, from) && all
	}
	return all
}

// start runs an attempt, unless the attempt runs or ran here. It returns false if there is no free slot.
func (s *Session[T]) start(j *workerv1.Job, from Caller) bool {
	if j.Attempt == nil {
		return true
	}
	name := NameOf(j.Attempt)
	a := &Attempt[T]{Wire: j.Attempt, Task: j.Task, Of: s.owner.Prepare(j, from)}
	s.mu.Lock()
	switch {
	case s.has[name] != nil || s.id.Lease != from.Lease:
		s.mu.Unlock()
		return true
	case s.recent.in[name]:
		s.refute(j)
		s.mu.Unlock()
		s.wake()
		return true
	case s.running >= s.cfg.Slots:
		s.mu.Unlock()
		s.log.Warn("an attempt was refused, because all slots of this worker are taken", "code", "attempt_refused", "run", name.Run, "task", j.Task)
		return false
	}
	s.has[name] = a
	s.running++
	s.mu.Unlock()
	s.owner.Start(a)
	return true
}

// refute reports that an attempt does not run, because the attempt ended here long ago and its result was
// accepted. A home sends such an attempt again if it has lost the result, for example in a failover. The
// caller holds the mutex.
func (s *Session[T]) refute(j *workerv1.Job) {
	a := &Attempt[T]{Wire: j.Attempt, Task: j.Task, refuted: true, result: &workerv1.Result{Attempt: j.Attempt, State: stateLost, Cause: causeDone}}
	s.has[NameOf(j.Attempt)] = a
	s.enqueue(a)
}

// enqueue puts an attempt into the next report. The caller holds the mutex.
func (s *Session[T]) enqueue(a *Attempt[T]) {
	if !a.queued && !a.busy {
		a.queued = true
		s.queue = append(s.queue, a)
	}
}

// Started reports the instant at which an attempt began to run, and the handle of the attempt, if it has one.
// adopts reports whether the next attempt may continue the work that the handle names.
func (s *Session[T]) Started(a *Attempt[T], at time.Time, handle string, adopts bool) {
	s.mu.Lock()
	if a.result == nil {
		if handle == "" {
			handle, adopts = a.notice.GetHandle(), a.notice.GetAdopts() // handle and adopts were not sent yet
		}
		a.notice = &workerv1.Result{Attempt: a.Wire, Running: true, Handle: handle, Adopts: adopts}
		if !at.IsZero() {
			a.notice.StartedMicros = at.UnixMicro()
		}
		s.enqueue(a)
	}
	s.mu.Unlock()
	s.wake()
}

// Free releases the slot of an attempt. The caller then calls Settle or Drop for the attempt.
func (s *Session[T]) Free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// Settle queues the result of an attempt for the next report.
func (s *Session[T]) Settle(a *Attempt[T], result *workerv1.Result) {
	s.mu.Lock()
	s.settled(a, result)
	s.mu.Unlock()
	s.wake()
	s.stir()
}

// settled queues a result. The caller holds the mutex.
func (s *Session[T]) settled(a *Attempt[T], result *workerv1.Result) {
	a.notice, a.result = nil, result
	s.enqueue(a)
}

// Drop ends an attempt that has no result to report.
func (s *Session[T]) Drop(a *Attempt[T]) {
	s.mu.Lock()
	s.dropped(a)
	s.mu.Unlock()
	s.stir()
}

// dropped removes an attempt. The caller holds the mutex.
func (s *Session[T]) dropped(a *Attempt[T]) {
	if name := NameOf(a.Wire); s.has[name] == a {
		delete(s.has, name)
	}
}

// Finish calls Free and then Settle. If there is no result, or the result is not wanted, it calls Drop
// instead of Settle. If the worker has no other attempt or result, Finish sends the result at once, in the
// goroutine of the caller.
func (s *Session[T]) Finish(ctx context.Context, a *Attempt[T], result *workerv1.Result) {
	s.mu.Lock()
	s.running--
	if a.unowned || result == nil {
		s.dropped(a)
	} else {
		s.settled(a, result)
	}
	alone := s.running == 0 && len(s.queue) == 1
	s.mu.Unlock()
	s.stir()
	if !alone || !s.flushHere(ctx) {
		s.wake()
	}
}

// flushHere sends the waiting reports on this goroutine. It returns false if too many reports are under way.
func (s *Session[T]) flushHere(ctx context.Context) bool {
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
		s.Flush(ctx)
		return true
	default:
		return false
	}
}

// Disown marks the result of an attempt as no longer wanted.
func (s *Session[T]) Disown(a *Attempt[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.unowned = true; a.result != nil {
		s.dropped(a)
	}
}

func (s *Session[T]) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *Session[T]) stir() {
	select {
	case s.idle <- struct{}{}:
	default:
	}
}

// Reports sends results until each has its verdict, or ctx ends. It calls every once a second.
func (s *Session[T]) Reports(ctx context.Context, every func()) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			for range reportsMax {
				s.room <- struct{}{} // limits the concurrent reports
			}
			return
		case <-s.kick:
		case <-again.C:
			every()
		}
		s.room <- struct{}{}
		go func() {
			defer func() { <-s.room }()
			s.Flush(ctx)
		}()
	}
}

// Flush sends all waiting reports once.
func (s *Session[T]) Flush(ctx context.Context) {
	s.mu.Lock()
	id, home, logs := s.id, s.home, s.logs
	if id.Lease == 0 || len(s.queue) == 0 {
		s.mu.Unlock()
		return
	}
	in := &workerv1.ReportRequest{Handler: id.Handler, Lease: id.Lease, Uuid: id.UUID, Starts: !s.draining && !s.delivering}
	sent := s.next(in)
	more := len(s.queue) > 0
	s.mu.Unlock()
	if more {
		s.wake()
	}
	if len(sent) == 0 {
		return
	}
	out, err := s.report(ctx, home, in)
	if err != nil && ctx.Err() == nil {
		s.log.Debug("the home node does not take the results yet", "err", err)
	}
	later := s.judge(sent, in.Results, out.GetVerdicts())
	if err != nil && in.Starts || len(out.GetStart()) > 0 && !s.startAll(out.GetStart(), Caller{id, s.Client(home), logs}) {
		s.missed()
	}
	s.stir()
	if later {
		Wait(ctx, PauseMin)
		s.wake()
	}
}

// next moves attempts from the queue to a report. The caller holds the mutex.
func (s *Session[T]) next(in *workerv1.ReportRequest) (sent []*Attempt[T]) {
	n := 0
	for ; n < len(s.queue) && len(sent) < resultsMax; n++ {
		a := s.queue[n]
		a.queued = false
		news := a.result
		if news == nil {
			news = a.notice
		}
		if news == nil || s.has[NameOf(a.Wire)] != a { // the attempt was given up in the meantime
			continue
		}
		a.busy = true
		sent, in.Results = append(sent, a), append(in.Results, news)
	}
	left := copy(s.queue, s.queue[n:])
	clear(s.queue[left:])
	s.queue = s.queue[:left]
	return sent
}

// judge processes the verdicts on reports. A missing verdict means that no node could accept the report now.
// judge returns true if a report must be sent again.
func (s *Session[T]) judge(sent []*Attempt[T], said []*workerv1.Result, verdicts []workerv1.Verdict) (later bool) {
	var ended, taken []*Attempt[T]
	s.mu.Lock()
	for i, a := range sent {
		v := workerv1.Verdict_VERDICT_UNAVAILABLE
		if i < len(verdicts) && verdicts[i] != workerv1.Verdict_VERDICT_UNSPECIFIED {
			v = verdicts[i]
		}
		a.busy = false
		name := NameOf(a.Wire)
		switch {
		case s.has[name] != a: // the attempt was given up in the meantime
		case v == workerv1.Verdict_VERDICT_UNAVAILABLE:
			later = true
			s.enqueue(a)
		case said[i].Running:
			if a.notice == said[i] {
				a.notice = nil
			}
			if a.result != nil || a.notice != nil {
				s.enqueue(a)
				s.wake()
			}
			if v == workerv1.Verdict_VERDICT_STALE || v == workerv1.Verdict_VERDICT_RUN_ENDED {
				taken = append(taken, a)
			}
		default:
			delete(s.has, name)
			s.recent.add(name)
			if !a.refuted {
				ended = append(ended, a)
			}
			if v != workerv1.Verdict_VERDICT_ACCEPTED && v != workerv1.Verdict_VERDICT_DUPLICATE {
				s.log.Warn("the home node rejected a result", "code", "result_rejected", "run", name.Run, "task", a.Task, "token", name.Token, "verdict", v.String())
			}
		}
	}
	s.mu.Unlock()
	for _, a := range taken {
		s.owner.End(a, TakenAway)
	}
	if len(ended) > 0 && s.keeper != nil {
		s.keeper.Acknowledged(ended)
	}
	return later
}
