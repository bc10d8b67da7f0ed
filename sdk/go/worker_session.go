package skein

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// session is a worker at work: its attachment to a home, and what it has.
type session struct {
	w    *Worker
	log  *slog.Logger
	http *http.Client
	logs *logs
	kick chan struct{} // cap 1: there is something to report
	idle chan struct{} // cap 1: an attempt has ended, or its end was acknowledged
	asks sync.WaitGroup
	life context.Context // of its background goroutines; set by run
	room chan struct{}   // cap reportsMax: one for each report under way
	// handlers holds task functions for the goroutines that wait for one, until over is closed.
	handlers chan func()
	over     chan struct{}

	mu       sync.Mutex // protects following fields
	clients  map[string]workerv1connect.WorkersClient
	has      map[attemptName]*attempt
	running  int        // task functions that run, also those whose result is not wanted any more
	ended    []*attempt // attempts with a result that is not on its way
	lines    lines
	past     past
	handler  int64
	uuid     string
	lease    int64 // 0: not attached
	home     string
	nodes    []string
	heard    time.Time // when the newest answered Poll or Register was sent that the store has confirmed
	lag      time.Duration
	poll     time.Duration
	ack      int64
	draining bool
	again    bool               // attempts may have been sent that did not arrive, or had no slot: the next Poll says so
	asking   bool               // whether the open Poll has asked for that
	hangUp   context.CancelFunc // of that
	hungUp   bool               // it was
	logsKept bool
}

func newSession(w *Worker) *session {
	return &session{w: w, log: w.o.Log, http: &http.Client{Transport: workerTransport(&w.o)}, logs: newLogs(), kick: make(chan struct{}, 1), idle: make(chan struct{}, 1), room: make(chan struct{}, reportsMax), lines: newLines(w.o.Transport), handlers: make(chan func()), over: make(chan struct{}),
		clients: map[string]workerv1connect.WorkersClient{}, has: map[attemptName]*attempt{}, past: newPast(pastMax), nodes: slices.Clone(w.urls)}
}

// workerTransport returns the transport by which a worker reaches nodes.
func workerTransport(o *WorkerOptions) http.RoundTripper {
	if o.Token != "" {
		return o.Transport
	}
	return ownNodes(o.Transport)
}

const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 2 * time.Second
	// lostPause is the pause before a worker that has lost its home registers again.
	lostPause = 200 * time.Millisecond
	// comeAgainMax bounds what a node may ask for: far less than a lease.
	comeAgainMax = 5 * time.Second
	registerMax  = 3 * time.Second
	callMax      = 10 * time.Second
	// answerBytesMax bounds what a node says in one answer.
	answerBytesMax = 64 << 20
	// lastMax bounds the time in which task functions may end after the worker has ordered it.
	lastMax = 10 * time.Second
)

var errNoHome = errors.New("this worker is attached to no node now")

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d/2 + rand.N(d)):
	}
}

// comeAgain returns the pause that a busy node requests. It returns 0 for other errors.
func comeAgain(err error) time.Duration {
	var is *connect.Error
	if !errors.As(err, &is) {
		return 0
	}
	seconds, err := strconv.Atoi(is.Meta().Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, comeAgainMax)
}

func (s *session) client(url string) workerv1connect.WorkersClient {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[url]
	if c == nil {
		bearer := func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				if s.w.o.Token != "" {
					req.Header().Set("Authorization", "Bearer "+s.w.o.Token)
				}
				return next(ctx, req)
			}
		}
		c = workerv1connect.NewWorkersClient(s.http, strings.TrimSuffix(url, "/"), connect.WithInterceptors(connect.UnaryInterceptorFunc(bearer)),
			connect.WithReadMaxBytes(answerBytesMax))
		s.clients[url] = c
	}
	return c
}

// reason is the named code of a rejection. It returns "" for other errors.
func reason(err error) string {
	var e *connect.Error
	if !errors.As(err, &e) {
		return ""
	}
	name, _, _ := strings.Cut(e.Message(), ":")
	return name
}

// Reasons of rejections.
const (
	reasonFenced    = "FENCED"
	reasonNameTaken = "NAME_TAKEN"
	reasonAlone     = "ALONE"
	reasonMalformed = "MALFORMED"
	reasonNameHeld  = "NAME_HELD"
	reasonTooMany   = "TOO_MANY"
)

// final reports whether a rejection does not end by itself.
func final(err error) bool {
	switch reason(err) {
	case reasonNameTaken, reasonAlone, reasonMalformed:
		return true
	}
	return connect.CodeOf(err) == connect.CodeUnauthenticated || connect.CodeOf(err) == connect.CodePermissionDenied
}

