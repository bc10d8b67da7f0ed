package engine

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

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
	// Generation is that of the run in which the attempt was handed out; 0: a node of an earlier version does not say it.
	Generation int32
	Shard      dag.ShardID
	Handler    dag.HandlerID // whose it is
	Place      dag.Place
	Graph      *dag.Graph `json:"-"` // nil: it came from another node
	// LockToken is the number under which the run was granted its locks; 0: it has none.
	LockToken int64
}

func (a *Assignment) key() dag.AttemptKey { return dag.KeyOf(a.Run, a.Task, a.Token) }

// AttemptID names an attempt.
type AttemptID struct {
	Run   dag.RunID
	Task  dag.TaskID
	Token dag.Token
}

// Executor runs attempts. Workers are behind it: in this process, in its keeper, or on other machines.
type Executor interface {
	// Start runs attempts. It does not block for them, and the slice is the engine's again
	// when it returns; every attempt is reported once by Engine.Report. One that is
	// running already under the same token is left alone.
	Start(as []Assignment)
	// Cancel ends attempts; unknown ones are ignored. The slice is the engine's.
	Cancel(cs []dag.Cancel)
	// Running reports whether it has the attempt: from Start until Engine.Report of its
	// end has returned. What it does not have is started again under the same token.
	Running(run dag.RunID, task dag.TaskID, token dag.Token) bool
	// Live reports whether an attempt runs, or has ended and Engine.Report of its end has not returned yet.
	Live(run dag.RunID, task dag.TaskID, token dag.Token) bool
}

// home books the slots of the executor. A slot is booked with the transaction that hands
// the attempt over and given back when its report is taken, whatever that is worth; both
// by the attempt's name, so that nothing said twice counts twice. Only free is for other
// goroutines than the writer's: it is also lent to other nodes (see Engine.Lend).
type home struct {
	free    atomic.Int64
	drained atomic.Bool            // nothing is booked any more
	shut    atomic.Pointer[string] // why nothing is booked for now; nil: it is
	booked  map[dag.AttemptKey]struct{}
	room    room
}

// open reports whether a slot can be booked now.
func (h *home) open() bool { return h.free.Load() > 0 && h.taking() }

// taking reports whether anything is booked at all.
func (h *home) taking() bool { return !h.drained.Load() && h.shut.Load() == nil }

// Drain hands out no task from now on: what runs ends, the rest waits for the next life of
// a node. A process that is about to end calls it, so that nothing is handed to it only to
// be declared lost.
func (e *Engine) Drain() { e.home.drained.Store(true) }

// Shut has this process take no task as long as there is a reason; "": it takes them again. What runs goes on, and others
// take what waits.
func (e *Engine) Shut(why string) {
	if why == "" {
		e.home.shut.Store(nil)
	} else {
		e.home.shut.Store(&why)
	}
	e.Wake()
}

// IsShut is why this process takes no task for now; "": it does.
func (e *Engine) IsShut() string {
	if why := e.home.shut.Load(); why != nil {
		return *why
	}
	return ""
}

// has reports whether this process has handed an attempt over, or goes on with it, and has not
// taken its report.
func (h *home) has(k dag.AttemptKey) bool {
	_, in := h.booked[k]
	return in
}

// claim takes a slot; false: there is none any more.
func (h *home) claim() bool {
	for {
		free := h.free.Load()
		if free <= 0 || !h.taking() {
			return false
		}
		if h.free.CompareAndSwap(free, free-1) {
			return true
		}
	}
}

// note names the attempt for which a slot was claimed.
func (h *home) note(k dag.AttemptKey) { h.booked[k] = struct{}{} }

// book takes a slot for an attempt that has one by its rows, whether there is one or not.
func (h *home) book(k dag.AttemptKey) {
	if _, in := h.booked[k]; !in {
		h.booked[k] = struct{}{}
		h.free.Add(-1)
	}
}

func (h *home) unbook(k dag.AttemptKey) {
	if _, in := h.booked[k]; in {
		delete(h.booked, k)
		h.free.Add(1)
		h.room.settle(k)
	}
}

// regain gives back a slot that was claimed for a task of a place and never used.
func (h *home) regain(p dag.Place) {
	h.free.Add(1)
	h.room.back(p.Need())
}

// fill gives free slots to the best ready tasks, in the transaction being made: the end
// of a task and the start of the next are one commit.
func (w *writer) fill(most int) {
	w.reserve()
	for ; most > 0 && w.tx.rows < batchRowsMax; most-- {
		r, place := w.queue.Head(w.tx.now.Wall, w.open)
		if r == nil {
			break
		}
		h, ok := w.slot(place)
		if !ok {
			break // the slot was just lent to another owner; its return wakes the writer
		}
		w.tx.current = r
		w.tx.tried++
		w.tx.assigns = append(w.tx.assigns, w.handOver(r, place, h))
		w.touch(r)
		w.tx.rows++
	}
	w.tx.current = nil
}

// open reports whether there is a slot for tasks of a place: in this process, or with a worker
// elsewhere.
func (w *writer) open(p dag.Place) bool {
	return w.e.here(p) || w.e.cfg.Market != nil && w.e.cfg.Market.Open(p)
}

// here reports whether a task of that place would get a slot of this process.
func (e *Engine) here(p dag.Place) bool {
	return e.home.open() && (p == dag.Anywhere || p.Fits(e.cfg.Node, &e.cfg.Traits) && e.home.room.has(p))
}

