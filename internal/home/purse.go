package home

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// purse holds the unused slots that this node has borrowed for its shards, and its demand. Home.mu protects
// it, except total, which can be read without the lock to see whether there are slots.
type purse struct {
	total   atomic.Int64
	credits map[lot]*credit
	atHand  roster[*credit] // the lots with unused slots, in the order in which they are used
	back    map[lot]*credit // returned slots of which their homes do not know yet
	demands []engine.Demand
	changed bool
	said    time.Time
	turn    int // the number of slots that were used so far
	// expected is the number of reports of a worker that the engine has not settled yet. The transaction that
	// settles them may use the slots that they free.
	expected map[dag.HandlerID]int
	// unserved holds the placements of ready tasks that no member may run.
	unserved map[dag.Place]bool
}

// lot identifies the slots of one worker that come with equal resources.
type lot struct {
	worker dag.HandlerID
	need   dag.Need
}

func (a lot) compare(b lot) int {
	return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.need.CPU, b.need.CPU), cmp.Compare(a.need.Memory, b.need.Memory))
}

// credit counts the slots of one lot. Invariant: granted, returned and told only rise, and told ≤ returned.
type credit struct {
	lot
	seat     seat[*credit]
	turn     int // the value of purse.turn when one of these slots was last used
	home     dag.HandlerID
	lease    int64
	granted  int64 // the last total that the home has sent
	returned int64
	told     int64 // the number of returned slots that the home knows
	avail    int64
}

// open removes all slots and sets the strategy.
func (p *purse) open(strategy string) {
	p.credits, p.back = map[lot]*credit{}, map[lot]*credit{}
	if p.expected == nil {
		p.expected = map[dag.HandlerID]int{}
	}
	var before func(a, b *credit) bool // nil means random order
	switch strategy {
	case Random:
	case RoundRobin:
		before = func(a, b *credit) bool { return cmp.Or(cmp.Compare(a.turn, b.turn), a.compare(b.lot)) < 0 }
	default:
		before = func(a, b *credit) bool { return cmp.Or(cmp.Compare(b.avail, a.avail), a.compare(b.lot)) < 0 }
	}
	p.atHand = newRoster(true, func(c *credit) *seat[*credit] { return &c.seat }, before)
	p.total.Store(0)
}

// add changes the number of unused slots of a lot by n.
func (p *purse) add(c *credit, n int64) {
	c.avail += n
	p.total.Add(n)
	p.atHand.update(c, c.avail > 0)
}

// enter adds a lot, with its first slots.
func (p *purse) enter(c *credit, name string, t *store.Traits) {
	p.credits[c.lot] = c
	p.atHand.enter(c, name, "", t, c.need)
	p.atHand.update(c, c.avail > 0)
}

// forget drops the slots of a lot.
func (p *purse) forget(c *credit) {
	p.total.Add(-c.avail)
	p.atHand.leave(c)
	delete(p.credits, c.lot)
	delete(p.back, c.lot)
}

// giveBack returns slots that no run of this node needs.
func (p *purse) giveBack(c *credit, n int64) {
	c.returned += n
	p.add(c, -n)
	p.back[c.lot] = c
}

// expect adds n to the number of reports of a worker that the engine has not settled yet.
func (p *purse) expect(id dag.HandlerID, n int) {
	if p.expected[id] += n; p.expected[id] <= 0 {
		delete(p.expected, id)
	}
}

// grant does the same as granted, and also wakes the engine, which does not notice new slots by itself.
func (h *Home) grant(l *lent) (all bool) {
	h.mu.Lock()
	before := h.purse.total.Load()
	all = h.granted(l)
	more := h.purse.total.Load() > before
	h.mu.Unlock()
	if more {
		h.eng.Wake()
	}
	return all
}

// granted adds the slots that a home has lent. It returns false if it could not add all of them. It adds no
// slots of a worker that is not listed here yet, because such a worker would count as gone. The caller must
// hold h.mu.
func (h *Home) granted(l *lent) (all bool) {
	all = true
	for _, g := range l.Granted {
		m, listed := h.dir.Member(g.Worker)
		if !listed {
			all = false
			continue
		}
		c := h.purse.credits[lot{g.Worker, g.Need}]
		if c == nil || c.lease < g.Lease || c.home != l.Home {
			if w := h.workers[g.Worker]; w != nil {
				m = w.member // this is newer than the last read of the members
			}
			if c != nil {
				h.purse.forget(c)
			}
			c = &credit{lot: lot{g.Worker, g.Need}, home: l.Home, lease: g.Lease}
			h.purse.enter(c, m.Name, &m.Traits)
		}
		if n := g.N - c.granted; c.lease == g.Lease && n > 0 {
			c.granted += n
			h.purse.add(c, n)
		}
	}
	return all
}

var errUnlisted = errors.New("this node has not read the row of the worker yet")

// Granted adds the slots that another home has lent to this node. Slots that were lent to an earlier handler
// of this node are void.
func (h *Home) Granted(l *lent) error {
	if l.Owner == h.self() && !h.grant(l) {
		return errUnlisted
	}
	return nil
}

// look drops the slots of workers that are gone or attached to another node.
func (p *purse) look(there map[dag.HandlerID]*store.Member) {
	for id, c := range p.credits {
		m := there[id.worker]
		if m == nil || m.Worker && m.Lease > c.lease || there[c.home] == nil {
			p.forget(c)
		}
	}
}

// Open implements engine.Market.
func (h *Home) Open(p dag.Place) bool {
	if h.purse.total.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.purse.atHand.pick(p, nil)
	return ok
}

