package session

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// Config describes a session. All fields but Lines are required.
type Config struct {
	Name    string
	Slots   int
	Servers []string // URLs of nodes, tried in turn; the home names further ones
	// Offer is what a registration says in addition: groups, labels, kinds and abilities of the worker.
	Offer *workerv1.RegisterRequest
	Token func() string
	// RefusedEnds says that a refused token does not end by itself, because the worker has no other one.
	RefusedEnds bool
	HTTP        *http.Client
	Lines       http.RoundTripper    // carries frequent reports; nil: they are calls like others
	Clock       func() time.Duration // the clock of Keeper.Heard
	Log         *slog.Logger
}

// Owner runs the attempts of a session. T is what it keeps for an attempt. The session calls it without a
// lock.
type Owner[T any] interface {
	// Refused receives an error of attaching that may end by itself. If it returns true, the session tries again
	// at once.
	Refused(ctx context.Context, why Refusal) bool
	// Fenced ends all attempts, waits for that, and calls Forget: they are another worker's by now.
	Fenced(ctx context.Context)
	// Prepare returns what the worker keeps for an attempt. The attempt may be refused afterwards.
	Prepare(j *workerv1.Job, from Caller) T
	// Start runs an attempt that has got a slot.
	Start(a *Attempt[T])
	// End orders an attempt to end.
	End(a *Attempt[T], why Ending)
}

// Ending is why an attempt must end.
type Ending int

// The reasons why an attempt must end.
const (
	Stopped   Ending = iota // the home says so; the attempt has time to end
	Killed                  // the home says so, and the time to end has passed
	TakenAway               // another worker has the attempt now
)

// Refusal is an error of attaching.
type Refusal struct {
	Err error
	// Lasting says that there were others before, for some time.
	Lasting bool
	// Repeated says that the last rejection since the worker was attached had the same reason.
	Repeated bool
}

// Keeper is what a worker has in addition if its attempts, their results and their logs outlive its process.
// The session calls it without a lock.
type Keeper[T any] interface {
	// Attached receives the answer to a registration before it takes effect. Its error ends Run.
	Attached(out *workerv1.RegisterResponse, url string) error
	// Heard says that the store had heard of the worker at an instant of Config.Clock. Attempts may run until
	// LeaseOf(lag) after it.
	Heard(at, lag time.Duration)
	// Acknowledged receives attempts whose results have got their verdicts.
	Acknowledged(all []*Attempt[T])
	// Give sends pieces of logs that the home has asked for. It does not wait for that.
	Give(all []*workerv1.LogRead)
}

// Attempt is one that the worker has, until its result is acknowledged. The mutex of the session protects the
// fields below Of.
type Attempt[T any] struct {
	Wire *workerv1.Attempt
	Task string // its name
	Of   T      // the zero value if the attempt is only refuted

	result  *workerv1.Result // nil: it runs
	notice  *workerv1.Result // the notice that the attempt runs; nil: there is none, or it is acknowledged
	queued  bool             // the attempt waits for a report
	busy    bool             // a report about the attempt is being sent
	refuted bool             // the attempt did not run here: see refute
	unowned bool             // the result of the attempt is no longer needed
}

// Identity is how the cluster knows a worker.
type Identity struct {
	UUID           string
	Handler, Lease int64 // Lease 0: not attached
}

// Session is a worker at work: its attachment to a home, and its attempts.
type Session[T any] struct {
	cfg    Config
	owner  Owner[T]
	keeper Keeper[T] // nil: attempts end with the process
	log    *slog.Logger
	lines  *lines
	kick   chan struct{} // cap 1: there is something to report
	idle   chan struct{} // cap 1: an attempt has ended, or its end was acknowledged
	room   chan struct{} // capacity reportsMax: one for each report in progress
	said   string        // the reason of the last rejection since the worker was attached; only attaching uses it

	mu         sync.Mutex // protects following fields
	clients    map[string]workerv1connect.WorkersClient
	has        map[Name]*Attempt[T]
	running    int           // the number of attempts that hold a slot, including those whose result is no longer needed
	queue      []*Attempt[T] // attempts with a report that is not being sent
	recent     recent
	id         Identity
	home       string
	nodes      []string
	heard      time.Duration // the latest instant at which the store had heard of the worker
	lag        time.Duration
	poll       time.Duration
	logs       bool // the home keeps the output of attempts
	ack        int64
	again      bool               // attempts may have been sent that did not arrive, or had no slot: the next Poll says so
	asking     bool               // whether the open Poll has asked for that
	hangUp     context.CancelFunc // of that
	hungUp     bool               // it was
	draining   bool
	delivering bool // the session only delivers the results of its attempts, and takes no further ones
	full       bool
}

