package admission

import (
	"bytes"
	"cmp"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// State is the memory of the admission owner about queues and locks. New makes it. A State that is not Loaded
// is empty.
type State struct {
	Loaded bool // the state was filled from the rows, so it contains every run that holds locks or queue slots
	// Ageing is the wait after which a run rises by one level, in a queue that orders by priority. It is 0 if
	// levels do not rise.
	Ageing dag.Micros

	queues map[string]*queue
	of     map[dag.RunID]*Claimant // the runs that hold locks or queue slots, and the first runs of each line
	locks  map[string]*lock
	lines  map[string]*line
	open   map[string]bool      // lines in which a run may be admitted now
	freed  map[string]bool      // locks that a run may get now
	kin    int                  // claimants that wait for locks and may use the locks of ancestors; only these can be part of a deadlock
	grants int64                // the number of grants in the present transaction
	crews  map[CrewKey]*crew    // the crews (the tasks of one run in one queue) that have, want or had queue slots
	waits  map[string]*waitList // queue and key → the crews that wait there
	dirty  map[string]bool      // the wait lists in which a task may get a slot now
	// wake is the next time at which a rate or a pause lets a run or a task be admitted, or 0 if there is no
	// such time.
	wake dag.Micros
}

// New returns an empty state.
func New(ageing dag.Micros) State {
	return State{Ageing: ageing, queues: map[string]*queue{}, of: map[dag.RunID]*Claimant{}, locks: map[string]*lock{},
		lines: map[string]*line{}, open: map[string]bool{}, freed: map[string]bool{},
		crews: map[CrewKey]*crew{}, waits: map[string]*waitList{}, dirty: map[string]bool{}}
}

// Begin starts a transaction: its grants are counted from one.
func (s *State) Begin() { s.grants = 0 }

// Wake returns the time at which a rate or a pause lets a run or a task be admitted, or 0.
func (s *State) Wake() dag.Micros { return s.wake }

// Busy reports whether a run or a task may be admitted now.
func (s *State) Busy(now dag.Micros) bool {
	return len(s.open)+len(s.freed)+len(s.dirty) > 0 || s.wake != 0 && s.wake <= now
}

// queue is a definition with its lines by key.
type queue struct {
	store.Queue
	lines map[string]*line
}

// Claimant is a run that is queued or that holds something.
type Claimant struct {
	Run   dag.RunID
	Shard dag.ShardID
	Claim *dag.Claim // the claim in the row of its run, now or after this transaction; a change replaces the Claim
	locks bool       // its locks are reserved for it or granted to it
	slot  bool       // it has a slot of its queue
	line  *line
}

// line holds the runs that wait at a queue with one key. A run that names no queue waits in the line of its
// first lock.
type line struct {
	name   string
	q      *queue // nil if the line has no queue
	past   int    // queue slots in use
	wait   int    // runs that wait for locks
	again  []*Claimant
	levels [dag.Levels]window
	// full is the reason given to runs that wait for a queue slot, and fullAt the limit in that reason, or 0
	// if not computed yet.
	full   string
	fullAt int32
}

// lock holds the runs that have a lock and the runs that wait for it.
type lock struct {
	name   string
	family dag.RunID // the family that has the lock
	has    map[dag.RunID]*Claimant
	wants  []*Claimant // sorted by Asked
	// more lists the windows with further runs that want the lock and are only in the store. The value is the
	// earliest time at which these runs asked.
	more map[stand]dag.Micros
}

// stand names a window: the line and the level of its runs.
type stand struct {
	line  string
	level dag.Priority
}

func (c *Claimant) family() dag.RunID {
	if c.Claim.Family.IsZero() {
		return c.Run
	}
	return c.Claim.Family
}

func byAsked(a, b *Claimant) int {
	return cmp.Or(cmp.Compare(a.Claim.Asked, b.Claim.Asked), bytes.Compare(a.Run[:], b.Run[:]))
}

func insertAsked(list []*Claimant, c *Claimant) []*Claimant {
	i, _ := slices.BinarySearchFunc(list, c, byAsked)
	return slices.Insert(list, i, c)
}

func removeAsked(list []*Claimant, c *Claimant) []*Claimant {
	if i, found := slices.BinarySearchFunc(list, c, byAsked); found {
		switch {
		case len(list) == 1: // the array is reused
			list[0] = nil
			return list[:0]
		case i == 0: // remove the head without moving the other claimants
			list[0] = nil
			return list[1:]
		}
		return slices.Delete(list, i, i+1)
	}
	return list
}

// lineOf finds the line of a claim, or makes it.
func (s *State) lineOf(c *dag.Claim) *line {
	if q := s.queues[c.Queue]; q != nil {
		if l := q.lines[c.Key]; l != nil {
			return l
		}
	}
	name := c.Line()
	l := s.lines[name]
	if l == nil {
		l = &line{name: name}
		if c.Queue != "" {
			if l.q = s.queues[c.Queue]; l.q != nil {
				l.q.lines[c.Key] = l
			}
		}
		s.lines[name] = l
	}
	return l
}

func (s *State) lockOf(name string) *lock {
	k := s.locks[name]
	if k == nil {
		k = &lock{name: name, has: map[dag.RunID]*Claimant{}}
		s.locks[name] = k
	}
	return k
}

// tidy forgets a line without runs.
func (s *State) tidy(l *line) {
	if l.past > 0 || l.wait > 0 || len(l.again) > 0 || s.lines[l.name] != l {
		return
	}
	for i := range l.levels {
		if len(l.levels[i].list) > 0 || l.levels[i].more {
			return
		}
	}
	delete(s.lines, l.name)
	delete(s.open, l.name)
	if l.q != nil {
		_, key := dag.CutLine(l.name)
		delete(l.q.lines, key)
	}
}

// enter enqueues c for its locks and then for a queue slot. It returns false if the window in memory is full
// and only the store has c.
func (s *State) enter(c *Claimant) bool {
	c.line = s.lineOf(c.Claim)
	if c.Claim.Stage == dag.ClaimAgain {
		c.locks = true
		c.line.again = insertAsked(c.line.again, c)
	} else {
		v := &c.line.levels[c.Claim.Level]
		if n := len(v.list); !v.more && n >= windowMax && len(s.of) >= knownMax && byAsked(v.list[n-1], c) < 0 {
			v.more, v.from = true, c.Claim.Asked
		}
		if v.more && c.Claim.Asked >= v.from {
			v.far = min(v.far, c.Claim.Asked) // read pages from this time again, so that later runs are read, too
			return false
		}
		return s.stand(c)
	}
	s.of[c.Run] = c
	s.open[c.line.name] = true
	return true
}

// take records that a claimant has its claim.
func (s *State) take(c *Claimant) {
	c.line = s.lineOf(c.Claim)
	s.of[c.Run] = c
	c.locks = true
	for _, name := range c.Claim.Locks {
		s.hold(s.lockOf(name), c)
	}
	if c.Claim.Slot() {
		c.slot = true
		c.line.past++
	}
}

func (s *State) hold(k *lock, c *Claimant) {
	k.family = c.family()
	k.has[c.Run] = c
}

// leave removes a claimant from all lines and locks. It does nothing if the claimant has already left. That
// can happen because a run that closes a deadlock may itself be the youngest run of the cycle, and is then
// denied at once.
func (s *State) leave(c *Claimant) {
	if s.of[c.Run] != c {
		return
	}
	delete(s.of, c.Run)
	l := c.line
	if c.slot {
		c.slot = false
		l.past--
	}
	switch c.Claim.Stage {
	case dag.ClaimAsked:
		if c.locks {
			l.levels[c.Claim.Level].list = removeAsked(l.levels[c.Claim.Level].list, c)
			break
		}
		l.wait--
		if !c.Claim.Family.IsZero() {
			s.kin--
		}
	case dag.ClaimAgain:
		l.again = removeAsked(l.again, c)
	}
	for _, name := range c.Claim.Locks {
		k := s.lockOf(name)
		k.wants = removeAsked(k.wants, c)
		delete(k.has, c.Run)
		if s.freed[name] = true; len(k.has) == 0 {
			k.family = dag.RunID{}
			if s.recall(k); len(k.wants) == 0 {
				delete(s.locks, name)
				delete(s.freed, name)
			}
		}
	}
	s.open[l.name] = true
	s.tidy(l)
}

// free reports whether a claimant may have a lock now. Either the lock is free and the claimant is next, or
// an ancestor of its run holds the lock.
func (s *State) free(k *lock, c *Claimant) bool {
	if len(k.has) > 0 {
		return k.family == c.family()
	}
	return s.turn(k, c)
}

// turn reports whether a claimant is the next one to get the lock. turn passes over an earlier claimant that
// also waits for another lock, if the family of this claimant holds that lock. Otherwise the family would
// wait for the earlier claimant, and the earlier claimant for the family.
func (s *State) turn(k *lock, c *Claimant) bool {
	for _, o := range k.wants {
		if o == c {
			return true
		}
		if c.Claim.Family.IsZero() || !slices.ContainsFunc(o.Claim.Locks, func(name string) bool {
			other := s.locks[name]
			return other != nil && len(other.has) > 0 && other.family == c.family() && o.family() != c.family()
		}) {
			return false
		}
	}
	return true
}

// lockAll reserves all locks of a claimant in one step, or none of them.
func (s *State) lockAll(c *Claimant) bool {
	if c.locks {
		return true
	}
	for _, name := range c.Claim.Locks {
		if !s.free(s.lockOf(name), c) {
			return false
		}
	}
	if !c.Claim.Family.IsZero() {
		s.kin--
	}
	for _, name := range c.Claim.Locks {
		k := s.lockOf(name)
		k.wants = removeAsked(k.wants, c)
		s.hold(k, c)
		s.freed[name] = true // other members of the family may get the lock, too
	}
	c.locks = true
	c.line.wait--
	v := &c.line.levels[c.Claim.Level]
	v.list = insertAsked(v.list, c)
	return true
}

// state returns the present state of the queue.
func (q *queue) state(now dag.Micros) string { return QueueState(&q.Queue, now) }

// room reports whether the line admits another run now. If only a rate or a pause prevents it, later is the
// time at which the line can admit the run.
func (l *line) room(now dag.Micros) (ok bool, later dag.Micros) {
	switch q := l.q; {
	case q == nil:
		return true, 0
	case q.state(now) == store.QueuePaused:
		return false, q.Until
	case q.Limit > 0 && l.past >= int(q.Limit):
		return false, 0
	case q.Rate > 0 && q.Paced > now:
		return false, q.Paced
	}
	return true, 0
}

// pace uses up one start of a queue's rate. Unused starts are lost. The constant slack, in microseconds, is
// an allowance for a writer that wakes later than at the instant of the next start.
func (q *queue) pace(now dag.Micros) {
	const slack = 50_000
	q.Paced = max(q.Paced, now-min(slack, q.Each/dag.Micros(q.Rate))) + q.Each/dag.Micros(q.Rate)
}

// head returns the next run of a line whose locks are reserved. Runs that had a queue slot before come first.
// The others are ordered by effective level if the queue orders by priority, then by the time of asking. head
// returns nil if no run waits, and also while the next run may be known only to the store.
func (l *line) head(now dag.Micros, ageing dag.Micros) *Claimant {
	if len(l.again) > 0 {
		return l.again[0]
	}
	flat := l.q == nil || l.q.Order != store.QueuePriority
	var best *Claimant
	var bestLevel int64
	hidden, hiddenLevel := endOfTime, int64(0) // the first run that only the store may know
	for p := range l.levels {
		v := &l.levels[p]
		if len(v.list) == 0 && !v.more {
			continue
		}
		asked := v.from
		if len(v.list) > 0 {
			asked = v.list[0].Claim.Asked
		}
		level := int64(0)
		if !flat {
			level = Aged(dag.Priority(p), asked, now, ageing)
		}
		switch {
		case len(v.list) == 0:
			if hidden == endOfTime || level < hiddenLevel || level == hiddenLevel && asked < hidden {
				hidden, hiddenLevel = asked, level
			}
		case best == nil || level < bestLevel || level == bestLevel && byAsked(v.list[0], best) < 0:
			best, bestLevel = v.list[0], level
		}
	}
	if best != nil && hidden != endOfTime && (hiddenLevel < bestLevel || hiddenLevel == bestLevel && hidden <= best.Claim.Asked) {
		return nil
	}
	return best
}
