package server

import (
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/workflow"
)

type versionKey struct {
	workflow dag.WorkflowID
	version  int32
}

// Bounds of the caches. Cached values never change, so a full cache is simply emptied.
const (
	definitionTasksMax = 200_000 // bound on the tasks of all decoded definitions together
	runNamesMax        = 10_000
)

// definitions caches decoded definitions. A start needs one for its parameters.
type definitions struct {
	mu    sync.Mutex // protects following fields
	known map[versionKey]*workflow.Workflow
	tasks int
}

func (d *definitions) get(k versionKey) *workflow.Workflow {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[k]
}

func (d *definitions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.tasks = nil, 0
}

func (d *definitions) put(k versionKey, w *workflow.Workflow) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || d.tasks > definitionTasksMax {
		d.known, d.tasks = map[versionKey]*workflow.Workflow{}, 0
	}
	if d.known[k] == nil {
		d.known[k] = w
		d.tasks += len(w.Tasks) + 1
	}
}

// runName holds the fields of a run that never change, for the event stream.
type runName struct {
	row      dag.RunRow // only the ids and the version are used
	workflow string
}

type runNames struct {
	mu    sync.Mutex // protects following fields
	known map[dag.RunID]*runName
}

func (c *runNames) get(id dag.RunID) *runName {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[id]
}

func (c *runNames) put(id dag.RunID, n *runName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= runNamesMax {
		c.known = map[dag.RunID]*runName{}
	}
	c.known[id] = n
}
