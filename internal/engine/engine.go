package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

// Config configures an engine. Store, Executor and Compile are required.
type Config struct {
	Store    store.Store
	Executor Executor
	Compile  dag.Compiler // compiles conditions of stored graphs
	Node     string       // the permanent name of this process
	Slots    int          // attempts that run at the same time; at least 1
	// Ageing is the time after which a waiting run rises by one level. 0 means 10 minutes.
	Ageing time.Duration
	// SubmitMax bounds the submissions that wait for the writer. 0 means 20,000.
	SubmitMax int
	// AheadRows is the size of a transaction, in rows, from which the writer makes the next transaction while
	// this one is in flight. 0 means 400.
	AheadRows int
	// EvaluateMax bounds the time for which one transaction evaluates conditions and keys. Other
	// goroutines, or the next transactions, evaluate the rest. 0 means 20 ms. If it is negative, a transaction
	// evaluates no condition.
	EvaluateMax time.Duration
	// Reap kills the processes of attempts that earlier handlers of this node left running. It is called
	// before their tasks are assigned again, and again if the engine has to reload them. It is nil if no such
	// process can exist.
	Reap func(ctx context.Context, lost []dag.AttemptRow) error
	// Life, if not nil, is an earlier process of this node whose attempts may still run. This process then
	// continues as the handler of Life. Otherwise this process gets a new handler, and the attempts of
	// earlier handlers are lost.
	Life *Life
	// Planner computes the instants of triggers. If it is nil, no trigger is declared and none fires.
	Planner Planner
	// Preparer finds out for which event a logical task waits. It is nil if there are no logical tasks.
	Preparer Preparer
	// Waits returns the reason why an assigned attempt of this node has not been started yet, or "" if it
	// knows none. It is nil if no reason is ever known.
	Waits func(run dag.RunID, task dag.TaskID, token dag.Token) string
	// Namer finds the queues and locks that definitions name. It is nil if definitions name none.
	Namer Namer
	// ByHand, if not nil, reports whether only people may start runs now. Due instants then stay due for a
	// later engine, or until ByHand returns false. Triggers that react to the end of a run still fire,
	// because that event comes only once. ByHand is called on the writer's goroutine.
	ByHand func() bool
	// Declared, if not nil, is called on the writer's goroutine when triggers were declared, paused or
	// resumed, and when the owned shards have changed.
	Declared func()
	// Rules reads the alert rules of a stored definition. If it is nil, there are no alerts.
	Rules func(def []byte) ([]alert.Rule, error)
	// Noticed, if not nil, is called on the writer's goroutine when there may be notices to send.
	Noticed func()
	// Ended, if not nil, is called on the writer's goroutine after a transaction in which runs have ended.
	// The ends in a transaction with an unknown outcome are not reported.
	Ended func([]store.Ended)
	// QuotasEach is the time between two reads of the quotas of namespaces, or 0 if there are no quotas.
	QuotasEach time.Duration
	// Past remembers the commits that the store has confirmed. If it is nil, the engine does not notice that
	// the store has gone back to an earlier state.
	Past Past
	// Peers makes this engine a member of a cluster: it owns the shards that Own assigns. The store must be a
	// store.Cluster. If Peers is nil, the engine is alone and owns every shard.
	Peers Peers
	// Holders are the workers of a node that is alone. Roster lists these workers and this node. Both are nil
	// if there are no workers, or if Peers is set.
	Holders Holders
	Roster  inspect.Roster
	// Helpers lets a sweep reach the other nodes and the workers. It is nil if there are none.
	Helpers Helpers
	// Unclaimed bounds the time between the assignment of an attempt and the report that it runs. 0 means 5
	// minutes.
	Unclaimed time.Duration
	// LoadHalf is the age at which past work of a shard counts half in the shard's load. 0 means 30 s.
	LoadHalf time.Duration
	// Release makes the built-in workflow of errands, which release handles, if it does not exist. It is nil
	// if another component makes that workflow.
	Release func(ctx context.Context) error
	// Market offers slots of workers that are not in this process. It is nil if there are no such workers.
	// With a Market, Slots may be 0.
	Market Market
	// Traits are the properties by which tasks choose this process, in addition to Node.
	Traits store.Traits
	// Host is the machine. nil means the real one.
	Host host.Host
	Log  *slog.Logger
}

