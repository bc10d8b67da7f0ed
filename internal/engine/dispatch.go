package engine

import (
	"errors"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
)

// Assignment is a task that is assigned to a handler under a token. An Assignment is durable before it is
// sent. It may be sent again until its end is reported.
type Assignment struct {
	Run      dag.RunID
	Task     dag.TaskID
	Token    dag.Token
	Name     string // name of the task
	Workflow dag.WorkflowID
	Version  int32
	// Generation is the generation of the run in which the attempt was assigned. It is 0 from a node of an
	// earlier version.
	Generation int32
	Shard      dag.ShardID
	Handler    dag.HandlerID // the holder
	Place      dag.Place
	Graph      *dag.Graph `json:"-"` // nil if the assignment came from another node
	// LockToken is the number of the grant of the run's locks. It is 0 if the run has none.
	LockToken int64
}

func (a *Assignment) key() dag.AttemptKey { return dag.KeyOf(a.Run, a.Task, a.Token) }

// AttemptID names an attempt.
type AttemptID struct {
	Run   dag.RunID
	Task  dag.TaskID
	Token dag.Token
}

// Executor runs attempts. Its workers are in this process, in its keeper, or on other machines.
type Executor interface {
	// Start runs attempts. It does not block for them. When it returns, the slice belongs to the engine
	// again. The executor reports the end of every attempt once, by Engine.Report. If an attempt already runs
	// under the same token, Start leaves it alone.
	Start(as []Assignment)
	// Cancel ends attempts and ignores unknown ones. The slice belongs to the engine.
	Cancel(cs []dag.Cancel)
	// Running reports whether the executor has the attempt: from Start until Engine.Report of its end has
	// returned. The engine starts an attempt that the executor does not have again, under the same token.
	Running(run dag.RunID, task dag.TaskID, token dag.Token) bool
	// Live reports whether an attempt runs, or has ended and Engine.Report of its end has not returned yet.
	Live(run dag.RunID, task dag.TaskID, token dag.Token) bool
}

// fill gives free slots to the best ready tasks, in the transaction being made. So the end of a task and the
// start of the next are one commit.
func (w *writer) fill(most int) {
	w.e.slots.keepFor(&w.queue, w.tx.now.Wall)
	for ; most > 0 && w.tx.rows < batchRowsMax; most-- {
		r, place := w.queue.Head(w.tx.now.Wall, w.e.slots.open)
		if r == nil {
			break
		}
		h, ok := w.e.slots.take(place)
		if !ok {
			break // another owner has just taken the slot; when it returns the slot, the writer wakes up
		}
		w.tx.current = r
		w.tx.tried++
		w.tx.assigns = append(w.tx.assigns, w.assignNext(r, place, h))
		w.touch(r)
		w.tx.rows++
	}
	w.tx.current = nil
}

// assignNext assigns the next ready task of a placement to the handler whose slot was taken for it. Nothing
// leaves the process here: slots.send sends the assignment after the commit.
func (w *writer) assignNext(r *dag.Run, p dag.Place, h dag.HandlerID) (a Assignment) {
	given := false
	defer func() {
		if !given { // set if a panic prevented the assignment
			w.e.slots.giveBack(h, p)
		}
	}()
	a = w.assign(r, r.NextAt(p), h)
	if w.e.slots.assigned(&a, p) {
		w.abroad.add(r.ID)
	}
	given = true
	return a
}

// assign assigns a ready task to a handler.
func (w *writer) assign(r *dag.Run, t dag.TaskID, h dag.HandlerID) Assignment {
	ev := dag.Event{Kind: dag.EvAssign, Task: t, Handler: h}
	waited := r.Waited(t, w.tx.now.Wall)
	if v := r.Step(&ev, w.tx.now, &w.tx.fx); v != dag.Accepted {
		panic("engine: a ready task of run " + r.ID.String() + " refuses its slot: " + v.String())
	}
	_, token := r.Task(t)
	a := assignment(r, &dag.AttemptRow{Task: t, Token: token, Handler: h, Generation: r.Generation})
	w.tx.draft.assigned(&a, waited)
	return a
}

// assignment returns the data that the holder of an attempt needs about it and its run.
func assignment(r *dag.Run, is *dag.AttemptRow) Assignment {
	t := is.Task
	a := Assignment{Run: r.ID, Task: t, Token: is.Token, Workflow: r.Workflow, Version: r.Version, Generation: is.Generation, Shard: r.Shard, Handler: is.Handler, Graph: r.Graph}
	if r.Claim != nil && len(r.Claim.Locks) > 0 {
		a.LockToken = r.Claim.Grant
	}
	if r.Graph != nil && t != dag.LeaderTask {
		a.Name, a.Place = r.Graph.Name(t), r.Place(t)
	} else if r.Graph != nil {
		a.Name = r.Graph.Name(t)
	}
	return a
}

// touch prepares a run for the flush, updates its position among the runs with ready tasks, and starts its
// Leader work, which needs no slot.
func (w *writer) touch(r *dag.Run) {
	if w.tx.mark(r) {
		w.tx.touched = append(w.tx.touched, r)
	}
	if r.State == dag.RunSplitting && r.Ready() > 0 {
		w.tx.splits = append(w.tx.splits, w.assign(r, r.NextReady(), w.e.me().ID))
	}
	for r.Workflow == w.defs.system && r.State == dag.RunRunning && r.Ready() > 0 {
		w.tx.splits = append(w.tx.splits, w.assign(r, r.NextReady(), w.e.me().ID))
	}
	if r.Claim != nil {
		w.limits.claimed(r)
	}
	w.limits.balance(r)
	if err := w.spaces.house(r); err != nil {
		w.broken(err)
		return
	}
	w.queue.Update(r)
	if !r.Unfinished() && r.Gate != gateNone {
		w.quotas.ended(r)
		w.limits.exit(r)
		w.tx.ended = append(w.tx.ended, r)
	}
}

// leadPauseMax bounds the pause between two tries to read a version.
const leadPauseMax = time.Second

// lead does Leader work in its own goroutine. The work reads the graph of a version that is large or not in
// memory yet. If the store does not answer, lead reads again, because the run did not cause the failure.
func (w *writer) lead(a Assignment) {
	if w.leading[a.key()] {
		return
	}
	w.leading[a.key()] = true
	if a.Task != dag.LeaderTask {
		w.carrySweep(a)
		return
	}
	ctx, fill := w.ctx, w.filling(a)
	w.e.host.Go(w.wg, func() {
		ev := dag.Event{Kind: dag.EvSplit, Task: dag.LeaderTask, Token: a.Token, Handler: w.e.me().ID}
		g, params, err := w.e.split(ctx, &a, fill)
		for pause := 10 * time.Millisecond; errors.Is(err, errkind.ErrUnavailable); pause = min(2*pause, leadPauseMax) {
			if w.e.host.Await(ctx, nil, pause); ctx.Err() != nil {
				return // the next owner splits the run again
			}
			g, params, err = w.e.split(ctx, &a, fill)
		}
		if err != nil {
			ev.Err = clean(err.Error())
		}
		ev.Graph, ev.Params = g, params
		// A closed inbox means that this process ends; the next owner splits again.
		_ = w.inbox.put(item{run: a.Run, ev: &ev})
	})
}
