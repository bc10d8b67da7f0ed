package dispatch

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// sources returns the artifacts of other tasks that a task gets. They are the artifacts of the newest
// successful attempts of those tasks.
func (r *Resolver) sources(ctx context.Context, v *version, t int, run dag.RunID, g *dag.Graph) ([]artifact.Source, error) {
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

// attempts reads the attempts of a task whose outputs or artifacts another task reads. Usually these attempts
// have rows, and one query suffices.
func (r *Resolver) attempts(ctx context.Context, run dag.RunID, t dag.TaskID) ([]dag.AttemptRow, error) {
	q := store.AttemptQuery{Run: run, Task: t, One: true, Outputs: true, Sparing: true}
	rows, err := r.cfg.Store.Attempts(ctx, q)
	if err == nil && len(rows) == 0 {
		q.Sparing = false
		rows, err = r.cfg.Store.Attempts(ctx, q)
	}
	return rows, err
}

// Kept reads the artifacts of attempts, on this node or another one.
type Kept interface {
	// List returns the artifacts of an attempt. Its error wraps artifact.ErrAway if no node that answers has
	// them. It wraps artifact.ErrLater if they cannot be read now.
	List(ctx context.Context, ref artifact.Ref) ([]artifact.Info, error)
	// Read returns a piece of a file. At the end of the file, the piece is empty.
	Read(ctx context.Context, ref artifact.Ref, name string, offset int64) ([]byte, error)
	// Place returns the folder on this machine that has the artifacts of an attempt. ok is false if there is
	// none.
	Place(ref artifact.Ref) (folder string, ok bool)
}

// inputsOf holds the inputs of an attempt that runs here.
type inputsOf struct {
	kept    Kept
	sources []artifact.Source
	chosen  []artifact.Input
}

var _ worker.InputSource = (*inputsOf)(nil)

// List implements worker.InputSource.
func (i *inputsOf) List(ctx context.Context) ([]worker.Input, error) {
	var err error
	if i.chosen, err = choose(ctx, i.kept, i.sources); err != nil {
		return nil, err
	}
	list := make([]worker.Input, len(i.chosen))
	for n := range i.chosen {
		in := &i.chosen[n]
		list[n] = worker.Input{Index: n, Info: in.As()}
		if at, ok := i.kept.Place(in.Ref); ok {
			list[n].At, list[n].File = at, in.Name
		}
	}
	return list, nil
}

// Read implements worker.InputSource.
func (i *inputsOf) Read(ctx context.Context, in *worker.Input, offset int64) ([]byte, error) {
	of := &i.chosen[in.Index]
	return i.kept.Read(ctx, of.Ref, of.Name, offset)
}

// choose selects from the artifacts of other tasks' attempts the files that a task gets.
func choose(ctx context.Context, kept Kept, sources []artifact.Source) ([]artifact.Input, error) {
	return artifact.Choose(sources, func(ref artifact.Ref) ([]artifact.Info, error) { return kept.List(ctx, ref) })
}
