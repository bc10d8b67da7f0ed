package engine

import (
	"sync"

	"skein.dev/skein/internal/dag"
)

// Notice reports a committed change of a run. Lost says that the subscriber was too slow: this notice
// replaces several dropped notices, and the subscriber must read its runs again.
type Notice struct {
	Seq     int64
	Run     dag.RunID
	At      dag.Micros
	Records []dag.Record
	Lost    bool
}

// noticesMax bounds the notices that wait for a subscriber.
const noticesMax = 1024

// hub publishes committed changes to subscribers. It never blocks the writer: a subscriber that is too slow
// loses notices, and gets a notice that says so.
type hub struct {
	mu     sync.Mutex // protects following fields
	subs   map[*Subscription]bool
	closed bool
}

// Subscription receives notices of one run, or of all if Run is zero. The caller closes it.
type Subscription struct {
	C   <-chan Notice
	c   chan Notice
	run dag.RunID
	hub *hub
	// These fields are used only for the subscription to one run in a cluster. seq is the number of the
	// newest transaction that was published to the subscription. stop ends the goroutine that reads the store
	// for the subscription.
	seq  int64
	stop func()
	// lost says that the last element of c is a notice that is marked as lost. Until the subscriber has read
	// that element, it represents all notices that are dropped.
	lost bool
}

// Watch subscribes to all later commits. The channel is closed when the engine stops.
func (e *Engine) Watch(run dag.RunID) *Subscription {
	c := make(chan Notice, noticesMax)
	s := &Subscription{C: c, c: c, run: run, hub: &e.hub}
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	if e.hub.closed {
		close(c)
		return s
	}
	if e.cluster != nil && !run.IsZero() {
		s.stop = e.readFor(s)
	}
	if e.hub.subs == nil {
		e.hub.subs = map[*Subscription]bool{}
	}
	e.hub.subs[s] = true
	return s
}

// Close ends the subscription.
func (s *Subscription) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.hub.subs[s] {
		delete(s.hub.subs, s)
		close(s.c)
	}
}

// publish sends committed events. Their Seq must be set.
func (h *hub) publish(events []dag.EventRow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.subs) == 0 {
		return
	}
	for i := range events {
		e := &events[i]
		var n *Notice
		for s := range h.subs {
			if !s.run.IsZero() && s.run != e.Run {
				continue
			}
			if n == nil {
				records, err := dag.UnpackRecords(e.Records)
				if err != nil {
					break // skein verify reports the damaged row
				}
				n = &Notice{Seq: e.Seq, Run: e.Run, At: e.At, Records: records}
			}
			s.push(*n)
		}
	}
}

// push sends a notice. Only push sends to c, so an element that is free stays free.
func (s *Subscription) push(n Notice) {
	if s.stop != nil {
		if n.Seq <= s.seq {
			return // the subscriber already has this transaction, from the store
		}
		s.seq = n.Seq
	}
	if s.lost && len(s.c) > 0 {
		return // the subscriber has not read the mark yet
	}
	s.lost = len(s.c) == cap(s.c)-1
	n.Lost = s.lost
	s.c <- n
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		close(s.c)
	}
	h.subs, h.closed = nil, true
}
