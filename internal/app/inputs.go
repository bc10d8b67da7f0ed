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
	newest := newestAttempts{store: r.store, run: run}
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
			last, there, err := newest.of(ctx, id)
			if err != nil {
				return nil, fmt.Errorf("read the attempts of task %s: %w", s.Ref.Task, err)
			}
			switch {
			case !there || last.State != dag.AttemptSucceeded:
				s.None = "it has not succeeded"
			case last.Handler == 0:
				s.None = "it did not run, it was marked"
			default:
				s.Ref.Attempt = int(last.Token)
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// newestAttempts finds the newest attempts of tasks of a run. Those that lie in its history only are read all at once.
type newestAttempts struct {
	store store.Store
	run   dag.RunID
	all   map[dag.TaskID]dag.AttemptRow
}

func (n *newestAttempts) of(ctx context.Context, t dag.TaskID) (a dag.AttemptRow, there bool, err error) {
	if n.all == nil {
		rows, err := n.store.Attempts(ctx, store.AttemptQuery{Run: n.run, Task: t, One: true, Sparing: true})
		if err != nil {
			return a, false, err
		}
		if len(rows) > 0 {
			return rows[len(rows)-1], true, nil
		}
		if rows, err = n.store.Attempts(ctx, store.AttemptQuery{Run: n.run}); err != nil {
			return a, false, err
		}
		n.all = make(map[dag.TaskID]dag.AttemptRow, len(rows))
		for i := range rows { // by token
			n.all[rows[i].Task] = rows[i]
		}
	}
	a, there = n.all[t]
	return a, there, nil
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
	v, err := r.versions.get(versionID{row.Workflow, row.Version})
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
