package home

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// purse is the slots that the owner of this node's shards was lent and has not used, and what it
// wants. It is protected by Home.mu, but for total, which says that it is worth to look.
type purse struct {
	total   atomic.Int64
	credits map[lot]*credit
	demands []engine.Demand
	changed bool
	said    time.Time
	turn    int
	// expected is how many reports of a worker are with the engine: the slots that they free may be used in the
	// transaction that settles them.
	expected map[dag.HandlerID]int
	// unserved are the places that are wanted and that nobody who is there has.
	unserved map[dag.Place]bool
}

// lot is the slots of one worker that come with the same room.
type lot struct {
	worker dag.HandlerID
	need   dag.Need
}

func (a lot) compare(b lot) int {
	return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.need.CPU, b.need.CPU), cmp.Compare(a.need.Memory, b.need.Memory))
}

// credit is the slots of one lot.
type credit struct {
	home     dag.HandlerID
	lease    int64
	granted  int64 // as its home said last
	returned int64
	told     int64 // of returned
	avail    int64
	name     string
	traits   store.Traits
}

// expect counts reports of a worker that go to the engine, or are back.
func (p *purse) expect(id dag.HandlerID, n int) {
	if p.expected[id] += n; p.expected[id] <= 0 {
		delete(p.expected, id)
	}
}

// grant is granted when nothing else has the engine look.
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

// granted takes what a home says that it has lent; false: not all of it. A worker that is not listed
// here yet gets nothing: it would count as gone. h.mu is held.
func (h *Home) granted(l *lent) (all bool) {
	all = true
	for _, g := range l.Granted {
		if _, listed := h.dir.Member(g.Worker); !listed {
			all = false
			continue
		}
		c := h.purse.credits[lot{g.Worker, g.Need}]
		if c == nil || c.lease < g.Lease || c.home != l.Home {
			m, _ := h.dir.Member(g.Worker)
			if w := h.workers[g.Worker]; w != nil {
				m = w.member // newer than what was read
			}
			if c != nil {
				h.purse.total.Add(-c.avail)
			}
			c = &credit{home: l.Home, lease: g.Lease, name: m.Name, traits: m.Traits}
			h.purse.credits[lot{g.Worker, g.Need}] = c
		}
		if n := g.N - c.granted; c.lease == g.Lease && n > 0 {
			c.granted += n
			c.avail += n
			h.purse.total.Add(n)
		}
	}
	return all
}

var errUnlisted = errors.New("the worker is not listed here yet")

// Granted takes what another home says that it has lent to this node. What was lent to an earlier
// life of it is void.
func (h *Home) Granted(l *lent) error {
	if l.Owner == h.self() && !h.grant(l) {
		return errUnlisted
	}
	return nil
}

