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
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/dispatch"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/retention"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/trigger"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// Node is one process over one data folder: store, worker, engine, server. Open it, Run it once.
type Node struct {
	cfg      *config.Config
	log      *slog.Logger
	lock     *datadir.Lock
	listener net.Listener
	store    store.Store
	worker   *worker.Link
	adopted  *worker.Adopted
	life     string // of this process, as start triggers see it
	// stopRenewals ends the renewals of the lease.
	stopRenewals func()
	resolver     *dispatch.Resolver // nil until the store is open, and so is executor
	executor     *dispatch.Executor
	watch        *trigger.Watch
	sender       *notify.Sender
	secrets      *provider.Chain // nil until the store is open
	connector    connector
	declared     func()        // called by the writer when triggers have changed
	member       *membership   // nil: alone
	solo         *solo         // set if the node is alone; else nil
	logs         logs.Store    // in addition to the files of this node; nil: there is none
	shipper      *logs.Shipper // nil: likewise
	engine       *engine.Engine
	server       *server.Server
	handler      http.Handler
	http         *http.Server
	gate         *auth.Gate
	own          *ownToken
	sessions     *auth.Sessions
	conns        *auth.Connections
	auditor      *audit.Keeper
	upkeep       upkeep

	// settings are the settings in force, except for those in newer. tls is nil if the node listens in plain
	// text.
	settings *config.Live
	tls      *tls.Config
	// newer are the settings of the last reload; only those of retention are read from it. nil: there was no
	// reload. rekept gets a value when they have changed.
	newer  atomic.Pointer[config.Config]
	rekept chan struct{} // cap 1

	leaving atomic.Bool // nothing new is accepted
	over    bool        // the engine has ended by itself
	ready   chan struct{}
	hurry   chan struct{} // closed: end the drain now
	once    sync.Once
	// stopMax is how much longer than the drain a shutdown may take.
	stopMax time.Duration
	// past is the confirmed progress of the database. wentBack counts the regresses of the database that were
	// found before the engine and the membership existed. begun is true once they exist.
	past     *past.Past
	planner  *trigger.Planner
	wentBack atomic.Int64
	begun    atomic.Bool
}

// Open takes the data folder and makes everything, but starts nothing. It gives a *LockedError if another
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
	n = &Node{upkeep: upkeep{began: time.Now()}, cfg: cfg, log: log, life: uuid.NewString(), stopRenewals: func() {}, ready: make(chan struct{}), hurry: make(chan struct{}), stopMax: stopMax, rekept: make(chan struct{}, 1)}
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
	connecting := n.connect(ctx)
	n.store, err = dbadmin.Open(ctx, cfg, n.patient())
	if err == nil {
		err = n.patiently(ctx, func() error { return someToken(ctx, cfg, n.store) })
	}
	if err == nil {
		n.logs, err = openLogs(cfg, n.store)
	}
	if err == nil {
		err = checkArtifacts(cfg)
	}
	c := <-connecting
	if n.worker, n.adopted = c.link, c.adopted; err != nil || c.err != nil {
		return n, errors.Join(err, c.err)
	}
	if n.logs != nil {
		n.shipper = logs.NewShipper(n.logs, cfg.Data, log)
	}
	return n, n.open(ctx)
}

// patient returns the log of a server, which waits for its database. It returns nil for a command, because
// a person waits for it.
func (n *Node) patient() *slog.Logger {
	if n.cfg.ByHand {
		return nil
	}
	return n.log
}