// Life is an earlier process of a node whose work another process continues.
type Life struct {
	Handler store.Handler
	// Held are the attempts of Life's handler that the Executor still has, or whose ends it is about to report.
	// All other attempts of that handler are lost.
	Held []AttemptID
}

const (
	ageingDefault    = 10 * time.Minute
	submitMaxDefault = 20_000
)

// Engine owns shards of a store: all of them or, in a cluster, those that are passed to Own.
type Engine struct {
	*inspect.Reader

	cfg       Config
	host      host.Host
	log       *slog.Logger
	store     store.Store
	can       store.Capabilities            // capabilities of the store
	handler   atomic.Pointer[store.Handler] // the handler of this process
	graphs    *inspect.Graphs
	directory directory
	slots     slots
	quotas    quotaBook
	hub       hub
	stats     Stats
	shards    []dag.ShardID                 // all shards that exist
	cluster   store.Cluster                 // nil if alone
	holders   Holders                       // nil if there are no other members
	holding   atomic.Pointer[[]dag.ShardID] // the owned shards, published for other goroutines
	writer    *writer
	pulse     *pulse

	ready chan struct{} // closed when the shards are loaded
	state atomic.Pointer[string]
}

// Stats counts events since the start. The counters only rise.
type Stats struct {
	Commits, Rows           atomic.Int64
	Ahead                   atomic.Int64 // transactions that were made while the previous one was in flight
	RunsAccepted, RunsEnded atomic.Int64
	AttemptsStarted         atomic.Int64
	AttemptsEnded           atomic.Int64
	Rejected                atomic.Int64 // reports whose sender no longer holds the attempt
	Lost, Repaired          atomic.Int64
	RunsRevived             atomic.Int64 // ended runs that a command continued
	Retaken, Quarantined    atomic.Int64
	Poisoned                atomic.Int64 // tasks that failed because they were lost too often
	Orphans                 atomic.Int64 // handles for whose release a run no longer waits
	Expired                 atomic.Int64 // runs that retention deleted
	CommitNanos, ActiveRuns atomic.Int64 // ActiveRuns is not a counter: it can also fall
	ReadyTasks, InboxItems  atomic.Int64 // the values after the last transaction
	Sweeps                  atomic.Int64
	Regressed               atomic.Int64         // how often the store went back to an earlier state
	Evaluated               atomic.Int64         // conditions that were evaluated outside the writer's goroutine
	Faults                  [faults]atomic.Int64 // how many faults sweeps found and repaired, in the order of the function Faults

	meter *Meter
	loads loads
	store metric.Source
	name  func(context.Context, dag.WorkflowID) string // returns the name of a workflow
}

// count counts a transaction.
func (s *Stats) count(rows int, took time.Duration) {
	s.Rows.Add(int64(rows))
	s.CommitNanos.Add(int64(took))
}

func (s *Stats) add(t *tally, started int) {
	s.RunsAccepted.Add(t.accepted)
	s.RunsEnded.Add(t.ended)
	s.AttemptsStarted.Add(int64(started))
	s.AttemptsEnded.Add(t.attemptsEnded)
	s.Rejected.Add(t.rejected)
	s.Lost.Add(t.lost)
	s.Repaired.Add(t.repaired)
	for i, n := range t.faults {
		s.Faults[i].Add(n)
	}
	s.RunsRevived.Add(t.revived)
}

