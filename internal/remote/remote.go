package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// Config describes a worker. Servers, Name, Data and Slots are required.
type Config struct {
	Servers []string // URLs of nodes, tried in turn; the home names further ones
	Token   string   // sent as a bearer token; "": none
	// Renewed returns the token again after a node refused it. It is nil if there is no other token.
	Renewed func() (string, error)
	// Transport reaches the nodes. If it is nil, it trusts the authorities that this machine trusts.
	Transport http.RoundTripper
	Name      string
	Slots     int
	Room      dag.Need // cpu and memory for tasks
	Groups    []string
	Labels    map[string]string
	Data      string   // locked by the caller
	Lock      *os.File // the lock on Data, for the keeper
	PassEnv   []string
	Isolation string        // the isolation of its tasks: see worker.Config
	Protected []string      // paths that its tasks cannot reach: see worker.Config
	Lease     time.Duration // how long attempts outlive the last answer; 0: worker.LeaseDefault
	Drain     time.Duration
	Version   string
	Egress    egress.Rules // the rules for the requests of tasks, in addition to the rules of the home
	Log       *slog.Logger
}

// attempt is one that this worker has, until its result is acknowledged.
type attempt struct {
	name   *workerv1.Attempt
	key    worker.Key
	kept   bool             // the keeper holds or held the attempt
	result *workerv1.Result // nil: it runs
	told   *workerv1.Result // the notice that it runs; nil: not yet, or acknowledged
	busy   bool             // a report of it is on its way
	ref    logs.Ref
	files  bool                    // it may leave files behind
	halt   context.CancelCauseFunc // ends the sending of its artifacts; nil: the sending has not begun
	mode   worker.Mode             // the mode in which it must end then
}

// Worker is a worker process.
type Worker struct {
	cfg     Config
	log     *slog.Logger
	http    *http.Client
	work    *worker.Link
	shipper *logs.Shipper
	adopted *worker.Adopted
	// Artifacts wait in outgoing until a home has them.
	outgoing artifact.Folder
	brings   chan struct{}          // cap bringsMax
	gives    chan struct{}          // cap givesMax
	bringing sync.WaitGroup         // goroutines that send artifacts or pieces of logs
	life     context.Context        // of the goroutines of this worker
	token    atomic.Pointer[string] // the token that is sent
	kick     chan struct{}          // cap 1: there is something to report
	idle     chan struct{}          // cap 1: an attempt has ended

	mu       sync.Mutex // protects following fields
	has      map[attemptName]*attempt
	byKey    map[worker.ID]*attempt // the attempts without a result
	unsent   []*attempt             // acknowledged, but not all of their output is
	running  int
	anew     bool // the attempts here only wait for the delivery of their results: see bequeath
	past     past
	handler  int64
	uuid     string
	former   *life // of an earlier process that has left no attempts; nil: there is none, or it has ended
	lease    int64 // 0: not attached
	home     string
	nodes    []string
	lag      time.Duration
	poll     time.Duration
	ack      int64
	again    bool               // some sent attempts may not have arrived, or had no slot: the next Poll says so
	asking   bool               // whether the open Poll has asked for that
	hangUp   context.CancelFunc // of that
	hungUp   bool               // it was
	draining bool
	full     bool // the data folder has no room for attempts
	logs     bool // the home keeps the output of attempts
	logsKeep int64
}

// New makes a worker. It finds the keeper of the worker's process trees, or starts one. Nothing else happens
// before Run.
func New(ctx context.Context, cfg Config) (*Worker, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Worker{cfg: cfg, log: cfg.Log, kick: make(chan struct{}, 1), idle: make(chan struct{}, 1), has: map[attemptName]*attempt{},
		byKey: map[worker.ID]*attempt{}, past: newPast(pastMax), nodes: slices.Clone(cfg.Servers)}
	if r.http = (&http.Client{Transport: cfg.Transport}); cfg.Transport == nil {
		r.http.Transport = &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}
	}
	r.token.Store(&cfg.Token)
	data, err := filepath.Abs(cfg.Data) // the keeper has another working folder
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	r.outgoing, r.brings = artifact.Folder{Path: filepath.Join(data, outgoingName)}, make(chan struct{}, bringsMax)
	r.gives = make(chan struct{}, givesMax)
	if r.work, r.adopted, err = worker.Connect(ctx, worker.LinkConfig{Lease: cfg.Lease, Lock: cfg.Lock, Config: worker.Config{DataDir: cfg.Data, Slots: cfg.Slots,
		PassEnv: cfg.PassEnv, Isolation: cfg.Isolation, Protected: cfg.Protected, Log: cfg.Log, Report: r.told, Started: r.started, Room: r.room}}); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	r.shipper = logs.NewShipper(push{r}, cfg.Data, cfg.Log)
	if err := r.inherit(r.adopted); err != nil {
		r.work.End()
		return nil, fmt.Errorf("worker: %w", err)
	}
	return r, nil
}

