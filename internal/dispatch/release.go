package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
	"skein.dev/skein/internal/workflow"
)

// earlierAttempt describes an earlier attempt of a task, as in the file $SKEIN_EARLIER.
type earlierAttempt struct {
	Token      dag.Token `json:"token"`
	Attempt    int64     `json:"attempt"` // number of the attempt
	Generation int32     `json:"generation"`
	End        string    `json:"end"` // failed, lost, stopped or succeeded
	Cause      dag.Cause `json:"cause,omitempty"`
	// Handle names what the attempt has left outside of its process. It is nil if nothing is left to release.
	Handle *string `json:"handle"`
	Orphan bool    `json:"orphan,omitempty"` // the handle could not be released
}

// earlier returns the content of the file $SKEIN_EARLIER, with the oldest attempt first. It returns nil if
// there is no earlier attempt to describe.
func (r *Resolver) earlier(ctx context.Context, a *engine.Assignment) ([]byte, error) {
	rows, err := r.cfg.Store.Attempts(ctx, store.AttemptQuery{Run: a.Run, Task: a.Task, One: true, Outputs: true, Sparing: true})
	if err != nil {
		return nil, fmt.Errorf("read the attempts before this one: %w", err)
	}
	var all []earlierAttempt
	for i := range rows {
		row := &rows[i]
		if row.Token >= a.Token || row.Handler == 0 || !row.State.Ended() {
			continue
		}
		e := earlierAttempt{Token: row.Token, Attempt: int64(row.Token.Number()), Generation: row.Generation, End: row.State.String(), Cause: row.Cause}
		if h, ok := dag.HandleOf(row); ok {
			e.Handle, e.Orphan = &h.Text, h.State == dag.HandleOrphan
		}
		all = append(all, e)
	}
	if all == nil {
		return nil, nil
	}
	return json.Marshal(all)
}

// allowHandle permits handles to the attempts of a task with the key release.
func allowHandle(job *worker.Job, rel *workflow.Release) {
	if rel != nil {
		job.Handle, job.Adopts = true, rel.Adopts
	}
}

// errandInput is the content of the file $SKEIN_INPUT of an errand.
type errandInput struct {
	Run    string    `json:"run"`
	Task   string    `json:"task"`
	Token  dag.Token `json:"token"`
	Handle string    `json:"handle"`
}

// errand makes the job of an errand: a command that releases a handle, in the environment of the task that
// made the handle.
func (r *Resolver) errand(ctx context.Context, a *engine.Assignment, row *dag.RunRow, traits *dag.Traits, quick bool) (*resolved, error) {
	of, err := r.errandFor(ctx, row)
	if err != nil {
		return nil, err
	}
	is, err := r.build(ctx, &of.Assignment, &of.row, traits, quick)
	if err != nil {
		return nil, err
	}
	job, task := is.job, &is.version.Tasks[is.task]
	if job.Kind != nil {
		err = releaseByKind(job, traits.Extension(task.PlaceKind()), of.handle)
	} else {
		err = releaseByCommand(job, task.Release, of)
	}
	if err != nil {
		return nil, err
	}
	job.Key.Namespace, job.Key.Workflow, job.Key.RunID, job.Key.Task = engine.SystemNamespace, engine.ReleaseName, a.Run.String(), a.Name
	job.Key.Attempt, job.Key.Ref, job.Key.IdempotencyKey = int(a.Token), int64(a.Task), idempotencyKey(a, max(a.Generation, 1))
	p := a.Graph.Policy(a.Task)
	job.Timeout, job.KillGrace, job.WarnOnTimeout = p.Timeout, p.KillGrace, false
	job.Artifacts, job.OutputTypes, job.LockToken = nil, nil, 0
	job.Handle, job.Adopts, job.Isolation = false, false, dag.Stricter(a.Place.Isolation(), job.Isolation)
	is.kind, is.input, is.errand = "", nil, true
	return is, nil
}

// releaseByCommand makes a job run the release command of a task.
func releaseByCommand(job *worker.Job, rel *workflow.Release, of *errandOf) (err error) {
	if rel == nil {
		return &notStarted{causeStart, fmt.Errorf("the present version of the workflow has no key release at task %s: end the work by hand, then run skein task dismiss", of.Name)}
	}
	job.Argv, job.Script, job.HTTP = nil, nil, nil
	setRun(job, &rel.Run)
	job.Input, err = json.Marshal(errandInput{of.Run.String(), of.Name, of.Token, of.handle})
	return err
}

// releaseByKind makes a job run the release program of a task's kind.
func releaseByKind(job *worker.Job, x *dag.Extension, handle string) error {
	if !x.Releases {
		return &notStarted{causeStart, fmt.Errorf("kind %s %s has no release on this machine: install the version that the attempt had", x.Kind, x.Version)}
	}
	var in kind.Input
	err := json.Unmarshal(job.Kind.Input, &in)
	if err == nil {
		in.Handle, job.Kind.Release = handle, true
		job.Kind.Input, err = json.Marshal(&in)
	}
	return err
}

// errandOf is the handle that an errand releases, with its attempt and run.
type errandOf struct {
	engine.Assignment // the attempt that made the handle
	row               dag.RunRow
	handle            string
}

// releases reports whether the runs of a version are errands.
func (v *version) releases() bool {
	return v.Namespace == engine.SystemNamespace && v.Name == engine.ReleaseName
}

// versionOfErrand returns the version of the task whose handle an errand releases.
func (r *Resolver) versionOfErrand(ctx context.Context, run dag.RunID) (*version, error) {
	row, err := r.cfg.Store.Run(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("read the run: %w", err)
	}
	of, err := r.errandFor(ctx, &row)
	if err != nil {
		return nil, err
	}
	return r.versions.Get(versionID{of.Workflow, of.Version})
}

// errandFor finds the handle that the run of an errand releases.
func (r *Resolver) errandFor(ctx context.Context, row *dag.RunRow) (*errandOf, error) {
	var p engine.ErrandParams
	if err := json.Unmarshal(row.Params, &p); err != nil || p.Handle == "" || p.Token == 0 {
		return nil, &notStarted{causeStart, errors.New("the run is not an errand: only Skein starts runs of this workflow")}
	}
	of, err := r.cfg.Store.Run(ctx, p.Run)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, &notStarted{causeStart, fmt.Errorf("run %s was deleted", p.Run)}
	case err != nil:
		return nil, fmt.Errorf("read the run of the handle: %w", err)
	}
	a := engine.Assignment{Run: of.ID, Task: p.Task, Token: p.Token, Name: p.Name, Workflow: of.Workflow, Version: of.Version, Generation: of.Generation}
	if err := r.graphFor(ctx, &a, &of); err != nil {
		return nil, err
	}
	return &errandOf{a, of, p.Handle}, nil
}
