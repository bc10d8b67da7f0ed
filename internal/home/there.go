package home

import (
	"context"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// view is the cluster as it was last read, in the forms in which it is asked for again and again.
type view struct {
	members   []store.Member
	by        map[dag.HandlerID]*store.Member
	nodes     []*store.Member // those that are no workers
	addresses []string        // where a worker can register
}

// there is the present view. It is made once for each time that the members are read.
func (h *Home) there() *view {
	members, _ := h.dir.View()
	v := h.seen.Load()
	if len(members) == len(v.members) && (len(members) == 0 || &members[0] == &v.members[0]) {
		return v
	}
	v = &view{members: members, by: make(map[dag.HandlerID]*store.Member, len(members)), addresses: []string{}}
	for i := range members {
		m := &members[i]
		v.by[m.Handler] = m
		if m.Worker {
			continue
		}
		v.nodes = append(v.nodes, m)
		if m.Address != "" {
			v.addresses = append(v.addresses, m.Address)
		}
	}
	h.seen.Store(v)
	return v
}

// wakeGap is between two looks of the directory that this home asks for: many workers may come at once.
const wakeGap = 50 * time.Millisecond

// wakeSoon has the directory look who is there: after those that came or left meanwhile, once for all of
// them.
func (h *Home) wakeSoon() {
	if !h.waking.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(wakeGap, func() {
		h.waking.Store(false)
		h.dir.Wake()
	})
}

// listing is the reading of who is there for registrations: many that come at once share one look.
type listing struct {
	mu   sync.Mutex // protects following fields
	on   bool       // a goroutine looks
	next *listed    // the look that has not begun; nil: nobody waits for one
}

// listed is one look.
type listed struct {
	done    chan struct{} // closed when the rest is there
	members []store.Member
	err     error
}

// listed reads who is there from the store, by a look that begins after the call.
func (h *Home) listed(ctx context.Context) ([]store.Member, error) {
	l := &h.listing
	l.mu.Lock()
	if l.next == nil {
		l.next = &listed{done: make(chan struct{})}
	}
	mine := l.next
	if !l.on {
		l.on = true
		go h.list()
	}
	l.mu.Unlock()
	select {
	case <-mine.done:
		return mine.members, mine.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// list looks as long as somebody waits for it.
func (h *Home) list() {
	l := &h.listing
	for {
		l.mu.Lock()
		is := l.next
		l.next, l.on = nil, is != nil
		l.mu.Unlock()
		if is == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), callMax)
		is.members, _, is.err = h.cfg.Store.Members(ctx)
		cancel()
		close(is.done)
	}
}
