package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// SystemFilter is of lists that leave out what comes with the program: everything of the namespace system.
type SystemFilter struct {
	System bool `query:"system" doc:"With what comes with the program (namespace system), which lists leave out unless that namespace, or a workflow of it, is named."`
}

// hides reports whether a list leaves the namespace system out; namespace and workflow are those that it names, if any.
func (f *SystemFilter) hides(namespace, workflow string) bool {
	return !f.System && namespace == "" && workflow == ""
}

// isSystem reports whether a workflow comes with the program.
func isSystem(w *store.Workflow) bool { return w.Namespace == engine.SystemNamespace }

// systemKept is for how long the id of the built-in workflow is believed: it is made anew if somebody deletes it.
const systemKept = 10 * time.Second

// systemWorkflow remembers the id of the workflow that comes with the program.
type systemWorkflow struct {
	mu sync.Mutex // protects following fields
	id dag.WorkflowID
	at time.Time // when it was read
}

// read returns the id of the workflow that comes with the program; 0: it is not there.
func (k *systemWorkflow) read(ctx context.Context, e *engine.Engine) (dag.WorkflowID, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.id != 0 && time.Since(k.at) < systemKept {
		return k.id, nil
	}
	w, err := e.Workflow(ctx, engine.SystemNamespace, engine.RecoveryName)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return 0, err
	}
	k.id, k.at = w.ID, time.Now()
	return k.id, nil
}
