package recovery

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// TestDefinition: the workflow of the sweeps compiles, and its task is the builtin one.
func TestDefinition(t *testing.T) {
	d, err := definition()
	if err != nil || d.Namespace != engine.SystemNamespace || d.Name != engine.RecoveryName || len(d.Graph) == 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// owner is an engine that may own the shard of the sweep.
type owner struct {
	Engine
	elsewhere bool
	queue     bool // the queue exists
	steps     []string
	applied   func()
}

func (o *owner) GetQueue(context.Context, string) (q store.Queue, err error) {
	if !o.queue {
		err = errkind.ErrNotFound
	}
	return q, err
}

func (o *owner) SetQueue(_ context.Context, q store.Queue, _ int64) (store.Queue, error) {
	o.queue, o.steps = true, append(o.steps, "queue "+q.Name)
	return q, nil
}

func (o *owner) Apply(context.Context, engine.Definition) (w store.Workflow, made bool, err error) {
	o.steps = append(o.steps, "apply")
	o.applied()
	return w, true, nil
}

func (o *owner) Submit(_ context.Context, s engine.Submission) (a engine.Accepted, err error) {
	if o.elsewhere {
		return a, &errkind.Elsewhere{Shard: 3}
	}
	o.steps = append(o.steps, "submit "+s.Key)
	return a, nil
}

// TestKeeper: the queue is made before the workflow. A sweep for a dead node goes to the owner of its shard,
// and none starts if the sweep is paused or was deleted.
func TestKeeper(t *testing.T) {
	o, sent := &owner{}, dag.ShardID(-1)
	state, reads := store.WorkflowActive, error(nil)
	k := New(Config{Engine: o, Log: slog.New(slog.DiscardHandler),
		Workflow: func(context.Context, string, string) (store.Workflow, error) {
			return store.Workflow{State: state}, reads
		},
		Elsewhere: func(_ context.Context, s dag.ShardID, _ engine.Submission) error { sent = s; return nil }})
	steps := func(what string, want ...string) {
		t.Helper()
		if len(o.steps) != len(want) {
			t.Fatalf("%s: %q, want %q", what, o.steps, want)
		}
		for i := range want {
			if o.steps[i] != want[i] {
				t.Errorf("%s: %q, want %q", what, o.steps, want)
			}
		}
		o.steps = nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.applied = cancel // Run ends after the first round
	k.Run(ctx)
	steps("the start", "queue "+engine.RecoveryQueue, "apply")
	dead := store.Member{Handler: 7, Name: "n7"}
	k.Sweep(t.Context(), dead)
	steps("a dead node", "submit gone/7")
	o.elsewhere = true
	k.Sweep(t.Context(), dead)
	if sent != 3 {
		t.Errorf("the owner of the shard got %v", sent)
	}
	o.elsewhere, state = false, store.WorkflowPaused
	k.Sweep(t.Context(), dead)
	steps("a paused sweep")
	reads = store.ErrNotFound
	k.Sweep(t.Context(), dead)
	steps("a deleted sweep")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	reads = errors.New("away")
	k.Sweep(ended, dead)
	steps("at the end of the node")
}
