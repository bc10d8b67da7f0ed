package app

import (
	"context"
	"net/http"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/joining"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// newHome makes the home for the workers of a node.
func newHome(n *Node, members home.Members, others home.Caller, directory home.Directory) *home.Home {
	return home.New(home.Config{Directory: directory, Engine: &n.engine, Boot: worker.Boot, Logs: workerLogs(n), Artifacts: n.depot.Home(),
		Store: members, Register: n.store.Register, Caller: others, Jobs: n.executor.Jobs(), Executor: n.executor,
		Slots: n.cfg.Slots, Traits: n.traits(), Beat: n.cfg.Heartbeat, Lag: n.cfg.Lag, Unclaimed: n.cfg.Unclaimed,
		WorkersMax: n.cfg.WorkersMax, SlotsMax: n.cfg.WorkerSlotsMax, Proofs: joining.Proofs(func(ctx context.Context, worker string) (bool, error) { return n.gate.Certified(ctx, worker) }), Version: Version(), Format: directory.Self().Format,
		Strategy: n.cfg.Dispatch, Log: n.log,
	})
}

// traits returns the properties by which tasks choose this process.
func (n *Node) traits() store.Traits {
	return store.Traits{Groups: n.cfg.Groups, Labels: n.cfg.WorkerLabels(), Levels: n.cfg.WorkerLevels(), Users: n.cfg.TaskUsers, Room: n.cfg.Room, Extensions: n.extensions.Extensions(), Refused: n.extensions.Refused()}
}

// slotless returns cfg. For a node without the role worker, it returns a copy without slots.
func slotless(cfg *config.Config) *config.Config {
	if !cfg.NoWorker {
		return cfg
	}
	own := *cfg
	own.Slots = 0
	return &own
}

// withWorkers answers the calls of workers, and passes every other call to others.
func (n *Node) withWorkers(others http.Handler) (http.Handler, error) {
	var routes access.Routes
	methods := workerv1.File_worker_v1_worker_proto.Services().ByName("Workers").Methods()
	for i := range methods.Len() {
		routes.Take(http.MethodPost, home.Prefix+string(methods.Get(i).Name()))
	}
	routes.Take(http.MethodGet, home.LinePath)
	routes.Take(http.MethodPost, joining.JoinPath)
	routes.Take(http.MethodPost, joining.RenewPath)
	if err := routes.Err(func(of access.Of) bool { return of == access.OfWorker }); err != nil {
		return nil, err
	}
	workers := server.Guarded(n.listener.Addr().String(), n.cfg.Exposed(), n.joining.Answer(home.Handler(n.members.slots()), n.auditor.Wake))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if row, _ := access.Match(r); row.Of == access.OfWorker {
			workers.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	}), nil
}
