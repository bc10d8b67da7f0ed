package engine

import (
	"sync/atomic"

	"skein.dev/skein/internal/dag"
)

// Assignment is a task handed to a handler under a token; it is durable before it is sent,
// and may be sent again until it is reported.
type Assignment struct {
	Run      dag.RunID
	Task     dag.TaskID
	Token    dag.Token
	Name     string // of the task
	Workflow dag.WorkflowID
	Version  int32
	Graph    *dag.Graph
	Created  dag.Micros // of the run
}

// Executor runs attempts. It is the seam behind which workers are: in this process, in a
// keeper beside it, or on other machines.
type Executor interface {
	// Start runs attempts. It does not block for them; every one is reported once by
	// Engine.Report. One that is running already under the same token is left alone.
	Start(as []Assignment)
	// Cancel ends attempts; unknown ones are ignored.
	Cancel(cs []dag.Cancel)
	// Running reports whether it has the attempt.
	Running(run dag.RunID, task dag.TaskID, token dag.Token) bool
}

// home books the slots of the executor: a slot is booked before the assignment is written
// and given back when its report arrives, whatever the report is worth.
type home struct {
	free atomic.Int64
	wake chan struct{} // cap 1
}

// book takes a slot if one is free.
func (h *home) book() bool {
	if h.free.Add(-1) >= 0 {
		return true
	}
	h.free.Add(1)
	return false
}

func (h *home) unbook(n int) { h.free.Add(int64(n)) }

// fill gives free slots to the best ready tasks, in the transaction being made: the end
// of a task and the start of the next are one commit.
func (w *writer) fill(now dag.Now, most int) {
	for ; most > 0 && w.rows < batchRowsMax && w.queue.Len() > 0 && w.e.home.book(); most-- {
		r := w.queue.Head(now.Wall)
		t := r.NextReady()
		w.assigns = append(w.assigns, w.assign(r, t, now))
		w.touch(r)
		w.rows++
	}
}

// assign hands a ready task to this process.
func (w *writer) assign(r *dag.Run, t dag.TaskID, now dag.Now) Assignment {
	ev := dag.Event{Kind: dag.EvAssign, Task: t, Handler: w.e.handler.ID}
	if v := r.Step(&ev, now, &w.fx); v != dag.Accepted {
		panic("engine: a ready task of run " + r.ID.String() + " refuses its slot: " + v.String())
	}
	_, token := r.Task(t)
	return assignment(r, t, token)
}

func assignment(r *dag.Run, t dag.TaskID, token dag.Token) Assignment {
	a := Assignment{Run: r.ID, Task: t, Token: token, Workflow: r.Workflow, Version: r.Version, Graph: r.Graph, Created: r.Created}
	if r.Graph != nil {
		a.Name = r.Graph.Name(t)
	}
	return a
}

// touch lists a run for the flush, puts it where its ready tasks say, and hands out its
// Leader work, which needs no slot.
func (w *writer) touch(r *dag.Run) {
	if !w.marked[r] {
		w.marked[r] = true
		w.touched = append(w.touched, r)
	}
	if r.State == dag.RunSplitting && r.Ready() > 0 {
		w.splits = append(w.splits, w.assign(r, r.NextReady(), w.clock.now()))
	}
	w.queue.Update(r)
}

// lead does Leader work beside the shard: the graph of a large or not yet known version.
func (w *writer) lead(a Assignment) {
	w.wg.Go(func() {
		ev := dag.Event{Kind: dag.EvSplit, Task: dag.LeaderTask, Token: a.Token, Handler: w.e.handler.ID}
		g, err := w.e.graphs.get(a.Workflow, a.Version)
		if err != nil {
			ev.Err = err.Error()
		}
		ev.Graph = g
		// A closed inbox means that this process ends; the next owner splits again.
		_ = w.inbox.put(item{run: a.Run, ev: ev})
	})
}
