package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/remote"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// newHome makes the home of the workers of a node of a cluster.
func (n *Node) newHome(info store.Info) *home.Home {
	var sink logs.Sink
	if n.logs != nil {
		sink = n.logs
	}
	kept := n.cfg.Data
	if n.cfg.Artifacts != "" {
		kept = n.cfg.Artifacts
	}
	return home.New(home.Config{Boot: worker.Boot, Logs: sink, Artifacts: &artifact.Keeper{Store: artifact.Folder{Path: kept}, Limits: artifact.LimitsDefault},
		Store: n.store.(store.Cluster), Register: n.store.Register, Caller: n.member.peers, Jobs: jobs{n.executor}, Executor: n.executor,
		Slots: n.cfg.Slots, Traits: n.cfg.traits(), Beat: n.cfg.Heartbeat, Lag: n.cfg.Lag, Unclaimed: n.cfg.Unclaimed,
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

// traits are what tasks choose this process by.
func (c *Config) traits() store.Traits {
	return store.Traits{Groups: c.Groups, Labels: c.Labels, Room: c.Room}
}

// jobs makes what workers elsewhere need of their assignments, as the executor does for its own.
type jobs struct{ x *executor }

var _ home.Jobs = jobs{}

// Job implements home.Jobs.
func (j jobs) Job(ctx context.Context, a *engine.Assignment) (*workerv1.Job, error) {
	var is *resolved
	err := j.x.resolve.surely(a.Run, func() (err error) {
		is, err = j.x.resolve.resolve(ctx, a)
		return err
	}, j.x.stays)
	switch {
	case errors.Is(err, errUnwanted):
		return nil, home.ErrEnding
	case err != nil:
		return nil, err
	}
	out := remote.Wire(is.job, is.version.Origin, is.dir, true)
	if is.kind != "" {
		out.Kind, out.Input, out.InstantMicros = is.kind, is.input, is.instant.UnixMicro()
		out.Files, out.Origin = false, ""
	}
	return out, nil
}

// stays lets a time pass; false: this process has ended its work.
func (x *executor) stays(pause time.Duration) bool {
	time.Sleep(pause)
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.closed
}

// Names implements home.Jobs.
func (j jobs) Names(ctx context.Context, run dag.RunID, t dag.TaskID) (home.Names, error) {
	row, err := j.x.resolve.store.Run(ctx, run)
	if err != nil {
		return home.Names{}, fmt.Errorf("read the run: %w", err)
	}
	a := engine.Assignment{Run: run, Task: t, Workflow: row.Workflow, Version: row.Version}
	v, err := j.x.resolve.versions.Get(versionID{row.Workflow, row.Version})
	if err == nil {
		err = j.x.resolve.graphFor(ctx, &a, &row)
	}
	if err != nil {
		return home.Names{}, err
	}
	a.Name = a.Graph.Name(t)
	at, ok := v.position(&a)
	return home.Names{Namespace: v.Namespace, Workflow: v.Name, Task: a.Name, Artifacts: ok && len(v.Tasks[at].Artifacts) > 0}, nil
}

// Refused implements home.Jobs.
func (jobs) Refused(err error) dag.Result {
	return dag.Result{State: dag.AttemptFailed, Cause: causeOf(err), Message: err.Error(), Finished: dag.Micro(time.Now())}
}

// Files implements home.Jobs.
func (j jobs) Files(_ context.Context, w dag.WorkflowID, version int32) ([]*workerv1.File, error) {
	v, err := j.x.resolve.versions.Get(versionID{w, version})
	if err != nil {
		return nil, err
	}
	files, err := v.files()
	if err != nil {
		return nil, err
	}
	out := make([]*workerv1.File, len(files))
	for i, f := range files {
		out[i] = &workerv1.File{Name: f.Name, Mode: uint32(f.Mode), Data: f.Content}
	}
	return out, nil
}

// Left implements home.Jobs.
func (j jobs) Left(run dag.RunID) { j.x.resolve.leave(run) }

// slotless gives a node without the role worker no slots.
func slotless(cfg *Config) (*Config, error) {
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
	workers := server.Guarded(n.listener.Addr().String(), n.cfg.open(), n.member.workers())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if row, _ := access.Match(r); row.Of == access.OfWorker {
			workers.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	}), nil
}