func (s *session) run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s.life = life
	defer close(s.over)
	attached, detach := context.WithCancel(life)
	defer detach()
	var wg sync.WaitGroup
	fatal, over := make(chan error, 1), make(chan struct{})
	wg.Go(func() {
		defer close(over)
		if err := s.sessions(attached); err != nil {
			fatal <- err
		}
	})
	wg.Go(func() { s.reports(life) })
	wg.Go(func() { s.watch(life) })
	wg.Go(func() { s.sendLogs(life) })
	var err error
	select {
	case <-ctx.Done():
		s.drain()
	case err = <-fatal:
		s.cancelAll(ErrFenced)
		err = fmt.Errorf("worker %s: %w", s.w.o.Name, err)
	}
	detach()
	<-over // otherwise it would attach again
	s.leave()
	end()
	wg.Wait()
	s.asks.Wait()
	s.endLines()
	s.http.CloseIdleConnections()
	return err
}

// sessions attaches to one home after another. It returns only errors that do not end by themselves.
func (s *session) sessions(ctx context.Context) error {
	pause, told := pauseMin, ""
	for ctx.Err() == nil {
		if !s.attached() {
			err := s.attach(ctx)
			switch {
			case final(err):
				return err
			case reason(err) == reasonFenced:
				s.log.Error("the registration of this worker has ended; it cancels its task functions and registers again", "code", "registration_ended", "err", err)
				s.begone(ctx)
				continue
			case err != nil:
				why := reason(err)
				switch waits := why == reasonNameHeld || why == reasonTooMany; {
				case ctx.Err() != nil, waits && why == told:
				case waits:
					told = why
					s.log.Warn("no node accepts this worker yet; the worker tries again", "code", strings.ToLower(why), "err", err)
				case pause >= pauseMax:
					s.log.Warn("no node accepts this worker yet; the worker tries again", "code", "worker_not_attached", "err", err)
				}
				wait(ctx, max(pause, comeAgain(err)))
				pause = min(2*pause, pauseMax)
				continue
			}
			pause, told = pauseMin, ""
		}
		if err := s.turn(ctx); err != nil && ctx.Err() == nil {
			s.log.Info("the home node was lost", "code", "home_lost", "err", err)
			s.mu.Lock()
			s.lease = 0
			s.mu.Unlock()
			wait(ctx, lostPause) // random, because other workers have lost the same home
		}
	}
	return nil
}

func (s *session) attached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease != 0
}

// attach registers with the first node that accepts the worker, beginning with the previous home.
func (s *session) attach(ctx context.Context) error {
	s.mu.Lock()
	if s.uuid == "" { // kept until an answer arrives: the first answer may have been lost
		s.uuid = uuid.NewString()
	}
	o := &s.w.o
	in := &workerv1.RegisterRequest{Name: o.Name, Uuid: s.uuid, Handler: s.handler, Slots: int32(o.Slots), Groups: o.Groups, Labels: o.Labels,
		Version: "go-sdk", Kinds: slices.Sorted(maps.Keys(s.w.handlers))}
	in.Running, in.Ended = s.lists()
	urls := slices.Clone(s.nodes)
	if i := slices.Index(urls, s.home); i > 0 {
		urls[0], urls[i] = urls[i], urls[0]
	}
	s.mu.Unlock()
	var errs []error
	for _, url := range urls {
		sent := time.Now()
		try, cancel := context.WithTimeout(ctx, registerMax)
		out, err := s.client(url).Register(try, in)
		cancel()
		if err == nil {
			s.settle(url, out, sent)
			return ctx.Err()
		}
		if why := reason(err); final(err) || why == reasonFenced || why == reasonNameHeld || why == reasonTooMany {
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", url, err))
	}
	return errors.Join(errs...)
}

// settle takes up what a registration brought.
func (s *session) settle(url string, out *workerv1.RegisterResponse, sent time.Time) {
	s.mu.Lock()
	s.handler, s.lease, s.home, s.ack = out.Handler, out.Lease, url, 0
	s.hear(sent)
	s.again = false
	s.lag, s.poll = time.Duration(out.LagMillis)*time.Millisecond, time.Duration(out.PollMillis)*time.Millisecond
	s.logsKept = out.Logs
	s.learn(out.Nodes)
	s.mu.Unlock()
	s.log.Info("the worker has attached to its home node", "code", "home_attached", "home", url, "handler", out.Handler, "lease", out.Lease)
	for _, name := range out.Revoked {
		s.orphan(nameOf(name))
	}
	s.wake()
}

// learn keeps the addresses of nodes: those that it was started with, and those of now.
func (s *session) learn(nodes []string) {
	all := slices.Clone(s.w.urls)
	for _, n := range nodes {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	s.nodes = all
}

// lists returns the attempts that the worker has, and the ended attempts whose reports were not accepted.
func (s *session) lists() (running, ended []*workerv1.Attempt) {
	for _, a := range s.has {
		switch {
		case a.orphaned:
		case a.result == nil:
			running = append(running, a.job.Attempt)
		default:
			ended = append(ended, a.job.Attempt)
		}
	}
	return running, ended
}

// turn is one Poll.
func (s *session) turn(ctx context.Context) error {
	s.mu.Lock()
	limit := s.poll + max(s.lag/4, pauseMin)
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	in := &workerv1.PollRequest{Handler: s.handler, Lease: s.lease, Uuid: s.uuid, Ack: s.ack, Draining: s.draining, Again: s.again}
	in.Running, in.Ended = s.lists()
	home, lease := s.home, s.lease
	s.hangUp, s.hungUp = cancel, false
	s.asking, s.again = s.again, false
	s.mu.Unlock()
	sent := time.Now()
	out, err := s.client(home).Poll(try, in)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.hungUp && ctx.Err() == nil {
			return nil // to say something
		}
		return err
	}
	s.mu.Lock()
	s.hear(sent.Add(-time.Duration(max(out.BehindMillis, 0)) * time.Millisecond))
	s.ack = out.Seq
	if len(out.Nodes) > 0 {
		s.learn(out.Nodes)
	}
	refused := !s.startAll(out.Start, lease)
	s.mu.Unlock()
	for _, stop := range out.Stop {
		s.stop(nameOf(stop.Attempt))
	}
	if refused {
		wait(ctx, pauseMin) // it will be sent again
	}
	return nil
}

// pollAnew ends the open Poll, because the worker has news. The caller holds the mutex.
func (s *session) pollAnew() {
	if s.hangUp != nil {
		s.hungUp = true
		s.hangUp()
	}
}

// missed has sent again what the answer to a report may have brought. Only one Poll is hung up for that: the
// next one is to have its answer, or the home is lost. The mutex is held.
func (s *session) missed() {
	if s.again = true; !s.asking {
		s.pollAnew()
	}
}

// hear notes when the store last heard of this worker, to within a heartbeat. The caller holds s.mu.
func (s *session) hear(at time.Time) {
	if at.After(s.heard) {
		s.heard = at
	}
}

// leasePerLag is the part of the lag that the lease may take, as in internal/remote. The row of a worker
// may have been renewed up to a quarter of the lag before the answer to the worker.
const leasePerLagNum, leasePerLagDen = 3, 4

// watch orders the task functions to end if no node has answered this worker for the length of its lease. By
// then, other workers have got their attempts.
func (s *session) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		over := s.handler != 0 && s.running > 0 && s.lag > 0 && time.Since(s.heard) > s.lag*leasePerLagNum/leasePerLagDen
		s.mu.Unlock()
		if over {
			s.log.Error("no node has answered within the lease; task functions are ordered to end", "code", "lease_ended")
			s.cancelAll(ErrCutOff)
			wait(ctx, pauseMax)
		}
		s.tellStarted(ctx)
	}
}

