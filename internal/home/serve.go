package home

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
)

// want is what an owner waits for, as it said last.
type want struct {
	demands []engine.Demand
	served  []int // by demand: how many slots it got since
	at      time.Time
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

// Ask takes what an owner wants and returns.
func (h *Home) Ask(a *ask) {
	h.mu.Lock()
	defer h.mu.Unlock()
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
		h.wants[a.Owner] = &want{demands: a.Demands, served: make([]int, len(a.Demands)), at: time.Now()}
	}
	h.serve()
}

// vacate makes a slot free, or gives it to what waits for one at this worker.
func (h *Home) vacate(w *worker, n dag.Need) {
	if len(w.waiting) > 0 && (n.IsZero() || !w.local) {
		if x := w.waiting[0]; w.fits(x.Place.Need().Minus(n)) {
			w.waiting = w.waiting[1:]
			w.room = w.room.Minus(n).Plus(x.Place.Need())
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

// freed is called when an attempt of a worker has ended; owner has its run (0: not to be lent to
// it). The slot stays with the owner, whose next task may be ready in the transaction that settles
// this one, unless somebody else has a better claim.
func (h *Home) freed(w *worker, owner dag.HandlerID, n dag.Need) {
	if owner != 0 && w.open() && !w.local && n.IsZero() {
		if best, at := h.best(w); best == 0 || best == owner && h.wants[best].demands[at].Place.Need().IsZero() {
			w.account(owner, n).granted++
			return
		}
	}
	h.vacate(w, n)
	h.serve()
}

// best is the owner whose demand comes first of those that a worker fits, and which demand it is;
// 0: there is none. Of several owners, who was served since it spoke comes after who was not: the
// head of its list is another one by now.
func (h *Home) best(w *worker) (owner dag.HandlerID, at int) {
	var first *engine.Demand
	served := 0
	kept := h.kept(w)
	for id, x := range h.wants {
		if time.Since(x.at) > wantMax || w.local && id == h.self() {
			continue
		}
		for i := range x.demands {
			d := &x.demands[i]
			if x.served[i] >= d.N || !d.Place.Fits(w.member.Name, &w.member.Traits) || !w.gives(d, kept) {
				continue
			}
			if first == nil || cmp.Or(cmp.Compare(x.served[i], served), order(d, first), cmp.Compare(id, owner)) < 0 {
				first, served, owner, at = d, x.served[i], id, i
			}
		}
	}
	return owner, at
}

// kept is the demand for which the room of a worker is kept: the best of those that have waited
// for long and would fit if nobody else were there.
func (h *Home) kept(w *worker) (first *engine.Demand) {
	for _, x := range h.wants {
		for i := range x.demands {
			d := &x.demands[i]
			n := d.Place.Need()
			if d.Aged && !n.IsZero() && x.served[i] < d.N && time.Since(x.at) <= wantMax && n.Within(w.member.Traits.Room) &&
				d.Place.Fits(w.member.Name, &w.member.Traits) && (first == nil || order(d, first) < 0) {
				first = d
			}
		}
	}
	return first
}

// gives reports whether a worker has the room that a demand asks for, beside what is kept. This
// process's own is counted by the engine.
func (w *worker) gives(d, kept *engine.Demand) bool {
	n := d.Place.Need()
	if n.IsZero() {
		return true
	}
	if !n.Within(w.member.Traits.Room) {
		return false
	}
	if kept != nil && kept.Run != d.Run {
		n = n.Plus(kept.Place.Need())
	}
	return w.local || w.fits(n)
}

func order(a, b *engine.Demand) int {
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Created, b.Created), bytes.Compare(a.Run[:], b.Run[:]), a.Rank.Compare(b.Rank))
}

// serve lends free slots to whoever wants some.
func (h *Home) serve() {
	if len(h.wants) == 0 {
		return
	}
	lentAny := false
	full := map[dag.HandlerID]bool{}
	for {
		w := h.choose(full)
		if w == nil {
			break
		}
		owner, at := h.best(w)
		if owner == 0 {
			full[w.member.Handler] = true
			continue
		}
		n := h.wants[owner].demands[at].Place.Need()
		if !h.claim(w, n) {
			full[w.member.Handler] = true
			continue
		}
		h.wants[owner].served[at]++
		w.account(owner, n).granted++
		lentAny = true
	}
	if lentAny {
		h.poke()
	}
}

// Strategies of choosing among workers that fit.
const (
	LeastLoaded = "least-loaded"
	RoundRobin  = "round-robin"
	Random      = "random"
)

// choose picks the worker that lends next; nil: none can.
func (h *Home) choose(full map[dag.HandlerID]bool) *worker {
	var all []*worker
	for _, w := range h.all() {
		if !full[w.member.Handler] && w.open() && (w.local && h.spare > 0 || !w.local && w.used < int(w.member.Slots)) {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *worker) int { return cmp.Compare(a.member.Handler, b.member.Handler) })
	switch h.cfg.Strategy {
	case Random:
		return all[rand.IntN(len(all))]
	case RoundRobin:
		h.turn++
		return all[h.turn%len(all)]
	}
	return slices.MinFunc(all, func(a, b *worker) int { return cmp.Compare(h.load(a), h.load(b)) })
}

// load is the part of a worker's slots that is taken.
func (h *Home) load(w *worker) float64 {
	if w.local {
		return 1 - float64(h.spare)/float64(max(h.cfg.Slots, 1))
	}
	return float64(w.used) / float64(max(w.member.Slots, 1))
}
