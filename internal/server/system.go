package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// SystemFilter is the filter of lists that leave out the built-in workflows, which are in the namespace
// system.
type SystemFilter struct {
	System bool `query:"system" doc:"Include the program's own workflows (namespace system). Lists leave them out, unless you name that namespace or a workflow of it."`
}

// hides reports whether a list leaves out the namespace system. namespace and workflow are the ones that the
// request names, or "".
func (f *SystemFilter) hides(namespace, workflow string) bool {
	return !f.System && namespace == "" && workflow == ""
}

// isSystem reports whether a workflow is built in.
func isSystem(w *store.Workflow) bool { return w.Namespace == engine.SystemNamespace }

// systemKept is how long the id of the built-in workflow is used before it is read again. If the workflow is
// deleted, the node makes it again, with another id.
const systemKept = 10 * time.Second

// systemWorkflow caches the id of the built-in workflow. It does not cache that the workflow is missing: a
// node makes the workflow shortly after its start, and lists would then show its runs.
type systemWorkflow struct {
	mu sync.Mutex     // protects following fields
	id dag.WorkflowID // 0 if the workflow did not exist
	at time.Time      // the time of the read
}

// read returns the id of the built-in workflow, or 0 if it does not exist. It does not hold the lock while it
// reads the store, so a slow read delays only its own caller.
func (k *systemWorkflow) read(ctx context.Context, e *engine.Engine) (dag.WorkflowID, error) {
	if id, fresh := k.known(); fresh {
		return id, nil
	}
	w, err := e.Workflow(ctx, engine.SystemNamespace, engine.RecoveryName)
	if err != nil && !errors.Is(err, errkind.ErrNotFound) {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.id, k.at = w.ID, time.Now()
	return w.ID, nil
}

// known returns the id that was read last, and whether it is still valid.
func (k *systemWorkflow) known() (id dag.WorkflowID, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.id, k.id != 0 && time.Since(k.at) < systemKept
}
