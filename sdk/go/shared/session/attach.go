package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// ErrNoHome means that the worker is attached to no node.
var ErrNoHome = errors.New("this worker is attached to no node now")

// ended is an error after which the worker does not attach again.
type ended struct{ error }

func (e ended) Unwrap() error { return e.error }

// final reports whether the reason of a rejection lasts until a person acts.
func (s *Session[T]) final(err error) bool {
	switch Reason(err) {
	case NameTaken, Alone, Malformed:
		return true
	}
	var own ended
	code := connect.CodeOf(err)
	return errors.As(err, &own) || s.cfg.RefusedEnds && (code == connect.CodeUnauthenticated || code == connect.CodePermissionDenied)
}

// Run keeps the worker attached until ctx ends. Then it calls drain and ends the polling. The registration
// stays until Leave. Run returns at once, without drain, if it meets an error that lasts until a person acts.
// It returns no other errors.
func (s *Session[T]) Run(ctx context.Context, drain func()) error {
	attached, detach := context.WithCancel(context.WithoutCancel(ctx))
	defer detach()
	fatal := make(chan error, 1)
	go func() { fatal <- s.sessions(attached) }()
	select {
	case <-ctx.Done():
		drain()
	case err := <-fatal:
		return err
	}
	detach()
	<-fatal // wait for the sessions, because otherwise they would attach again
	return nil
}

// sessions attaches to one home after another.
func (s *Session[T]) sessions(ctx context.Context) error {
	pause := PauseMin
	for ctx.Err() == nil {
		if !s.Attached() {
			err := s.Attach(ctx)
			switch {
			case err != nil && s.final(err):
				return err
			case Reason(err) == Fenced:
				s.log.Error("the registration of this worker has ended; the worker ends its attempts and registers again", "code", "registration_ended", "err", err)
				s.owner.Fenced(ctx)
				continue
			case err != nil:
				why := Reason(err)
				refused := Refusal{Err: err, Lasting: pause >= PauseMax, Repeated: why != "" && why == s.said}
				if why != "" {
					s.said = why
				}
				if ctx.Err() == nil && s.owner.Refused(ctx, refused) {
					continue
				}
				Wait(ctx, max(pause, comeAgain(err)))
				pause = min(2*pause, PauseMax)
				continue
			}
			pause = PauseMin
		}
		if err := s.Poll(ctx); err != nil && ctx.Err() == nil {
			s.log.Info("the worker has lost its home node; it attaches to a node again", "code", "home_lost", "home", s.home, "err", err)
			s.Detach()
			Wait(ctx, lostPause) // random, because other workers have lost the same home
		}
	}
	return nil
}

// Detach marks the worker as not attached, so that it attaches again.
func (s *Session[T]) Detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id.Lease = 0
}

// Reoffer changes the data of the worker's registrations, and registers again. The attempts of the worker
// continue.
func (s *Session[T]) Reoffer(offer *workerv1.RegisterRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Offer = offer
	s.id.Lease = 0
	s.pollAgain()
}