// begone ends a life: whatever this worker has is others'. The slots of handlers that do not heed their
// context are taken, so it waits for them.
func (s *session) begone(ctx context.Context) {
	s.cancelAll(ErrFenced)
	for ctx.Err() == nil {
		s.mu.Lock()
		n := s.running
		s.mu.Unlock()
		if n == 0 {
			break
		}
		select {
		case <-ctx.Done():
		case <-s.idle:
		case <-time.After(pauseMax):
			s.log.Warn("task functions do not end although their context is cancelled", "code", "functions_running", "handlers", n)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.has)
	s.ended = nil
	s.handler, s.uuid, s.lease, s.ack = 0, "", 0, 0
}

// drain takes no new attempts. It waits until the running ones have ended and their results are accepted.
func (s *session) drain() {
	s.mu.Lock()
	s.draining = true
	n := len(s.has)
	s.pollAnew() // it is said at once
	s.mu.Unlock()
	if n > 0 {
		s.log.Info("the shutdown waits for task functions", "code", "draining", "attempts", n, "drain", s.w.o.Drain)
	}
	if s.quiet(s.w.o.Drain) {
		return
	}
	s.log.Warn("the time to drain has passed; task functions are ordered to end", "code", "drain_ended")
	s.cancelAll(ErrDraining)
	if !s.quiet(lastMax) {
		s.log.Error("task functions do not end although their context is cancelled; their attempts run again concurrently", "code", "functions_abandoned")
	}
}

// quiet waits until no attempt runs and everything is acknowledged. It returns false if that took longer than
// d.
func (s *session) quiet(d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	for {
		s.mu.Lock()
		left := len(s.has) + s.running
		s.mu.Unlock()
		if left == 0 {
			return true
		}
		select {
		case <-s.idle:
		case <-limit.C:
			return false
		}
	}
}

// leave announces the end of this worker, so that no node has to wait for its silence.
func (s *session) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), registerMax)
	defer cancel()
	if err := s.flushLogs(ctx); err != nil {
		s.log.Warn("the end of some logs is lost", "code", "logs_lost", "err", err)
	}
	s.mu.Lock()
	in, home := &workerv1.LeaveRequest{Handler: s.handler, Lease: s.lease, Uuid: s.uuid}, s.home
	s.mu.Unlock()
	if in.Lease == 0 {
		return
	}
	if _, err := s.client(home).Leave(ctx, in); err != nil {
		s.log.Warn("the home node could not be notified that this worker leaves; it will notice", "code", "leave_unsent", "err", err)
	}
}
