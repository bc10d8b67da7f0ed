package home

import (
	"context"
	"errors"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// mail holds the attempts on their way, by handler. Home.mu protects it.
type mail struct {
	open map[dag.HandlerID]*parcel
	// seen holds the last known lease of each member. A changed lease shows that the worker has attached
	// again. Messages to its earlier home may then be lost.
	seen map[dag.HandlerID]int64
}

type parcel struct {
	items   map[key]engine.Assignment
	sending bool
}

// Send implements engine.Market.
func (h *Home) Send(as []engine.Assignment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.send(as)
}

// Handed implements engine.Market.
func (h *Home) Handed(as []engine.Assignment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settling = true
	h.send(as)
}

// send delivers attempts to workers that are attached to this node. It leaves all other attempts to the loop
// of Run. The caller must hold h.mu.
func (h *Home) send(as []engine.Assignment) {
	for len(as) > 0 {
		id, n := as[0].Handler, 1
		for n < len(as) && as[n].Handler == id {
			n++
		}
		if w := h.workers[id]; w != nil && h.mail.open[id] == nil { // send directly, without the loop of Run
			d := &delivery{Owner: h.self(), Handler: id, Lease: w.member.Lease, Items: as[:n]}
			h.mail.sent(d)
			h.accept(w, d)
		} else {
			h.post(as[:n])
		}
		as = as[n:]
	}
}

// post leaves attempts to the loop of Run.
func (h *Home) post(as []engine.Assignment) {
	for i := range as {
		p := h.mail.open[as[i].Handler]
		if p == nil {
			p = &parcel{items: map[key]engine.Assignment{}}
			h.mail.open[as[i].Handler] = p
		}
		p.items[keyOf(&as[i])] = as[i]
	}
	h.poke()
}

func (p *parcel) pack(owner, to dag.HandlerID, lease int64) *delivery {
	d := &delivery{Owner: owner, Handler: to, Lease: lease, Items: make([]engine.Assignment, 0, len(p.items))}
	for _, a := range p.items {
		d.Items = append(d.Items, a)
	}
	return d
}

func (h *Home) putBack(d *delivery) {
	p := h.mail.open[d.Handler]
	if p == nil {
		p = &parcel{items: map[key]engine.Assignment{}}
		h.mail.open[d.Handler] = p
	}
	for i := range d.Items {
		p.items[keyOf(&d.Items[i])] = d.Items[i]
	}
}

// sent records the lease under which attempts are sent, if none is noted. It does so at once, because the
// worker may attach again before the first read of the members.
func (m *mail) sent(d *delivery) {
	if _, known := m.seen[d.Handler]; !known {
		if m.seen == nil {
			m.seen = map[dag.HandlerID]int64{}
		}
		m.seen[d.Handler] = d.Lease
	}
}

// look drops the attempts on their way to members that are gone: they are lost and are assigned again. It
// reports whether there are such members, and returns the workers that have attached again.
func (m *mail) look(there map[dag.HandlerID]*store.Member) (gone bool, anew []dag.HandlerID) {
	for id := range m.open {
		if there[id] == nil {
			delete(m.open, id)
			gone = true
		}
	}
	for id := range m.seen {
		gone = gone || there[id] == nil
	}
	seen := make(map[dag.HandlerID]int64, len(there))
	for id, w := range there {
		seen[id] = w.Lease
		if was, known := m.seen[id]; known && was != w.Lease {
			anew = append(anew, id)
		}
	}
	m.seen = seen
	return gone, anew
}

// deliverAll sends the attempts in mail to the homes of their workers.
func (h *Home) deliverAll(ctx context.Context, wg *sync.WaitGroup) {
	self := h.self()
	h.mu.Lock()
	var ids []dag.HandlerID
	for id, p := range h.mail.open {
		if !p.sending && len(p.items) > 0 {
			ids = append(ids, id)
		}
	}
	h.mu.Unlock()
	for _, id := range ids {
		m, ok := h.dir.Member(id)
		if !ok {
			continue // the member is not listed yet, or is no longer listed
		}
		to := m
		if m.Worker {
			if to, ok = h.dir.Member(m.Home); !ok {
				continue // the worker is detached, so wait until it attaches to another node
			}
		}
		h.mu.Lock()
		p := h.mail.open[id]
		if p == nil || p.sending {
			h.mu.Unlock()
			continue
		}
		d := p.pack(self, id, m.Lease)
		if w := h.workers[id]; w != nil && to.Handler == self {
			d.Lease = w.member.Lease // this is newer than the last read of the members
		}
		h.mail.sent(d)
		p.items, p.sending = map[key]engine.Assignment{}, true
		h.mu.Unlock()
		wg.Go(func() { h.deliver(ctx, to, d) })
	}
}

func (h *Home) deliver(ctx context.Context, to store.Member, d *delivery) {
	var err error
	if to.Handler == h.self() {
		err = h.Deliver(d)
	} else {
		ctx, cancel := context.WithTimeout(ctx, callMax)
		defer cancel()
		err = h.cfg.Caller.Call(ctx, to, DeliverPath, d, nil)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.mail.open[d.Handler]
	if p == nil { // the member has left meanwhile, or this node is joining under a new handler
		return
	}
	p.sending = false
	switch {
	case err == nil && len(p.items) == 0:
		delete(h.mail.open, d.Handler)
	case err == nil:
		h.poke()
	default: // the next look tries again
		if !errors.Is(err, errAway) && ctx.Err() == nil {
			h.log.Debug("the home node of a worker does not take its attempts yet", "node", to.Name, "err", err)
		}
		h.putBack(d)
	}
}
