package engine

import (
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
)

// room counts the cpu and memory of this process, and the part that its attempts use. It ignores tasks that
// name neither. The writer uses it, and so do the goroutines that lend slots to other nodes.
type room struct {
	booked map[dag.AttemptKey]dag.Need // used only by the writer

	mu   sync.Mutex // protects following fields
	free dag.Need
	used dag.Need
	// kept is the placement for which resources are reserved. Only the writer changes it.
	kept dag.Place
}

func (r *room) open(all dag.Need) { r.free, r.booked = all, map[dag.AttemptKey]dag.Need{} }

// has reports whether the free resources suffice for a task with a placement.
func (r *room) has(p dag.Place) bool {
	n := p.Need()
	if n.IsZero() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fits(p, n)
}

func (r *room) fits(p dag.Place, n dag.Need) bool {
	if r.kept != dag.Anywhere && r.kept != p {
		n = n.Plus(r.kept.Need())
	}
	return n.Within(r.free)
}

// take takes resources for a task with a placement. It returns false if they do not suffice.
func (r *room) take(p dag.Place) bool {
	n := p.Need()
	if n.IsZero() {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.fits(p, n) {
		return false
	}
	r.free, r.used = r.free.Minus(n), r.used.Plus(n)
	return true
}

// back returns resources that were taken.
func (r *room) back(n dag.Need) {
	if n.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free, r.used = r.free.Plus(n), r.used.Minus(n)
}

// note records the attempt for which resources were taken.
func (r *room) note(k dag.AttemptKey, p dag.Place) {
	if n := p.Need(); !n.IsZero() {
		r.booked[k] = r.booked[k].Plus(n)
	}
}

// book takes resources for an attempt that uses them according to its rows, even if they do not suffice.
func (r *room) book(k dag.AttemptKey, p dag.Place) {
	n := p.Need()
	if _, in := r.booked[k]; in || n.IsZero() {
		return
	}
	r.booked[k] = n
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free, r.used = r.free.Minus(n), r.used.Plus(n)
}

// settle returns the resources of an attempt, if it has any.
func (r *room) settle(k dag.AttemptKey) {
	if len(r.booked) == 0 {
		return
	}
	if n, in := r.booked[k]; in {
		delete(r.booked, k)
		r.back(n)
	}
}

// settlePart returns the resources of one of several assignments of the same attempt.
func (r *room) settlePart(k dag.AttemptKey, p dag.Place) {
	if n := p.Need(); !n.IsZero() {
		r.booked[k] = r.booked[k].Minus(n)
		r.back(n)
	}
}

// keep reserves resources for a placement: no other task gets resources that become free.
func (r *room) keep(p dag.Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = p
}

// aged reports whether a run has waited for so long that smaller tasks must no longer overtake its tasks.
func (h *slots) aged(r *dag.Run, now dag.Micros) bool {
	return h.ageing > 0 && time.Duration(now-r.Created)*time.Microsecond >= h.ageing
}

// keepFor reserves resources for the first of the tasks that have waited long and need many resources.
// Without this, small tasks could prevent such a task from ever running, because a small task always fits
// before the large one does. Only tasks with cpu or memory wait for resources.
func (h *slots) keepFor(queue *dag.Board, now dag.Micros) {
	if !queue.Any() {
		if h.room.kept != dag.Anywhere {
			h.room.keep(dag.Anywhere)
		}
		return
	}
	best, at := (*dag.Run)(nil), dag.Anywhere
	queue.Placed(func(p dag.Place, q *dag.Queue) {
		n := p.Need()
		if n.IsZero() || !n.Within(h.traits.Load().Room) || !p.Fits(h.node, h.traits.Load()) {
			return
		}
		r := q.Head(now)
		if !h.aged(r, now) {
			return
		}
		if best == nil || q.Sooner(r, best, now) || r == best && r.RankAt(p).Compare(r.RankAt(at)) < 0 {
			best, at = r, p
		}
	})
	h.room.keep(at)
}

// Room returns the cpu and memory that this process has for tasks, and the part that attempts use.
func (e *Engine) Room() (total, used dag.Need) {
	r := &e.slots.room
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.cfg.Traits.Room, r.used
}