func (r *Worker) closeWork() error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	return r.work.Close(over)
}

// bearer adds the token to every call.
func (r *Worker) bearer() connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if token := *r.token.Load(); token != "" {
				req.Header().Set("Authorization", "Bearer "+token)
			}
			return next(ctx, req)
		}
	}
}

func (r *Worker) client(url string) workerv1connect.WorkersClient {
	return workerv1connect.NewWorkersClient(r.http, strings.TrimSuffix(url, "/"), connect.WithInterceptors(r.bearer()), connect.WithReadMaxBytes(64<<20))
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
	fenced      = "FENCED"
	notAttached = "NOT_ATTACHED"
	nameTaken   = "NAME_TAKEN"
	nameHeld    = "NAME_HELD"
	tooMany     = "TOO_MANY"
	alone       = "ALONE"
	malformed   = "MALFORMED"
	stale       = "STALE"
	runEnded    = "RUN_ENDED"
	tooMuch     = "TOO_MUCH"
	corrupt     = "CORRUPT"
	incomplete  = "INCOMPLETE"
	noInput     = "NO_INPUT"
	away        = "AWAY"
	final       = "FINAL"
)

// PassEnv changes the variables of this process that tasks get: see worker.Link.PassEnv.
func (r *Worker) PassEnv(names []string) bool { return r.work.PassEnv(names) }

// Run works until ctx ends. Then it takes no further attempts, and lets running ones finish for
// Config.Drain or until hurry is closed. It ends the others, and leaves.
func (r *Worker) Run(ctx context.Context, hurry <-chan struct{}) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	r.life = life
	r.work.Begin()
	r.replay(r.adopted)
	var wg sync.WaitGroup
	fatal := make(chan error, 1)
	r.bequeath(ctx)
	attached, detach := context.WithCancel(life)
	defer detach()
	over := make(chan struct{})
	wg.Go(func() {
		defer close(over)
		if err := r.sessions(attached); err != nil {
			fatal <- err
		}
	})
	wg.Go(func() { r.reports(life) })
	wg.Go(func() { r.shipper.Run(life) })
	wg.Go(func() { r.tidies(life) })
	var err error
	select {
	case <-ctx.Done():
		r.drain(hurry)
	case err = <-fatal:
	}
	detach()
	<-over // otherwise it would attach again
	r.leave()
	end()
	wg.Wait()
	r.bringing.Wait()
	err = errors.Join(err, r.closeWork())
	r.taken()
	r.work.End() // results that no node has acknowledged stay in its journal
	return err
}

const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 2 * time.Second
	// lostPause is the pause before a worker that has lost its home registers again.
	lostPause = 200 * time.Millisecond
	// comeAgainMax bounds the pause that a node may request. It is far less than a lease.
	comeAgainMax = 5 * time.Second
)

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

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d/2 + rand.N(d)):
	}
}

// forget begins a new life, without attempts.
func (r *Worker) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kept []worker.ID
	for _, a := range r.has {
		if a.kept {
			kept = append(kept, a.key.ID())
		}
		if a.halt != nil {
			a.halt(errEnded)
		}
	}
	r.work.Taken(kept) // their results are not delivered any more
	r.anew = false
	clear(r.has)
	clear(r.byKey)
	r.running = 0
	r.handler, r.uuid, r.lease, r.ack = 0, "", 0, 0
}

func (r *Worker) open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.has)
}

// room is called when the data folder has no room for attempts, or has room again.
func (r *Worker) room(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = why != ""
}

func (r *Worker) attached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease != 0
}

// detached marks the worker as not attached, so that it attaches again.
func (r *Worker) detached() {
	r.mu.Lock()
	r.lease = 0
	r.mu.Unlock()
}

