package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

// solo is a node that shares its store with no other node, with the workers that are attached to it. It
// is nil in a cluster: see membership.
type solo struct {
	alone *cluster.Alone
	home  *home.Home
	// over is true when the node no longer attaches workers, because its process is about to end.
	over atomic.Bool
}

// findOthers makes the membership of a node: of its cluster, or of a node that is alone.
func findOthers(ctx context.Context, n *Node, info store.Info) (err error) {
	if n.member, err = newMembership(ctx, n, info); err != nil {
		return err
	}
	n.solo, err = newSolo(ctx, n, info)
	return err
}

// newSolo reads the workers that an earlier process of the node has left. It returns nil if the store is
// that of a cluster.
func newSolo(ctx context.Context, n *Node, info store.Info) (*solo, error) {
	can := store.Can(n.store)
	if can.Cluster != nil || can.Workers == nil {
		return nil, nil
	}
	alone, err := cluster.NewAlone(ctx, can.Workers)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", n.cfg.DBName(), err)
	}
	return &solo{alone: alone, home: newHome(n, alone, noPeers{}, info)}, nil
}

// noPeers implements the calls to other nodes for a node that has none.
type noPeers struct{}

// Call implements home.Caller.
func (noPeers) Call(_ context.Context, to store.Member, _ string, _, _ any) error {
	return fmt.Errorf("node %s cannot be called: this node is alone", to.Name)
}

// soloHolders are the workers, as the engine asks for them.
type soloHolders struct{ *solo }

// Alive implements engine.Holders.
func (l soloHolders) Alive(h dag.HandlerID) bool { return l.alone.Alive(h) }

// Cancel implements engine.Holders.
func (l soloHolders) Cancel(_ dag.HandlerID, cs []dag.Cancel) { l.home.Cancel(cs) }

// Check implements engine.Helpers. It is never called, because no other node owns a shard.
func (soloHolders) Check(context.Context, dag.ShardID, []engine.Suspect) (int, error) {
	return 0, errors.New("this node is alone")
}

// Missing implements engine.Helpers.
func (l soloHolders) Missing(ctx context.Context, h dag.HandlerID, list []engine.Held) ([]engine.Held, error) {
	return l.home.Missing(ctx, h, list)
}

// slotHome is the home of the workers of this node. It is nil if the node has none.
func (n *Node) slotHome() *home.Home {
	switch {
	case n.member != nil:
		return n.member.home
	case n.solo != nil:
		return n.solo.home
	}
	return nil
}

// roster lists the members that this node knows. It returns nothing if there are no other members.
func (n *Node) roster() ([]store.Member, []store.ShardRow) {
	switch {
	case n.member != nil && n.member.node != nil:
		return n.member.node.View()
	case n.solo != nil:
		return n.solo.alone.View()
	}
	return nil, nil
}

// quotasEach is the time between two readings of the quotas of namespaces: other nodes may have changed them.
const quotasEach = 2 * time.Second

// withOthers sets what an engine needs of the other members.
func withOthers(n *Node, c *engine.Config) {
	c.QuotasEach = quotasEach
	if n.member != nil {
		c.Peers, c.Market, c.Helpers = n.member.peers, n.member.home, asking{n.member}
	}
	if n.solo != nil {
		l := soloHolders{n.solo}
		c.Holders, c.Market, c.Helpers, c.Roster = l, n.solo.home, l, inspect.Roster(n.solo.alone)
	}
}

// connect completes it with the engine.
func (h *solo) connect(n *Node, info store.Info) {
	is := n.engine.Handler()
	h.alone.Connect(cluster.AloneConfig{Owner: n.engine, Shards: int32(info.Shards), Lag: n.cfg.Lag, Log: n.log,
		Self: store.Member{Handler: is.ID, UUID: n.life, Name: n.cfg.Name, Address: n.cfg.Advertise, Version: Version(), Format: info.Known,
			Slots: int32(n.cfg.Slots), Started: is.Started, Traits: traitsOf(n.cfg)},
		Now: func() (int, dag.Need, bool) {
			_, used := n.engine.Room()
			_, busy := n.engine.Slots()
			return busy, used, n.engine.IsShut() != ""
		},
		Deposed: func(store.Member) { n.upkeep.deposed.Add(1) },
	})
	h.home.Connect(h.alone, n.engine)
}

// run serves workers until stop is called. After that, their attempts continue for the length of a lease, so
// that the next process of this node finds them.
func (h *solo) run(ctx context.Context) (stop func()) {
	if h == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { h.home.Run(ctx) })
	wg.Go(func() { h.alone.Run(ctx) })
	return func() {
		h.over.Store(true)
		cancel()
		wg.Wait()
		h.home.Reset() // open polls end
	}
}

// takes reports whether the node accepts a request of a worker while it stops. In a cluster, workers find
// another node. Here there is none, so without these requests their leases, and their attempts, would end
// during a long drain.
func (h *solo) takes(r *http.Request) bool {
	if h == nil || h.over.Load() {
		return false
	}
	row, _ := access.Match(r)
	return row.Of == access.OfWorker
}

// workerLogs stores what attempts of workers print: where all nodes find it, else in the data folder.
func workerLogs(n *Node) logs.Sink {
	switch {
	case n.logs != nil:
		return n.logs
	case n.cfg.Postgres == "":
		return logs.Folder{Path: filepath.Clean(n.cfg.Data)}
	}
	return nil
}

// homeMetrics shows what the home of workers counts.
func homeMetrics(h *home.Home) metric.Source {
	return func(p *metric.Page) {
		st := &h.Stats
		p.Set("worker_registrations_total", float64(st.Registered.Load()))
		p.Set("worker_attempts_lost_total", float64(st.Lost.Load()))
		p.Set("places_unserved", float64(st.Unserved.Load()))
		for _, why := range home.Reasons() {
			p.Set("worker_calls_rejected_total", float64(st.Rejected(why)), why.String())
		}
	}
}
