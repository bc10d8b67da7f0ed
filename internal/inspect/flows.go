package inspect

import (
	"context"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// flowCache keeps, by the numbers of workflows, what never changes of them. Lists of runs need only that,
// and on PostgreSQL a look at it is an exchange of its own. Other workflows can get the same numbers only if
// the database goes back; then the cache is forgotten. Until a node sees that, a run may be shown with the
// name of another workflow, so the cache is only for views without values: their namespace decides who may
// see them.
type flowCache struct {
	mu      sync.Mutex // protects following fields
	known   map[dag.WorkflowID]store.Workflow
	forgets uint64 // so that what was read before is not kept
}

// flowsMax bounds the cache. A full one starts over.
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

// lastingOf reads what never changes of a workflow.
func lastingOf(ctx context.Context, st store.Store, id dag.WorkflowID) (store.Workflow, error) {
	is, err := st.WorkflowByID(ctx, id)
	return store.Workflow{ID: is.ID, Shard: is.Shard, Namespace: is.Namespace, Name: is.Name, Created: is.Created}, err
}

// flowReads gives the workflows of the runs of one answer, each of which is read once.
type flowReads struct {
	store store.Store
	cache *flowCache // nil: the views have values, so the rows are read
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
