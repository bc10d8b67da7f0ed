package skein

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

// attached is a worker at work: its session with the cluster, and its task functions.
type attached struct {
	w    *Worker
	log  *slog.Logger
	s    *session.Session[*attempt]
	logs *logs
	life context.Context // the context of its background goroutines; set by run
	// handlers holds task functions for the goroutines that wait for one, until over is closed.
	handlers chan func()
	over     chan struct{}

	mu       sync.Mutex // protects following fields
	heard    time.Duration
	lag      time.Duration
	logsKept bool
	told     string // the last reason why no node accepts the worker; "": none was logged
}

var _ session.Owner[*attempt] = (*attached)(nil)

func newAttached(w *Worker) *attached {
	s, began := &attached{w: w, log: w.o.Log, logs: newLogs(), handlers: make(chan func()), over: make(chan struct{})}, time.Now()
	s.s = session.New(session.Config{Name: w.o.Name, Slots: w.o.Slots, Servers: w.urls, Token: func() string { return w.o.Token }, RefusedEnds: true,
		HTTP: &http.Client{Transport: workerTransport(&w.o)}, Lines: w.o.Transport, Clock: func() time.Duration { return time.Since(began) }, Log: w.o.Log}, s)
	return s
}

// workerTransport returns the transport by which a worker reaches nodes.
func workerTransport(o *WorkerOptions) http.RoundTripper {
	if o.Token != "" {
		return o.Transport
	}
	return ownNodes(o.Transport)
}

// lastMax bounds the time in which task functions may end after the worker has ordered it.
const lastMax = 10 * time.Second

func (s *attached) run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s.life = life
	defer close(s.over)
	var wg sync.WaitGroup
	wg.Go(func() { s.s.Reports(life, func() {}) })
	wg.Go(func() { s.watch(life) })
	wg.Go(func() { s.sendLogs(life) })
	err := s.s.Run(ctx, s.drain)
	if err != nil {
		s.cancelAll(ErrFenced)
		err = fmt.Errorf("worker %s: %w", s.w.o.Name, err)
	}
	s.leave()
	end()
	wg.Wait()
	s.s.Close()
	return err
}

// Describe implements session.Owner.
func (s *attached) Describe(in *workerv1.RegisterRequest) {
	in.Groups, in.Labels, in.Version, in.Kinds = s.w.o.Groups, s.w.o.Labels, "go-sdk", slices.Sorted(maps.Keys(s.w.handlers))
	in.Masks = true
}

// Attached implements session.Owner.
func (s *attached) Attached(out *workerv1.RegisterResponse, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logsKept, s.told = out.Logs, ""
	return nil
}

// Heard implements session.Owner.
func (s *attached) Heard(at, lag time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard, s.lag = max(s.heard, at), lag
}

// Refused implements session.Owner.
func (s *attached) Refused(_ context.Context, err error, lasting bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch why := session.Reason(err); {
	case why == session.NameHeld, why == session.TooMany:
		if why != s.told {
			s.told = why
			s.log.Warn("no node accepts this worker yet; the worker tries again", "code", strings.ToLower(why), "err", err)
		}
	case lasting:
		s.log.Warn("no node accepts this worker yet; the worker tries again", "code", "worker_not_attached", "err", err)
	}
	return false
}

// Fenced implements session.Owner. Task functions that ignore their context keep their slots, so it waits for
// them.
func (s *attached) Fenced(ctx context.Context) {
	s.s.Emptied(ctx, func(left int, again bool) {
		s.cancelAll(ErrFenced)
		if again {
			s.log.Warn("task functions do not end although their context is cancelled", "code", "functions_running", "handlers", left)
		}
	})
	s.s.Forget()
}

// Polled implements session.Owner.
func (s *attached) Polled(*workerv1.PollResponse) {}

// watch orders the task functions to end if no node has answered this worker for the length of its lease. By
// then, other workers have got their attempts.
func (s *attached) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		heard, lag := s.heard, s.lag
		s.mu.Unlock()
		if lag > 0 && s.s.Silent(heard, lag) {
			s.log.Error("no node has answered within the lease; task functions are ordered to end", "code", "lease_ended")
			s.cancelAll(ErrCutOff)
			session.Wait(ctx, session.PauseMax)
		}
		s.tellStarted()
	}
}

// drain takes no new attempts. It waits until the running ones have ended and their results are accepted.
func (s *attached) drain() {
	if n := s.s.Drain(); n > 0 {
		s.log.Info("the shutdown waits for task functions", "code", "draining", "attempts", n, "drain", s.w.o.Drain)
	}
	if s.s.Quiet(s.w.o.Drain, nil) {
		return
	}
	s.log.Warn("the time to drain has passed; task functions are ordered to end", "code", "drain_ended")
	s.cancelAll(ErrDraining)
	if !s.s.Quiet(lastMax, nil) {
		s.log.Error("task functions do not end although their context is cancelled; their attempts run again concurrently", "code", "functions_abandoned")
	}
}

// leave announces the end of this worker, so that no node has to wait for its silence.
func (s *attached) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), session.RegisterMax)
	defer cancel()
	if err := s.flushLogs(ctx); err != nil {
		s.log.Warn("the end of some logs is lost", "code", "logs_lost", "err", err)
	}
	s.s.Leave()
}