// New makes a session. keeper is nil if the attempts of the worker end with its process. Nothing happens
// before Run.
func New[T any](cfg Config, owner Owner[T], keeper Keeper[T]) *Session[T] {
	return &Session[T]{cfg: cfg, owner: owner, keeper: keeper, log: cfg.Log, lines: newLines(cfg.Lines), kick: make(chan struct{}, 1), idle: make(chan struct{}, 1),
		room: make(chan struct{}, reportsMax), clients: map[string]workerv1connect.WorkersClient{}, has: map[Name]*Attempt[T]{},
		recent: newRecent(recentMax), nodes: slices.Clone(cfg.Servers)}
}

// Client returns the client of a node.
func (s *Session[T]) Client(url string) workerv1connect.WorkersClient {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[url]
	if c == nil {
		bearer := func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				if token := s.cfg.Token(); token != "" {
					req.Header().Set("Authorization", "Bearer "+token)
				}
				return next(ctx, req)
			}
		}
		c = workerv1connect.NewWorkersClient(s.cfg.HTTP, strings.TrimSuffix(url, "/"), connect.WithInterceptors(connect.UnaryInterceptorFunc(bearer)),
			connect.WithReadMaxBytes(answerBytesMax))
		s.clients[url] = c
	}
	return c
}

// Caller holds the fields that calls about attempts carry, and the present home.
type Caller struct {
	Identity
	Home workerv1connect.WorkersClient
	Logs bool // the home keeps the output of attempts
}

// Caller returns the present home and the fields of calls to it, or [ErrNoHome].
func (s *Session[T]) Caller() (Caller, error) {
	s.mu.Lock()
	id, home, logs := s.id, s.home, s.logs
	s.mu.Unlock()
	if id.Lease == 0 {
		return Caller{}, ErrNoHome
	}
	return Caller{id, s.Client(home), logs}, nil
}

// Identity returns the identity of the worker.
func (s *Session[T]) Identity() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Nodes returns the addresses of the nodes that the worker knows.
func (s *Session[T]) Nodes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes)
}

// Attached reports whether the worker is attached to a home.
func (s *Session[T]) Attached() bool { return s.Identity().Lease != 0 }

// Silent reports whether attempts run although the lease has ended after the instant at which a node had last
// heard of the worker.
func (s *Session[T]) Silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id.Handler != 0 && s.lag > 0 && s.running > 0 && s.cfg.Clock()-s.heard > LeaseOf(s.lag)
}

// hear notes that the store had heard of the worker at an instant.
func (s *Session[T]) hear(at, lag time.Duration) {
	s.mu.Lock()
	s.heard = max(s.heard, at)
	s.mu.Unlock()
	if s.keeper != nil {
		s.keeper.Heard(at, lag)
	}
}

// SetFull says whether the worker has no room for attempts.
func (s *Session[T]) SetFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// Counts are those of a worker at one moment.
type Counts struct {
	Attached, Draining, Full bool
	Open                     int // attempts without a verdict
	Running                  int // attempts that hold a slot
	Unreported               int // ended attempts without a verdict
}

// Counts returns the present counts.
func (s *Session[T]) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Counts{Attached: s.id.Lease != 0, Draining: s.draining, Full: s.full, Open: len(s.has), Running: s.running}
	for _, a := range s.has {
		if a.result != nil {
			c.Unreported++
		}
	}
	return c
}

// Select returns the attempts without a result for which is returns true. is runs with the lock of the
// session, so it must not call the session.
func (s *Session[T]) Select(is func(a *Attempt[T]) bool) (all []*Attempt[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.has {
		if a.result == nil && !a.unowned && is(a) {
			all = append(all, a)
		}
	}
	return all
}

// Resume gives the session the identity of an earlier process, before Run. delivering: the worker takes no
// attempts under it and only delivers results, until Forget.
func (s *Session[T]) Resume(uuid string, handler int64, delivering bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id.UUID, s.id.Handler, s.delivering = uuid, handler, delivering
}

// Adopt adds an attempt of an earlier process. It holds a slot.
func (s *Session[T]) Adopt(a *Attempt[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has[NameOf(a.Wire)] = a
	s.running++
}

// All returns the attempts without a verdict.
func (s *Session[T]) All() []*Attempt[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.has))
}

// Forget begins a new handler without attempts. It returns the attempts of the old handler.
func (s *Session[T]) Forget() []*Attempt[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Values(s.has))
	clear(s.has)
	s.queue, s.id, s.ack, s.delivering = nil, Identity{}, 0, false
	return all
}
