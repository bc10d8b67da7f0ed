package home

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// want is the last demand that an owner has sent.
type want struct {
	demands []engine.Demand
	needs   []dag.Need // needs of each demand
	served  []int      // for each demand, the number of slots that the owner got after it sent the demand
	at      time.Time
}

func newWant(ds []engine.Demand) *want {
	x := &want{demands: ds, needs: make([]dag.Need, len(ds)), served: make([]int, len(ds)), at: time.Now()}
	for i := range ds {
		x.needs[i] = ds[i].Place.Need()
	}
	return x
}

// wantMax is how long a demand is valid if the owner does not repeat it.
const wantMax = 5 * time.Second

// ask is a message of an owner to a home: its whole demand, and the total of returned slots.
type ask struct {
	Owner    dag.HandlerID
	Demands  []engine.Demand
	Returned []total
}

// total counts slots of one worker under one lease.
type total struct {
	Worker dag.HandlerID
	Lease  int64
	N      int64
	Need   dag.Need `json:",omitzero"` // the resources of each slot
}

// lent is a message of a home to an owner: the total of granted slots.
type lent struct {
	Home, Owner dag.HandlerID
	Granted     []total
}

// Ask stores the demand of an owner, and receives the slots that the owner returns. If ctx has ended, Ask
// does nothing, and the owner sends both again.
func (h *Home) Ask(ctx context.Context, a *ask) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, r := range a.Returned {
		w := h.workers[r.Worker]
		if r.Worker == h.self() {
			w = h.local
		}
		if w == nil || w.epoch() != r.Lease || w.accounts[loan{a.Owner, r.Need}] == nil {
			continue
		}
		acc := w.accounts[loan{a.Owner, r.Need}]
		back := min(r.N-acc.returned, acc.idle()) // an owner can return at most the slots that it has and does not use
		for range back {
			acc.returned++
			h.vacate(w, r.Need)
		}
	}
	if len(a.Demands) == 0 {
		delete(h.wants, a.Owner)
	} else {
		h.wants[a.Owner] = newWant(a.Demands)
	}
	h.serve()
	return nil
}

// vacate frees a slot, or gives it to an attempt that waits for one at this worker.
func (h *Home) vacate(w *worker, n dag.Need) {
	if len(w.waiting) > 0 && (n.IsZero() || !w.local) {
		if x := w.waiting[0]; w.fits(x.Place.Need().Minus(n)) {
			w.waiting = w.waiting[1:]
			w.room = w.room.Minus(n).Plus(x.Place.Need())
			h.relist(w)
			h.begin(w, x)
			return
		}
	}
	h.release(w, n)
}

// open reports whether a worker accepts new attempts.
func (w *worker) open() bool {
	return !w.draining && !w.full && !w.member.Cordoned && len(w.waiting) == 0
}

// relist updates the position of a worker among the lenders. It must be called after every change of the
// worker's free slots.
func (h *Home) relist(w *worker) {
	if w.local {
		h.lenders.update(w, w.open() && h.spare > 0)
		return
	}
	h.lenders.update(w, w.open() && w.used < int(w.member.Slots))
}

// freed is called when an attempt of a worker has ended. owner owns the run of the attempt. If it is 0, the
// slot must not be lent to that owner. Unless another owner has a more urgent task, the slot stays with the
// owner, because its next task may become ready in the transaction that settles this end.
func (h *Home) freed(w *worker, owner dag.HandlerID, n dag.Need) {
	if owner != 0 && w.open() && !w.local && n.IsZero() {
		best, at := h.best(w, time.Now(), h.aged())
		if best == 0 || best == owner && h.wants[best].needs[at].IsZero() {
			h.lend(w, owner, n)
			return
		}
	}
	h.vacate(w, n)
	h.offer(w)
}

// lend grants an owner a slot that was booked for it. The owner soon gets a message about the slot.
func (h *Home) lend(w *worker, owner dag.HandlerID, n dag.Need) {
	w.account(owner, n).granted++
	h.owed[w] = struct{}{}
}

// demand is one demand of an owner.
type demand struct {
	*engine.Demand
	need   dag.Need
	owner  dag.HandlerID
	at     int // index in the demands of the owner
	served int
}

// before reports whether a demand comes before another one. An owner that got a slot since its last message
// comes after one that did not, because its next task may be less urgent than the one in the message.
func (d *demand) before(o *demand) bool {
	return cmp.Or(cmp.Compare(d.served, o.served), order(d.Demand, o.Demand), cmp.Compare(d.owner, o.owner), cmp.Compare(d.at, o.at)) < 0
}

// demands calls the function see for each demand that still wants slots.
func (h *Home) demands(now time.Time, see func(demand)) {
	for id, x := range h.wants {
		if now.Sub(x.at) > wantMax {
			continue
		}
		for i := range x.demands {
			if d := &x.demands[i]; x.served[i] < d.N {
				see(demand{d, x.needs[i], id, i, x.served[i]})
			}
		}
	}
}