// New makes an engine. Nothing happens until Run.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if cfg.Store == nil || cfg.Executor == nil || cfg.Compile == nil || cfg.Slots < 0 || cfg.Slots == 0 && cfg.Market == nil {
		return nil, errors.New("engine: Store, Executor, Compile and Slots ≥ 1 are required")
	}
	if cfg.Ageing == 0 {
		cfg.Ageing = ageingDefault
	}
	if cfg.Unclaimed == 0 {
		cfg.Unclaimed = unclaimedDefault
	}
	if cfg.SubmitMax == 0 {
		cfg.SubmitMax = submitMaxDefault
	}
	if cfg.EvaluateMax == 0 {
		cfg.EvaluateMax = evaluateMaxDefault
	}
	if cfg.Past == nil {
		cfg.Past = forgetful{}
	}
	if cfg.AheadRows == 0 {
		cfg.AheadRows = aheadRowsDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Host = host.Or(cfg.Host)
	var h store.Handler
	if cfg.Life != nil {
		h = cfg.Life.Handler
	} else {
		var err error
		if h, err = cfg.Store.Register(ctx, cfg.Host.ID().String(), cfg.Node); err != nil {
			return nil, errkind.FromStore("register this process", err)
		}
	}
	info, err := cfg.Store.Info(ctx)
	if err != nil {
		return nil, errkind.FromStore("read the database", err)
	}
	e := &Engine{cfg: cfg, host: cfg.Host, log: cfg.Log, ready: make(chan struct{}), pulse: newPulse(cfg.Host), can: store.Can(cfg.Store)}
	e.handler.Store(&h)
	e.quotas.on, e.quotas.now, e.quotas.oldest = cfg.QuotasEach > 0, cfg.Host.Now, rulesMax(cfg.QuotasEach)
	watch := &stopwatch{Store: cfg.Store, host: cfg.Host}
	e.store, e.stats.store = watch, watch.prober()
	e.stats.meter, e.stats.name = newMeter(cfg.Host.Now()), namer(cfg.Store)
	e.stats.loads = loads{half: cmp.Or(cfg.LoadHalf, loadHalfDefault), now: cfg.Host.Now, of: map[dag.ShardID]*rates{}}
	e.holding.Store(new([]dag.ShardID))
	for i := range info.Shards {
		e.shards = append(e.shards, dag.ShardID(i))
	}
	if cfg.Peers != nil {
		if e.cluster = e.can.Cluster; e.cluster == nil {
			return nil, fmt.Errorf("engine: a store of kind %s is for one node", info.Engine)
		}
	}
	if e.holders = cfg.Holders; cfg.Peers != nil {
		e.holders = cfg.Peers
	}
	e.slots.me, e.slots.node, e.slots.ageing = func() dag.HandlerID { return e.me().ID }, cfg.Node, cfg.Ageing
	e.slots.traits.Store(&e.cfg.Traits)
	e.slots.executor, e.slots.market, e.slots.holders = cfg.Executor, cfg.Market, e.holders
	e.slots.begin(&cfg)
	e.graphs = inspect.NewGraphs(e.store, cfg.Compile)
	e.Reader = inspect.New(e.reading())
	e.writer = newWriter(e)
	e.setState("starting")
	return e, nil
}

// Run owns the shards until ctx ends. It returns when all its goroutines have ended. Accepted work is in the
// store, and the next Run of any engine continues it.
func (e *Engine) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer e.host.Wait(&wg)
	ctx, stop := context.WithCancel(ctx)
	defer stop() // everything that lead does ends with the writer
	watchQuotas(ctx, e, &wg)
	err := e.writer.run(ctx, &wg)
	e.setState("stopped")
	e.hub.close()
	return err
}

// Ready is closed once every shard is owned and loaded: submissions are accepted.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// State returns the state of the engine as a word: starting, running, "retaking: <why>" while the store
// accepts no transactions, or stopped.
func (e *Engine) State() string { return *e.state.Load() }

func (e *Engine) setState(s string) { e.state.Store(&s) }

// Accepting returns nil if submissions are accepted now. Otherwise the error has the reason.
func (e *Engine) Accepting() error {
	if s := e.State(); s != StateRunning {
		return fmt.Errorf("%w: the node is %s", errkind.ErrUnavailable, s)
	}
	return nil
}

// StateRunning is the State of an engine that accepts submissions.
const StateRunning = "running"

// Stats returns the counters.
func (e *Engine) Stats() *Stats { return &e.stats }

// Handler returns the handler of this process.
func (e *Engine) Handler() store.Handler { return *e.handler.Load() }

// me returns the handler. Unlike the result of Handler, the value is shared and must not be changed.
func (e *Engine) me() *store.Handler { return e.handler.Load() }

// Idle reports whether no run is unfinished.
func (e *Engine) Idle() bool { return e.stats.ActiveRuns.Load() == 0 }
