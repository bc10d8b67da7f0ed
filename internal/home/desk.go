package home

import (
	"context"
	"slices"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// key names an attempt.
type key struct {
	run   dag.RunID
	task  dag.TaskID
	token dag.Token
}

func keyOf(a *engine.Assignment) key { return key{a.Run, a.Task, a.Token} }

// worker is a worker that is attached to this node, or stands for this process. The type desk in rpc.go
// implements the protocol.
type worker struct {
	seat   seat[*worker] // the position of the worker in the list of lenders
	turn   int           // the value of Home.turn when the worker lent its last slot
	member store.Member
	local  bool
	since  time.Time // the time of its attachment
	// sure is the time, on the boot clock, of the last renewal of the worker's row that the store has
	// confirmed.
	sure  time.Duration
	heard bool // the worker has called since the last renewal

	used     int              // the number of slots that are lent or used by an attempt
	room     dag.Need         // the resources that these slots use
	running  map[key]*holding // attempts that use a slot
	waiting  []*holding       // delivered attempts that wait for a free slot
	accounts map[loan]*account
	ended    ring // the last attempts whose end was reported
	// echoes are attempts that were delivered after the worker reported their end, but before the owner took
	// the report. If the rows still show such an attempt as running after that, it is lost.
	echoes map[key]*delivery
	// settled holds those attempts of ended whose reports the owners have accepted. The rows show these ends,
	// unless the database has lost them.
	settled  ring
	names    register // the names of attempts that the worker has or had
	uploads  map[key]*upload
	inputs   map[key][]artifact.Input // the inputs of those attempts whose inputs were requested
	deposits bool                     // the worker sends artifacts
	fetches  bool                     // the worker fetches inputs
	proven   bool                     // the worker registered with a certificate
	masks    bool                     // the worker masks secrets
	handles  bool                     // the worker reports handles
	reader   bool                     // the worker can send pieces of logs
	reads    map[string]*reading      // requested pieces, by ticket
	turns    chan struct{}            // cap readsMax
	doubts   map[key]bool             // attempts that the worker says it has, while this home asks their owners
	// said holds the attempts that the worker has, according to its newest poll; nil if there was no poll
	// yet.
	said map[key]*workerv1.Attempt

	fresh     []*holding // attempts for which jobs must be made
	preparing int        // the number of goroutines that make jobs for fresh attempts
	// out holds the jobs of attempts that the worker has not confirmed yet. It is nil if the worker is
	// detached.
	out      map[key]*errand
	ready    []key // the attempts of out that were not sent to the worker yet
	takers   int   // the number of calls of Report that are now taking fresh or ready attempts for their answers
	stops    []stop
	seq      int64 // number of the newest answer
	polls    int64 // number of polls: only the newest one waits
	draining bool
	full     bool          // the worker's disk is full
	wake     chan struct{} // cap 1
}

// holding is an attempt that a worker has, as its home knows it.
type holding struct {
	engine.Assignment
	known bool // Assignment is complete, and not only a name
	asked bool // the job was requested
	// affirmed is the time at which the rows confirmed that the worker holds the attempt: see affirm. It is
	// zero if they have not confirmed it, or if the attempt was cancelled afterwards. Invariant: a worker
	// gets files and inputs only if this time is at most affirmMax ago.
	affirmed time.Time

	confirmed bool  // the worker has confirmed that it holds the attempt
	sent      int64 // the number of the first answer after the job was sent to the worker
	missing   bool  // the worker no longer holds the attempt
	// the worker's report of the end was accepted before the attempt was delivered again, so this delivery
	// counts as lost
	over bool
	at   time.Time // latest start
	// logged is the number of bytes of the attempt's log that have arrived. The log counts with at least this
	// size, whatever size the worker states.
	logged int64

	// unwant cancels the making of the job by a separate goroutine. unwanted says that the job is no longer
	// needed.
	unwant   context.CancelFunc
	unwanted bool
}

// unneeded cancels the making of the attempt's job. The caller must hold the lock of the home.
func (x *holding) unneeded() {
	if x.unwanted = true; x.unwant != nil {
		x.unwant()
	}
}

// stop is an attempt that the worker must end. seq is the number of the answer that ordered it, or 0 if no
// answer has ordered it yet.
type stop struct {
	key   key
	kill  bool
	seq   int64
	early bool // the worker may have got the order before the attempt
}

// heeded drops the stops that have reached the worker. If the attempt of a stop may reach the worker later,
// the stop stays and is sent again. early reports whether there is such a stop.
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

// loan identifies those slots of a worker that one owner borrows with equal resources.
type loan struct {
	owner dag.HandlerID
	need  dag.Need
}

// account counts the slots of a worker that were lent to one owner. told is the number of granted slots of
// which the owner knows. Invariant: all counts only rise, returned + used ≤ granted, and told ≤ granted.
type account struct{ granted, returned, used, told int64 }

func (a *account) idle() int64 { return a.granted - a.returned - a.used }

// endedMax bounds the remembered ended attempts of a worker.
const endedMax = 8192

func newWorker(m store.Member) *worker {
	return &worker{member: m, since: time.Now(), heard: true, running: map[key]*holding{}, accounts: map[loan]*account{},
		ended: newRing(endedMax), settled: newRing(endedMax), echoes: map[key]*delivery{}, names: newRegister(endedMax), uploads: map[key]*upload{}, inputs: map[key][]artifact.Input{}, doubts: map[key]bool{}, reads: map[string]*reading{}, turns: make(chan struct{}, readsMax), out: map[key]*errand{}, wake: make(chan struct{}, 1)}
}

// epoch identifies one attachment in totals. It is needed because a node may come back under the same
// handler, and each of its processes counts from 0.
func (w *worker) epoch() int64 {
	if w.local {
		return w.since.UnixNano()
	}
	return w.member.Lease
}

// row returns the part of a worker's row that a renewal writes.
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

// taken returns the resources that the attempts of a worker use.
func (w *worker) taken() (all dag.Need) {
	for _, x := range w.running {
		all = all.Plus(x.Place.Need())
	}
	return all
}

// account returns the account for the slots of an owner with these resources.
func (w *worker) account(owner dag.HandlerID, n dag.Need) *account {
	at := loan{owner, n}
	a := w.accounts[at]
	if a == nil {
		a = &account{}
		w.accounts[at] = a
	}
	return a
}

// claim books a free slot of a worker, and the resources of a task. release returns both.
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

// fits reports whether a worker has enough free resources.
func (w *worker) fits(n dag.Need) bool {
	return n.IsZero() || n.Within(w.member.Traits.Room.Minus(w.room))
}

// hold books a slot, with its resources, whether it is free or not.
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

// admit adds a worker to the workers of this home.
func (h *Home) admit(w *worker) {
	h.workers[w.member.Handler] = w
	h.lenders.enter(w, w.member.Name, "a worker", &w.member.Traits, dag.Need{})
	h.relist(w)
}

// admitSelf makes this process a lender, or changes its traits.
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

// thisProcess is a class of its own in the order of lenders. It keeps this process apart from all workers,
// because its slots are never lent to this node's own shards.
const thisProcess = "this process"

// detach drops a worker that is gone or attached to another node. Owners notice that in the worker's row.
func (h *Home) detach(w *worker) {
	if h.workers[w.member.Handler] == w {
		delete(h.workers, w.member.Handler)
		delete(h.owed, w)
		h.lenders.leave(w)
		for k, x := range w.running {
			if x.asked {
				h.cfg.Jobs.Left(k.run)
			}
			x.unneeded()
		}
		for k := range w.uploads {
			w.endUpload(k)
		}
		w.hushed()
		w.out = nil // this ends a waiting poll
		w.poke()
		h.log.Info("a worker has detached", "code", "worker_detached", "worker", w.member.Name)
	}
}

// delivery holds the attempts that are on their way to a worker.
type delivery struct {
	Owner   dag.HandlerID
	Handler dag.HandlerID
	Lease   int64
	Items   []engine.Assignment
}

// Deliver accepts attempts for a worker of this home, or for this process. The home ensures that they reach
// the worker while it is attached here.
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

// accept adds attempts for a worker that is attached here. The caller must hold h.mu.
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
		default: // another home has lent the slot of the attempt, or the owner is gone
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

// Cancel ends attempts of this process or of workers that are attached here. If a listed worker is not
// attached to any node now, the order waits until the worker attaches here.
func (h *Home) Cancel(cs []dag.Cancel) {
	var mine []dag.Cancel
	h.mu.Lock()
	for _, c := range cs {
		switch w := h.workers[c.Handler]; {
		case w != nil:
			w.order(c)
		case c.Handler != h.self() && h.listedWorker(c.Handler):
			h.orders.add(c)
		default:
			mine = append(mine, c)
		}
	}
	h.mu.Unlock()
	if len(mine) > 0 {
		h.cfg.Executor.Cancel(mine)
	}
}

// order makes a worker end an attempt, with its next answer.
func (w *worker) order(c dag.Cancel) {
	k := key{c.Run, c.Task, c.Token}
	if x := w.running[k]; x != nil {
		x.affirmed = time.Time{}
		x.unneeded()
	}
	w.stops = append(w.stops, stop{key: k, kill: c.Kill})
	w.poke()
}

func (h *Home) listedWorker(id dag.HandlerID) bool {
	m, listed := h.dir.Member(id)
	return listed && m.Worker
}

// orders are cancels for workers that are not attached here, by their handlers.
type orders map[dag.HandlerID]map[key]bool

// add stores an order. A kill replaces a stop. Orders beyond the number of attempts that a worker can have
// are dropped.
func (o orders) add(c dag.Cancel) {
	of := o[c.Handler]
	if of == nil {
		of = map[key]bool{}
		o[c.Handler] = of
	}
	if k := (key{c.Run, c.Task, c.Token}); of[k] || len(of) < attemptsMax {
		of[k] = of[k] || c.Kill
	}
}

// give passes the waiting orders to a worker that has just attached.
func (o orders) give(w *worker) {
	for k, kill := range o[w.member.Handler] {
		w.order(dag.Cancel{Run: k.run, Task: k.task, Token: k.token, Handler: w.member.Handler, Kill: kill})
	}
	delete(o, w.member.Handler)
}

// Ended is called at the end of every attempt of this process, before its report.
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

// ring remembers the attempts that have ended most recently.
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

// register remembers the names of the attempts that were added most recently.
type register struct {
	order ring
	names map[key]called
}

// called holds the names of an attempt. affirmed is the time at which the rows confirmed that the worker has
// the attempt, or zero if they have not confirmed it. over is the time at which the attempt ended.
type called struct {
	Names
	affirmed, over time.Time
}

func newRegister(n int) register { return register{newRing(n), map[key]called{}} }

// of returns the names of an attempt. late reports whether the attempt ended too long ago. known is false for
// an attempt that the register does not have, and for one that the rows have not confirmed recently.
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

// add stores the names of an attempt. affirmed is the time at which the rows named the worker as the holder
// of the attempt.
func (r *register) add(k key, n Names, affirmed time.Time) {
	if len(r.order.keys) == r.order.max && !r.order.has(k) {
		delete(r.names, r.order.keys[r.order.next])
	}
	r.order.add(k)
	r.names[k] = called{Names: n, affirmed: affirmed}
}
