package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/depot"
	"skein.dev/skein/internal/dispatch"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/gitsync"
	"skein.dev/skein/internal/joining"
	"skein.dev/skein/internal/kind/house"
	"skein.dev/skein/internal/localtoken"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/recovery"
	"skein.dev/skein/internal/registry"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/source"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// Node is one process for one data folder: store, worker, engine, server. Open makes it, and Run may be
// called once.
type Node struct {
	cfg         *config.Config
	log         *slog.Logger
	lock        *datadir.Lock
	listener    net.Listener
	life, level string // a name for the start of this process, for triggers of kind start; store.Info.Isolation
	services
	declared   func() // called by the writer when triggers have changed
	upkeep     upkeep
	extensions *extension.Book
	authority  *authority.Authority // the authority with the roots of the certificates of workers and nodes
	joining    *joining.Node        // issues and verifies these certificates

	// newer holds the settings of the last reload, or nil if there was none. Only those of retention are used. A
	// value is sent to rekept when the settings of retention have changed.
	newer  atomic.Pointer[config.Config]
	rekept chan struct{} // cap 1

	leaving atomic.Bool // no new work is accepted
	over    bool        // the engine has ended although it was not stopped
	ready   chan struct{}
	hurry   chan struct{} // closed when the drain must end at once
	once    sync.Once
	// stopMax is how long a shutdown may take in addition to the drain.
	stopMax time.Duration
	// wentBack counts how often it was found, before the engine and the membership existed, that the database
	// had gone back. begun is true once they exist.
	wentBack atomic.Int64
	begun    atomic.Bool
}

// services are the parts of a node, in the order in which Open makes them. A part gets the parts above it
// when it is made. Of the parts below, only the engine is called by parts above it: see inside. Before Run,
// only the keeper's link, the renewal of the lease and the listener work.
type services struct {
	store     store.Store
	logs      logs.Store // the log store in addition to the files of this node; nil if there is none
	worker    *worker.Link
	adopted   *worker.Adopted
	shipper   *logs.Shipper // nil if logs is nil
	connector connector
	secrets   *provider.Chain
	depot     *depot.Depot // the stores of artifacts and logs
	past      *past.Past   // what the database has confirmed so far
	resolver  *dispatch.Resolver
	executor  *dispatch.Executor
	judge     *registry.Judge // nil without a registry
	members   members
	planner   *trigger.Planner
	sender    *notify.Sender
	monitor   *monitor.Monitor
	engine    inside
	watch     *trigger.Watch
	feeds     *source.Supervisor
	feeder    *source.Feeder
	git       *gitsync.Syncer
	auditor   *audit.Keeper
	recovery  *recovery.Keeper
	tls       *tls.Config  // nil if the node listens without TLS
	settings  *config.Live // the present settings, except for those in Node.newer
	sessions  *auth.Sessions
	server    *server.Server
	handler   http.Handler      // the handler of the server and of the workers' protocol, without the check of credentials
	own       *localtoken.Token // the token of this process
	gate      *auth.Gate
	conns     *auth.Connections
	http      *http.Server
	// stopRenewals ends the renewal of the lease.
	stopRenewals func()
}

// Open takes the data folder and makes all parts, but starts none. It returns a *LockedError if another
// process holds the folder.
func Open(ctx context.Context, cfg *config.Config, log *slog.Logger) (n *Node, err error) {
	if err := worker.Supported(); err != nil {
		return nil, err
	}
	if err := cfg.CheckListen(); err != nil {
		return nil, err
	}
	cfg = slotless(cfg)
	if err := datadir.Prepare(cfg.Data); err != nil {
		return nil, err
	}
	n = &Node{upkeep: upkeep{began: time.Now()}, cfg: cfg, log: log, life: uuid.NewString(), ready: make(chan struct{}), hurry: make(chan struct{}), stopMax: stopMax, rekept: make(chan struct{}, 1)}
	n.stopRenewals, n.declared = func() {}, func() { n.watch.Changed(); n.feeds.Changed(); n.feeder.Wake() }
	if n.lock, err = datadir.Take(cfg.Data); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.release())
		}
	}()
	if n.listener, err = listen(cfg); err != nil {
		return n, err
	}
	n.extensions = house.Open(cfg, Version(), log)
	connecting := n.connect(ctx)
	n.store, err = dbadmin.Open(ctx, cfg, n.patient())
	if err == nil {
		err = n.patiently(ctx, func() error { return someToken(ctx, cfg, n.store) })
	}
	if err == nil {
		n.logs, err = openLogs(cfg, n.store)
	}
	c := <-connecting
	if n.worker, n.adopted = c.link, c.adopted; err != nil || c.err != nil {
		return n, errors.Join(err, c.err)
	}
	return n, n.open(ctx)
}

// patient returns the log of a server, which waits for its database. It returns nil for a command, because a
// person is waiting for its answer.
func (n *Node) patient() *slog.Logger {
	if n.cfg.ByHand {
		return nil
	}
	return n.log
}

