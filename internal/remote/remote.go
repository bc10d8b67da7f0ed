package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

// Config describes a worker. Servers, Name, Data and Slots are required.
type Config struct {
	Servers []string // URLs of nodes, which are tried in turn; the home sends further URLs
	Token   string   // the bearer token of calls; "" if there is none
	// Renewed returns a newer token after a node has refused the token. It is nil if there can be no newer
	// token.
	Renewed func() (string, error)
	// Certified reports whether Transport shows a certificate instead of a token.
	Certified bool
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
	Isolation string          // the isolation of its tasks: see worker.Config
	Levels    []string        // see worker.Config
	Users     []string        // see worker.Config
	UIDs      worker.UIDRange // the users of its tasks: see worker.Config
	// IsolationAuto and ClosedBoxes are those of worker.Config.
	IsolationAuto, ClosedBoxes bool
	Protected                  []string // paths that its tasks cannot reach: see worker.Config
	// Lease is the time for which attempts may run after the last answer; 0 means worker.LeaseDefault.
	Lease   time.Duration
	Drain   time.Duration
	Version string
	Egress  egress.Rules // the rules for the requests of tasks, in addition to the rules of the home
	// Extensions holds the kinds that the worker runs as processes, or nil if there is none.
	Extensions *extension.Book
	Log        *slog.Logger
}

// attempt is the data of an attempt until its result is acknowledged.
type attempt struct {
	key   worker.Key
	job   *worker.Job // dropped when the attempt starts
	err   error       // the reason why the attempt cannot start
	kept  bool        // the keeper has or had the attempt
	ref   logs.Ref
	files bool                    // the attempt may produce artifacts
	halt  context.CancelCauseFunc // cancels the transfer of its artifacts; nil if the transfer has not begun
	mode  worker.Mode             // the mode in which the attempt must then end
}

// entry is an attempt in the table of the session.
type entry = session.Attempt[*attempt]

// Worker is a worker process.
type Worker struct {
	cfg     Config
	log     *slog.Logger
	s       *session.Session[*attempt]
	work    *worker.Link
	shipper *logs.Shipper
	adopted *worker.Adopted
	// Artifacts stay in outgoing until a home has stored them.
	outgoing artifact.Folder
	cache    *fileCache
	brings   chan struct{}          // cap bringsMax
	gives    chan struct{}          // cap givesMax
	bringing sync.WaitGroup         // goroutines that send artifacts or pieces of logs
	life     context.Context        // the context of this worker's goroutines
	token    atomic.Pointer[string] // the token that calls send
	why      refusal                // used by the goroutine that attaches

	mu     sync.Mutex           // protects following fields, and the fields of attempts; it is not held during calls of the session
	byKey  map[worker.ID]*entry // the attempts that run
	unsent []*attempt           // attempts with an acknowledged result and output that is not acknowledged
	// former is the handler of an earlier process without attempts; nil if there is none, or it was detached.
	former   *life
	branded  int64 // the handler that the keeper knows
	logsKeep int64 // number of bytes of a log that the home stores
}

var _ session.Owner[*attempt] = (*Worker)(nil)

// New makes a worker. It finds the keeper of the worker's process trees, or starts a keeper. The worker does
// nothing else before Run.
func New(ctx context.Context, cfg Config) (*Worker, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}
	}
	r := &Worker{cfg: cfg, log: cfg.Log, byKey: map[worker.ID]*entry{}}
	r.token.Store(&cfg.Token)
	r.s = session.New(session.Config{Offer: offer(&cfg), Name: cfg.Name, Slots: cfg.Slots, Servers: cfg.Servers, Token: func() string { return *r.token.Load() },
		HTTP: &http.Client{Transport: cfg.Transport}, Clock: worker.Boot, Log: cfg.Log}, r, keeping{r})
	data, err := filepath.Abs(cfg.Data) // the keeper has another working folder
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	r.outgoing, r.brings = artifact.Folder{Path: filepath.Join(data, outgoingName)}, make(chan struct{}, bringsMax)
	r.gives, r.cache = make(chan struct{}, givesMax), newFileCache(filepath.Join(data, filesName))
	if r.work, r.adopted, err = worker.Connect(ctx, worker.LinkConfig{Lease: cfg.Lease, Lock: cfg.Lock, Config: worker.Config{DataDir: cfg.Data, Slots: cfg.Slots,
		PassEnv: cfg.PassEnv, Isolation: cfg.Isolation, Levels: cfg.Levels, Users: cfg.Users, IsolationAuto: cfg.IsolationAuto, UIDs: cfg.UIDs, ClosedBoxes: cfg.ClosedBoxes, Protected: cfg.Protected, Log: cfg.Log, Report: r.told, Started: r.started, Room: func(why string) { r.s.SetFull(why != "") }}}); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	r.shipper = logs.NewShipper(push{r}, cfg.Data, cfg.Log)
	if err := r.inherit(r.adopted); err != nil {
		r.work.End()
		return nil, fmt.Errorf("worker: %w", err)
	}
	return r, nil
}

