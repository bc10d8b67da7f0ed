package engine

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"skein.dev/skein/internal/dag"
)

// graphTasksMax bounds the tasks of all cached graphs together: about 100 MiB. A graph
// counts as graphTasksMin tasks at least: that is what an empty one costs.
const (
	graphTasksMax = 1_000_000
	graphTasksMin = 16
)

// inlineTasksMax is the largest graph that a submission is split with on the spot; larger
// ones, and those not in the cache, are Leader work.
const inlineTasksMax = 10_000

type versionKey struct {
	workflow dag.WorkflowID
	version  int32
}

// graphCache shares the graphs of versions between runs. A version never changes, unless the database goes
// back and another version gets its number: then forget empties the cache. When the cache holds too many
// tasks it starts over. Runs keep their graphs.
type graphCache struct {
	load func(versionKey) (*dag.Graph, error)

	mu    sync.Mutex // protects following fields
	known map[versionKey]*graphEntry
	tasks int
}

// graphEntry is loaded by the first who asks; the others wait for it.
type graphEntry struct {
	done chan struct{}
	g    *dag.Graph
	err  error
}

// get gives a version's graph and loads it if need be.
func (c *graphCache) get(w dag.WorkflowID, version int32) (*dag.Graph, error) {
	key := versionKey{w, version}
	c.mu.Lock()
	entry := c.known[key]
	mine := entry == nil
	if mine {
		if c.known == nil || c.tasks > graphTasksMax {
			c.known, c.tasks = map[versionKey]*graphEntry{}, 0
		}
		entry = &graphEntry{done: make(chan struct{})}
		c.known[key] = entry
	}
	c.mu.Unlock()
	if !mine {
		<-entry.done
		return entry.g, entry.err
	}
	if err := guarded(func() { entry.g, entry.err = c.load(key) }); err != nil {
		entry.g, entry.err = nil, err // a damaged graph must not leave the others waiting
	}
	c.mu.Lock()
	switch {
	case c.known[key] != entry: // the cache has started over
	case entry.err != nil:
		delete(c.known, key) // the next one tries again
	default:
		c.tasks += entry.g.Len() + graphTasksMin
	}
	c.mu.Unlock()
	close(entry.done)
	return entry.g, entry.err
}

// forget drops all graphs. A load that has begun is not kept.
func (c *graphCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.tasks = nil, 0
}

// peek gives a graph only if it is there and small enough to split with at once.
func (c *graphCache) peek(w dag.WorkflowID, version int32) *dag.Graph {
	c.mu.Lock()
	entry := c.known[versionKey{w, version}]
	c.mu.Unlock()
	if entry == nil {
		return nil
	}
	select {
	case <-entry.done:
	default:
		return nil
	}
	if entry.g == nil || entry.g.Len() > inlineTasksMax {
		return nil
	}
	return entry.g
}

// grownCache keeps the graphs of the last read runs with instances. Reading each of ten thousand calls of one
// run needs the same graph every time.
type grownCache struct {
	mu   sync.Mutex // protects following fields
	last [2]grownGraph
	next int
}

// grownGraph is a version's graph with what the row of a run adds to it.
type grownGraph struct {
	version *dag.Graph
	own     []byte
	g       *dag.Graph
}

func (c *grownCache) find(version *dag.Graph, own []byte) *dag.Graph {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.last {
		if k := &c.last[i]; k.version == version && bytes.Equal(k.own, own) {
			return k.g
		}
	}
	return nil
}

func (c *grownCache) keep(version *dag.Graph, own []byte, g *dag.Graph) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[c.next] = grownGraph{version, own, g}
	c.next = (c.next + 1) % len(c.last)
}

// graphOf gives the graph of a run to look at: its version's, and what the run adds to it.
func (e *Engine) graphOf(row *dag.RunRow) (*dag.Graph, error) {
	version, err := e.graphs.get(row.Workflow, row.Version)
	if err != nil || row.Graph == nil {
		return version, err
	}
	if g := e.grown.find(version, row.Graph); g != nil {
		return g, nil
	}
	g, err := e.ownGraph(row)
	if err == nil {
		e.grown.keep(version, row.Graph, g)
	}
	return g, err
}

// ownGraph returns the graph of a run to a caller that may let it grow: the graph is not shared.
func (e *Engine) ownGraph(row *dag.RunRow) (*dag.Graph, error) {
	g, err := e.graphs.get(row.Workflow, row.Version)
	if err != nil || row.Graph == nil {
		return g, err
	}
	if g, err = dag.RunGraph(g, row.Graph, e.cfg.Compile); err != nil {
		return nil, fmt.Errorf("run %s: %w: %w", row.ID, ErrDamaged, err)
	}
	return g, nil
}

// RunGraph gives the graph of a run, with the instances that it has by now.
func (e *Engine) RunGraph(row *dag.RunRow) (*dag.Graph, error) { return e.graphOf(row) }

func (e *Engine) loadGraph(key versionKey) (*dag.Graph, error) {
	v, err := e.store.Version(context.Background(), key.workflow, key.version)
	if err != nil {
		return nil, fromStore(fmt.Sprintf("read version %d of workflow %d", key.version, key.workflow), err)
	}
	g, err := dag.UnpackGraph(v.Graph, e.cfg.Compile)
	if err != nil {
		return nil, fmt.Errorf("version %d of workflow %d: %w: %w", key.version, key.workflow, ErrDamaged, err) // its runs are quarantined
	}
	return g, nil
}
