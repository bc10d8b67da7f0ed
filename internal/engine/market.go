package engine

import (
	"context"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
)

// Market is where an engine gets slots of workers that are not in its process. Its methods do
// not block and may be called from any goroutine; Take and Back are the writer's.
type Market interface {
	// Open reports whether Take would find a slot for a task of that place now. Between that
	// and Take no slot is lost.
	Open(p dag.Place) bool
	// Take uses a slot. The slot belongs to the attempt until the worker has released it.
	Take(p dag.Place) (dag.HandlerID, bool)
	// Back returns a slot that was taken for an attempt at that place that was never handed over.
	Back(h dag.HandlerID, p dag.Place)
	// Want reports all demand for slots, each time in full. The slice is the engine's. The market calls
	// Engine.Wake when slots have come. spare is the number of slots of this process for which the engine has no
	// use.
	Want(ds []Demand, spare int)
	// Send hands out attempts that are durable, and says so again until their handler has them,
	// or is gone. What it has already is left alone. The slice is the engine's.
	Send(as []Assignment)
	// Handed is Send for what a transaction has handed out, before its reports are answered; Settled
	// follows when they are: a worker can be given the one with the other.
	Handed(as []Assignment)
	Settled()
	// Worker reports whether a handler is that of a worker that is no node.
	Worker(h dag.HandlerID) bool
	// Reset forgets every slot: this process has begun a new life.
	Reset()
}

// Demand is ready tasks of one place that found no slot.
type Demand struct {
	Place dag.Place
	N     int // at least; bounded by demandMax
	// The best of them: its run's level, submission and id, and its rank there. The lowest is served first.
	Level   int64
	Created dag.Micros
	Run     dag.RunID
	Rank    dag.Rank `json:",omitzero"`
	// Aged: it has waited for so long that room is kept for it.
	Aged bool `json:",omitempty"`
}

const (
	// demandMax bounds how many slots are wanted at a time for one place.
	demandMax = 256
	// placesMax bounds for how many places slots are wanted at a time.
	placesMax = 64
)

// demand tells the market what waits.
func (w *writer) demand() {
	m := w.e.cfg.Market
	if m == nil {
		return
	}
	var ds []Demand
	w.queue.Places(func(p dag.Place, q *dag.Queue) {
		if len(ds) == placesMax {
			return
		}
		now := w.clock.now().Wall
		r := q.Head(now)
		ds = append(ds, Demand{Place: p, N: min(q.Len()-1+r.ReadyAt(p), demandMax), Level: q.Level(r, now), Created: r.Created, Run: r.ID,
			Rank: r.RankAt(p), Aged: w.aged(r, now)})
	})
	spare := 0
	if !w.queue.Some(w.e.here) && w.e.home.taking() {
		spare = int(w.e.home.free.Load())
	}
	m.Want(ds, spare)
}

// Wake has the writer look for slots again.
func (e *Engine) Wake() { e.writer.inbox.poke() }

// Lend takes a slot of this process, and room, for attempts of another owner; false: none is free.
// It is given back by Regain.
func (e *Engine) Lend(n dag.Need) bool {
	if !e.home.claim() {
		return false
	}
	if !n.IsZero() && !e.home.room.take(dag.Anywhere.With(n)) {
		e.home.free.Add(1)
		return false
	}
	return true
}

// Regain gives back a slot that Lend took, and its room.
func (e *Engine) Regain(n dag.Need) {
	e.home.free.Add(1)
	e.home.room.back(n)
	e.Wake()
}

// Resend dispatches again the attempts that a handler holds of the shards owned here.
func (e *Engine) Resend(h dag.HandlerID) {
	_ = e.writer.inbox.put(item{op: func(w *writer) answer {
		var as []Assignment
		for _, r := range w.runs {
			r.Held(func(a *dag.AttemptRow) {
				if a.Handler == h && a.Task != dag.LeaderTask {
					as = append(as, assignment(r, a))
				}
			})
		}
		if len(as) > 0 {
			w.e.cfg.Market.Send(as)
		}
		return answer{}
	}})
}

// Holds reports whether the newest attempt of a task is that of a handler, under that token,
// and has not ended.
func (e *Engine) Holds(ctx context.Context, h dag.HandlerID, run dag.RunID, t dag.TaskID, token dag.Token) (bool, error) {
	as, err := e.begun(ctx, run, t)
	if n := len(as); err == nil && (n == 0 || as[n-1].Token < token) {
		as, err = e.Attempts(ctx, run, t)
	}
	if err != nil || len(as) == 0 {
		return false, err
	}
	last := &as[len(as)-1]
	return last.Handler == h && last.Token == token && !last.State.Ended(), nil
}

// LateMax is for how long after its end an attempt counts as its handler's: what it printed last may come late.
const LateMax = time.Hour

// Had reports whether an attempt is a handler's, or was until lately.
func (e *Engine) Had(ctx context.Context, h dag.HandlerID, run dag.RunID, t dag.TaskID, token dag.Token) (bool, error) {
	its := func(a dag.AttemptRow) bool { return a.Token == token && a.Handler == h }
	as, err := e.begun(ctx, run, t)
	if err == nil && !slices.ContainsFunc(as, its) {
		as, err = e.Attempts(ctx, run, t)
	}
	i := slices.IndexFunc(as, its)
	if err != nil || i < 0 || as[i].Finished == 0 {
		return err == nil && i >= 0, err
	}
	now, err := e.store.Clock(ctx)
	return err == nil && now-as[i].Finished <= dag.Micros(LateMax.Microseconds()), err
}
