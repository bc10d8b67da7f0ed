package inspect

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// GraphTasksMax bounds the number of tasks in all cached graphs together, which take about 100 MiB. A graph
// counts as at least graphTasksMin tasks, which is the cost of an empty graph.
const (
	GraphTasksMax = 1_000_000
	graphTasksMin = 16
)

// InlineTasksMax is the size of the largest graph with which a submission makes its tasks at once. The tasks
// of a larger graph, or of a graph that is not in the cache, are made by Leader work.
const InlineTasksMax = 10_000

type versionKey struct {
	workflow dag.WorkflowID
	version  int32
}

// Graphs shares the graphs of versions between runs. A version never changes. But if the database loses its
// newest transactions, another version can get the same number, and the caller must call Forget, which
// empties the cache. If the cache holds too many tasks, it is emptied, too. Runs keep their graphs.
type Graphs struct {
	store   store.Store
	compile dag.Compiler
	grown   grownCache
	flows   flowCache

	mu    sync.Mutex // protects following fields
	known map[versionKey]*graphEntry
	tasks int
}

// NewGraphs makes an empty cache of the graphs in a store.
func NewGraphs(st store.Store, compile dag.Compiler) *Graphs {
	return &Graphs{store: st, compile: compile}
}

// graphEntry is a graph in the cache. Its first caller loads the graph, and later callers wait for that.
type graphEntry struct {
	done chan struct{}
	g    *dag.Graph
	err  error
}

// Get returns the graph of a version, and loads it if necessary.
func (c *Graphs) Get(w dag.WorkflowID, version int32) (*dag.Graph, error) {
	key := versionKey{w, version}
	c.mu.Lock()
	entry := c.known[key]
	mine := entry == nil
	if mine {
		if c.known == nil || c.tasks > GraphTasksMax {
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
	if err := errkind.Guarded(func() { entry.g, entry.err = c.load(key) }); err != nil {
		entry.g, entry.err = nil, err // a damaged graph must not block the other callers
	}
	c.mu.Lock()
	switch {
	case c.known[key] != entry: // the cache has been emptied
	case entry.err != nil:
		delete(c.known, key) // the next caller tries again
	default:
		c.tasks += entry.g.Len() + graphTasksMin
	}
	c.mu.Unlock()
	close(entry.done)
	return entry.g, entry.err
}

// Forget removes all graphs, and all names of workflows. A load that is under way is not stored.
func (c *Graphs) Forget() {
	c.flows.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.tasks = nil, 0
}

// Peek returns a graph only if the graph is in the cache and small enough for InlineTasksMax.
func (c *Graphs) Peek(w dag.WorkflowID, version int32) *dag.Graph {
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
	if entry.g == nil || entry.g.Len() > InlineTasksMax {
		return nil
	}
	return entry.g
}

// grownCache stores the graphs of the runs with instances that were read last. A client that reads ten
// thousand calls of one run needs the same graph each time.
type grownCache struct {
	mu   sync.Mutex // protects following fields
	last [2]grownGraph
	next int
}

// grownGraph is a version's graph with the tasks that a run adds.
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

// Of returns the graph of a run for reading: the graph of its version, with the tasks that the run adds.
func (c *Graphs) Of(row *dag.RunRow) (*dag.Graph, error) {
	version, err := c.Get(row.Workflow, row.Version)
	if err != nil || row.Graph == nil {
		return version, err
	}
	if g := c.grown.find(version, row.Graph); g != nil {
		return g, nil
	}
	g, err := c.Own(row)
	if err == nil {
		c.grown.keep(version, row.Graph, g)
	}
	return g, err
}

// Own returns a graph of a run that is not shared, so the caller may add tasks to it.
func (c *Graphs) Own(row *dag.RunRow) (*dag.Graph, error) {
	g, err := c.Get(row.Workflow, row.Version)
	if err != nil || row.Graph == nil {
		return g, err
	}
	if g, err = dag.RunGraph(g, row.Graph, c.compile); err != nil {
		return nil, fmt.Errorf("run %s: %w: %w", row.ID, errkind.ErrDamaged, err)
	}
	return g, nil
}

// Len returns the number of versions whose graphs are cached.
func (c *Graphs) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known)
}

func (c *Graphs) load(key versionKey) (*dag.Graph, error) {
	v, err := c.store.Version(context.Background(), key.workflow, key.version)
	if err != nil {
		return nil, errkind.FromStore(fmt.Sprintf("read version %d of workflow %d", key.version, key.workflow), err)
	}
	g, err := dag.UnpackGraph(v.Graph, c.compile)
	if err != nil {
		return nil, fmt.Errorf("version %d of workflow %d: %w: %w", key.version, key.workflow, errkind.ErrDamaged, err) // the runs of the version are quarantined
	}
	return g, nil
}

// RunGraph returns the graph of a run, with the instances that exist at present.
func (rd *Reader) RunGraph(row *dag.RunRow) (*dag.Graph, error) { return rd.graphs.Of(row) }