// Take implements engine.Market.
func (h *Home) Take(p dag.Place) (dag.HandlerID, bool) {
	if h.purse.total.Load() == 0 {
		return 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.purse.atHand.pick(p, nil)
	if !ok {
		return 0, false
	}
	h.purse.turn++
	c.turn = h.purse.turn
	h.purse.add(c, -1)
	return c.worker, true
}

// Worker implements engine.Market.
func (h *Home) Worker(id dag.HandlerID) bool {
	m, ok := h.dir.Member(id)
	return ok && m.Worker
}

// Back implements engine.Market. It does not return a slot that was lent under another lease.
func (h *Home) Back(id dag.HandlerID, p dag.Place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.purse.credits[lot{id, p.Need()}]; c != nil {
		h.purse.add(c, 1)
	}
}

// wantAgain is the interval at which an unchanged demand is sent again.
const wantAgain = time.Second

// Want implements engine.Market.
func (h *Home) Want(ds []engine.Demand, spare int) {
	h.mu.Lock()
	p := &h.purse
	back := p.unwanted(ds)
	if !slices.Equal(ds, p.demands) {
		p.demands, p.changed = slices.Clone(ds), true
	}
	more := spare > h.spare
	h.spare = spare
	h.relist(h.local)
	if more {
		h.offer(h.local)
	}
	// Without workers and other nodes, there is no other home to tell. When a worker attaches, or after the
	// next look, the next round sends the changes.
	tell := back || p.changed && (len(h.workers) > 0 || len(h.there().nodes) > 1)
	h.mu.Unlock()
	if tell {
		h.poke()
	}
}

// unwanted returns the slots that this owner does not need. back reports whether there were any.
func (p *purse) unwanted(ds []engine.Demand) (back bool) {
	if p.total.Load() == 0 {
		return false
	}
	var idle []*credit
	for _, class := range p.atHand.classes {
		if !slices.ContainsFunc(ds, func(d engine.Demand) bool { return class.meets(p.atHand.site(d.Place)) }) {
			idle = append(idle, class.free...)
		}
	}
	for _, c := range idle {
		n := c.avail - int64(p.expected[c.worker])
		if n <= 0 || slices.ContainsFunc(ds, func(d engine.Demand) bool { return p.atHand.fits(c, d.Place) }) {
			continue
		}
		p.giveBack(c, n)
		back = true
	}
	return back
}

// tell sends to every home the demands and returned slots of this node, and to every owner its loans.
func (h *Home) tell(ctx context.Context, wg *sync.WaitGroup) {
	h.tellOwners(ctx, wg)
	h.tellHomes(ctx, wg)
	h.deliverAll(ctx, wg)
}

func (h *Home) tellOwners(ctx context.Context, wg *sync.WaitGroup) {
	h.mu.Lock()
	byOwner := map[dag.HandlerID]*lent{}
	type note struct {
		a *account
		n int64
	}
	notes := map[dag.HandlerID][]note{}
	for w := range h.owed {
		owes := false
		for at, a := range w.accounts {
			owner := at.owner
			if a.granted == a.told {
				continue
			}
			owes = true
			if byOwner[owner] == nil {
				byOwner[owner] = &lent{Home: h.self(), Owner: owner}
			}
			byOwner[owner].Granted = append(byOwner[owner].Granted, total{w.member.Handler, w.epoch(), a.granted, at.need})
			notes[owner] = append(notes[owner], note{a, a.granted})
		}
		if !owes {
			delete(h.owed, w)
		}
	}
	h.mu.Unlock()
	for owner, l := range byOwner {
		done := func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, n := range notes[owner] {
				n.a.told = max(n.a.told, n.n)
			}
		}
		if owner == h.self() {
			if h.grant(l) {
				done()
			}
			continue
		}
		if m, ok := h.dir.Member(owner); ok {
			h.call(ctx, wg, m, GrantPath, l, done)
		}
	}
}

func (h *Home) tellHomes(ctx context.Context, wg *sync.WaitGroup) {
	nodes := h.there().nodes
	self := h.self()
	h.mu.Lock()
	p := &h.purse
	say := p.changed || len(p.demands) > 0 && time.Since(p.said) > wantAgain
	if say {
		p.changed, p.said = false, time.Now()
	}
	asks := map[dag.HandlerID]*ask{}
	for _, m := range nodes {
		if say {
			asks[m.Handler] = &ask{Owner: self, Demands: p.demands}
		}
	}
	type note struct {
		c *credit
		n int64
	}
	notes := map[dag.HandlerID][]note{}
	for id, c := range p.back {
		if c.returned == c.told {
			delete(p.back, id)
			continue
		}
		a := asks[c.home]
		if a == nil {
			a = &ask{Owner: self, Demands: p.demands}
			asks[c.home] = a
		}
		a.Returned = append(a.Returned, total{id.worker, c.lease, c.returned, id.need})
		notes[c.home] = append(notes[c.home], note{c, c.returned})
	}
	h.mu.Unlock()
	for id, a := range asks {
		done := func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, n := range notes[id] {
				n.c.told = max(n.c.told, n.n)
			}
		}
		if id == self {
			if h.Ask(ctx, a) == nil {
				done()
			}
			continue
		}
		if m, ok := h.dir.Member(id); ok {
			h.call(ctx, wg, m, AskPath, a, done)
		}
	}
}

// call sends a message to a node on a new goroutine. If that fails, the content stays marked as not sent, so
// the next round sends it again.
func (h *Home) call(ctx context.Context, wg *sync.WaitGroup, to store.Member, path string, in any, done func()) {
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, callMax)
		defer cancel()
		if err := h.cfg.Caller.Call(ctx, to, path, in, nil); err != nil {
			if ctx.Err() == nil {
				h.log.Debug("a node could not be notified of its slots", "node", to.Name, "err", err)
			}
			return
		}
		done()
	})
}