// open makes the rest of a node that has its store and its keeper.
func (n *Node) open(ctx context.Context) error {
	cfg, log := n.cfg, n.log
	database, err := ownDatabase(cfg)
	if err != nil {
		return err
	}
	if n.secrets, err = dbadmin.Providers(cfg, n.store, log); err != nil {
		return err
	}
	n.connector = connector{n, database}
	n.resolve(database)
	var life *engine.Life
	var info store.Info
	err = n.patiently(ctx, func() (err error) {
		if info, err = n.store.Info(ctx); err != nil {
			return fmt.Errorf("database %s: %w", cfg.DBName(), err)
		}
		life, err = n.goOn(ctx, n.adopted)
		return err
	})
	if err != nil {
		return err
	}
	if err = n.remember(ctx, info); err != nil {
		return err
	}
	if err = findOthers(ctx, n, info); err != nil {
		return err
	}
	n.planner = trigger.New(n.store)
	n.declared = func() { n.watch.Changed() }
	n.sender = newSender(n, info.Shards, database)
	parts := engineConfig(n, life)
	err = n.patiently(ctx, func() (err error) {
		n.engine, err = engine.New(ctx, parts)
		return ofDatabase(cfg, err)
	})
	if err != nil {
		return err
	}
	n.sayKey(ctx)
	n.worker.Brand(tagOf(n.engine.Handler()))
	if cfg.Hold {
		n.engine.Drain()
	}
	n.watch = trigger.NewWatch(trigger.WatchConfig{Sensors: n.sensors, Fire: n.engine.Occur, Came: n.engine.Came, Log: log, Protected: cfg.Unwatched(),
		Past: func(ctx context.Context, k store.TriggerKey) (dag.Micros, error) {
			return trigger.Forgotten(ctx, n.store, k)
		}})
	if n.auditor, err = newAuditor(n, info.Cluster); err != nil {
		return err
	}
	var reread func(*config.Config) error
	if n.tls, reread, err = serverTLS(cfg, log); err != nil {
		return err
	}
	n.settings = config.NewLive(cfg, log, config.Rules{Read: reread, Apply: n.apply})
	own := face{n.listener.Addr().String(), n.leaving.Load, func() workflow.Retention { return n.keeping().Retention() }, n.settings, n.resolver}
	srv, err := newServer(cfg, n.engine, log, own, n.neighbours())
	if err != nil {
		return err
	}
	if err := n.answers(srv, info); err != nil {
		return err
	}
	n.begun.Store(true)
	n.engine.Regressed(n.wentBack.Load())
	n.stopRenewals = n.beside(n.renew)
	return nil
}

// engineConfig is what the engine of a node needs. life is what its former process has left.
func engineConfig(n *Node, life *engine.Life) engine.Config {
	c := engine.Config{
		Store:     n.store,
		Past:      n.past,
		Traits:    traitsOf(n.cfg),
		Unclaimed: n.cfg.Unclaimed,
		Executor:  n.executor,
		Compile:   compiler(),
		Planner:   n.planner,
		Namer:     n.planner,
		Preparer:  n.resolver.Preparer(),
		Waits:     n.resolver.Waits,
		ByHand:    n.byHand,
		Declared:  func() { n.declared() },
		Rules:     alert.Rules,
		Noticed:   func() { n.sender.Wake() },
		Node:      n.cfg.Name,
		Slots:     n.cfg.Slots,
		Life:      life,
		Reap:      n.reap,
		Log:       n.log,
	}
	withOthers(n, &c)
	return c
}

// resolve makes the parts that turn assignments into jobs and results into reports. Both ask for the engine:
// n.engine must be set before worker.Link.Begin.
func (n *Node) resolve(database []egress.Own) {
	running := func() *engine.Engine { return n.engine }
	n.resolver = dispatch.NewResolver(dispatch.Config{Store: n.store, Secrets: n.secrets, Artifacts: n.cfg.Artifacts, Engine: running,
		Kept:   &keptFiles{own: newArtifactSource(n.cfg), member: func() *membership { return n.member }},
		Egress: func() egress.Rules { return n.egressRules(database) }, Here: n.egressHere})
	n.executor = dispatch.NewExecutor(dispatch.ExecutorConfig{Resolver: n.resolver, Worker: n.worker, Shipper: n.shipper, Engine: running,
		Over:  func(run dag.RunID, task dag.TaskID, token dag.Token) { n.member.over(run, task, token) },
		Slots: n.cfg.Slots, Hold: n.cfg.Hold, Log: n.log})
}

// answers puts the handlers of the node together. It refuses a route that the table of access does not have.
func (n *Node) answers(srv *server.Server, info store.Info) (err error) {
	n.server, n.handler = srv, srv.Handler()
	if n.member != nil {
		n.member.connect(n, info)
		if n.handler, err = n.member.handler(n, n.handler); err != nil {
			return err
		}
		srv.Through(n.handler)
	}
	if n.solo != nil {
		n.solo.connect(n, info)
	}
	if n.handler, err = n.withWorkers(n.handler); err != nil {
		return err
	}
	n.handler = n.guarded(n.handler)
	n.http = srv.HTTP()
	return n.secure()
}

// compiler compiles conditions; equal texts share one program.
func compiler() dag.Compiler {
	return new(workflow.Compiler).Condition
}

// reap is called for attempts that earlier lives of this data folder left running, before their tasks are
// assigned again. It need not kill them: before the keeper answered, it killed all attempts that this process
// does not adopt.
func (n *Node) reap(_ context.Context, lost []dag.AttemptRow) error {
	n.log.Info("an earlier process of this node ended without a shutdown", "code", "node_restarted", "attempts_lost", len(lost))
	return nil
}

