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

// attached is a running worker: its session with the cluster, and its task functions.
type attached struct {
	w    *Worker
	log  *slog.Logger
	s    *session.Session[*attempt]
	logs *logs
	life context.Context // the context of its background goroutines; set by run
	// handlers passes task functions to idle goroutines, until over is closed.
	handlers chan func()
	over     chan struct{}
}

var _ session.Owner[*attempt] = (*attached)(nil)

func newAttached(w *Worker) *attached {
	s, began := &attached{w: w, log: w.o.Log, logs: newLogs(), handlers: make(chan func()), over: make(chan struct{})}, time.Now()
	offer := &workerv1.RegisterRequest{Groups: w.o.Groups, Labels: w.o.Labels, Version: "go-sdk", Masks: true, Kinds: slices.Sorted(maps.Keys(w.handlers))}
	s.s = session.New(session.Config{Offer: offer, Name: w.o.Name, Slots: w.o.Slots, Servers: w.urls, Token: func() string { return w.o.Token }, RefusedEnds: true,
		HTTP: &http.Client{Transport: workerTransport(&w.o)}, Lines: w.o.Transport, Clock: func() time.Duration { return time.Since(began) }, Log: w.o.Log}, s, nil)
	return s
}

// workerTransport returns the transport by which a worker reaches nodes.
func workerTransport(o *WorkerOptions) http.RoundTripper {
	if o.Token != "" {
		return o.Transport
	}
	return ownNodes(o.Transport)
}

// lastMax bounds the time that task functions have after the worker has ordered them to end.
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

// Refused implements session.Owner.
func (s *attached) Refused(_ context.Context, r session.Refusal) bool {
	switch why := session.Reason(r.Err); {
	case why == session.NameHeld, why == session.TooMany:
		if !r.Repeated {
			s.log.Warn("no node accepts this worker yet; the worker tries again", "code", strings.ToLower(why), "err", r.Err)
		}
	case r.Lasting:
		s.log.Warn("no node accepts this worker yet; the worker tries again", "code", "worker_not_attached", "err", r.Err)
	}
	return false
}

// Fenced implements session.Owner. It waits for task functions that ignore their context, because they still
// use slots.
func (s *attached) Fenced(ctx context.Context) {
	s.s.Emptied(ctx, func(left int, again bool) {
		s.cancelAll(ErrFenced)
		if again {
			s.log.Warn("task functions still run although their context is cancelled; a function must return when its context ends", "code", "functions_running", "handlers", left)
		}
	})
	s.s.Forget()
}

// watch orders the task functions to end if no node has answered this worker for the length of its lease. By
// then, other workers have their tasks.
func (s *attached) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.s.Silent() {
			s.log.Error("no node has answered within the lease; the worker cancels its task functions", "code", "lease_ended")
			s.cancelAll(ErrCutOff)
			session.Wait(ctx, session.PauseMax)
		}
		s.tellStarted()
	}
}

// drain accepts no new attempts. It waits until the running attempts have ended and their results are
// accepted.
func (s *attached) drain() {
	if n := s.s.Drain(); n > 0 {
		s.log.Info("the shutdown waits for task functions", "code", "draining", "attempts", n, "drain", s.w.o.Drain)
	}
	if s.s.Quiet(s.w.o.Drain, nil) {
		return
	}
	s.log.Warn("the time to drain has passed; the worker cancels its task functions", "code", "drain_ended")
	s.cancelAll(ErrDraining)
	if !s.s.Quiet(lastMax, nil) {
		s.log.Error("the worker ends although task functions still run; their attempts run again on other workers", "code", "functions_abandoned")
	}
}

// leave reports the end of this worker, so that no node has to wait until it declares the worker dead.
func (s *attached) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), session.RegisterMax)
	defer cancel()
	if err := s.flushLogs(ctx); err != nil {
		s.log.Warn("the end of some logs is lost", "code", "logs_lost", "err", err)
	}
	s.s.Leave()
}
