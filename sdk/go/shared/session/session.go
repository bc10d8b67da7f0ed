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
	Servers []string // URLs of nodes, tried in order; the home sends further URLs
	// Offer is the further content of a registration: groups, labels, kinds and abilities of the worker.
	Offer *workerv1.RegisterRequest
	Token func() string
	// RefusedEnds is true if the refusal of a token lasts until a person acts, because the worker has no
	// other token.
	RefusedEnds bool
	HTTP        *http.Client
	Lines       http.RoundTripper    // carries frequent reports; if nil, they are ordinary calls
	Clock       func() time.Duration // clock of the instants in Keeper.Heard
	Log         *slog.Logger
}

// Owner runs the attempts of a session. T is the value that the owner keeps for an attempt. The session calls
// the methods without holding its lock.
type Owner[T any] interface {
	// Refused receives an error of attaching that may end without a person. If Refused returns true, the
	// session tries again at once.
	Refused(ctx context.Context, why Refusal) bool
	// Fenced ends all attempts, waits until they have ended, and calls Forget. By then the cluster may have
	// assigned their tasks to other workers.
	Fenced(ctx context.Context)
	// Prepare returns the value that the owner keeps for an attempt. The attempt may be refused afterwards.
	Prepare(j *workerv1.Job, from Caller) T
	// Start runs an attempt that has got a slot.
	Start(a *Attempt[T])
	// End makes an attempt end.
	End(a *Attempt[T], why Ending)
}

// Ending is the reason why an attempt must end.
type Ending int

// The reasons why an attempt must end.
const (
	Stopped   Ending = iota // the home has requested the end, and the attempt has time to end
	Killed                  // the home has requested the end, and this time has passed
	TakenAway               // another worker has the attempt now
)

// Refusal is an error of attaching.
type Refusal struct {
	Err error
	// Lasting is true if earlier errors of attaching preceded this one for some time.
	Lasting bool
	// Repeated is true if the last rejection since the worker was attached had the same reason.
	Repeated bool
}

// Keeper is the additional part of a worker whose attempts, results and logs outlive the process of the
// worker. The session calls the methods without holding its lock.
type Keeper[T any] interface {
	// Attached receives the answer to a registration before the answer takes effect. An error of Attached
	// ends Run.
	Attached(out *workerv1.RegisterResponse, url string) error
	// Heard receives the instant of Config.Clock at which the store last renewed the worker. Attempts may run
	// until LeaseOf(lag) after it.
	Heard(at, lag time.Duration)
	// Acknowledged receives the attempts whose results have got a verdict.
	Acknowledged(all []*Attempt[T])
	// Give sends the pieces of logs that the home has requested. It does not wait until they are sent.
	Give(all []*workerv1.LogRead)
}

// Attempt is an attempt of the worker, until its result has a verdict. The mutex of the session protects the
// fields below Of.
type Attempt[T any] struct {
	Wire *workerv1.Attempt
	Task string // name of the task
	Of   T      // zero if the attempt is only refuted

	result  *workerv1.Result // nil while the attempt runs
	notice  *workerv1.Result // report that the attempt runs; nil if there is none, or it was acknowledged
	queued  bool             // the attempt waits for a report
	busy    bool             // a report about the attempt is being sent
	refuted bool             // the attempt did not run here: see refute
	unowned bool             // the result of the attempt is no longer needed
}

// Identity identifies a worker in the cluster.
type Identity struct {
	UUID           string
	Handler, Lease int64 // Lease is 0 while the worker is not attached
}

// Session attaches a worker to a home, and holds the attempts of the worker.
type Session[T any] struct {
	cfg    Config
	owner  Owner[T]
	keeper Keeper[T] // nil if attempts end with the process
	log    *slog.Logger
	lines  *lines
	kick   chan struct{} // capacity 1: there is something to report
	idle   chan struct{} // capacity 1: an attempt has ended, or its end was acknowledged
	room   chan struct{} // capacity reportsMax: one for each report in progress
	said   string        // reason of the last rejection since the worker was attached; used only to attach

	mu      sync.Mutex // protects following fields
	clients map[string]workerv1connect.WorkersClient
	has     map[Name]*Attempt[T]
	running int           // the number of attempts that hold a slot, including those whose result is no longer needed
	queue   []*Attempt[T] // attempts with a report that is not being sent
	recent  recent
	id      Identity
	home    string
	nodes   []string
	heard   time.Duration // the latest instant at which the store renewed the worker
	lag     time.Duration
	poll    time.Duration
	logs    bool // the home stores the output of attempts
	ack     int64
	// Jobs may have been lost on the way, or found no slot; the next Poll requests them again.
	again      bool
	asking     bool               // the open Poll has requested these jobs
	hangUp     context.CancelFunc // ends the open Poll
	hungUp     bool               // hangUp was called
	draining   bool
	delivering bool // the session only delivers the results of its attempts, and takes no further ones
	full       bool
}

// New makes a session. keeper is nil if the attempts of the worker end with its process. The session does
// nothing before Run.
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

// Caller holds the present home, and the fields that every call about attempts has.
type Caller struct {
	Identity
	Home workerv1connect.WorkersClient
	Logs bool // the home stores the output of attempts
}

// Caller returns the present home, and the fields that every call about attempts has. It returns [ErrNoHome]
// if there is none.
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

// Silent reports whether attempts run although their lease has ended, because no node has answered for too
// long.
func (s *Session[T]) Silent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id.Handler != 0 && s.lag > 0 && s.running > 0 && s.cfg.Clock()-s.heard > LeaseOf(s.lag)
}

// hear notes the instant at which the store renewed the worker.
func (s *Session[T]) hear(at, lag time.Duration) {
	s.mu.Lock()
	s.heard = max(s.heard, at)
	s.mu.Unlock()
	if s.keeper != nil {
		s.keeper.Heard(at, lag)
	}
}

// SetFull sets whether the worker has no room for attempts.
func (s *Session[T]) SetFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// Counts holds the numbers of a worker's attempts at one moment.
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

// Select returns the attempts without a result for which is returns true. The session's lock is held during
// is, so is must not call the session.
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

// Resume gives the session the identity of an earlier process. It must be called before Run. If delivering is
// true, the worker takes no new attempts under that identity, and only delivers results until Forget.
func (s *Session[T]) Resume(uuid string, handler int64, delivering bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id.UUID, s.id.Handler, s.delivering = uuid, handler, delivering
}

// Adopt adds an attempt of an earlier process. The attempt holds a slot.
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