// URL is where the node answers.
func (n *Node) URL() string {
	address := n.listener.Addr().String()
	if host, port, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsUnspecified() {
		address = net.JoinHostPort("localhost", port) // what this machine calls it
	}
	if n.cfg.TLSCert != "" {
		return "https://" + address
	}
	return "http://" + address
}

// advertised is the address by which the other nodes of the cluster reach this one. Port 0 of --advertise is
// the port that the node listens on.
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

// Handler answers requests without a socket.
func (n *Node) Handler() http.Handler { return auth.AsLocal(n.handler) }

// Ready is closed once requests are answered.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Idle reports whether no run is unfinished.
func (n *Node) Idle() bool { return n.engine.Idle() }

// Rows returns the number of rows that this node has written, for measurements.
func (n *Node) Rows() int64 { return n.engine.Stats().Rows.Load() }

// Hurry ends the drain of a shutdown: attempts that still run are killed.
func (n *Node) Hurry() { n.once.Do(func() { close(n.hurry) }) }

// stopWait bounds the farewell of each part, once attempts have ended.
const stopWait = 5 * time.Second

// obeyWait bounds the wait of a command for attempts that it told to end. It is longer than their usual
// grace.
const obeyWait = 15 * time.Second

// work is Run without its limit.
func (n *Node) work(ctx context.Context) error {
	n.worker.Begin()
	n.executor.Replay(n.adopted)
	stopPast := n.beside(func(ctx context.Context) { _ = n.past.Run(ctx) })
	stopTaking := n.beside(func(ctx context.Context) { n.executor.Acknowledge(ctx, n.member.pending) })
	stopAudit := keepAudit(n)
	stopNotices := sendNotices(n)
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	engineEnd, httpEnd := make(chan error, 1), make(chan error, 1)
	go func() { engineEnd <- n.engine.Run(work) }()
	watchEnd := make(chan error, 1)
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	go func() { watchEnd <- n.look(watching) }()
	shipping := make(chan struct{})
	go func() {
		defer close(shipping)
		n.shipper.Run(work)
	}()
	forgetting := make(chan struct{})
	go func() {
		defer close(forgetting)
		retention.New(n.retention()).Run(watching)
	}()
	stopMember, stopSolo := func() error { return nil }, func() {}
	var err error
	select {
	case <-n.engine.Ready():
		err = announce(n) // first: the calls of workers need the token of this start
		go func() { httpEnd <- n.serve() }()
		if err == nil {
			close(n.ready)
			n.log.Info("ready", "code", "node_ready", "url", n.URL(), "data", n.cfg.Data, "slots", n.cfg.Slots)
			var failed <-chan error
			stopMember, failed = n.member.run(ctx)
			stopSolo = n.solo.run(ctx)
			err = n.until(ctx, engineEnd, httpEnd, failed)
			n.member.leaving()
		}
	case err = <-engineEnd:
		engineEnd <- nil
	case <-ctx.Done():
	}
	stopWatching()
	err = errors.Join(err, <-watchEnd)
	<-forgetting
	n.drain()
	n.shipRest()
	err = errors.Join(err, stopMember())
	stopSolo()
	stopPast()
	stopTaking()
	stopNotices()
	cancel()
	<-shipping
	err = errors.Join(err, <-engineEnd, n.stopHTTP())
	stopAudit()
	err = errors.Join(err, n.release())
	n.log.Info("stopped", "code", "node_stopped")
	return err
}

func (n *Node) serve() error {
	if n.http.TLSConfig != nil {
		return n.http.ServeTLS(n.conns, "", "")
	}
	return n.http.Serve(n.conns)
}

// byHand reports whether nothing starts by itself here. A command that joins a cluster of servers owns some
// of the shards, and does for them what a server would do.
func (n *Node) byHand() bool { return n.cfg.ByHand && n.member.alone() }

// sensors lists the sensors that this node looks after.
func (n *Node) sensors(ctx context.Context, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error) {
	if n.byHand() {
		return nil, nil
	}
	return n.engine.Sensors(ctx, kinds, after, limit)
}

// greet tells triggers that the scheduler has started; life names this start.
func (n *Node) greet(ctx context.Context, life string) {
	if n.cfg.ByHand {
		return
	}
	if err := n.engine.Greet(ctx, life); err != nil && ctx.Err() == nil {
		n.log.Error("triggers of kind start cannot be fired", "code", "start_triggers_failed", "err", err)
	}
}

