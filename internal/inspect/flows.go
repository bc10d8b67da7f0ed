package inspect

import (
	"context"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// flowCache stores the properties of workflows that never change, by number. Lists of runs need only these
// properties, and on PostgreSQL each read of a workflow is a round trip. Only if the database loses its
// newest transactions can another workflow get the same number. In that case the cache is emptied. Until a
// node notices the loss, it may show a run with the name of another workflow. So the cache is used only for
// views without values, because the namespace decides who may read values.
type flowCache struct {
	mu      sync.Mutex // protects following fields
	known   map[dag.WorkflowID]store.Workflow
	forgets uint64 // how often the cache was emptied; a row that was read before the last time is not stored
}

// flowsMax bounds the cache. A full cache is emptied.
const flowsMax = 10_000

func (c *flowCache) get(ctx context.Context, st store.Store, id dag.WorkflowID) (store.Workflow, error) {
	c.mu.Lock()
	is, ok := c.known[id]
	forgets := c.forgets
	c.mu.Unlock()
	if ok {
		return is, nil
	}
	is, err := lastingOf(ctx, st, id)
	if err != nil {
		return is, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgets == forgets {
		if c.known == nil || len(c.known) >= flowsMax {
			c.known = map[dag.WorkflowID]store.Workflow{}
		}
		c.known[id] = is
	}
	return is, nil
}

// lastingOf reads the properties of a workflow that never change.
func lastingOf(ctx context.Context, st store.Store, id dag.WorkflowID) (store.Workflow, error) {
	is, err := st.WorkflowByID(ctx, id)
	return store.Workflow{ID: is.ID, Shard: is.Shard, Namespace: is.Namespace, Name: is.Name, Created: is.Created}, err
}

// flowReads returns the workflows of the runs in one answer. It reads each workflow once.
type flowReads struct {
	store store.Store
	cache *flowCache // nil if the views have values, so the rows are read
	read  map[dag.WorkflowID]store.Workflow
}

func (f *flowReads) get(ctx context.Context, id dag.WorkflowID) (is store.Workflow, err error) {
	is, ok := f.read[id]
	if ok {
		return is, nil
	}
	if f.cache != nil {
		is, err = f.cache.get(ctx, f.store, id)
	} else {
		is, err = lastingOf(ctx, f.store, id)
	}
	if err != nil {
		return is, err
	}
	if f.read == nil {
		f.read = map[dag.WorkflowID]store.Workflow{}
	}
	f.read[id] = is
	return is, nil
}

func (c *flowCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = nil
	c.forgets++
}
