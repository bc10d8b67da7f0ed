package app

import (
	"errors"
	"net/http"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// newHome makes the home of the workers of a node of a cluster.
func newHome(n *Node, shared store.Cluster, peers *peer.Client, info store.Info) *home.Home {
	var sink logs.Sink
	if n.logs != nil {
		sink = n.logs
	}
	kept := n.cfg.Data
	if n.cfg.Artifacts != "" {
		kept = n.cfg.Artifacts
	}
	return home.New(home.Config{Boot: worker.Boot, Logs: sink, Artifacts: &artifact.Keeper{Store: artifact.Folder{Path: kept}, Limits: artifact.LimitsDefault},
		Store: shared, Register: n.store.Register, Caller: peers, Jobs: n.executor.Jobs(), Executor: n.executor,
		Slots: n.cfg.Slots, Traits: traitsOf(n.cfg), Beat: n.cfg.Heartbeat, Lag: n.cfg.Lag, Unclaimed: n.cfg.Unclaimed,
		WorkersMax: n.cfg.WorkersMax, SlotsMax: n.cfg.WorkerSlotsMax, Version: Version(), Format: info.Known,
		Strategy: n.cfg.Dispatch, Log: n.log,
	})
}

// metrics shows what the home of workers counts.
func (m *membership) metrics(p *metric.Page) {
	st := &m.home.Stats
	p.Set("worker_registrations_total", float64(st.Registered.Load()))
	p.Set("worker_attempts_lost_total", float64(st.Lost.Load()))
	p.Set("places_unserved", float64(st.Unserved.Load()))
	for _, why := range home.Reasons() {
		p.Set("worker_calls_rejected_total", float64(st.Rejected(why)), why.String())
	}
}

// traitsOf are the properties by which tasks choose this process.
func traitsOf(cfg *config.Config) store.Traits {
	return store.Traits{Groups: cfg.Groups, Labels: cfg.Labels, Room: cfg.Room}
}

// slotless gives a node without the role worker no slots.
func slotless(cfg *config.Config) (*config.Config, error) {
	if !cfg.NoWorker {
		return cfg, nil
	}
	if cfg.Postgres == "" {
		return nil, errors.New("a node without the role worker needs workers elsewhere, and they a database that several nodes can share: --db postgres://…")
	}
	own := *cfg
	own.Slots = 0
	return &own, nil
}

// withWorkers answers workers, and leaves every other call to others.
func (n *Node) withWorkers(others http.Handler) (http.Handler, error) {
	var routes access.Routes
	methods := workerv1.File_worker_v1_worker_proto.Services().ByName("Workers").Methods()
	for i := range methods.Len() {
		routes.Take(http.MethodPost, home.Prefix+string(methods.Get(i).Name()))
	}
	routes.Take(http.MethodGet, home.LinePath)
	if err := routes.Err(func(of access.Of) bool { return of == access.OfWorker }); err != nil {
		return nil, err
	}
	workers := server.Guarded(n.listener.Addr().String(), n.cfg.Exposed(), n.member.workers())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if row, _ := access.Match(r); row.Of == access.OfWorker {
			workers.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	}), nil
}
