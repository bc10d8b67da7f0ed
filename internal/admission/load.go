package admission

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// These functions fill a state from rows. The order of the calls matters: AddQueue for all queues, Promise
// for each grant that its run has not received yet, Enroll and Adopt for all runs that hold locks or queue
// slots, AddLine for all lines. Then the caller sets Loaded.

// AddQueue adds the definition of a queue.
func (s *State) AddQueue(q *store.Queue) {
	s.queues[q.Name] = &queue{Queue: *q, lines: map[string]*line{}}
}

// Promise adds a grant that its run has not received yet: the row of the run does not show it.
func (s *State) Promise(c *Claimant) {
	if s.of[c.Run] == nil {
		s.take(c)
	}
}

// Adopt adds a claimant as its row describes it, unless Promise has added a grant to it.
func (s *State) Adopt(c *Claimant) {
	switch {
	case s.of[c.Run] != nil:
	case c.Claim.Stage == dag.ClaimAgain:
		c.line = s.lineOf(c.Claim)
		s.enter(c)
		for _, name := range c.Claim.Locks {
			s.hold(s.lockOf(name), c)
		}
	default:
		s.take(c)
	}
}

// AddLine records that the store has waiting runs in a line.
func (s *State) AddLine(is *store.Line) {
	c := claimOfLine(is.Name)
	l := s.lineOf(&c)
	l.levels[is.Level].more = true
	s.open[l.name] = true
}

// claimOfLine returns a claim whose line has the given name.
func claimOfLine(name string) dag.Claim {
	queue, rest := dag.CutLine(name)
	if queue == "" {
		return dag.Claim{Locks: []string{rest}}
	}
	return dag.Claim{Queue: queue, Key: rest}
}

// Window names the part of a line whose waiting runs have to be read from the store next.
type Window struct {
	Line  string
	Level dag.Priority
	From  dag.Micros // only runs that asked at this time or later
	Limit int        // the largest number of runs to read
}

// Fill calls read for each open line whose window in memory is nearly empty, and adds the waiting runs that
// read returns. The caller must call it at a moment when the rows contain every waiting run.
func (s *State) Fill(read func(Window) ([]store.Claimant, error)) error {
	for name := range s.open {
		l := s.lines[name]
		if l == nil {
			continue
		}
		for p := range l.levels {
			v := &l.levels[p]
			if !v.thin() {
				continue
			}
			at := Window{Line: l.name, Level: dag.Priority(p), From: v.from, Limit: max(v.page, windowFill)}
			page, err := read(at)
			if err != nil {
				return err
			}
			s.addPage(l, at, page)
		}
		s.tidy(l)
	}
	return nil
}

// addPage adds a page of waiting runs.
func (s *State) addPage(l *line, at Window, page []store.Claimant) {
	for i := range page {
		if s.of[page[i].Run] != nil { // the state has the run, or the run's grant is a message that has not arrived
			continue
		}
		if !s.stand(NewClaimant(&page[i])) {
			continue
		}
		for _, name := range page[i].Claim.Locks {
			s.freed[name] = true // when all runs are known, serveLock decides whether the lock is free
		}
	}
	s.onward(l, at.Level, page, len(page) == at.Limit)
}

// NewClaimant returns a claimant with the stored data.
func NewClaimant(is *store.Claimant) *Claimant {
	claim := is.Claim
	return &Claimant{Run: is.Run, Shard: is.Shard, Claim: &claim}
}

// Queue returns the definition of a queue, or nil. The caller must not change it.
func (s *State) Queue(name string) *store.Queue {
	if q := s.queues[name]; q != nil {
		return &q.Queue
	}
	return nil
}

// Owned returns the number of queues of a namespace.
func (s *State) Owned(namespace string) (n int) {
	for name := range s.queues {
		if of, _ := dag.CutName(name); of == namespace {
			n++
		}
	}
	return n
}

// RunsUse reports whether runs have slots of a queue, or wait for one.
func (s *State) RunsUse(queue string) bool {
	q := s.queues[queue]
	return q != nil && len(q.lines) > 0
}

// DropQueue forgets a queue. Runs and tasks that ask for it are denied.
func (s *State) DropQueue(name string) { delete(s.queues, name) }

// SetQueue changes the definition of a queue. Serve and ServeTasks then admit the runs and tasks that the
// new definition allows.
func (s *State) SetQueue(next *store.Queue) {
	q := s.queues[next.Name]
	if q == nil {
		s.AddQueue(next)
		return
	}
	q.Queue = *next
	for _, l := range q.lines {
		s.open[l.name] = true
	}
	s.look(func(is *queue) bool { return is == q })
}