// look forgets the slots of workers that are gone, or attached elsewhere.
func (p *purse) look(there map[dag.HandlerID]*store.Member) {
	for id, c := range p.credits {
		m := there[id.worker]
		if m == nil || m.Worker && m.Lease > c.lease || there[c.home] == nil {
			p.total.Add(-c.avail)
			delete(p.credits, id)
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
	_, ok := h.purse.pick(p, "")
	return ok
}

// pick chooses among the slots at hand that fit: those with the room that the place asks for.
func (p *purse) pick(place dag.Place, strategy string) (at lot, ok bool) {
	var fit []lot
	need := place.Need()
	for id, c := range p.credits {
		if c.avail > 0 && id.need == need && place.Fits(c.name, &c.traits) {
			if strategy == "" {
				return id, true
			}
			fit = append(fit, id)
		}
	}
	if len(fit) == 0 {
		return lot{}, false
	}
	slices.SortFunc(fit, lot.compare)
	switch strategy {
	case Random:
		return fit[rand.IntN(len(fit))], true
	case RoundRobin:
		p.turn++
		return fit[p.turn%len(fit)], true
	}
	return slices.MaxFunc(fit, func(a, b lot) int {
		return cmp.Or(cmp.Compare(p.credits[a].avail, p.credits[b].avail), b.compare(a))
	}), true
}

// Take implements engine.Market.
func (h *Home) Take(p dag.Place) (dag.HandlerID, bool) {
	if h.purse.total.Load() == 0 {
		return 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.purse.pick(p, cmp.Or(h.cfg.Strategy, LeastLoaded))
	if !ok {
		return 0, false
	}
	h.purse.credits[at].avail--
	h.purse.total.Add(-1)
	return at.worker, true
}

// Worker implements engine.Market.
func (h *Home) Worker(id dag.HandlerID) bool {
	m, ok := h.dir.Member(id)
	return ok && m.Worker
}

// Back implements engine.Market. What has come under another lease meanwhile is not due.
func (h *Home) Back(id dag.HandlerID, p dag.Place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.purse.credits[lot{id, p.Need()}]; c != nil {
		c.avail++
		h.purse.total.Add(1)
	}
}

// wantAgain is how often a want is said that has not changed.
const wantAgain = time.Second

// Want implements engine.Market.
func (h *Home) Want(ds []engine.Demand, spare int) {
	h.mu.Lock()
	p := &h.purse
	back := false
	for at, c := range p.credits { // nobody here has a use for these
		n := c.avail - int64(p.expected[at.worker])
		if n > 0 && !slices.ContainsFunc(ds, func(d engine.Demand) bool {
			return d.Place.Fits(c.name, &c.traits) && d.Place.Need() == at.need
		}) {
			p.total.Add(-n)
			c.returned += n
			c.avail -= n
			back = true
		}
	}
	if !slices.Equal(ds, p.demands) {
		p.demands, p.changed = slices.Clone(ds), true
	}
	more := spare > h.spare
	h.spare = spare
	if more {
		h.serve()
	}
	tell := back || p.changed
	h.mu.Unlock()
	if tell {
		h.poke()
	}
}

// tell says to every home what this node wants and returns, and to every owner what it was lent.
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
	for _, w := range h.all() {
		for at, a := range w.accounts {
			owner := at.owner
			if a.granted == a.told {
				continue
			}
			if byOwner[owner] == nil {
				byOwner[owner] = &lent{Home: h.self(), Owner: owner}
			}
			byOwner[owner].Granted = append(byOwner[owner].Granted, total{w.member.Handler, w.epoch(), a.granted, at.need})
			notes[owner] = append(notes[owner], note{a, a.granted})
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
	members, _ := h.dir.View()
	self := h.self()
	h.mu.Lock()
	p := &h.purse
	say := p.changed || len(p.demands) > 0 && time.Since(p.said) > wantAgain
	if say {
		p.changed, p.said = false, time.Now()
	}
	asks := map[dag.HandlerID]*ask{}
	for i := range members {
		if m := &members[i]; say && !m.Worker || m.Handler == self && say {
			asks[m.Handler] = &ask{Owner: self, Demands: p.demands}
		}
	}
	type note struct {
		c *credit
		n int64
	}
	notes := map[dag.HandlerID][]note{}
	for id, c := range p.credits {
		if c.returned == c.told {
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
			h.Ask(a)
			done()
			continue
		}
		if m, ok := h.dir.Member(id); ok {
			h.call(ctx, wg, m, AskPath, a, done)
		}
	}
}

// call says something to a node beside the loop. What fails is said again with the next round:
// what was not told stays to be told.
func (h *Home) call(ctx context.Context, wg *sync.WaitGroup, to store.Member, path string, in any, done func()) {
	wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, callMax)
		defer cancel()
		if err := h.cfg.Caller.Call(ctx, to, path, in, nil); err != nil {
			if ctx.Err() == nil {
				h.log.Debug("a node could not be told about slots", "node", to.Name, "err", err)
			}
			return
		}
		done()
	})
}