// Nodes returns the known addresses of nodes: those in the settings, and those in the last list from the
// home.
func (r *Worker) Nodes() []string { return r.s.Nodes() }

func (r *Worker) closeWork() error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	return r.work.Close(over)
}

// PassEnv changes the variables of this process that tasks get: see worker.Link.PassEnv.
func (r *Worker) PassEnv(names []string) bool { return r.work.PassEnv(names) }

// Reoffer registers again, after the extensions have changed.
func (r *Worker) Reoffer() { r.s.Reoffer(offer(&r.cfg)) }

// Run works until ctx ends. Then it takes no further attempts, and lets running attempts finish for
// Config.Drain or until hurry is closed. Finally it ends the remaining attempts, and the registration.
func (r *Worker) Run(ctx context.Context, hurry <-chan struct{}) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	r.life = life
	r.work.Begin()
	r.replay(r.adopted)
	r.bequeath(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { r.s.Reports(life, r.taken) })
	wg.Go(func() { r.shipper.Run(life) })
	wg.Go(func() { r.tidies(life) })
	err := r.s.Run(ctx, func() { r.drain(hurry) })
	if session.Reason(err) == session.NameTaken {
		r.killAll(ctx) // if the worker was registered before, its attempts belong to other workers now
	}
	r.leave()
	end()
	wg.Wait()
	r.bringing.Wait()
	err = errors.Join(err, r.closeWork())
	r.taken()
	r.work.End() // results that no node has acknowledged stay in its journal
	return err
}

// forget begins a new identity without attempts.
func (r *Worker) forget() {
	var kept []worker.ID
	all := r.s.Forget()
	r.mu.Lock()
	for _, a := range all {
		if a.Of == nil {
			continue
		}
		if a.Of.kept {
			kept = append(kept, a.Of.key.ID())
		}
		if a.Of.halt != nil {
			a.Of.halt(errEnded)
		}
	}
	clear(r.byKey)
	r.mu.Unlock()
	r.work.Taken(kept) // the results of these attempts are no longer delivered
}

// offer returns the properties that the worker registers with.
func offer(cfg *Config) *workerv1.RegisterRequest {
	var kinds []*workerv1.Extension
	for _, x := range cfg.Extensions.Extensions() {
		kinds = append(kinds, &workerv1.Extension{Kind: x.Kind, Version: x.Version, Digest: x.Digest, Connection: x.Connection, Releases: x.Releases, Adopts: x.Adopts})
	}
	var refused []*workerv1.Refusal
	for _, x := range cfg.Extensions.Refused() {
		refused = append(refused, &workerv1.Refusal{Folder: x.Folder, Why: x.Why})
	}
	return &workerv1.RegisterRequest{Extensions: kinds, Refused: refused, Groups: cfg.Groups, Labels: cfg.Labels, Levels: cfg.Levels, Users: cfg.Users, Version: cfg.Version, CpuMillis: cfg.Room.CPU, MemoryBytes: cfg.Room.Memory,
		Artifacts: true, Inputs: true, GivesLogs: true, Masks: true, Handles: true}
}

// Refused implements session.Owner.
func (r *Worker) Refused(ctx context.Context, why session.Refusal) bool {
	if session.Reason(why.Err) == session.NameHeld && r.bury(ctx) {
		return true
	}
	r.refused(&r.why, why.Err, why.Lasting)
	return false
}

// Fenced implements session.Owner.
func (r *Worker) Fenced(ctx context.Context) {
	r.killAll(ctx)
	r.forget()
}

// killAll ends all attempts and waits until they have ended.
func (r *Worker) killAll(ctx context.Context) { r.s.Emptied(ctx, func(int, bool) { r.kill() }) }

func (r *Worker) kill() {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.byKey))
	r.mu.Unlock()
	for _, a := range all {
		r.work.Stop(a.Of.key, worker.ModeKill)
	}
}

// drain takes no new attempts. It waits until the running ones have ended and their results are accepted.
func (r *Worker) drain(hurry <-chan struct{}) {
	if n := r.s.Drain(); n > 0 {
		r.log.Info("the shutdown waits for running attempts; a second signal ends them now", "code", "draining", "attempts", n, "drain", r.cfg.Drain)
	}
	r.s.Quiet(r.cfg.Drain, hurry)
}

// leave ends the registration, so that the nodes need not wait until they declare this worker dead.
func (r *Worker) leave() {
	if !r.s.Attached() {
		return
	}
	_ = r.closeWork() // the remaining attempts end before other workers run their tasks
	ctx, cancel := context.WithTimeout(context.Background(), session.RegisterMax)
	defer cancel()
	if err := r.shipper.Flush(ctx); err != nil {
		r.log.Warn("the end of some logs is on this machine only", "code", "logs_unsent", "err", err)
	}
	r.s.Leave()
}
