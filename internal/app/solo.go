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
	"skein.dev/skein/internal/artifact/nodes"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// solo is a node that shares its store with no other node, together with its workers. In a cluster,
// membership takes its place.
type solo struct {
	n       *Node
	workers *cluster.Alone
	home    *home.Home
	// over is true when the node attaches no more workers, because its process is about to end.
	over atomic.Bool
}

var _ members = (*solo)(nil)

// newSolo reads the workers that an earlier process of the node has left.
func newSolo(ctx context.Context, n *Node, self store.Member, shards int) (*solo, error) {
	h := &solo{n: n}
	var err error
	h.workers, err = cluster.NewAlone(ctx, cluster.AloneConfig{Store: store.Can(n.store).Workers, Owner: &n.engine, Shards: int32(shards), Lag: n.cfg.Lag, Log: n.log,
		Self: self,
		Now: func() (int, dag.Need, bool) {
			_, used := n.engine.Room()
			_, busy := n.engine.Slots()
			return busy, used, n.engine.IsShut() != ""
		},
		Deposed: func(store.Member) { n.upkeep.deposed.Add(1) },
	})
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", n.cfg.DBName(), err)
	}
	n.newExecutor(nodes.NewFinder(n.depot.Source(), nil))
	h.home, n.monitor = newHome(n, h.workers, noPeers{}, h.workers), newMonitor(n, h.workers.Self, nil)
	return h, nil
}

// noPeers implements the calls to other nodes for a node that has none.
type noPeers struct{}

// Call implements home.Caller.
func (noPeers) Call(_ context.Context, to store.Member, _ string, _, _ any) error {
	return fmt.Errorf("node %s cannot be called: this node is alone", to.Name)
}

// soloHolders gives the engine access to the workers.
type soloHolders struct{ *solo }

// Alive implements engine.Holders.
func (l soloHolders) Alive(h dag.HandlerID) bool { return l.workers.Alive(h) }

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

func (h *solo) slots() *home.Home { return h.home }

func (h *solo) extend(all []dag.Extension, refused []dag.Refusal) { h.workers.Extend(all, refused) }

func (h *solo) list() ([]store.Member, []store.ShardRow) { return h.workers.View() }

func (h *solo) forEngine(c *engine.Config) {
	l := soloHolders{h}
	c.Holders, c.Market, c.Helpers, c.Roster = l, h.home, l, inspect.Roster(h.workers)
}

func (h *solo) forServer(near *neighbours) {
	near.stuck, near.metrics = h.home.StuckFor, []metric.Source{homeMetrics(h.home)}
	near.workers = func() []store.Member { members, _ := h.workers.View(); return members }
}

func (h *solo) gateway() (func(http.Handler) http.Handler, error) { return nil, nil }

func (h *solo) proofs() auth.Channel { return nil }

// started fires the triggers of the start of a scheduler.
func (h *solo) started(ctx context.Context) { h.n.greet(ctx, h.n.life) }

// leave does nothing, because no other node can take the shards.
func (h *solo) leave() {}

// ended does nothing, because slots of this process are lent to no other node.
func (h *solo) ended(dag.RunID, dag.TaskID, dag.Token) {}

func (h *solo) pending(engine.AttemptID) bool { return false }

func (h *solo) submit(_ context.Context, s dag.ShardID, _ engine.Submission) error {
	return fmt.Errorf("no node owns shard %d", s)
}

func (h *solo) alone() bool { return true }

// sure returns the present instant, because no other node can take the attempts.
func (h *solo) sure() time.Duration { return worker.Boot() }

func (h *solo) beaten() time.Time { return time.Time{} }

// run serves workers until stop is called. Afterwards their attempts continue for the length of a lease, so
// that the next process of this node finds them.
func (h *solo) run(ctx context.Context) (stop func() error, failed <-chan error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { h.home.Run(ctx) })
	wg.Go(func() { h.workers.Run(ctx) })
	return func() error {
		h.over.Store(true)
		cancel()
		wg.Wait()
		h.home.Reset() // open polls end
		return nil
	}, nil
}

// takes reports whether the node accepts a request of a worker while it is stopping. In a cluster, workers
// then find another node. Here there is no other node. So if these requests were refused, the leases of the
// workers and their attempts would end during a long drain.
func (h *solo) takes(r *http.Request) bool {
	if h.over.Load() {
		return false
	}
	row, _ := access.Match(r)
	return row.Of == access.OfWorker
}

// workerLogs returns where the output of workers' attempts is stored: in the store that all nodes read, if
// there is one, and otherwise in the data folder.
func workerLogs(n *Node) logs.Sink {
	switch {
	case n.logs != nil:
		return n.logs
	case n.cfg.Postgres == "":
		return logs.Folder{Path: filepath.Clean(n.cfg.Data)}
	}
	return nil
}

// homeMetrics exports the counters of the home of the workers.
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
