package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// sources are what a task gets of others: of the newest attempts that have succeeded.
func (r *resolver) sources(ctx context.Context, v *version, t int, run dag.RunID, g *dag.Graph) ([]artifact.Source, error) {
	var all []artifact.Source
	for i := range v.Tasks[t].Inputs {
		in := &v.Tasks[t].Inputs[i]
		of, ok := g.Find(in.Task)
		if !ok {
			return nil, artifact.NoInput("there is no task %q to get files of", in.Task)
		}
		ids, each := []dag.TaskID{of}, false
		if p, ok := v.Find(in.Task); ok && len(v.Tasks[p].Foreach) > 0 {
			ids, each = g.Instances(of), true
		}
		for _, id := range ids {
			s := artifact.Source{Ref: artifact.Ref{Run: artifact.Run{Namespace: v.Namespace, Workflow: v.Name, ID: run.String()}, Task: g.Name(id)}, Name: in.Name}
			instance := ""
			if each {
				instance = s.Ref.Task
			}
			s.At = func(file string) string { return in.At(instance, file) }
			rows, err := r.attempts(ctx, run, id)
			if err != nil {
				return nil, fmt.Errorf("read the attempts of task %s: %w", s.Ref.Task, err)
			}
			switch last := len(rows) - 1; {
			case last < 0 || rows[last].State != dag.AttemptSucceeded:
				s.None = "it has not succeeded"
			case rows[last].Handler == 0:
				s.None = "it did not run, it was marked"
			default:
				s.Ref.Attempt = int(rows[last].Token)
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// attempts reads those of a task that others read. Where they have rows, and most that leave something do, that is one look.
func (r *resolver) attempts(ctx context.Context, run dag.RunID, t dag.TaskID) ([]dag.AttemptRow, error) {
	q := store.AttemptQuery{Run: run, Task: t, One: true, Outputs: true, Sparing: true}
	rows, err := r.store.Attempts(ctx, q)
	if err == nil && len(rows) == 0 {
		q.Sparing = false
		rows, err = r.store.Attempts(ctx, q)
	}
	return rows, err
}

// inputsOf is what an attempt that runs here gets.
type inputsOf struct {
	kept    *keptFiles
	sources []artifact.Source
	chosen  []artifact.Input
}

var _ worker.InputSource = (*inputsOf)(nil)

// List implements worker.InputSource.
func (i *inputsOf) List(ctx context.Context) ([]worker.Input, error) {
	var err error
	if i.chosen, err = i.kept.choose(ctx, i.sources); err != nil {
		return nil, err
	}
	list := make([]worker.Input, len(i.chosen))
	for n := range i.chosen {
		in := &i.chosen[n]
		list[n] = worker.Input{Index: n, Info: in.As()}
		if at, ok := i.kept.own.place(in.Ref); ok {
			list[n].At, list[n].File = at, in.Name
		}
	}
	return list, nil
}

// Read implements worker.InputSource.
func (i *inputsOf) Read(ctx context.Context, in *worker.Input, offset int64) ([]byte, error) {
	of := &i.chosen[in.Index]
	return i.kept.read(ctx, of.Ref, of.Name, offset)
}

func (k *keptFiles) choose(ctx context.Context, sources []artifact.Source) ([]artifact.Input, error) {
	return artifact.Choose(sources, func(ref artifact.Ref) ([]artifact.Info, error) { return k.list(ctx, ref) })
}

// place is the folder of this machine in which the files of an attempt lie.
func (s artifactSource) place(ref artifact.Ref) (string, bool) {
	for _, st := range s.stores {
		if at, err := st.Files(ref); err == nil {
			if at, err = filepath.Abs(at); err == nil { // the keeper is elsewhere
				if _, err := os.Stat(at); err == nil {
					return at, true
				}
			}
		}
	}
	return "", false
}

// Inputs implements home.Jobs.
func (j jobs) Inputs(ctx context.Context, run dag.RunID, t dag.TaskID) ([]artifact.Input, error) {
	r := &j.x.resolve
	row, err := r.store.Run(ctx, run)
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
	return r.kept.choose(ctx, sources)
}

// ReadInput implements home.Jobs.
func (j jobs) ReadInput(ctx context.Context, in *artifact.Input, offset int64) ([]byte, error) {
	return j.x.resolve.kept.read(ctx, in.Ref, in.Name, offset)
}