// slot takes one for a task of a place: of this process first, where it costs least.
func (w *writer) slot(p dag.Place) (dag.HandlerID, bool) {
	if w.e.here(p) && w.e.home.claim() {
		if p == dag.Anywhere || w.e.home.room.take(p) {
			return w.e.me().ID, true
		}
		w.e.home.free.Add(1) // its room was lent this moment
	}
	if w.e.cfg.Market == nil {
		return 0, false
	}
	return w.e.cfg.Market.Take(p)
}

// handOver hands the next ready task of a place to the handler whose slot was taken for it.
func (w *writer) handOver(r *dag.Run, p dag.Place, h dag.HandlerID) (a Assignment) {
	mine, given := h == w.e.me().ID, false
	defer func() {
		if given { // after a panic the slot is released
			return
		}
		if mine {
			w.e.home.regain(p)
		} else {
			w.e.cfg.Market.Back(h, p)
		}
	}()
	a = w.assign(r, r.NextAt(p), h)
	if mine {
		w.e.home.note(a.key())
		w.e.home.room.note(a.key(), p)
	} else if !w.isWorker(h) {
		w.abroad.add(r.ID)
	}
	given = true
	return a
}

// isWorker reports whether a handler is a worker's, whose home sees to it that it has what it was sent. A
// node is asked what it has (see abroad).
func (w *writer) isWorker(h dag.HandlerID) bool {
	return w.e.cfg.Market != nil && w.e.cfg.Market.Worker(h)
}

// unbook gives back the slot of an attempt that was not handed over after all.
func (w *writer) unbook(a *Assignment) {
	if a.Handler == w.e.me().ID {
		w.e.home.unbook(a.key())
	} else if w.e.cfg.Market != nil {
		w.e.cfg.Market.Back(a.Handler, a.Place)
	}
}

// assign hands a ready task to a handler.
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

// assignment returns what the holder of an attempt must know of it and of its run.
func assignment(r *dag.Run, is *dag.AttemptRow) Assignment {
	t := is.Task
	a := Assignment{Run: r.ID, Task: t, Token: is.Token, Workflow: r.Workflow, Version: r.Version, Generation: is.Generation, Shard: r.Shard, Handler: is.Handler, Graph: r.Graph}
	if r.Claim != nil && len(r.Claim.Locks) > 0 {
		a.LockToken = r.Claim.Grant
	}
	if r.Graph != nil && t != dag.LeaderTask {
		a.Name, a.Place = r.Graph.Name(t), r.Graph.Policy(t).Place
	} else if r.Graph != nil {
		a.Name = r.Graph.Name(t)
	}
	return a
}

// touch lists a run for the flush, puts it where its ready tasks say, and hands out its
// Leader work, which needs no slot.
func (w *writer) touch(r *dag.Run) {
	if w.tx.mark(r) {
		w.tx.touched = append(w.tx.touched, r)
	}
	if r.State == dag.RunSplitting && r.Ready() > 0 {
		w.tx.splits = append(w.tx.splits, w.assign(r, r.NextReady(), w.e.me().ID))
	}
	for r.Workflow == w.system && r.State == dag.RunRunning && r.Ready() > 0 {
		w.tx.splits = append(w.tx.splits, w.assign(r, r.NextReady(), w.e.me().ID))
	}
	if r.Claim != nil {
		w.claimed(r)
	}
	w.balance(r)
	w.queue.Update(r)
	if !r.Unfinished() && r.Gate != gateNone {
		w.exit(r)
		w.tx.ended = append(w.tx.ended, r)
	}
}

// dispatch hands out what is durable: to this process by a call, to others by the market. abroad: there was
// something for others, and Market.Settled is to follow.
func (w *writer) dispatch(as []Assignment) (abroad bool) {
	me := w.e.me().ID
	i := slices.IndexFunc(as, func(a Assignment) bool { return a.Handler != me })
	if i < 0 {
		if len(as) > 0 {
			w.e.cfg.Executor.Start(as)
		}
		return false
	}
	if !slices.ContainsFunc(as, func(a Assignment) bool { return a.Handler == me }) {
		w.e.cfg.Market.Handed(as)
		return true
	}
	var mine, others []Assignment
	for _, a := range as {
		if a.Handler == me {
			mine = append(mine, a)
		} else {
			others = append(others, a)
		}
	}
	if len(mine) > 0 {
		w.e.cfg.Executor.Start(mine)
	}
	w.e.cfg.Market.Handed(others)
	return true
}

// leadPauseMax bounds the pause between two tries to read a version.
const leadPauseMax = time.Second

// lead does Leader work in a goroutine of its own: the graph of a large version, or of one that is not in
// memory yet. If the store does not answer, the run is not at fault, and the store is asked again.
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
		for pause := 10 * time.Millisecond; errors.Is(err, ErrUnavailable); pause = min(2*pause, leadPauseMax) {
			if w.e.host.Await(ctx, nil, pause); ctx.Err() != nil {
				return // the next owner splits again
			}
			g, params, err = w.e.split(ctx, &a, fill)
		}
		if err != nil {
			ev.Err = clean(err.Error())
		}
		ev.Graph, ev.Params = g, params
		// A closed inbox means that this process ends; the next owner splits again.
		_ = w.inbox.put(item{run: a.Run, ev: ev})
	})
}