// best returns the owner of the first demand that fits a worker, and the index of the demand. owner is 0 if
// there is none.
func (h *Home) best(w *worker, now time.Time, aged []demand) (owner dag.HandlerID, at int) {
	if len(h.wants) == 0 {
		return 0, 0
	}
	var first demand
	kept := h.kept(w, aged)
	h.demands(now, func(d demand) {
		if w.local && d.owner == h.self() || first.owner != 0 && !d.before(&first) {
			return
		}
		if h.lenders.fits(w, d.Place) && w.gives(&d, kept) {
			first = d
		}
	})
	return first.owner, first.at
}

// aged returns the demands with cpu or memory that have waited long, the most urgent first.
func (h *Home) aged() (all []demand) {
	h.demands(time.Now(), func(d demand) {
		if d.Aged && !d.need.IsZero() {
			all = append(all, d)
		}
	})
	sort.Slice(all, func(i, j int) bool { return order(all[i].Demand, all[j].Demand) < 0 })
	return all
}

// kept returns the demand for which a worker's resources are reserved. It is the most urgent demand that has
// waited long and would fit the worker if the worker were empty.
func (h *Home) kept(w *worker, aged []demand) *demand {
	for i := range aged {
		if d := &aged[i]; h.wants[d.owner].served[d.at] < d.N && d.need.Within(w.member.Traits.Room) && h.lenders.fits(w, d.Place) {
			return d
		}
	}
	return nil
}

// gives reports whether a worker has the resources for demand d, in addition to those reserved for demand
// kept. For the worker of this process, the engine counts the free resources itself.
func (w *worker) gives(d, kept *demand) bool {
	n := d.need
	if n.IsZero() {
		return true
	}
	if !n.Within(w.member.Traits.Room) {
		return false
	}
	if kept != nil && kept.Run != d.Run {
		n = n.Plus(kept.need)
	}
	return w.local || w.fits(n)
}

func order(a, b *engine.Demand) int {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Created, b.Created), bytes.Compare(a.Run[:], b.Run[:]), a.Rank.Compare(b.Rank))
}

// wanting is a heap of demands. The first one is served next.
type wanting []demand

func (q wanting) Len() int           { return len(q) }
func (q wanting) Less(i, j int) bool { return q[i].before(&q[j]) }
func (q wanting) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *wanting) Push(x any)        { *q = append(*q, x.(demand)) }
func (q *wanting) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// serve lends free slots to owners with demand, until there is no demand left or no worker fits.
func (h *Home) serve() {
	if len(h.wants) == 0 {
		return
	}
	var q wanting
	h.demands(time.Now(), func(d demand) { q = append(q, d) })
	heap.Init(&q)
	aged, shut := h.aged(), false
	for len(q) > 0 {
		d := &q[0]
		w, found := h.lenders.pick(d.Place, func(w *worker) bool {
			if w.local && (shut || d.owner == h.self()) {
				return false
			}
			return d.need.IsZero() || w.gives(d, h.kept(w, aged))
		})
		switch {
		case !found:
			heap.Pop(&q)
			continue
		case !h.give(w, d):
			shut = shut || w.local // the engine also counts the slots of this process, and may refuse
			continue
		}
		if d.served++; d.served == d.N {
			heap.Pop(&q)
		} else {
			heap.Fix(&q, 0)
		}
	}
}

// offer lends the slots that became free at one worker. Slots of other workers were offered before: when they
// became free, or when a demand arrived.
func (h *Home) offer(w *worker) {
	if len(h.wants) == 0 {
		return
	}
	if len(h.aged()) > 0 { // a grant for such a demand may free resources that other workers reserve for it
		h.serve()
		return
	}
	for now := time.Now(); w.seat.at != none; {
		owner, at := h.best(w, now, nil)
		if owner == 0 {
			return
		}
		x := h.wants[owner]
		if !h.give(w, &demand{&x.demands[at], x.needs[at], owner, at, x.served[at]}) {
			return
		}
	}
}

// give books a slot of a worker for a demand and lends it. It returns false if the worker has no free slot.
func (h *Home) give(w *worker, d *demand) bool {
	h.turn++
	w.turn = h.turn
	if !h.claim(w, d.need) {
		h.relist(w)
		return false
	}
	h.wants[d.owner].served[d.at]++
	h.lend(w, d.owner, d.need)
	h.poke()
	return true
}

// Strategies for choosing among the workers that fit.
const (
	LeastLoaded = "least-loaded"
	RoundRobin  = "round-robin"
	Random      = "random"
)

// before returns the order of lenders under a strategy. It returns nil for a random order.
func (h *Home) before(strategy string) func(a, b *worker) bool {
	switch strategy {
	case Random:
		return nil
	case RoundRobin: // the lender whose last loan is the oldest
		return func(a, b *worker) bool {
			return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.member.Handler, b.member.Handler)) < 0
		}
	}
	return func(a, b *worker) bool {
		return cmp.Or(cmp.Compare(h.load(a), h.load(b)), cmp.Compare(a.member.Handler, b.member.Handler)) < 0
	}
}

// load returns which part of a worker's slots is in use.
func (h *Home) load(w *worker) float64 {
	if w.local {
		return 1 - float64(h.spare)/float64(max(h.cfg.Slots, 1))
	}
	return float64(w.used) / float64(max(w.member.Slots, 1))
}
