package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/remote"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// jobs makes jobs from assignments for workers in other processes, as the executor does for the worker of
// this process.
type jobs struct{ x *Executor }

var _ home.Jobs = jobs{}

// Jobs returns the maker of jobs for workers that have this node as home.
func (x *Executor) Jobs() home.Jobs { return jobs{x} }

// Job implements home.Jobs.
func (j jobs) Job(ctx context.Context, a *engine.Assignment, t *store.Traits, quick bool) (*workerv1.Job, engine.Reading, error) {
	var is *resolved
	err := j.x.resolver.surely(ctx, a, func() (err error) {
		is, err = j.x.resolver.resolve(ctx, a, t, quick)
		return err
	}, j.x.stays)
	switch {
	case errors.Is(err, errUnwanted) && ctx.Err() != nil:
		return nil, engine.Reading{}, err
	case errors.Is(err, errUnwanted):
		return nil, engine.Reading{}, home.ErrEnding
	case errors.Is(err, provider.ErrSlow):
		j.x.resolver.leave(a.Run)
		return nil, engine.Reading{}, home.ErrSlow
	case err != nil:
		return nil, engine.Reading{}, err
	}
	return j.wire(is), is.rules, nil
}

// wire returns a job in the form of the protocol.
func (j jobs) wire(is *resolved) *workerv1.Job {
	var rules egress.Rules
	if is.job.Kind != nil {
		rules = j.x.resolver.cfg.Egress().Under(is.space.Name, is.space.Egress)
	}
	out := remote.Wire(is.job, is.origin, is.dir, rules)
	if is.errand {
		out.WorksFor = is.version.Namespace
	}
	if is.kind != "" && is.job.Kind == nil {
		out.Kind, out.Input, out.InstantMicros = is.kind, is.input, is.instant.UnixMicro()
		out.Files, out.Origin = false, ""
	}
	if out.Files {
		out.FilesDigest = is.version.digest()
	}
	return out
}

// stays pauses. It returns false if this process is ending.
func (x *Executor) stays(pause time.Duration) bool {
	time.Sleep(pause)
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.closed
}

// Names implements home.Jobs.
func (j jobs) Names(ctx context.Context, run dag.RunID, t dag.TaskID) (home.Names, error) {
	row, err := j.x.resolver.cfg.Store.Run(ctx, run)
	if err != nil {
		return home.Names{}, fmt.Errorf("read the run: %w", err)
	}
	a := engine.Assignment{Run: run, Task: t, Workflow: row.Workflow, Version: row.Version}
	v, err := j.x.resolver.versions.Get(versionID{row.Workflow, row.Version})
	if err == nil {
		err = j.x.resolver.graphFor(ctx, &a, &row)
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
	if errors.Is(err, errUnwanted) {
		return stoppedBefore(worker.ModeTerm)
	}
	return dag.Result{State: dag.AttemptFailed, Cause: causeOf(err), Message: err.Error(), Finished: dag.Micro(time.Now())}
}

// Files implements home.Jobs.
func (j jobs) Files(ctx context.Context, run dag.RunID, w dag.WorkflowID, version int32) ([]*workerv1.File, error) {
	r := j.x.resolver
	v, err := r.versions.Get(versionID{w, version})
	if err == nil && v.releases() {
		v, err = r.versionOfErrand(ctx, run)
	}
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
func (j jobs) Left(run dag.RunID) { j.x.resolver.leave(run) }

// Inputs implements home.Jobs.
func (j jobs) Inputs(ctx context.Context, run dag.RunID, t dag.TaskID) ([]artifact.Input, error) {
	r := j.x.resolver
	row, err := r.cfg.Store.Run(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("read the run: %w", err)
	}
	a := engine.Assignment{Run: run, Task: t, Workflow: row.Workflow, Version: row.Version}
	v, err := r.versions.Get(versionID{row.Workflow, row.Version})
	if err == nil {
		err = r.graphFor(ctx, &a, &row)
	}
	if err != nil {
		return nil, err
	}
	a.Name = a.Graph.Name(t)
	at, ok := v.position(&a)
	if !ok {
		return nil, artifact.NoInput("version %d of workflow %s has no task %q", a.Version, v.Name, a.Name)
	}
	sources, err := r.sources(ctx, v, at, run, a.Graph)
	if err != nil {
		return nil, err
	}
	return choose(ctx, r.cfg.Kept, sources)
}

// ReadInput implements home.Jobs.
func (j jobs) ReadInput(ctx context.Context, in *artifact.Input, offset int64) ([]byte, error) {
	return j.x.resolver.cfg.Kept.Read(ctx, in.Ref, in.Name, offset)
}