// Attach registers with the first node that accepts the worker. It begins with the previous home.
func (s *Session[T]) Attach(ctx context.Context) error {
	s.mu.Lock()
	if s.id.UUID == "" { // kept until an answer arrives, because the first answer may be lost
		s.id.UUID = uuid.NewString()
	}
	in := proto.CloneOf(s.cfg.Offer)
	in.Name, in.Uuid, in.Handler, in.Slots = s.cfg.Name, s.id.UUID, s.id.Handler, int32(s.cfg.Slots)
	in.Draining, in.Full = s.draining || s.delivering, s.full
	in.Running, in.Ended = s.lists()
	urls := slices.Clone(s.nodes)
	if i := slices.Index(urls, s.home); i > 0 {
		urls[0], urls[i] = urls[i], urls[0]
	}
	s.mu.Unlock()
	var errs []error
	for _, url := range urls {
		sent := s.cfg.Clock()
		try, cancel := context.WithTimeout(ctx, RegisterMax)
		out, err := s.Client(url).Register(try, in)
		cancel()
		if err == nil {
			return s.settle(ctx, url, out, sent)
		}
		if why := Reason(err); s.final(err) || why == Fenced || why == NameHeld || why == TooMany {
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", url, err))
	}
	return errors.Join(errs...)
}

// settle processes the answer to a registration.
func (s *Session[T]) settle(ctx context.Context, url string, out *workerv1.RegisterResponse, sent time.Duration) error {
	if s.keeper != nil {
		if err := s.keeper.Attached(out, url); err != nil {
			return ended{err}
		}
	}
	s.said = ""
	s.mu.Lock()
	s.id.Handler, s.id.Lease, s.home, s.ack, s.again = out.Handler, out.Lease, url, 0, false
	s.lag, s.poll, s.logs = time.Duration(out.LagMillis)*time.Millisecond, time.Duration(out.PollMillis)*time.Millisecond, out.Logs
	lag := s.lag
	s.learn(out.Nodes)
	s.mu.Unlock()
	s.log.Info("the worker has attached to its home node", "code", "home_attached", "home", url, "handler", out.Handler, "lease", out.Lease)
	s.hear(sent, lag)
	for _, name := range out.Revoked {
		if a := s.find(name); a != nil {
			s.owner.End(a, TakenAway)
		}
	}
	s.wake()
	return ctx.Err()
}

// learn stores the addresses of nodes: the nodes with which the worker was started, and the present ones.
func (s *Session[T]) learn(nodes []string) {
	all := slices.Clone(s.cfg.Servers)
	for _, n := range nodes {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	s.nodes = all
}

// lists returns the attempts that the worker has, and the ended attempts without a verdict.
func (s *Session[T]) lists() (running, ended []*workerv1.Attempt) {
	for _, a := range s.has {
		switch {
		case a.unowned:
		case a.result == nil:
			running = append(running, a.Wire)
		default:
			ended = append(ended, a.Wire)
		}
	}
	return running, ended
}

// Poll asks the home once for jobs and orders.
func (s *Session[T]) Poll(ctx context.Context) error {
	s.mu.Lock()
	in := &workerv1.PollRequest{Handler: s.id.Handler, Lease: s.id.Lease, Uuid: s.id.UUID, Ack: s.ack, Draining: s.draining, Full: s.full, Again: s.again}
	in.Running, in.Ended = s.lists()
	id, home, lag, logs := s.id, s.home, s.lag, s.logs
	try, cancel := context.WithTimeout(ctx, s.poll+max(lag/4, PauseMin))
	defer cancel()
	s.hangUp, s.hungUp = cancel, false
	s.asking, s.again = s.again, false
	s.mu.Unlock()
	from, sent := Caller{id, s.Client(home), logs}, s.cfg.Clock()
	out, err := from.Home.Poll(try, in)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hungUp && ctx.Err() == nil {
			return nil // the caller has something to report
		}
		return err
	}
	s.hear(sent-time.Duration(max(out.BehindMillis, 0))*time.Millisecond, lag)
	s.mu.Lock()
	s.ack = out.Seq
	if len(out.Nodes) > 0 {
		s.learn(out.Nodes)
	}
	delivering := s.delivering
	s.mu.Unlock()
	refused := len(out.Start) > 0 && (delivering || !s.startAll(out.Start, from))
	for _, stop := range out.Stop {
		if a := s.find(stop.Attempt); a != nil {
			why := Stopped
			if stop.Kill {
				why = Killed
			}
			s.owner.End(a, why)
		}
	}
	if s.keeper != nil && len(out.Read) > 0 {
		s.keeper.Give(out.Read)
	}
	if refused {
		Wait(ctx, PauseMin) // the call is repeated after the pause
	}
	return nil
}

// find returns an attempt that the worker has, or nil.
func (s *Session[T]) find(name *workerv1.Attempt) *Attempt[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has[NameOf(name)]
}

// pollAgain ends the open Poll, because the worker has news. The caller holds the mutex.
func (s *Session[T]) pollAgain() {
	if s.hangUp != nil {
		s.hungUp = true
		s.hangUp()
	}
}

// missed makes the next Poll request again the jobs that a lost answer to a report may have contained. It
// ends at most one open Poll for that. The next Poll must get its answer, or the home counts as lost.
func (s *Session[T]) missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.again = true; !s.asking {
		s.pollAgain()
	}
}

// Drain makes the worker accept no new attempts, and reports this to the home at once. It returns the number
// of attempts without a verdict.
func (s *Session[T]) Drain() (open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.pollAgain()
	return len(s.has)
}

// Quiet waits until no attempt runs and all results have their verdicts. It returns false if that takes
// longer than d, or if hurry is closed earlier.
func (s *Session[T]) Quiet(d time.Duration, hurry <-chan struct{}) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	for {
		if c := s.Counts(); c.Open+c.Running == 0 {
			return true
		}
		select {
		case <-s.idle:
		case <-limit.C:
			return false
		case <-hurry:
			return false
		}
	}
}

// Emptied calls end until no attempt holds a slot: first at once, then whenever PauseMax has passed, each
// time with the number of remaining attempts.
func (s *Session[T]) Emptied(ctx context.Context, end func(left int, again bool)) {
	for again := false; ctx.Err() == nil; again = true {
		n := s.Counts().Running
		if n == 0 && again {
			return
		}
		end(n, again)
		for limit := time.After(PauseMax); ; {
			if s.Counts().Running == 0 {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-s.idle:
				continue
			case <-limit:
			}
			break
		}
	}
}

// Leave ends the registration, so that the nodes need not wait until they declare the worker dead.
func (s *Session[T]) Leave() {
	c, err := s.Caller()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), RegisterMax)
	defer cancel()
	if _, err := c.Home.Leave(ctx, &workerv1.LeaveRequest{Handler: c.Handler, Lease: c.Lease, Uuid: c.UUID}); err != nil {
		s.log.Warn("the worker could not tell its home node that it leaves; the node notices by itself", "code", "leave_unsent", "err", err)
	}
}

// Close closes the connections of the session. The caller calls it after Run and Reports have returned.
func (s *Session[T]) Close() {
	s.lines.close()
	s.cfg.HTTP.CloseIdleConnections()
}
