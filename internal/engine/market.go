package engine

import (
	"context"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
)

// Market supplies an engine with slots of workers that are outside of its process. Its methods do not block.
// Any goroutine may call them, except Take and Back, which only the writer calls.
type Market interface {
	// Open reports whether Take would find a slot for a task with that placement now. The slot stays
	// available until the next call of Take.
	Open(p dag.Place) bool
	// Take books a slot for an attempt, until the worker has released it. It returns false if there is no
	// slot.
	Take(p dag.Place) (dag.HandlerID, bool)
	// Back returns a slot that was taken for an attempt with that placement, if the attempt was never
	// assigned.
	Back(h dag.HandlerID, p dag.Place)
	// Want reports the whole present demand for slots. The slice belongs to the engine. When slots have
	// arrived, the market calls Engine.Wake. spare is the number of slots of this process that the engine
	// does not need.
	Want(ds []Demand, spare int)
	// Send sends durable attempts, and repeats this until their handler has them or is gone. Attempts that the
	// handler already has do not change. The engine owns the slice.
	Send(as []Assignment)
	// Handed is Send for the attempts that a transaction has assigned. The engine calls it before it answers
	// the reports of that transaction, and Settled afterwards. So a worker can get the answer to a report
	// together with its new attempts.
	Handed(as []Assignment)
	Settled()
	// Worker reports whether a handler is a worker, and not a node.
	Worker(h dag.HandlerID) bool
	// Reset drops all slots, because this process continues under a new handler.
	Reset()
}

// Demand describes ready tasks of one placement that found no slot.
type Demand struct {
	Place dag.Place
	N     int // at least this number of tasks are waiting; at most demandMax
	// These fields describe the best of these tasks. Its order is given by the level, submission time and id
	// of its run, and by its rank in the run. The lowest values come first.
	Level   int64
	Created dag.Micros
	Run     dag.RunID
	Rank    dag.Rank `json:",omitzero"`
	// Aged is set if the task has waited so long that resources are reserved for it.
	Aged bool `json:",omitempty"`
}

const (
	// demandMax bounds the slots that are requested at one time for one placement.
	demandMax = 256
	// placesMax bounds the placements for which slots are requested at one time.
	placesMax = 64
)

// demand tells the market which tasks wait for slots.
func (h *slots) demand(queue *dag.Board, now func() dag.Micros) {
	if h.market == nil {
		return
	}
	var ds []Demand
	queue.Places(func(p dag.Place, q *dag.Queue) {
		if len(ds) == placesMax {
			return
		}
		now := now()
		r := q.Head(now)
		ds = append(ds, Demand{Place: p, N: min(q.Len()-1+r.ReadyAt(p), demandMax), Level: q.Level(r, now), Created: r.Created, Run: r.ID,
			Rank: r.RankAt(p), Aged: h.aged(r, now)})
	})
	spare := 0
	if !queue.Some(h.here) && h.taking() {
		spare = int(h.free.Load())
	}
	h.market.Want(ds, spare)
}

// Wake makes the writer look for slots again.
func (e *Engine) Wake() { e.writer.inbox.poke() }

// Extend changes the kinds that the process of an engine runs as processes of its own, and assigns the tasks
// that waited for them.
func Extend(e *Engine, all []dag.Extension, refused []dag.Refusal) {
	t := *e.slots.traits.Load()
	t.Extensions, t.Refused = all, refused
	e.slots.traits.Store(&t)
	e.Wake()
}

// Lend books a slot and resources of this process for the attempt of another owner. It returns false if no
// slot is free. The caller returns them by Regain.
func (e *Engine) Lend(n dag.Need) bool {
	if !e.slots.claim() {
		return false
	}
	if !n.IsZero() && !e.slots.room.take(dag.Anywhere.With(n)) {
		e.slots.free.Add(1)
		return false
	}
	return true
}

// Regain returns a slot that Lend took, and its resources.
func (e *Engine) Regain(n dag.Need) {
	e.slots.free.Add(1)
	e.slots.room.back(n)
	e.Wake()
}

// Resend sends those attempts again that a handler holds and whose shards this node owns.
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

// Holds reports whether a handler holds the newest attempt of a task, under that token, and the attempt has
// not ended.
func (e *Engine) Holds(ctx context.Context, h dag.HandlerID, run dag.RunID, t dag.TaskID, token dag.Token) (bool, error) {
	as, err := e.Begun(ctx, run, t)
	if n := len(as); err == nil && (n == 0 || as[n-1].Token < token) {
		as, err = e.Attempts(ctx, run, t)
	}
	if err != nil || len(as) == 0 {
		return false, err
	}
	last := &as[len(as)-1]
	return last.Handler == h && last.Token == token && !last.State.Ended(), nil
}

// LateMax is how long after the end of an attempt its handler still counts as its holder, because its last
// output may arrive late.
const LateMax = time.Hour

// Had reports whether a handler holds an attempt, or has held it until recently.
func (e *Engine) Had(ctx context.Context, h dag.HandlerID, run dag.RunID, t dag.TaskID, token dag.Token) (bool, error) {
	its := func(a dag.AttemptRow) bool { return a.Token == token && a.Handler == h }
	as, err := e.Begun(ctx, run, t)
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
