package home

import (
	"slices"
	"time"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// key names an attempt.
type key struct {
	run   dag.RunID
	task  dag.TaskID
	token dag.Token
}

func keyOf(a *engine.Assignment) key { return key{a.Run, a.Task, a.Token} }

// worker is one that is attached here, or this process.
type worker struct {
	seat   seat[*worker] // among those that lend
	turn   int           // when it lent last, as Home.turn counted
	member store.Member
	local  bool
	since  time.Time // it is attached
	// sure is when, on the boot clock, its row was last renewed, as the store has confirmed.
	sure  time.Duration
	heard bool // since the last renewal

	used     int              // slots that are lent or have an attempt
	room     dag.Need         // what these take
	running  map[key]*holding // attempts that have a slot
	waiting  []*holding       // delivered, and no slot is free
	accounts map[loan]*account
	ended    ring // attempts whose end was reported
	// echoes were delivered after their end was reported and before the report was taken. Those that the rows
	// still hold by then are lost.
	echoes   map[key]*delivery
	settled  ring     // of ended, those whose report was taken: their rows say so, unless what the rows said was lost
	names    register // of attempts that are or were its own
	uploads  map[key]*upload
	inputs   map[key][]artifact.Input  // what attempts get, once it was asked
	deposits bool                      // it brings artifacts
	fetches  bool                      // it fetches inputs
	reader   bool                      // it gives pieces of logs
	reads    map[string]*reading       // that it is asked for, by ticket
	turns    chan struct{}             // cap readsMax
	doubts   map[key]bool              // attempts that it says to have, being looked up
	said     map[key]*workerv1.Attempt // that it has, by its newest poll; nil: it has not polled yet

	fresh     []*holding      // whose job is to be made
	preparing int             // who makes them
	out       map[key]*errand // to be started, and not confirmed; nil: it is detached
	ready     []key           // of out, those that it was not given yet
	takers    int             // reports whose answers take what is fresh or ready now
	stops     []stop
	seq       int64 // of the newest answer
	polls     int64 // how many came: only the newest waits
	draining  bool
	full      bool          // its disk has no room
	wake      chan struct{} // cap 1
}

// holding is an attempt that a worker has, as far as its home knows.
type holding struct {
	engine.Assignment
	known bool // Assignment is more than its name
	asked bool // its job was asked for
	// affirmed is when the rows confirmed that the worker holds it: see affirm. Zero: they have not, or it was
	// cancelled since.
	affirmed time.Time

	confirmed bool      // the worker has confirmed that it holds it
	sent      int64     // the first answer after it had
	missing   bool      // the worker no longer holds it
	over      bool      // its end was reported and taken before it was delivered again: it is lost
	at        time.Time // it was to begin
}

// stop is an attempt to be ended. It was told in the answer seq; 0: in none yet.
type stop struct {
	key   key
	kill  bool
	seq   int64
	early bool // the attempt may not have been there when it was told
}

// heeded drops the stops that have arrived. One whose attempt has not is told again as soon as that has;
// early: there is such.
func (w *worker) heeded(ack int64) (early bool) {
	w.stops = slices.DeleteFunc(w.stops, func(s stop) bool {
		x := w.running[s.key]
		return s.seq != 0 && s.seq <= ack && (x == nil || x.confirmed && !s.early)
	})
	for i := range w.stops {
		s := &w.stops[i]
		switch x := w.running[s.key]; {
		case x != nil && !x.confirmed:
			s.early, early = true, true
		case s.early:
			s.early, s.seq = false, 0
		}
	}
	return early
}

// loan is the slots of a worker that an owner gets with the same room.
type loan struct {
	owner dag.HandlerID
	need  dag.Need
}

// account is what an owner was lent of a worker; all of it only rises.
type account struct{ granted, returned, used, told int64 }

func (a *account) idle() int64 { return a.granted - a.returned - a.used }

// endedMax is how many ended attempts of a worker are remembered.
const endedMax = 8192

func newWorker(m store.Member) *worker {
	return &worker{member: m, since: time.Now(), heard: true, running: map[key]*holding{}, accounts: map[loan]*account{},
		ended: newRing(endedMax), settled: newRing(endedMax), echoes: map[key]*delivery{}, names: newRegister(endedMax), uploads: map[key]*upload{}, inputs: map[key][]artifact.Input{}, doubts: map[key]bool{}, reads: map[string]*reading{}, turns: make(chan struct{}, readsMax), out: map[key]*errand{}, wake: make(chan struct{}, 1)}
}

// epoch tells totals of one attachment from those of another; a node, which may come back under its
// handler, counts anew with each process.
func (w *worker) epoch() int64 {
	if w.local {
		return w.since.UnixNano()
	}
	return w.member.Lease
}

// row is what is written of it at a renewal.
func (w *worker) row() store.Member {
	m := w.member
	m.State, m.Busy, m.Traits.Used, m.Traits.Full = store.MemberActive, int32(len(w.running)), w.taken(), w.full
	switch {
	case w.draining:
		m.State = store.MemberLeaving
	case m.Cordoned && len(w.running)+len(w.waiting) == 0:
		m.State = store.MemberDrained
	}
	return m
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// taken is what the attempts of a worker take.
func (w *worker) taken() (all dag.Need) {
	for _, x := range w.running {
		all = all.Plus(x.Place.Need())
	}
	return all
}

// account is that of an owner.
func (w *worker) account(owner dag.HandlerID, n dag.Need) *account {
	at := loan{owner, n}
	a := w.accounts[at]
	if a == nil {
		a = &account{}
		w.accounts[at] = a
	}
	return a
}

// claim takes a free slot of a worker, and room; release gives it back.
func (h *Home) claim(w *worker, n dag.Need) bool {
	switch {
	case w.local:
		if h.spare <= 0 || !h.eng.Lend(n) {
			return false
		}
		h.spare--
	case w.used >= int(w.member.Slots) || !w.fits(n):
		return false
	}
	h.hold(w, n)
	return true
}

// fits reports whether there is room left for so much.
func (w *worker) fits(n dag.Need) bool {
	return n.IsZero() || n.Within(w.member.Traits.Room.Minus(w.room))
}

// hold counts a slot that is used with so much room.
func (h *Home) hold(w *worker, n dag.Need) {
	w.used++
	w.room = w.room.Plus(n)
	h.relist(w)
}

func (h *Home) release(w *worker, n dag.Need) {
	w.used--
	w.room = w.room.Minus(n)
	h.relist(w)
	if w.local {
		h.eng.Regain(n)
	}
}

// admit adds a worker to those that are here.
func (h *Home) admit(w *worker) {
	h.workers[w.member.Handler] = w
	h.lenders.enter(w, w.member.Name, "a worker", &w.member.Traits, dag.Need{})
	h.relist(w)
}

// admitSelf makes this process a lender, or one of other traits than before.
func (h *Home) admitSelf(m store.Member) {
	if s := h.local.seat; s.class != nil && s.name == m.Name && s.class.key == classKey(&m.Traits, thisProcess, dag.Need{}) {
		h.local.member = m
		return
	}
	h.lenders.leave(h.local)
	h.local.member = m
	h.lenders.enter(h.local, m.Name, thisProcess, &m.Traits, dag.Need{})
	h.relist(h.local)
}

// thisProcess is apart from all workers: what it lends never goes to its own shards.
const thisProcess = "this process"

// detach forgets a worker: it is gone, or attached elsewhere. Owners find out by its row.
func (h *Home) detach(w *worker) {
	if h.workers[w.member.Handler] == w {
		delete(h.workers, w.member.Handler)
		delete(h.owed, w)
		h.lenders.leave(w)
		for k, x := range w.running {
			if x.asked {
				h.cfg.Jobs.Left(k.run)
			}
		}
		for k := range w.uploads {
			w.endUpload(k)
		}
		w.hushed()
		w.out = nil // a poll that waits finds that it is over
		w.poke()
		h.log.Info("a worker has detached", "code", "worker_detached", "worker", w.member.Name)
	}
}

// delivery is attempts on their way to a worker.
type delivery struct {
	Owner   dag.HandlerID
	Handler dag.HandlerID
	Lease   int64
	Items   []engine.Assignment
}

// Deliver takes attempts for a worker of this home, or for this process. Who takes them sees to
// it that they arrive, as long as the worker is attached here.
func (h *Home) Deliver(d *delivery) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.workers[d.Handler]
	if d.Handler == h.self() {
		w = h.local
	}
	if w == nil || w.member.Lease != d.Lease {
		return away(d.Handler)
	}
	h.accept(w, d)
	return nil
}

// accept takes attempts for a worker that is here; h.mu is held.
func (h *Home) accept(w *worker, d *delivery) {
	for i := range d.Items {
		k := keyOf(&d.Items[i])
		over := w.settled.has(k) && !w.holds(k)
		if !over && w.has(k) || w.local && h.cfg.Executor.Running(k.run, k.task, k.token) {
			if w.ended.has(k) && !w.local {
				w.echoes[k] = &delivery{Owner: d.Owner, Handler: d.Handler, Lease: d.Lease, Items: []engine.Assignment{d.Items[i]}}
			}
			continue
		}
		h.Stats.Delivered.Add(1)
		x := &holding{Assignment: d.Items[i], known: true, affirmed: time.Now(), over: over}
		n := x.Place.Need()
		switch a := w.account(d.Owner, n); {
		case a.idle() > 0:
			a.used++
			h.begin(w, x)
		case h.claim(w, n):
			h.begin(w, x)
		default: // its slot was lent by another home, or to an owner that is gone
			h.Stats.Held.Add(1)
			w.waiting = append(w.waiting, x)
			h.relist(w)
		}
	}
}

// has reports whether a worker has an attempt, or had it.
func (w *worker) has(k key) bool { return w.ended.has(k) || w.holds(k) }

// holds reports whether a worker has an attempt, or will have it when a slot is free.
func (w *worker) holds(k key) bool {
	if w.running[k] != nil {
		return true
	}
	for _, x := range w.waiting {
		if keyOf(&x.Assignment) == k {
			return true
		}
	}
	return false
}

// Cancel has attempts of this process, or of workers that are here, ended.
func (h *Home) Cancel(cs []dag.Cancel) {
	var mine []dag.Cancel
	h.mu.Lock()
	for _, c := range cs {
		w := h.workers[c.Handler]
		if w == nil {
			mine = append(mine, c)
			continue
		}
		k := key{c.Run, c.Task, c.Token}
		if x := w.running[k]; x != nil {
			x.affirmed = time.Time{}
		}
		w.stops = append(w.stops, stop{key: k, kill: c.Kill})
		w.poke()
	}
	h.mu.Unlock()
	if len(mine) > 0 {
		h.cfg.Executor.Cancel(mine)
	}
}

// Ended is told of the end of every attempt of this process, before its report.
func (h *Home) Ended(run dag.RunID, t dag.TaskID, token dag.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := key{run, t, token}
	if x := h.local.running[k]; x != nil {
		delete(h.local.running, k)
		h.local.ended.add(k)
		h.freed(h.local, 0, x.Place.Need())
	}
}

// ring remembers the attempts that ended last.
type ring struct {
	keys []key
	next int
	in   map[key]bool
	max  int
}

func newRing(n int) ring { return ring{in: map[key]bool{}, max: n} }

func (r *ring) add(k key) {
	if r.in[k] {
		return
	}
	if len(r.keys) < r.max {
		r.keys = append(r.keys, k)
	} else {
		delete(r.in, r.keys[r.next])
		r.keys[r.next] = k
		r.next = (r.next + 1) % r.max
	}
	r.in[k] = true
}

func (r *ring) has(k key) bool { return r.in[k] }

// register remembers how the attempts are called that were added last.
type register struct {
	order ring
	names map[key]called
}

// called is the name of an attempt, when the rows said that it is its worker's, and since when it is over;
// zero: it is not, as far as is known here.
type called struct {
	Names
	affirmed, over time.Time
}

func newRegister(n int) register { return register{newRing(n), map[key]called{}} }

// of is how an attempt is called; late: it has been over for too long. What was affirmed too long ago is not
// known.
func (r *register) of(k key, now time.Time) (n Names, known, late bool) {
	c, known := r.names[k]
	if !known || !c.over.IsZero() {
		return c.Names, known, known && now.Sub(c.over) > engine.LateMax
	}
	return c.Names, now.Sub(c.affirmed) <= engine.LateMax, false
}

func (r *register) ended(k key, now time.Time) {
	if c, known := r.names[k]; known {
		c.over = now
		r.names[k] = c
	}
}

// add notes the name of an attempt that is its worker's, as the rows said at an instant.
func (r *register) add(k key, n Names, affirmed time.Time) {
	if len(r.order.keys) == r.order.max && !r.order.has(k) {
		delete(r.names, r.order.keys[r.order.next])
	}
	r.order.add(k)
	r.names[k] = called{Names: n, affirmed: affirmed}
}
