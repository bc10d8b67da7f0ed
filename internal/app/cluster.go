package app

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/artifact/nodes"
	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/depot"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/joining"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// membership holds the parts of a node in a cluster.
type membership struct {
	n      *Node
	shared store.Cluster
	node   *cluster.Node
	peers  *peer.Client
	rt     http.RoundTripper
	home   *home.Home
	// channel proves to other nodes for which caller this node passes a request on. It also checks such
	// proofs of other nodes.
	channel auth.Channel
}

var _ members = (*membership)(nil)

// newMembership makes the parts in the order of their needs: the calls to other nodes, then the directory of
// the members, then the executor, and last the parts that need all of these.
func newMembership(ctx context.Context, n *Node, shared store.Cluster, self store.Member) (*membership, error) {
	cfg := n.cfg
	if cfg.Exposed() && cfg.APIToken == "" {
		return nil, fmt.Errorf("%w on %s: the other nodes of the cluster will ask this one for a token; make one (skein token create --kind node) "+
			"and give it with --token-file FILE, or in SKEIN_API_TOKEN", config.ErrNotAllowed, cfg.Listen)
	}
	base, err := Transport(cfg)
	if err != nil {
		return nil, err
	}
	rt := joining.NewNodeTransport(n.joining, base)
	channel, err := auth.NewKeyChannel(ctx, keyStore{shared, n.store})
	if err != nil {
		return nil, err
	}
	n.judge = cfg.Judge(n.log)
	m := &membership{n: n, shared: shared, rt: rt, channel: channel}
	calls := peer.NewCaller(rt, cfg.APIToken, channel.Calls(self.Name, cfg.APIToken != ""))
	m.node = cluster.New(cluster.Config{Started: n.greet, Deposed: n.deposed,
		Store: shared, Owner: reborn{&n.engine, func(h store.Handler) { n.worker.Brand(tagOf(h)) }}, Boot: worker.Boot, Blind: calls.Blind,
		Look: func() cluster.Compare { return n.past.Look() }, Beat: cfg.Heartbeat, Lag: cfg.Lag, ExitOnLoss: cfg.ExitOnLoss, Judge: n.judge, Log: n.log,
		Self: self, Used: func() dag.Need { _, used := n.engine.Room(); return used }, Full: func() bool { return n.engine.IsShut() != "" }, Loads: cluster.LoadsOf(cfg.Balance, func() *store.Load { return n.gate.Load(n.engine.Stats().Load()) }),
		Busy: func() int { _, busy := n.engine.Slots(); return busy + m.peers.Waiting() },
	})
	n.newExecutor(nodes.NewFinder(n.depot.Source(), others{calls, m.node}))
	m.home, n.monitor = newHome(n, shared, calls, m.node), newMonitor(n, m.node.Self, calls.Call)
	m.peers = peer.NewClient(calls, m.node, &n.engine, n.log)
	return m, nil
}

// others gives a search for artifacts access to the other nodes.
type others struct {
	*peer.Caller
	*cluster.Node
}

// keyStore has the key of the nodes, and the clock that they share.
type keyStore struct {
	store.Cluster
	st store.Store
}

// Clock implements auth.KeyStore.
func (k keyStore) Clock(ctx context.Context) (dag.Micros, error) { return k.st.Clock(ctx) }

func (m *membership) proofs() auth.Channel { return m.channel }

func (m *membership) extend(all []dag.Extension, refused []dag.Refusal) { m.node.Extend(all, refused) }

func (m *membership) slots() *home.Home { return m.home }

func (m *membership) list() ([]store.Member, []store.ShardRow) { return m.node.View() }

func (m *membership) forEngine(c *engine.Config) {
	c.Peers, c.Market, c.Helpers = m.peers, m.home, asking{m}
}

func (m *membership) takes(*http.Request) bool { return false }

// started does nothing: cluster.Node finds out whether the cluster started.
func (m *membership) started(context.Context) {}

func (m *membership) sure() time.Duration { return m.node.Sure() }

func (m *membership) beaten() time.Time { return m.node.Beaten() }

func (m *membership) submit(ctx context.Context, s dag.ShardID, sub engine.Submission) error {
	_, err := m.peers.Submit(ctx, s, sub)
	return err
}

// asking lets a sweep reach the holders of attempts. It reaches nodes directly, and workers through their
// homes.
type asking struct{ m *membership }

