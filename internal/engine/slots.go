package engine

import (
	"maps"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// slots books the slots of this process's executor. It is not related to package home, which lends slots
// between workers and nodes.
//
// A slot is booked with the transaction that assigns the attempt. It is freed when the report of the
// attempt's end arrives, even if the report is rejected. Both steps use the attempt's name, so a repeated
// message has no second effect.
//
// A slot can also be lent to other nodes (see Engine.Lend), by other goroutines. Only the writer may use the
// field booked. The fields free, drained and shut are atomic, and room has its own lock.
//
// An attempt has a second slot if the database has gone back unnoticed and the same task is assigned again
// under the same token. If the second assignment is not written, only the second slot is freed, because the
// first attempt still runs.
//
// Invariant: free + the slots of booked + slots that are claimed or lent = slots of this process.
type slots struct {
	me       func() dag.HandlerID
	node     string
	traits   atomic.Pointer[store.Traits]
	executor Executor
	market   Market  // nil if there are no other handlers
	holders  Holders // nil if there are no other handlers
	ageing   time.Duration

	free    atomic.Int64
	drained atomic.Bool            // slots can no longer be booked
	shut    atomic.Pointer[string] // the reason why no slot is booked at present; nil if slots are booked
	booked  map[dag.AttemptKey]int // the number of slots of each attempt
	room    room
}

// attempts returns the attempts with slots of this process in a fixed order.
func (h *slots) attempts() []dag.AttemptKey {
	all := slices.Collect(maps.Keys(h.booked))
	sort.Slice(all, func(i, j int) bool { return all[i].Compare(all[j]) < 0 })
	return all
}

// vacant reports whether a slot can be booked now.
func (h *slots) vacant() bool { return h.free.Load() > 0 && h.taking() }

// taking reports whether slots may be booked at all.
func (h *slots) taking() bool { return !h.drained.Load() && h.shut.Load() == nil }

// has reports whether this process has assigned or taken over an attempt, and has not yet received the report
// of its end.
func (h *slots) has(k dag.AttemptKey) bool {
	_, in := h.booked[k]
	return in
}

// claim takes a slot. It returns false if there is none.
func (h *slots) claim() bool {
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

// note records the attempt for which a slot was claimed.
func (h *slots) note(k dag.AttemptKey) { h.booked[k]++ }

// book takes a slot for an attempt that uses one according to its rows, even if no slot is free.
func (h *slots) book(k dag.AttemptKey) {
	if !h.has(k) {
		h.booked[k] = 1
		h.free.Add(-1)
	}
}

// unbook frees all slots of an attempt that has ended.
func (h *slots) unbook(k dag.AttemptKey) {
	if n, in := h.booked[k]; in {
		delete(h.booked, k)
		h.free.Add(int64(n))
		h.room.settle(k)
	}
}

// release frees the slot of one assignment.
func (h *slots) release(k dag.AttemptKey, p dag.Place) {
	if h.booked[k] <= 1 {
		h.unbook(k)
		return
	}
	h.booked[k]--
	h.free.Add(1)
	h.room.settlePart(k, p)
}

// regain frees a slot that was claimed for a task with a placement and never used.
func (h *slots) regain(p dag.Place) {
	h.free.Add(1)
	h.room.back(p.Need())
}

// begin sets the number of slots of this process. Attempts of an earlier process may use some of them.
func (h *slots) begin(cfg *Config) {
	h.free.Store(int64(cfg.Slots))
	h.booked = map[dag.AttemptKey]int{}
	h.room.open(cfg.Traits.Room)
	if cfg.Life == nil {
		return
	}
	for _, id := range cfg.Life.Held {
		h.book(dag.KeyOf(id.Run, id.Task, id.Token))
	}
}

// open reports whether there is a slot for tasks with a placement: in this process, or with a worker
// elsewhere.
func (h *slots) open(p dag.Place) bool {
	return h.here(p) || h.market != nil && h.market.Open(p)
}

// here reports whether a task with that placement would get a slot of this process.
func (h *slots) here(p dag.Place) bool {
	return h.vacant() && (p == dag.Anywhere || p.Fits(h.node, h.traits.Load()) && h.room.has(p))
}

// take takes a slot for a task with a placement. It prefers a slot of this process, which costs least.
func (h *slots) take(p dag.Place) (dag.HandlerID, bool) {
	if h.here(p) && h.claim() {
		if p == dag.Anywhere || h.room.take(p) {
			return h.me(), true
		}
		h.free.Add(1) // another owner has just taken the resources of this slot
	}
	if h.market == nil {
		return 0, false
	}
	return h.market.Take(p)
}

// giveBack returns a slot that take took, if no task was assigned to it.
func (h *slots) giveBack(of dag.HandlerID, p dag.Place) {
	if of == h.me() {
		h.regain(p)
	} else {
		h.market.Back(of, p)
	}
}

// assigned records the attempt for which take took a slot. It reports whether another node holds the attempt.
func (h *slots) assigned(a *Assignment, p dag.Place) (abroad bool) {
	if a.Handler != h.me() {
		return !h.isWorker(a.Handler)
	}
	h.note(a.key())
	h.room.note(a.key(), p)
	return false
}

// unassign returns the slot of an attempt whose assignment was not written.
func (h *slots) unassign(a *Assignment) {
	if a.Handler == h.me() {
		h.release(a.key(), a.Place)
	} else if h.market != nil {
		h.market.Back(a.Handler, a.Place)
	}
}

// isWorker reports whether a handler is a worker. A worker's home node makes sure that the worker gets its
// attempts. A node, in contrast, has to be asked about its attempts (see abroad).
func (h *slots) isWorker(of dag.HandlerID) bool { return h.market != nil && h.market.Worker(of) }

// send sends durable assignments: to the executor of this process by a call, and to others through the
// market. abroad reports whether there were assignments for others. In this case Market.Settled must follow.
func (h *slots) send(as []Assignment) (abroad bool) {
	me := h.me()
	if !slices.ContainsFunc(as, func(a Assignment) bool { return a.Handler != me }) {
		if len(as) > 0 {
			h.executor.Start(as)
		}
		return false
	}
	if !slices.ContainsFunc(as, func(a Assignment) bool { return a.Handler == me }) {
		h.market.Handed(as)
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
	h.executor.Start(mine)
	h.market.Handed(others)
	return true
}

// cancel orders the holders of attempts to end them.
func (h *slots) cancel(cs []dag.Cancel) {
	if h.holders == nil {
		h.executor.Cancel(cs)
		return
	}
	var mine []dag.Cancel
	for _, c := range cs {
		if c.Handler == h.me() {
			mine = append(mine, c)
		} else {
			h.holders.Cancel(c.Handler, []dag.Cancel{c})
		}
	}
	if len(mine) > 0 {
		h.executor.Cancel(mine)
	}
}

// Drain stops the assignment of tasks to this process. Running attempts finish, and all other tasks wait for
// another process. A process that is about to end calls Drain, because a task that is assigned to it now
// would soon be lost.
func (e *Engine) Drain() { e.slots.drained.Store(true) }

// Shut stops the assignment of tasks to this process, for the reason why. An empty why allows it again.
// Running attempts continue, and other nodes take the waiting tasks.
func (e *Engine) Shut(why string) {
	if why == "" {
		e.slots.shut.Store(nil)
	} else {
		e.slots.shut.Store(&why)
	}
	e.Wake()
}

// IsShut returns the reason why this process gets no task at present, or "" if it gets tasks.
func (e *Engine) IsShut() string {
	if why := e.slots.shut.Load(); why != nil {
		return *why
	}
	return ""
}