// sessions attaches to one home after another. It returns only errors that do not end by themselves.
func (r *Worker) sessions(ctx context.Context) error {
	pause, why := pauseMin, refusal{}
	for ctx.Err() == nil {
		if !r.attached() {
			err := r.attach(ctx)
			if errors.Is(err, errLease) {
				return err
			}
			switch reason(err) {
			case nameTaken:
				r.killAll(ctx) // if it was registered before, other workers have its attempts now
				return err
			case alone, malformed:
				return err
			case nameHeld:
				if r.bury(ctx) {
					continue
				}
			case fenced:
				r.log.Error("the registration of this worker has ended; it ends its attempts and registers again", "code", "registration_ended", "err", err)
				r.killAll(ctx)
				r.forget()
				continue
			}
			if err != nil {
				if ctx.Err() == nil {
					r.refused(&why, err, pause >= pauseMax)
				}
				wait(ctx, max(pause, comeAgain(err)))
				pause = min(2*pause, pauseMax)
				continue
			}
			pause, why = pauseMin, refusal{}
		}
		if err := r.turn(ctx); err != nil && ctx.Err() == nil {
			r.log.Info("the home node was lost", "code", "home_lost", "home", r.home, "err", err)
			r.detached()
			wait(ctx, lostPause) // random, because other workers have lost the same home
		}
	}
	return nil
}

// attach registers with the first node that accepts the worker, beginning with the previous home.
func (r *Worker) attach(ctx context.Context) error {
	r.mu.Lock()
	if r.uuid == "" { // kept until an answer arrives: the first answer may have been lost
		r.uuid = uuid.NewString()
	}
	in := &workerv1.RegisterRequest{Name: r.cfg.Name, Uuid: r.uuid, Handler: r.handler, Slots: int32(r.cfg.Slots), Groups: r.cfg.Groups,
		Labels: r.cfg.Labels, Version: r.cfg.Version, CpuMillis: r.cfg.Room.CPU, MemoryBytes: r.cfg.Room.Memory, Draining: r.draining || r.anew, Artifacts: true, Inputs: true, GivesLogs: true, Full: r.full, Masks: true}
	in.Running, in.Ended = r.lists()
	urls := slices.Clone(r.nodes)
	if i := slices.Index(urls, r.home); i > 0 {
		urls[0], urls[i] = urls[i], urls[0]
	}
	r.mu.Unlock()
	var errs []error
	for _, url := range urls {
		sent := worker.Boot()
		try, cancel := context.WithTimeout(ctx, registerMax)
		out, err := r.client(url).Register(try, in)
		cancel()
		if err == nil {
			return r.settle(ctx, url, out, sent)
		}
		if why := reason(err); why == fenced || why == nameTaken || why == malformed || why == alone || why == nameHeld || why == tooMany {
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", url, err))
	}
	return errors.Join(errs...)
}

const registerMax = 3 * time.Second

// errLease says that a worker's lease cannot be renewed in time. The worker would end attempts for no reason.
var errLease = errors.New("the lease of this worker is too short")

// pollsPerLease is the number of polls in a lease. A renewal counts from the time at which a poll was sent.
// The next renewal ends up to two polls later, and one may come late.
const pollsPerLease = 3

// settle processes the answer to a registration.
func (r *Worker) settle(ctx context.Context, url string, out *workerv1.RegisterResponse, sent time.Duration) error {
	if least := pollsPerLease * time.Duration(out.PollMillis) * time.Millisecond; r.work.Lease() < least {
		return fmt.Errorf("%w: it is %v, and %s answers every %v: give it --lease %dms or more", errLease, r.work.Lease(), url, least/pollsPerLease, least.Milliseconds())
	}
	r.mu.Lock()
	fresh := r.handler == 0
	r.handler, r.lease, r.home, r.ack = out.Handler, out.Lease, url, 0
	r.again = false
	r.lag, r.poll = time.Duration(out.LagMillis)*time.Millisecond, time.Duration(out.PollMillis)*time.Millisecond
	r.logs, r.logsKeep = out.Logs, out.LogsKeep
	r.learn(out.Nodes)
	id := r.uuid
	r.mu.Unlock()
	r.log.Info("the worker has attached to its home node", "code", "home_attached", "home", url, "handler", out.Handler, "lease", out.Lease)
	if fresh {
		r.brand(life{r.cfg.Name, id, out.Handler})
	}
	r.renew(sent)
	for _, a := range out.Revoked {
		r.end(a, worker.ModeKill)
	}
	r.wake()
	return ctx.Err()
}

// learn keeps the addresses of nodes: the addresses with which the worker was started, and the present ones.
func (r *Worker) learn(nodes []string) {
	all := slices.Clone(r.cfg.Servers)
	for _, n := range nodes {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	r.nodes = all
}

// lists returns the attempts that the worker has, and the ended attempts whose reports were not accepted.
func (r *Worker) lists() (running, ended []*workerv1.Attempt) {
	for _, a := range r.has {
		if a.result == nil {
			running = append(running, a.name)
		} else {
			ended = append(ended, a.name)
		}
	}
	return running, ended
}

// turn is one Poll.
func (r *Worker) turn(ctx context.Context) error {
	r.mu.Lock()
	in := &workerv1.PollRequest{Handler: r.handler, Lease: r.lease, Uuid: r.uuid, Ack: r.ack, Draining: r.draining, Full: r.full, Again: r.again}
	in.Running, in.Ended = r.lists()
	home, limit := r.home, r.poll+max(r.lag/4, pauseMin)
	try, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.hangUp, r.hungUp = cancel, false
	r.asking, r.again = r.again, false
	r.mu.Unlock()
	sent := worker.Boot()
	out, err := r.client(home).Poll(try, in)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.hungUp && ctx.Err() == nil {
			return nil // to say something
		}
		return err
	}
	r.renew(sent - time.Duration(max(out.BehindMillis, 0))*time.Millisecond)
	r.mu.Lock()
	r.ack = out.Seq
	if len(out.Nodes) > 0 {
		r.learn(out.Nodes)
	}
	lease := r.lease
	r.mu.Unlock()
	refused := len(out.Start) > 0 && (r.anew || !r.startAll(out.Start, home, lease))
	for _, s := range out.Stop {
		mode := worker.ModeTerm
		if s.Kill {
			mode = worker.ModeKill
		}
		r.end(s.Attempt, mode)
	}
	r.give(out.Read)
	if refused {
		wait(ctx, pauseMin) // the report will be sent again
	}
	return nil
}

// missed requests again the jobs that a lost answer to a report may have contained. It ends only one Poll
// for that. The next one must get its answer, or the home counts as lost.
func (r *Worker) missed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again = true; !r.asking && r.hangUp != nil {
		r.hungUp = true
		r.hangUp()
	}
}

