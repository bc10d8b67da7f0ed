package engine

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Named queues, their rates, and locks belong to all shards. The owner of store.GateShard grants them. The
// rows of the runs record which run holds what. This memory is built from these rows and from the messages
// that are not consumed yet. A run gets its locks and its queue slot in one step, so a waiting run holds
// nothing, and a run with a queue slot waits for nothing.

// commons is that memory. It is empty in a writer that does not own the shard.
type commons struct {
	loaded bool
	queues map[string]*queue
	of     map[dag.RunID]*claimant // the runs that hold something, and the first of each queue
	locks  map[string]*lock
	lines  map[string]*line
	open   map[string]bool   // queues in which a run may now get through that could not before
	freed  map[string]bool   // locks, likewise
	kin    int               // claimants that use the locks of ancestors: only they wait in circles
	grants int64             // in the transaction being made
	crews  map[crewKey]*crew // tasks that have places in queues, want one, or had one
	turns  map[string]*turns
	vacant map[string]bool // wait lists in which a run may now get a queue slot that could not before
	// wake is when a rate or a pause lets a run through; 0: no run waits for that.
	wake dag.Micros
}

// queue is a definition and its lines by key.
type queue struct {
	store.Queue
	lines map[string]*line
}

// claimant is a run that holds something or is queued.
type claimant struct {
	run   dag.RunID
	shard dag.ShardID
	claim *dag.Claim // as in the row of its run, now or after this transaction: a change makes another one
	locks bool       // they are set aside for it, or held
	slot  bool       // it has a place in its queue
	line  *line
}

// line is those that wait at a queue for one key; of a run that names no queue, that of its
// first lock.
type line struct {
	name   string
	q      *queue // nil: there is none
	past   int    // places taken
	wait   int    // those that wait for locks
	again  []*claimant
	levels [dag.Levels]window
	// full is the reason given to runs that wait for a queue slot, and fullAt the limit that it names. 0: not
	// given yet.
	full   string
	fullAt int32
}

// lock holds the runs that have a lock and those that want it.
type lock struct {
	name   string
	family dag.RunID // whose members have it
	has    map[dag.RunID]*claimant
	wants  []*claimant // by Asked
	// more is where others are found that want it, and that only the store knows: those that
	// asked at that instant or later.
	more map[stand]dag.Micros
}

// stand is a window by name.
type stand struct {
	line  string
	level dag.Priority
}

func (g *commons) forget() {
	*g = commons{queues: map[string]*queue{}, of: map[dag.RunID]*claimant{}, locks: map[string]*lock{},
		lines: map[string]*line{}, open: map[string]bool{}, freed: map[string]bool{},
		crews: map[crewKey]*crew{}, turns: map[string]*turns{}, vacant: map[string]bool{}}
}

// busy reports whether a run may get through now.
func (g *commons) busy(now dag.Micros) bool {
	return len(g.open)+len(g.freed)+len(g.vacant) > 0 || g.wake != 0 && g.wake <= now
}

func (c *claimant) family() dag.RunID {
	if c.claim.Family.IsZero() {
		return c.run
	}
	return c.claim.Family
}

func byAsked(a, b *claimant) int {
	return cmp.Or(cmp.Compare(a.claim.Asked, b.claim.Asked), bytes.Compare(a.run[:], b.run[:]))
}

func insertAsked(list []*claimant, c *claimant) []*claimant {
	i, _ := slices.BinarySearchFunc(list, c, byAsked)
	return slices.Insert(list, i, c)
}

func removeAsked(list []*claimant, c *claimant) []*claimant {
	if i, found := slices.BinarySearchFunc(list, c, byAsked); found {
		switch {
		case len(list) == 1: // its room is used again
			list[0] = nil
			return list[:0]
		case i == 0: // the head is removed without a move of the others
			list[0] = nil
			return list[1:]
		}
		return slices.Delete(list, i, i+1)
	}
	return list
}

// lineOf finds the line of a claim, or makes it.
func (g *commons) lineOf(c *dag.Claim) *line {
	if q := g.queues[c.Queue]; q != nil {
		if l := q.lines[c.Key]; l != nil {
			return l
		}
	}
	name := c.Line()
	l := g.lines[name]
	if l == nil {
		l = &line{name: name}
		if c.Queue != "" {
			if l.q = g.queues[c.Queue]; l.q != nil {
				l.q.lines[c.Key] = l
			}
		}
		g.lines[name] = l
	}
	return l
}

func (g *commons) lockOf(name string) *lock {
	k := g.locks[name]
	if k == nil {
		k = &lock{name: name, has: map[dag.RunID]*claimant{}}
		g.locks[name] = k
	}
	return k
}

// tidy forgets a queue without runs.
func (g *commons) tidy(l *line) {
	if l.past > 0 || l.wait > 0 || len(l.again) > 0 || g.lines[l.name] != l {
		return
	}
	for i := range l.levels {
		if len(l.levels[i].list) > 0 || l.levels[i].more {
			return
		}
	}
	delete(g.lines, l.name)
	delete(g.open, l.name)
	if l.q != nil {
		delete(l.q.lines, strings.TrimPrefix(l.name, l.q.Name+"/"))
	}
}

