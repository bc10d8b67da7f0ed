package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/worker"
)

// processOf returns the extension of a worker that runs a task as a process. It returns nil for a task
// without a kind, and for a task whose kind the worker runs as a function.
func (v *version) processOf(task int, traits *dag.Traits) (*dag.Extension, error) {
	t := &v.Tasks[task]
	name := t.PlaceKind()
	if name == "" {
		return nil, nil
	}
	if x := traits.Extension(name); x != nil {
		return x, nil
	}
	if keys := t.ProcessKeys(); len(keys) > 0 {
		return nil, &notStarted{causeStart, fmt.Errorf("task %s has %s, but its kind %s is a function on this worker, which runs no process: put the values into with",
			t.Name, strings.Join(keys, " and "), t.Kind)}
	}
	return nil, nil
}

// envelope is the input of a process.
type envelope struct {
	job  *worker.Job
	with json.RawMessage
	row  *dag.RunRow
	used *secretsOf
}

// process adds to the job of a process its input, and the connection that the input names. If x is nil, the
// task is no process, and process does nothing.
func (r *Resolver) process(ctx context.Context, x *dag.Extension, v *version, task int, of *envelope) error {
	if x == nil {
		return nil
	}
	t, k := &v.Tasks[task], &of.job.Key
	in := kind.Input{Kind: x.Kind, With: of.with, Instant: of.row.Instant().Time(), Namespace: k.Namespace, Workflow: k.Workflow, Run: k.RunID,
		Task: k.Task, Token: int64(k.Attempt), Key: k.IdempotencyKey}
	if x.Connection != "" {
		var err error
		if in.Connection, err = r.connectionOf(ctx, x, of); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(&in)
	if err != nil {
		return fmt.Errorf("encode the input of the kind: %w", err)
	}
	of.job.Kind = &worker.Kind{Name: t.PlaceKind(), Input: raw, Patience: time.Duration(t.Patience)}
	of.job.Argv, of.job.Script, of.job.Secrets = nil, nil, of.used.values
	of.job.Handle, of.job.Adopts = x.Releases, x.Adopts
	return nil
}

// connectionOf returns the connection that the input of a kind names, with its secrets. It returns nil if the
// input names none.
func (r *Resolver) connectionOf(ctx context.Context, x *dag.Extension, of *envelope) (json.RawMessage, error) {
	var named struct {
		Connection string `json:"connection"`
	}
	if err := json.Unmarshal(of.with, &named); err != nil {
		return nil, &notStarted{causeConnection, fmt.Errorf("the key connection of the input must be the name of a connection")}
	}
	if named.Connection == "" {
		return nil, nil
	}
	name := of.used.namespace + "/" + named.Connection
	c, err := r.connection(ctx, of.used.namespace, named.Connection)
	if err != nil {
		return nil, err
	}
	if want := strings.Split(x.Connection, ","); !slices.Contains(want, c.Type()) {
		return nil, &notStarted{causeConnection, fmt.Errorf("connection %s has the type %s, and kind %s needs one of the type %s",
			name, c.Type(), strings.TrimPrefix(x.Kind, dag.HousePrefix), strings.Join(want, " or "))}
	}
	raw, err := c.Resolved(of.used.value)
	if err != nil {
		return nil, of.used.hide(err)
	}
	return raw, nil
}