// open makes the remaining parts of a node that has its store and its keeper.
func (n *Node) open(ctx context.Context) error {
	cfg, log := n.cfg, n.log
	database, err := ownDatabase(cfg)
	if err != nil {
		return err
	}
	n.connector = connector{n, database}
	if n.secrets, err = dbadmin.Providers(cfg, n.store, log); err != nil {
		return err
	}
	if n.depot, err = depot.Open(ctx, cfg, n.secretNow, log); err != nil {
		return err
	}
	if n.logs = n.depot.Logs(n.logs); n.logs != nil {
		n.shipper = logs.NewShipper(n.logs, cfg.Data, log)
	}
	info, is, err := n.identify(ctx)
	if err != nil {
		return err
	}
	n.level = cfg.DefaultLevel(info.Isolation, log)
	if n.members, err = newMembers(ctx, n, info, is.handler); err != nil {
		return err
	}
	n.planner = trigger.New(n.store)
	n.sender = newSender(n, info.Shards)
	if err := n.newEngine(ctx, is, info.Cluster); err != nil {
		return err
	}
	n.recovery = recovery.New(recovery.Config{Engine: &n.engine, Workflow: n.store.Workflow, Log: log,
		Elsewhere: func(ctx context.Context, s dag.ShardID, sub engine.Submission) error {
			return n.members.submit(ctx, s, sub)
		}})
	if n.auditor, err = newAuditor(n, info.Cluster); err != nil {
		return err
	}
	var reread func(*config.Config) error
	if n.tls, reread, err = serverTLS(cfg, n.joining, log); err != nil {
		return err
	}
	n.settings = config.NewLive(cfg, log, config.Rules{Read: n.rereads(reread), Apply: n.apply})
	if err := n.answers(); err != nil {
		return err
	}
	n.begun.Store(true)
	n.engine.Regressed(n.wentBack.Load())
	n.stopRenewals = n.beside(n.renew)
	return nil
}

// identity is the handler of a node's process.
type identity struct {
	handler   store.Handler
	continues bool // whether the handler is that of an earlier process, which has left attempts
}

// identify finds out which handler this process has: that of an earlier process whose attempts the keeper
// still holds, or a new one. Before that, it checks whether the database has gone back to an earlier state.
func (n *Node) identify(ctx context.Context) (info store.Info, is identity, err error) {
	err = n.patiently(ctx, func() (err error) {
		if info, err = n.store.Info(ctx); err != nil {
			return fmt.Errorf("database %s: %w", n.cfg.DBName(), err)
		}
		is, err = n.goOn(ctx, n.adopted)
		return err
	})
	if err != nil {
		return info, is, err
	}
	if err := n.remember(ctx, info); err != nil || is.continues {
		return info, is, err
	}
	err = n.patiently(ctx, func() (err error) {
		is.handler, err = n.store.Register(ctx, uuid.NewString(), n.cfg.Name)
		return ofDatabase(n.cfg, errkind.FromStore("register this process", err))
	})
	return info, is, err
}

// newExecutor makes the parts that turn assignments into jobs and results into reports. They call the engine
// only because of attempts, and no attempt begins before worker.Link.Begin.
func (n *Node) newExecutor(kept dispatch.Kept) {
	running := func() *engine.Engine { return n.engine.Engine }
	n.resolver = dispatch.NewResolver(dispatch.Config{Store: n.store, Secrets: n.secrets, Params: dbadmin.Secrets(n.cfg, n.store), Artifacts: n.depot.Folder(), Engine: running,
		Kept: kept, Egress: n.egressRules, Here: n.egressHere, Traceparent: traceparent(n.cfg), Extensions: n.extensions, Quiet: n.cfg.ByHand, Isolation: n.level})
	n.executor = dispatch.NewExecutor(dispatch.ExecutorConfig{Resolver: n.resolver, Worker: n.worker, Shipper: n.shipper, Engine: running,
		Over:  func(run dag.RunID, task dag.TaskID, token dag.Token) { n.members.ended(run, task, token) },
		Slots: n.cfg.Slots, Hold: n.cfg.Hold, Delivery: n.depot, Log: n.log})
}

// secretNow returns the value of a secret.
func (n *Node) secretNow(ctx context.Context, namespace, name string) ([]byte, error) {
	return n.secrets.Value(ctx, namespace, name, false)
}

// quotasEach is the time between two reads of the quotas of namespaces. They are read again because other
// nodes may have changed them.
const quotasEach = 2 * time.Second