// enter enqueues c for its locks and then for a queue slot. It returns false if the window in memory is full
// and only the store keeps c.
func (g *commons) enter(c *claimant) bool {
	c.line = g.lineOf(c.claim)
	if c.claim.Stage == dag.ClaimAgain {
		c.locks = true
		c.line.again = insertAsked(c.line.again, c)
	} else {
		v := &c.line.levels[c.claim.Level]
		if n := len(v.list); !v.more && n >= windowMax && len(g.of) >= knownMax && byAsked(v.list[n-1], c) < 0 {
			v.more, v.from = true, c.claim.Asked
		}
		if v.more && c.claim.Asked >= v.from {
			v.far = min(v.far, c.claim.Asked) // later runs have to be read, too
			return false
		}
		return g.stand(c)
	}
	g.of[c.run] = c
	g.open[c.line.name] = true
	return true
}

// take notes that a claimant has what it claims.
func (g *commons) take(c *claimant) {
	c.line = g.lineOf(c.claim)
	g.of[c.run] = c
	c.locks = true
	for _, name := range c.claim.Locks {
		g.hold(g.lockOf(name), c)
	}
	if c.claim.Slot() {
		c.slot = true
		c.line.past++
	}
}

func (g *commons) hold(k *lock, c *claimant) {
	k.family = c.family()
	k.has[c.run] = c
}

// leave takes a claimant off everything.
func (g *commons) leave(c *claimant) {
	delete(g.of, c.run)
	l := c.line
	if c.slot {
		c.slot = false
		l.past--
	}
	switch c.claim.Stage {
	case dag.ClaimAsked:
		if c.locks {
			l.levels[c.claim.Level].list = removeAsked(l.levels[c.claim.Level].list, c)
			break
		}
		l.wait--
		if !c.claim.Family.IsZero() {
			g.kin--
		}
	case dag.ClaimAgain:
		l.again = removeAsked(l.again, c)
	}
	for _, name := range c.claim.Locks {
		k := g.lockOf(name)
		k.wants = removeAsked(k.wants, c)
		delete(k.has, c.run)
		if g.freed[name] = true; len(k.has) == 0 {
			k.family = dag.RunID{}
			if g.recall(k); len(k.wants) == 0 {
				delete(g.locks, name)
				delete(g.freed, name)
			}
		}
	}
	g.open[l.name] = true
	g.tidy(l)
}

// free reports whether a claimant may have a lock now: the lock is free and it is the claimant's turn, or the
// run of an ancestor holds it.
func (g *commons) free(k *lock, c *claimant) bool {
	if len(k.has) > 0 {
		return k.family == c.family()
	}
	return g.turn(k, c)
}

// turn reports whether no other run comes before a claimant that wants the lock. Earlier claimants that wait
// for another lock held by its family do not count: the family would wait for this lock, and they for the
// family.
func (g *commons) turn(k *lock, c *claimant) bool {
	for _, o := range k.wants {
		if o == c {
			return true
		}
		if c.claim.Family.IsZero() || !slices.ContainsFunc(o.claim.Locks, func(name string) bool {
			other := g.locks[name]
			return other != nil && len(other.has) > 0 && other.family == c.family() && o.family() != c.family()
		}) {
			return false
		}
	}
	return true
}

// lockAll sets all locks of a claimant aside for it, in one step, or none.
func (g *commons) lockAll(c *claimant) bool {
	if c.locks {
		return true
	}
	for _, name := range c.claim.Locks {
		if !g.free(g.lockOf(name), c) {
			return false
		}
	}
	if !c.claim.Family.IsZero() {
		g.kin--
	}
	for _, name := range c.claim.Locks {
		k := g.lockOf(name)
		k.wants = removeAsked(k.wants, c)
		g.hold(k, c)
		g.freed[name] = true // kin of it may come in, too
	}
	c.locks = true
	c.line.wait--
	v := &c.line.levels[c.claim.Level]
	v.list = insertAsked(v.list, c)
	return true
}

// state is how the queue stands now: a state that was set for a time ends by itself.
func (q *queue) state(now dag.Micros) string { return effective(&q.Queue, now) }

func effective(q *store.Queue, now dag.Micros) string {
	if q.Until != 0 && q.Until <= now {
		return store.QueueActive
	}
	return q.State
}

// room reports whether the line lets another through now; later is when it may, if time alone
// brings that.
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

// pace uses up one start of a queue's rate. Unused starts are lost, except within slack, because the writer
// does not wake at every instant.
func (q *queue) pace(now dag.Micros) {
	const slack = 50_000
	q.Paced = max(q.Paced, now-min(slack, q.Each/dag.Micros(q.Rate))) + q.Each/dag.Micros(q.Rate)
}

// head returns the next run of a queue that has its locks: first the runs that had a queue slot before, then
// by effective level if the queue orders by priority, then by the time of asking. It returns nil if no run
// waits, and while the next run may be one that only the store knows.
func (l *line) head(now dag.Micros, ageing dag.Micros) *claimant {
	if len(l.again) > 0 {
		return l.again[0]
	}
	flat := l.q == nil || l.q.Order != store.QueuePriority
	var best *claimant
	var bestLevel int64
	hidden, hiddenLevel := endOfTime, int64(0) // the first that the store may have
	for p := range l.levels {
		v := &l.levels[p]
		if len(v.list) == 0 && !v.more {
			continue
		}
		asked := v.from
		if len(v.list) > 0 {
			asked = v.list[0].claim.Asked
		}
		level := int64(0)
		if !flat {
			level = aged(dag.Priority(p), asked, now, ageing)
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
	if best != nil && hidden != endOfTime && (hiddenLevel < bestLevel || hiddenLevel == bestLevel && hidden <= best.claim.Asked) {
		return nil
	}
	return best
}
