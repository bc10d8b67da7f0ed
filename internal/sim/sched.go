package sim

import (
	"container/heap"
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// coro is a thread of the simulated world: a coroutine that runs one function after another.
type coro struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	f     func()
	over  bool // f has returned
}

func newCoro() *coro {
	c := &coro{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for {
			c.f()
			c.f, c.over = nil, true
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// Stage keeps coroutines for the next history, because their stacks have already grown.
type Stage struct {
	idle []*coro
	// Ahead lets the engine make a transaction while the previous one is being written, even if both are
	// small.
	Ahead bool
	// Back makes the store go back to an earlier state, and makes nodes remember the confirmed commits.
	Back bool
	// Audit makes orders about runs write audit rows. Nodes give the rows their index.
	Audit bool
	// Quotas bounds the unfinished runs of all workflows together.
	Quotas bool
	// Spaces gives the world several namespaces, whose quotas and demanded levels of isolation change.
	Spaces bool
	// Registry gives the nodes a registry of living nodes. The registry sometimes fails, and sometimes gives
	// wrong answers.
	Registry bool
	// Alerts gives every workflow an alert rule.
	Alerts bool
	// Load gives the shards costs, and makes the nodes balance them.
	Load bool
	// Handles makes attempts begin work outside of their processes.
	Handles bool
	// Events makes tasks wait for events, which clients send.
	Events bool
}

func (s *Stage) take() *coro {
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return c
	}
	return newCoro()
}

// Close ends the coroutines.
func (s *Stage) Close() {
	for _, c := range s.idle {
		c.stop()
	}
	s.idle = nil
}

// proc is a thread, and the condition for which it waits.
type proc struct {
	c     *coro
	life  *life // nil if the thread belongs to no process
	name  string
	wake  <-chan struct{}
	until int64 // nanoseconds of virtual time; a negative value is no limit
	ctx   context.Context
	group *sync.WaitGroup // the thread waits until the group's counter is zero
	woken bool
	done  bool
}

// ready reports whether the thread can continue.
func (p *proc) ready(w *World) bool {
	switch {
	case p.done || p.life != nil && p.life.frozen:
		return false
	case p.life != nil && p.life.dead:
		return true
	case len(p.wake) > 0, p.until >= 0 && p.until <= w.now:
		return true
	case p.group != nil:
		return w.groups[p.group] == 0
	}
	return p.ctx != nil && p.ctx.Err() != nil
}

// event is a function that the world calls at an instant.
type event struct {
	at  int64
	seq int64
	f   func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// after makes the world call f once d has passed.
func (w *World) after(d time.Duration, f func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + max(int64(d), 0), w.seq, f})
}

// spawn creates a thread. The thread runs when the scheduler chooses it.
func (w *World) spawn(l *life, name string, f func()) *proc {
	p := &proc{c: w.stage.take(), life: l, name: name, until: w.now}
	p.c.f, p.c.over = f, false
	w.procs = append(w.procs, p)
	return p
}

// resume runs a thread until it waits or ends.
func (w *World) resume(p *proc) {
	p.woken = false
	if len(p.wake) > 0 {
		<-p.wake
		p.woken = true
	}
	p.wake, p.until, p.ctx, p.group = nil, -1, nil, nil
	w.cur = p
	defer func() {
		w.cur = nil
		if r := recover(); r != nil {
			p.done = true // the thread's coroutine has ended
			w.violate("panic", "%s: %v\n%s", p.name, r, debug.Stack())
		}
	}()
	p.c.next()
	if p.c.over {
		p.done = true
		w.stage.idle = append(w.stage.idle, p.c)
		p.c = nil
	}
}

// park suspends the current thread until the condition holds that the caller has set in its proc.
func (w *World) park() {
	p := w.cur
	p.c.yield(struct{}{})
	w.cur = p
}

// pause lets other threads run until d has passed.
func (w *World) pause(d time.Duration) {
	w.cur.until = w.now + int64(d)
	w.park()
}

// step executes one event. It returns false if no event is possible.
func (w *World) step() bool {
	w.steps++
	w.cands = w.cands[:0]
	gone := 0
	for _, p := range w.procs {
		switch {
		case p.done:
			gone++
		case p.ready(w):
			w.cands = append(w.cands, p)
		}
	}
	if gone > 8 && gone > len(w.procs)/2 {
		w.procs = slices.DeleteFunc(w.procs, func(p *proc) bool { return p.done })
	}
	n := len(w.cands)
	if len(w.events) > 0 && w.events[0].at <= w.now {
		n++
	}
	if n == 0 {
		return w.advance()
	}
	if i := w.rng.IntN(n); i < len(w.cands) {
		w.resume(w.cands[i])
	} else {
		heap.Pop(&w.events).(event).f()
	}
	w.bury()
	return true
}

// advance moves the clock forward until an event is possible.
func (w *World) advance() bool {
	next := int64(-1)
	if len(w.events) > 0 {
		next = w.events[0].at
	}
	for _, p := range w.procs {
		if !p.done && p.until >= 0 && (p.life == nil || !p.life.frozen) && (next < 0 || p.until < next) {
			next = p.until
		}
	}
	if next < 0 {
		return false
	}
	w.now = max(w.now, next)
	return true
}

// bury lets the threads of dead processes run to their ends. Each of their calls fails at once, without an
// effect.
func (w *World) bury() {
	for len(w.dying) > 0 {
		l := w.dying[0]
		w.dying = w.dying[1:]
		for i := 0; i < len(w.procs); i++ {
			for p := w.procs[i]; p.life == l && !p.done; {
				if w.steps++; w.steps > stepsMax {
					w.violate("burial", "thread %s of %s does not end", p.name, l)
					return
				}
				w.resume(p)
			}
		}
	}
}

// clockBase is the time at which every world begins: 2020-09-13 12:26:40 UTC.
const clockBase = 1_600_000_000

func (w *World) String() string { return fmt.Sprintf("%9.3fs", float64(w.now)/1e9) }
