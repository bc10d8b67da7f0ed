package home

import (
	"context"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// view is the cluster as last read, in the forms that are often needed.
type view struct {
	members   []store.Member
	by        map[dag.HandlerID]*store.Member
	nodes     []*store.Member // without workers
	addresses []string        // addresses at which a worker can register
}

// there returns the present view, which is computed once for each read of the members.
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

// wakeGap is the least time between two reads of the directory that this home requests, because many workers
// may register at the same time.
const wakeGap = 50 * time.Millisecond

// wakeSoon makes the directory read the members soon. Many calls cause one read.
func (h *Home) wakeSoon() {
	if !h.waking.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(wakeGap, func() {
		h.waking.Store(false)
		h.dir.Wake()
	})
}

// listing reads the members for registrations. Concurrent registrations share one read.
type listing struct {
	mu   sync.Mutex // protects following fields
	on   bool       // a goroutine reads
	next *listed    // the next read, which has not begun; nil if no caller waits for it
}

// listed is one read of the members, for all callers that wait for it.
type listed struct {
	done    chan struct{} // closed when the read has ended
	members []store.Member
	err     error
}

// listed returns the members from the store, by a read that begins after the call.
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

// list reads the members as long as callers wait.
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
