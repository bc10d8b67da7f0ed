package home

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// want is what an owner waits for, as it said last.
type want struct {
	demands []engine.Demand
	needs   []dag.Need // of each
	served  []int      // by demand: how many slots it got since
	at      time.Time
}

func newWant(ds []engine.Demand) *want {
	x := &want{demands: ds, needs: make([]dag.Need, len(ds)), served: make([]int, len(ds)), at: time.Now()}
	for i := range ds {
		x.needs[i] = ds[i].Place.Need()
	}
	return x
}

// wantMax is how long a want counts that is not said again.
const wantMax = 5 * time.Second

// ask is what an owner says to a home: all it wants, and how many slots it has returned.
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
	Need   dag.Need `json:",omitzero"` // that comes with each
}

// lent is what a home says to an owner: how many slots it was granted, in all.
type lent struct {
	Home, Owner dag.HandlerID
	Granted     []total
}

// Ask takes what an owner wants and returns. Its caller says it again if ctx is over before.
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
		back := min(r.N-acc.returned, acc.idle()) // more than it has it cannot return
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

// vacate makes a slot free, or gives it to what waits for one at this worker.
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

// open reports whether a worker takes anything new.
func (w *worker) open() bool {
	return !w.draining && !w.full && !w.member.Cordoned && len(w.waiting) == 0
}

// relist puts a worker where it belongs among the lenders. It is called after every change of what it has
// free.
func (h *Home) relist(w *worker) {
	if w.local {
		h.lenders.update(w, w.open() && h.spare > 0)
		return
	}
	h.lenders.update(w, w.open() && w.used < int(w.member.Slots))
}

// freed is called when an attempt of a worker has ended; owner has its run (0: not to be lent to
// it). The slot stays with the owner, whose next task may be ready in the transaction that settles
// this one, unless somebody else has a better claim.
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

// lend grants an owner a slot that was claimed for it. The owner is told soon.
func (h *Home) lend(w *worker, owner dag.HandlerID, n dag.Need) {
	w.account(owner, n).granted++
	h.owed[w] = struct{}{}
}

// demand is one that an owner has.
type demand struct {
	*engine.Demand
	need   dag.Need
	owner  dag.HandlerID
	at     int // in the owner's want
	served int
}

// before reports whether a demand comes before another one. Of several owners, who was served since it spoke
// comes after who was not: the head of its list is another one by now.
func (d *demand) before(o *demand) bool {
	return cmp.Or(cmp.Compare(d.served, o.served), order(d.Demand, o.Demand), cmp.Compare(d.owner, o.owner), cmp.Compare(d.at, o.at)) < 0
}

// demands shows those that still want slots.
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

// best is the owner whose demand comes first of those that a worker fits, and which demand it is;
// 0: there is none.
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

// aged are the demands for cpu and memory that have waited for long, best first.
func (h *Home) aged() (all []demand) {
	h.demands(time.Now(), func(d demand) {
		if d.Aged && !d.need.IsZero() {
			all = append(all, d)
		}
	})
	slices.SortFunc(all, func(a, b demand) int { return order(a.Demand, b.Demand) })
	return all
}

// kept is the demand for which the room of a worker is kept: the best of those that have waited
// for long and would fit if nobody else were there.
func (h *Home) kept(w *worker, aged []demand) *demand {
	for i := range aged {
		if d := &aged[i]; h.wants[d.owner].served[d.at] < d.N && d.need.Within(w.member.Traits.Room) && h.lenders.fits(w, d.Place) {
			return d
		}
	}
	return nil
}

// gives reports whether a worker has the room that a demand asks for, beside what is kept. This
// process's own is counted by the engine.
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

// wanting is demands as a heap, the one that is served next first.
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

// serve lends free slots to whoever wants some. It goes by what is wanted: it ends when nothing is, or nobody
// fits.
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
			shut = shut || w.local // its slots are counted by the engine, too
			continue
		}
		if d.served++; d.served == d.N {
			heap.Pop(&q)
		} else {
			heap.Fix(&q, 0)
		}
	}
}

// offer lends what has come free at one worker: what the others have was looked at when it came free, or was
// wanted.
func (h *Home) offer(w *worker) {
	if len(h.wants) == 0 {
		return
	}
	if len(h.aged()) > 0 { // to serve one of these may end what is kept at others
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

// give claims a slot of a worker for a demand and lends it; false: it has none.
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

// Strategies of choosing among workers that fit.
const (
	LeastLoaded = "least-loaded"
	RoundRobin  = "round-robin"
	Random      = "random"
)

// before is the order in which workers lend by a strategy; nil: at random.
func (h *Home) before(strategy string) func(a, b *worker) bool {
	switch strategy {
	case Random:
		return nil
	case RoundRobin: // whose turn was longest ago
		return func(a, b *worker) bool {
			return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.member.Handler, b.member.Handler)) < 0
		}
	}
	return func(a, b *worker) bool {
		return cmp.Or(cmp.Compare(h.load(a), h.load(b)), cmp.Compare(a.member.Handler, b.member.Handler)) < 0
	}
}

// load is the part of a worker's slots that is taken.
func (h *Home) load(w *worker) float64 {
	if w.local {
		return 1 - float64(h.spare)/float64(max(h.cfg.Slots, 1))
	}
	return float64(w.used) / float64(max(w.member.Slots, 1))
}