// Check implements engine.Helpers.
func (a asking) Check(ctx context.Context, s dag.ShardID, list []engine.Suspect) (int, error) {
	return a.m.peers.Check(ctx, s, list)
}

// Missing implements engine.Helpers.
func (a asking) Missing(ctx context.Context, h dag.HandlerID, list []engine.Held) ([]engine.Held, error) {
	if is, ok := a.m.node.Member(h); ok && is.Worker {
		return a.m.home.Missing(ctx, h, list)
	}
	return a.m.peers.Missing(ctx, h, list)
}

// ended informs the slot broker that an attempt of this node has ended, because the attempt's slot may be
// lent.
func (m *membership) ended(run dag.RunID, task dag.TaskID, token dag.Token) {
	m.home.Ended(run, task, token)
}

func (m *membership) pending(id engine.AttemptID) bool { return m.peers.Pending(id) }

// neighbours holds the functions by which a server reaches other nodes. They are nil if there are no other
// nodes.
type neighbours struct {
	remote   func(context.Context, dag.HandlerID) (dag.HandlerID, bool)
	holder   func(context.Context, server.LogRef) (dag.HandlerID, bool)
	giver    func(*logs.Ref, dag.HandlerID) logs.Giver
	others   server.Neighbours
	cluster  server.Cluster
	gateway  func(own http.Handler) http.Handler // nil if there are no other nodes
	logs     logs.Store                          // the shared log store
	tokens   store.Tokens
	access   store.Access
	sessions *auth.Sessions // nil if this process only reads the database
	classes  store.Classes
	secrets  store.Secrets
	workers  func() []store.Member // the members that a node without a cluster knows
	metrics  []metric.Source
	stuck    func() time.Duration // how long the slot broker has been stuck
	audits   store.AuditLog
	auditor  *audit.Keeper // nil if this process only reads the database
	keeping  func() time.Duration
	alerts   store.Alerts
	monitor  *monitor.Monitor // nil if this process only reads the database
	notifier server.Notifier  // nil if this process only reads the database

	authority   *authority.Authority // nil if this process only reads the database
	artifacts   nodes.Source         // the artifacts that this process can read itself
	connections store.Outside
	connector   server.Connector // nil if this process only reads the database
	source      server.SourceState
	git         func() server.GitSyncer // nil if this process reads no repositories
	events      server.EventLog         // nil if this process only reads the database
}

// town gives a node's server access to the cluster.
type town struct {
	store.Cluster
	clock func(context.Context) (dag.Micros, error)
	m     *membership // nil if the process only reads the database
}

// neighboursOf returns the neighbours of a process that only reads the database of a cluster.
func neighboursOf(st store.Store, shared logs.Store, d *depot.Depot) neighbours {
	near := neighbours{logs: shared, artifacts: d.Source(), tokens: st, access: st, classes: st, secrets: st, audits: st, alerts: st, connections: st}
	if c := store.Can(st).Cluster; c != nil {
		near.cluster = &town{c, st.Clock, nil}
	}
	return near
}

// forServer implements members.
func (m *membership) forServer(near *neighbours) {
	st, finder := m.n.store, nodes.NewFinder(m.n.depot.Source(), others{m.peers.Caller, m.node})
	near.cluster = &town{m.shared, st.Clock, m}
	near.metrics, near.stuck, near.others = []metric.Source{homeMetrics(m.home), m.node.ShowJudge, m.node.ShowLoad}, m.home.StuckFor, streets{m}
	near.holder = func(ctx context.Context, ref server.LogRef) (dag.HandlerID, bool) {
		return finder.Holder(ctx, artifactRef(&ref))
	}
	near.giver = func(ref *logs.Ref, h dag.HandlerID) logs.Giver { return m.giver(st, ref, h) }
	near.remote = func(ctx context.Context, h dag.HandlerID) (dag.HandlerID, bool) { return m.remote(ctx, st, h) }
}

// Clock implements server.Cluster.
func (t *town) Clock(ctx context.Context) (dag.Micros, error) { return t.clock(ctx) }

// Submit implements server.Cluster.
func (t *town) Submit(ctx context.Context, s dag.ShardID, sub engine.Submission) (engine.Accepted, error) {
	if t.m == nil {
		return engine.Accepted{}, fmt.Errorf("%w: this process only reads the database; send the call to a node", errkind.ErrUnavailable)
	}
	return t.m.peers.Submit(ctx, s, sub)
}

// Wake implements server.Cluster.
func (t *town) Wake() {
	if t.m != nil {
		t.m.node.Wake()
	}
}