// look runs the sensors once the engine owns something.
func (n *Node) look(ctx context.Context) error {
	select {
	case <-n.engine.Ready():
		if n.member == nil {
			n.greet(ctx, n.life)
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { n.keepRecovery(ctx) })
		return n.watch.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// until waits for the end, or for a part that failed.
func (n *Node) until(ctx context.Context, engineEnd, httpEnd chan error, member <-chan error) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-engineEnd:
		engineEnd <- nil
		return n.stranded(err)
	case err := <-httpEnd:
		return err
	case <-ended(n.store):
		return n.stranded(store.ErrLost)
	case err := <-member:
		n.Hurry() // other nodes have taken over the attempts that run here
		return err
	}
}

// stranded notes the reason for which no further write is possible, if there is one.
func (n *Node) stranded(err error) error {
	if n.over = err != nil; n.over {
		n.log.Error("the store cannot be written any more; running attempts continue for the next server", "code", "store_lost", "err", err)
	}
	return err
}

// ended returns a channel that is closed when the store has failed for good. On an idle server the engine
// may not notice that for hours.
func ended(st store.Store) <-chan struct{} {
	if m := store.Can(st).Mortal; m != nil {
		return m.Lost()
	}
	return nil
}

// drain ends the attempts and has their reports written.
func (n *Node) drain() {
	n.leaving.Store(true)
	n.engine.Drain()
	n.executor.Hold()
	if n.over { // no owner would take a report
		return
	}
	if n.cfg.Hold { // the next process adopts the attempts that still run
		over, cancel := context.WithTimeout(context.Background(), obeyWait)
		n.barrier() // an attempt gets a stop only after the commit of the stop
		n.executor.Obeyed(over)
		cancel()
		n.barrier()
		return
	}
	if left := n.executor.UnderWay(); left > 0 {
		n.log.Info("the shutdown waits for running attempts; a second signal ends them now", "code", "draining", "attempts", left, "drain", n.cfg.Drain)
	}
	timer := time.NewTimer(n.cfg.Drain)
	defer timer.Stop()
	select {
	case <-n.executor.Drained():
	case <-timer.C:
	case <-n.hurry:
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	n.executor.Wait()
	if err := n.worker.Close(over); err != nil {
		n.log.Error("the worker cannot be closed", "code", "worker_not_closed", "err", err)
	}
	n.barrier()
}

// barrier waits until all reports are written.
func (n *Node) barrier() {
	barrier, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := n.engine.Barrier(barrier); err != nil {
		n.log.Warn("the last reports may be lost; their attempts run again", "code", "reports_lost", "err", err)
	}
}

// shipRest sends the remaining output to where the other nodes find it.
func (n *Node) shipRest() {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := n.shipper.Flush(ctx); err != nil {
		n.log.Warn("the end of some logs is on this machine only", "code", "logs_unsent", "err", err)
	}
}

func (n *Node) stopHTTP() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := n.http.Shutdown(ctx); err != nil {
		return n.http.Close()
	}
	return nil
}

// release gives back what Open took, last taken first.
func (n *Node) release() error {
	var errs []error
	n.stopRenewals()
	switch {
	case n.worker == nil:
	case n.executor != nil && n.executor.UnderWay() > 0 || n.engine == nil && len(n.adopted.Running)+len(n.adopted.Ended) > 0:
		n.worker.Leave() // this process only looked: the next one continues with the attempts
	default:
		over, cancel := context.WithCancel(context.Background())
		cancel()
		errs = append(errs, n.worker.Close(over)) // the second time, it does nothing
		n.worker.End()
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.listener != nil {
		_ = n.listener.Close() // the HTTP server has closed it already
	}
	if n.lock != nil {
		errs = append(errs, n.own.remove(), n.lock.Release())
	}
	return errors.Join(errs...)
}

// guarded refuses requests that would only wait for the next life while this one ends. Requests that end
// runs are still possible: they make the drain end sooner.
func (n *Node) guarded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ending := strings.HasSuffix(r.URL.Path, ":stop") || strings.HasSuffix(r.URL.Path, ":kill")
		reading := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !n.leaving.Load() || reading && r.URL.Path != "/readyz" || ending || n.solo.takes(r) {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		p := api.NewProblem(api.ProblemUnavailable, http.StatusServiceUnavailable, "the node is stopping and takes no new requests")
		p.Instance = r.URL.Path
		_ = json.NewEncoder(w).Encode(p) // the client has gone
	})
}
