package server

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// absent is the cell of a task that a run does not have.
const absent = 255

type gridIn struct {
	WorkflowPath
	Cursor  string `query:"cursor" maxLength:"1000" doc:"next of the page before."`
	Runs    int    `query:"runs" minimum:"1" maximum:"100" default:"25"`
	Version int32  `query:"version" minimum:"1" maximum:"2147483647" doc:"The version whose tasks are the rows. Absent: the current one."`
}

func (d drawings) workflowGrid(ctx context.Context, in *gridIn) (*jsonOut[api.Grid], error) {
	w, err := d.s.workflow(ctx, &in.WorkflowPath)
	if err != nil {
		return nil, err
	}
	version := in.Version
	if version == 0 {
		version = w.Version
	}
	g, err := d.s.versionGraph(ctx, &in.WorkflowPath, version)
	if err != nil {
		return nil, err
	}
	q := store.RunQuery{Workflow: w.ID, Limit: in.Runs}
	page := Page{Cursor: in.Cursor}
	if after, err := page.after(); err != nil {
		return nil, err
	} else if after != "" {
		if q.Before, err = dag.ParseRunID(after); err != nil {
			return nil, badCursor()
		}
	}
	runs, err := d.s.engine.Runs(ctx, q)
	if err != nil {
		return nil, err
	}
	out := api.Grid{Version: version, Tasks: len(g.Order()), States: stateNames(), Runs: make([]api.GridRun, len(runs.Runs))}
	if !runs.Next.IsZero() {
		out.Next = list([]int{}, runs.Next.String()).Body.Next
	}
	rows := gridRows{g: g, version: version, of: map[int32][]int32{}}
	for i := range runs.Runs {
		r := &runs.Runs[i]
		col := &out.Runs[i]
		*col = api.GridRun{ID: r.ID.String(), State: r.State.String(), Version: r.Version, Generation: r.Generation,
			Instant: instant(r.Instant()), StartedAt: instantOrNull(r.StartedAt), FinishedAt: instantOrNull(r.FinishedAt)}
		glance, err := d.s.engine.Glance(ctx, r.ID)
		if errors.Is(err, errkind.ErrDamaged) || errors.Is(err, errkind.ErrNotFound) {
			// A run that is damaged or was deleted meanwhile must not hide the others.
			col.Cells = packCells(len(g.Order()), func(int) byte { return absent })
			continue
		}
		if err != nil {
			return nil, err
		}
		col.Cells = rows.cells(&glance)
	}
	return &jsonOut[api.Grid]{Body: out}, nil
}

// stateNames lists the names of the states by their numbers.
func stateNames() []string {
	names := make([]string, len(dag.TaskStates()))
	for i := range names {
		names[i] = dag.TaskState(i).String()
	}
	return names
}

// gridRows finds the tasks of a grid's version in the graphs of other versions.
type gridRows struct {
	g       *dag.Graph
	version int32
	of      map[int32][]int32 // version → for each row, the task of that version, or -1
}

func (r *gridRows) cells(glance *inspect.Glance) []byte {
	n := len(r.g.Order())
	same := glance.Row.Version == r.version && len(glance.Graph.Order()) == n
	if same {
		return packCells(n, func(t int) byte { return byte(glance.States[t]) })
	}
	tasks := r.of[glance.Row.Version]
	if tasks == nil {
		tasks = make([]int32, n)
		for t := range tasks {
			tasks[t] = -1
			if found, ok := glance.Graph.Find(r.g.Name(dag.TaskID(t))); ok {
				tasks[t] = int32(found)
			}
		}
		if glance.Row.Graph == nil { // the run has the graph of its version, without additions
			r.of[glance.Row.Version] = tasks
		}
	}
	return packCells(n, func(t int) byte {
		if tasks[t] < 0 || int(tasks[t]) >= len(glance.States) {
			return absent
		}
		return byte(glance.States[tasks[t]])
	})
}

func packCells(n int, cell func(t int) byte) (b []byte) {
	for t := 0; t < n; {
		c, from := cell(t), t
		for t < n && cell(t) == c {
			t++
		}
		b = binary.AppendUvarint(append(b, c), uint64(t-from))
	}
	return b
}

func (d drawings) runTimeline(ctx context.Context, in *RunPath) (*jsonOut[api.Timeline], error) {
	id, err := in.run()
	if err != nil {
		return nil, err
	}
	c, err := d.s.engine.Course(ctx, id)
	if err != nil {
		return nil, err
	}
	start := c.Row.Created
	if c.Row.StartedAt != 0 {
		start = c.Row.StartedAt
	}
	since := func(m dag.Micros) int64 {
		if m == 0 {
			return -1
		}
		return max(0, int64(m-start)/1000)
	}
	out := api.Timeline{Run: in.ID, State: c.Row.State.String(), T0: instant(start), Now: since(c.Now),
		States: []string{}, Nodes: []string{}, Instances: []string{}, Ready: make([]int64, len(c.Ready)), Path: []int32{},
		Task: []int32{}, Number: []int32{}, Outcome: []int32{}, Assigned: []int64{}, Started: []int64{}, Finished: []int64{}, Node: []int32{}}
	if c.Row.FinishedAt != 0 {
		out.Now = since(c.Row.FinishedAt)
	}
	for t := range c.Ready {
		out.Ready[t] = since(c.Ready[t])
	}
	for t := len(c.Graph.Order()); t < c.Graph.Len(); t++ {
		out.Instances = append(out.Instances, c.Graph.Name(dag.TaskID(t)))
	}
	for i := range c.Attempts {
		a := &c.Attempts[i]
		out.Task = append(out.Task, int32(a.Task))
		out.Number = append(out.Number, a.Token.Number())
		out.Outcome = append(out.Outcome, indexOf(&out.States, a.State.String()))
		out.Assigned = append(out.Assigned, since(a.Assigned))
		out.Started = append(out.Started, since(a.Started))
		out.Finished = append(out.Finished, since(a.Finished))
		out.Node = append(out.Node, indexOf(&out.Nodes, c.Nodes[a.Handler]))
	}
	for _, t := range c.Path {
		out.Path = append(out.Path, int32(t))
	}
	return &jsonOut[api.Timeline]{Body: out}, nil
}

// indexOf returns the index of a text in a short list. It appends a text that is missing.
func indexOf(list *[]string, text string) int32 {
	i := slices.Index(*list, text)
	if i < 0 {
		i = len(*list)
		*list = append(*list, strings.Clone(text))
	}
	return int32(i)
}