// gateway answers the requests of other nodes, and passes on requests that another node must answer. To
// choose the node, it uses the row of the request in the table of access, and not the text of the path. The
// decision about access uses the same row.
func (m *membership) gateway() (func(own http.Handler) http.Handler, error) {
	n, mux, may := m.n, access.NewMux(), peer.NewSpeakers(m.node, auth.NodeOf).Check
	peer.Handle(mux, m.node, &n.engine, m.home.Cancel, may)
	m.home.HandlePeers(mux, may)
	n.monitor.Handle(mux)
	nodes.Handle(mux, n.depot.Source())
	mux.Take(http.MethodGet, eventsPath)
	if err := mux.Err(func(of access.Of) bool { return of == access.OfNode }); err != nil {
		return nil, err
	}
	calls := server.Guarded(n.listener.Addr().String(), n.cfg.Exposed(), peer.OnlyJSON(mux))
	return func(own http.Handler) http.Handler {
		events := access.NewMux() // calls about events have no body
		events.HandleFunc("GET "+eventsPath, ofThisNode(own))
		outer := peer.Gateway(own, m.node, m.rt, m.channel.Vouch, n.log)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			row, _ := access.Match(r)
			switch {
			case row.Of == access.OfNode && row.Method == http.MethodGet:
				events.ServeHTTP(w, r)
			case row.Of == access.OfNode:
				calls.ServeHTTP(w, r)
			case r.URL.Path == "/readyz" && !m.node.Joined():
				http.Error(w, "not a member of the cluster yet", http.StatusServiceUnavailable)
			default:
				outer.ServeHTTP(w, r)
			}
		})
	}, nil
}

// run makes the node a member until stop is called. The node releases its shards before that, when it begins
// to stop: see leave.
func (m *membership) run(ctx context.Context) (stop func() error, failed <-chan error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	sent := make(chan struct{})
	ended, fail := make(chan error, 1), make(chan error, 1)
	go func() {
		defer close(sent)
		var wg sync.WaitGroup
		wg.Go(func() { m.home.Run(ctx) })
		m.peers.Run(ctx)
		wg.Wait()
	}()
	go func() {
		err := m.node.Run(ctx)
		if err != nil && ctx.Err() == nil {
			fail <- err
		}
		ended <- err
	}()
	return func() error {
		last, done := context.WithTimeout(context.Background(), stopWait)
		defer done()
		m.peers.Flush(last)
		cancel()
		<-sent
		err := <-ended
		if ctx.Err() != nil && err == ctx.Err() {
			return nil
		}
		return err
	}, fail
}

// remote finds the present node that has the files of a handler's attempts. It returns whether this is
// another node of the cluster. That node may have a newer handler by now. The result is 0 if no present node
// has the files.
func (m *membership) remote(ctx context.Context, st store.Store, h dag.HandlerID) (dag.HandlerID, bool) {
	self := m.node.Self().Handler
	if h == self {
		return self, false
	}
	if o, ok := m.node.Member(h); ok && o.Worker {
		return 0, false // every node can read the files of a worker: see giver
	} else if ok {
		return h, true
	}
	was, err := st.Handlers(ctx, []dag.HandlerID{h})
	if err != nil || len(was) == 0 {
		return 0, false
	}
	members, _ := m.node.View()
	i := slices.IndexFunc(members, func(o store.Member) bool { return !o.Worker && o.Name == was[0].Node })
	if i < 0 || members[i].Handler != self && !m.node.Alive(members[i].Handler) {
		return 0, false
	}
	return members[i].Handler, members[i].Handler != self
}

// alone reports whether no other node has been seen since this one started.
func (m *membership) alone() bool {
	self := m.node.Self()
	members, _ := m.node.View()
	return !slices.ContainsFunc(members, func(o store.Member) bool { return !o.Worker && o.Handler != self.Handler && o.Seen > self.Started })
}

// leave releases the shards at once. Attempts that still run here report to the next owners of the shards.
func (m *membership) leave() { m.node.Cordon(true) }

// sweeps reports whether this node starts the recovery sweep.
func (n *Node) sweeps() bool { return n.cfg.Recovery && !n.cfg.ByHand }

// deposed starts a recovery sweep at once, because another node was declared dead.
func (n *Node) deposed(ctx context.Context, dead store.Member) {
	n.upkeep.deposed.Add(1)
	if n.sweeps() {
		n.recovery.Sweep(ctx, dead)
	}
}