// killAll ends all attempts and waits until they have ended.
func (r *Worker) killAll(ctx context.Context) {
	for ctx.Err() == nil {
		r.mu.Lock()
		n := r.running
		r.mu.Unlock()
		if n == 0 {
			return
		}
		r.kill()
		select {
		case <-ctx.Done():
		case <-r.idle:
		case <-time.After(pauseMax):
		}
	}
}

func (r *Worker) kill() {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.byKey))
	r.mu.Unlock()
	for _, a := range all {
		r.work.Stop(a.key, worker.ModeKill)
	}
}

// drain takes no new attempts. It waits until the running ones have ended and their results are accepted.
func (r *Worker) drain(hurry <-chan struct{}) {
	r.mu.Lock()
	r.draining = true
	n := len(r.has)
	r.mu.Unlock()
	if n > 0 {
		r.log.Info("the shutdown waits for running attempts; a second signal ends them now", "code", "draining", "attempts", n, "drain", r.cfg.Drain)
	}
	limit := time.NewTimer(r.cfg.Drain)
	defer limit.Stop()
	for r.open() > 0 {
		select {
		case <-r.idle:
		case <-limit.C:
			return
		case <-hurry:
			return
		}
	}
}

// leave ends the registration, so that the nodes need not wait for the lag of this worker.
func (r *Worker) leave() {
	r.mu.Lock()
	lease := r.lease
	r.mu.Unlock()
	if lease == 0 {
		return
	}
	_ = r.closeWork() // the remaining attempts end before other workers run their tasks
	ctx, cancel := context.WithTimeout(context.Background(), registerMax)
	defer cancel()
	if err := r.shipper.Flush(ctx); err != nil {
		r.log.Warn("the end of some logs is on this machine only", "code", "logs_unsent", "err", err)
	}
	r.bye()
}

// bye ends the attachment.
func (r *Worker) bye() {
	r.mu.Lock()
	in, home := &workerv1.LeaveRequest{Handler: r.handler, Lease: r.lease, Uuid: r.uuid}, r.home
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), registerMax)
	defer cancel()
	if _, err := r.client(home).Leave(ctx, in); err != nil {
		r.log.Warn("the home node could not be notified that this worker leaves; it will notice", "code", "leave_unsent", "err", err)
	}
}
