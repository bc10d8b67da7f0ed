package engine

import (
	"context"
	"sync"

	"skein.dev/skein/internal/store"
)

// directory keeps the workflows of owned shards by their names, because each start needs its workflow and
// would otherwise read it from the store. Only the owner of a shard changes its workflows. So a copy is
// exact, unless this node has lost the shard and has not noticed it. In that case no transaction of this node
// commits any more.
type directory struct {
	mu      sync.Mutex // protects following fields
	known   map[workflowName]store.Workflow
	changes uint64 // rises with every forget, so that the result of an older read is not kept
}

type workflowName struct{ namespace, name string }

// directoryMax bounds the directory. When it is full, it is emptied.
const directoryMax = 10_000

func (d *directory) get(n workflowName) (wf store.Workflow, changes uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wf, ok = d.known[n]
	return wf, d.changes, ok
}

// put keeps a workflow, if the directory has not changed since the workflow was read.
func (d *directory) put(n workflowName, wf store.Workflow, changes uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes != changes {
		return
	}
	if d.known == nil || len(d.known) >= directoryMax {
		d.known = map[workflowName]store.Workflow{}
	}
	d.known[n] = wf
}

func (d *directory) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.known)
	d.changes++
}

// Startable finds a workflow by its name for a start. kept reports whether wf is a copy from memory. If
// Submit then returns Elsewhere, a kept copy may be out of date, and the caller must read the workflow again
// by Workflow.
func (e *Engine) Startable(ctx context.Context, namespace, name string) (wf store.Workflow, kept bool, err error) {
	n := workflowName{namespace, name}
	wf, changes, ok := e.directory.get(n)
	if ok {
		return wf, true, nil
	}
	if wf, err = e.Workflow(ctx, namespace, name); err == nil && e.Owns(wf.Shard) {
		e.directory.put(n, wf, changes)
	}
	return wf, false, err
}
