package inspect

import (
	"context"
	"errors"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Glance is the state of every task of a run at one moment, without details of attempts.
type Glance struct {
	Row    dag.RunRow
	Graph  *dag.Graph
	States []dag.TaskState
}

// Glance reads the state of every task of a run. For an ended run it uses the row, otherwise the memory of
// the owner. It returns errkind.ErrNotFound if the run does not exist.
func (rd *Reader) Glance(ctx context.Context, id dag.RunID) (Glance, error) {
	row, err := rd.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Glance{}, errkind.NoRun(id)
	}
	if err != nil {
		return Glance{}, errkind.FromStore("run "+id.String(), err)
	}
	if row.SplitAt == 0 || row.Cause == dag.CauseCorrupt { // the tasks are not made yet, or cannot be read
		g, err := rd.graphs.Get(row.Workflow, row.Version)
		if err != nil {
			return Glance{}, err
		}
		return Glance{Row: row, Graph: g, States: make([]dag.TaskState, g.Len())}, nil
	}
	if row.Final != nil {
		if g, err := rd.RunGraph(&row); err != nil {
			return Glance{}, err
		} else if views, err := dag.Derive(g, &row, nil); err == nil {
			return glanceOf(&row, g, views), nil
		} // if this generation did not run a task again, only its attempts have its state
	}
	s, err := rd.look(ctx, &row, dag.LeaderTask)
	if err != nil {
		return Glance{}, err
	}
	return glanceOf(&row, s.Graph, s.Views), nil
}

func glanceOf(row *dag.RunRow, g *dag.Graph, views []dag.TaskView) Glance {
	states := make([]dag.TaskState, len(views))
	for t := range views {
		states[t] = views[t].State
	}
	return Glance{Row: *row, Graph: g, States: states}
}

// Course contains the attempts and waits of a run over time.
type Course struct {
	Row      dag.RunRow
	Graph    *dag.Graph
	Attempts []dag.AttemptRow         // sorted by task; attempts of the Leader are left out
	Nodes    map[dag.HandlerID]string // the names of the nodes, by the handlers of the attempts
	// Ready has, for each task, the end of the last task that it needs. It is 0 if one of these tasks has not
	// ended.
	Ready []dag.Micros
	Path  []dag.TaskID // the critical path, first to last
	Now   dag.Micros
}

// Course returns the times of the attempts of a run. It returns errkind.ErrNotFound if the run does not
// exist.
func (rd *Reader) Course(ctx context.Context, id dag.RunID) (Course, error) {
	row, err := rd.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Course{}, errkind.NoRun(id)
	}
	if err != nil {
		return Course{}, errkind.FromStore("run "+id.String(), err)
	}
	c := Course{Nodes: map[dag.HandlerID]string{}}
	if c.Now, err = rd.Clock(ctx); err != nil {
		return c, err
	}
	var views []dag.TaskView
	if row.SplitAt == 0 || row.Cause == dag.CauseCorrupt {
		c.Row = row
		c.Graph, err = rd.graphs.Get(row.Workflow, row.Version)
		return c, err
	}
	if c.Graph, c.Attempts, views, err = rd.derive(ctx, &row); err != nil {
		return c, err
	}
	c.Row = row
	first := 0
	for first < len(c.Attempts) && c.Attempts[first].Task == dag.LeaderTask {
		first++
	}
	c.Attempts = c.Attempts[first:]
	for i := range c.Attempts {
		h := c.Attempts[i].Handler
		if _, known := c.Nodes[h]; known {
			continue
		}
		by, err := rd.HandlerByID(ctx, h)
		if err != nil {
			return c, err
		}
		c.Nodes[h] = by.Node
	}
	c.trace(views)
	return c, nil
}

// trace computes the time at which each task could begin, and the path of tasks that determined the duration
// of the run.
func (c *Course) trace(views []dag.TaskView) {
	ended := moments(c.Graph, &c.Row, c.Attempts, views)
	c.Ready = make([]dag.Micros, c.Graph.Len())
	last := dag.TaskID(-1)
	for _, t := range c.Graph.Order() {
		ready := c.Row.SplitAt
		for _, n := range c.Graph.Needs(t) {
			if !views[n].State.Terminal() {
				ready = 0
				break
			}
			ready = max(ready, ended[n])
		}
		c.Ready[t] = ready
		if ready != 0 && views[t].State != dag.Pending && (last < 0 || ended[t] > ended[last]) {
			last = t
		}
	}
	for t := range c.Ready {
		if of, instance := c.Graph.InstanceOf(dag.TaskID(t)); instance {
			c.Ready[t] = c.Ready[of]
		}
	}
	for t := last; t >= 0; {
		c.Path = append(c.Path, t)
		before := dag.TaskID(-1)
		for _, n := range c.Graph.Needs(t) {
			if before < 0 || ended[n] > ended[before] {
				before = n
			}
		}
		t = before
	}
	slices.Reverse(c.Path)
}
