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
	// Workflow and Version are those of the run. They are 0 if the notice was read from the store.
	Workflow dag.WorkflowID
	Version  int32
}

// noticesMax bounds the notices that wait for a subscriber.
const noticesMax = 1024

// hub publishes committed changes to subscribers. It never blocks the writer: a subscriber that is too slow
// loses notices, and gets a notice that says so.
type hub struct {
	mu sync.Mutex // protects following fields
	// subs are the subscriptions by run, so that an event costs nothing for the subscribers of other runs. The
	// zero run has the subscriptions to all runs.
	subs   map[dag.RunID]map[*Subscription]bool
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
		e.hub.subs = map[dag.RunID]map[*Subscription]bool{}
	}
	if e.hub.subs[run] == nil {
		e.hub.subs[run] = map[*Subscription]bool{}
	}
	e.hub.subs[run][s] = true
	return s
}

// openLocked reports whether a subscription is not closed.
func (h *hub) openLocked(s *Subscription) bool { return h.subs[s.run][s] }

// Close ends the subscription.
func (s *Subscription) Close() {
	if s.stop != nil {
		s.stop()
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if !s.hub.openLocked(s) {
		return
	}
	if delete(s.hub.subs[s.run], s); len(s.hub.subs[s.run]) == 0 {
		delete(s.hub.subs, s.run)
	}
	close(s.c)
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
		for _, run := range [...]dag.RunID{e.Run, {}} {
			for s := range h.subs[run] {
				if s.stop == nil && s.marked() {
					continue
				}
				if n == nil {
					records, err := dag.UnpackRecords(e.Records)
					if err != nil {
						break // skein verify reports the damaged row
					}
					n = &Notice{Seq: e.Seq, Run: e.Run, At: e.At, Records: records, Workflow: e.Workflow, Version: e.Version}
				}
				s.push(*n)
			}
		}
	}
}

// marked reports whether the subscriber has not read the mark of lost notices yet, so that it gets no more.
func (s *Subscription) marked() bool { return s.lost && len(s.c) > 0 }

// push sends a notice. Only push sends to c, so an element that is free stays free.
func (s *Subscription) push(n Notice) {
	if s.stop != nil {
		if n.Seq <= s.seq {
			return // the subscriber already has this transaction, from the store
		}
		s.seq = n.Seq
	}
	if s.marked() {
		return
	}
	s.lost = len(s.c) == cap(s.c)-1
	n.Lost = s.lost
	s.c <- n
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, of := range h.subs {
		for s := range of {
			close(s.c)
		}
	}
	h.subs, h.closed = nil, true
}