// newEngine makes the engine, and the parts that only the engine uses.
func (n *Node) newEngine(ctx context.Context, is identity, cluster string) error {
	life := engine.Life{Handler: is.handler}
	if is.continues {
		life.Held = n.executor.Adopt(n.adopted)
	}
	n.depot.Clean(n.adopted)
	n.upkeep.follow(n, cluster)
	c := engine.Config{
		Store:     n.store,
		Past:      n.past,
		Traits:    n.traits(),
		Unclaimed: n.cfg.Unclaimed, LoadHalf: n.cfg.LoadHalf(),
		Executor:   n.executor,
		Compile:    compiler(),
		Release:    func(ctx context.Context) error { return n.recovery.Release(ctx) },
		Planner:    n.planner,
		Namer:      n.planner,
		Preparer:   n.resolver.Preparer(),
		Waits:      n.resolver.Waits,
		ByHand:     n.byHand,
		Declared:   func() { n.declared() },
		Rules:      alert.Rules,
		Ended:      n.upkeep.ended,
		Noticed:    n.sender.Wake,
		Node:       n.cfg.Name,
		Slots:      n.cfg.Slots,
		Life:       &life,
		Reap:       n.reap,
		QuotasEach: quotasEach,
		Log:        n.log,
	}
	n.members.forEngine(&c)
	err := n.patiently(ctx, func() (err error) {
		n.engine.Engine, err = engine.New(ctx, c)
		return ofDatabase(n.cfg, err)
	})
	if err != nil {
		return err
	}
	n.sayKey(ctx)
	n.worker.Brand(tagOf(n.engine.Handler()))
	if n.cfg.Hold {
		n.engine.Drain()
	}
	spaces := engine.NamespacesOf(n.engine.Engine)
	n.feeds, n.git = newSources(n), newGit(n)
	n.feeder = source.NewFeeder(source.FeederConfig{Events: n.store, Triggers: n.sensors, Intake: engine.IntakeOf(n.engine.Engine), Grown: n.resolver.Awaited().Wake, Log: n.log,
		Namespace: spaces.Of})
	n.watch = trigger.NewWatch(trigger.WatchConfig{Sensors: n.sensors, Fire: n.engine.Occur, Came: n.engine.Came, Log: n.log, Protected: n.cfg.Unwatched(), Namespace: spaces.Of, Allowed: spaces.MayRead,
		Past: func(ctx context.Context, k store.TriggerKey) (dag.Micros, error) {
			return trigger.Forgotten(ctx, n.store, k)
		}})
	return nil
}

// answers combines the handlers of the node. It returns an error for a route that is not in the table of
// access.
func (n *Node) answers() (err error) {
	n.sessions = auth.NewSessions(n.store)
	near := n.neighbours()
	if near.gateway, err = n.members.gateway(); err != nil {
		return err
	}
	own := face{n.listener.Addr().String(), n.leaving.Load, func() workflow.Retention { return n.keeping().Retention() }, n.settings, n.resolver, n.extensions.Check}
	if n.server, err = newServer(n.cfg, n.engine.Engine, n.log, own, near); err != nil {
		return err
	}
	if n.handler, err = n.withWorkers(n.server.Handler()); err != nil {
		return err
	}
	n.handler = n.guarded(n.handler)
	n.http = n.server.HTTP()
	return n.secure()
}

// compiler compiles conditions; equal texts share one program.
func compiler() dag.Compiler {
	return new(workflow.Compiler).Condition
}

// reap is called for attempts that earlier processes of this data folder have left, before their tasks are
// assigned again. It has nothing to kill: the keeper killed all attempts that this process does not adopt
// before it answered.
func (n *Node) reap(_ context.Context, lost []dag.AttemptRow) error {
	n.log.Info("an earlier process of this node ended without a shutdown", "code", "node_restarted", "attempts_lost", len(lost))
	return nil
}

// URL returns the address at which the node answers.
func (n *Node) URL() string {
	address := n.listener.Addr().String()
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("localhost", port) // the address for calls on this machine
	}
	if n.cfg.TLSCert != "" {
		return "https://" + address
	}
	return "http://" + address
}

// advertised returns the address by which the other nodes of the cluster reach this node. If --advertise has
// port 0, the port is the one on which the node listens.
func (n *Node) advertised() string {
	if n.cfg.Advertise == "" {
		return n.URL()
	}
	u, err := url.Parse(n.cfg.Advertise)
	_, port, split := net.SplitHostPort(n.listener.Addr().String())
	if err == nil && split == nil && u.Port() == "0" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
		return u.String()
	}
	return n.cfg.Advertise
}

// Handler returns the handler for requests without a socket.
func (n *Node) Handler() http.Handler { return auth.AsLocal(n.handler) }

// Ready is closed once requests are answered.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Idle reports whether no run is unfinished.
func (n *Node) Idle() bool { return n.engine.Idle() }

// Rows returns the number of rows that this node has written, for measurements.
func (n *Node) Rows() int64 { return n.engine.Stats().Rows.Load() }

// Hurry ends the drain of a shutdown: attempts that still run are killed.
func (n *Node) Hurry() { n.once.Do(func() { close(n.hurry) }) }

// guarded refuses requests while the node is stopping, because they would only wait for the next process. It
// still allows requests that end runs, because they shorten the drain.
func (n *Node) guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ending := strings.HasSuffix(r.URL.Path, ":stop") || strings.HasSuffix(r.URL.Path, ":kill")
		reading := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !n.leaving.Load() || reading && r.URL.Path != "/readyz" || ending || n.members.takes(r) {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		p := api.NewProblem(api.ProblemUnavailable, http.StatusServiceUnavailable, "the node is stopping and takes no new requests")
		p.Instance = r.URL.Path
		_ = json.NewEncoder(w).Encode(p) // the client is gone
	})
}
